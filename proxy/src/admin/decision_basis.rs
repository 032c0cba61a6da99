//! The robots.txt that a decision rests on, as it was when the decision was made.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use wayleave_policy::lifecycle::Body;
use wayleave_policy::{
    AccessResult, Dialect, ProductToken, Reason, Target, decide_any_path_strictly, decide_strictly,
};

use super::answer::{Json, Mistake, error, wrong};
use super::robots::decided_by;
use super::robots_view::DecidedBy;
use super::state::Admin;
use crate::observe::decisions::Decision;

/// What a decision rests on.
#[derive(Debug, Serialize, ToSchema)]
struct Grounds {
    robots_url: String,
    /// The file that decided; null if none did.
    said: Option<DecidedBy>,
    /// The names on the user-agent lines of the group used.
    group: Vec<String>,
    /// The lines of that group: its user-agent lines and rules.
    group_lines: Vec<u32>,
    /// The deciding rule's line.
    line: Option<u32>,
    /// Whether reading that copy again gives the same verdict by the same line.
    is_same: bool,
}

/// The robots.txt that a decision rests on, with the lines that count.
#[utoipa::path(
    get,
    path = "/v1/decisions/{id}/robots",
    tag = "decisions",
    params(("id" = String, Path, pattern = "^[0-9a-f]{32}$", description = "The `decision_id` of a refusal or of a log line")),
    responses(
        (status = 200, body = Grounds),
        (status = 400, body = Mistake, description = "The id is malformed"),
        (status = 404, body = Mistake, description = "There is no such decision, or it does not rest on robots.txt"),
    )
)]
pub(super) async fn grounds(State(admin): State<Admin>, Path(id): Path<String>) -> Response {
    let Ok(id) = id.parse() else {
        return wrong("this is not a decision id");
    };
    let Some(decision) = admin.decisions.look_up(id).await else {
        return error(
            StatusCode::NOT_FOUND,
            "there is no such decision, or it is no longer kept",
        );
    };
    match grounds_of(&admin, &decision).await {
        Some(grounds) => Json(grounds).into_response(),
        None => {
            let message = "the decision does not rest on robots.txt";
            error(StatusCode::NOT_FOUND, message)
        }
    }
}

async fn grounds_of(admin: &Admin, decision: &Decision) -> Option<Grounds> {
    let finding = decision.finding.as_ref()?;
    let target = Target::parse(&decision.url).ok()?;
    let origin = target.origin();
    let store = admin.decider.robots.store();
    let (said, body) = decided_by(store, decision).await.unzip();
    let is_cut = said.as_ref().is_some_and(DecidedBy::is_cut);
    let mut grounds = Grounds {
        robots_url: origin.robots_txt_uri(),
        group: Vec::new(),
        group_lines: Vec::new(),
        line: finding.line,
        is_same: false,
        said,
    };
    if let Some(bytes) = body.flatten() {
        let body = Body {
            bytes,
            is_cut,
            digest: None,
        };
        let access = AccessResult::Successful(body.parse());
        let tokens = decision.tokens.iter().map(|token| ProductToken::new(token));
        let tokens: Vec<_> = tokens.filter_map(Result::ok).collect();
        let dialect = finding.dialect.parse().unwrap_or(Dialect::Rfc9309);
        let judge = if *finding.basis == *Reason::RobotsTxtItself.as_str() {
            decide_strictly
        } else {
            decide_any_path_strictly
        };
        let again = judge(&access, dialect, &tokens, target.path());
        grounds.group = again.group();
        grounds.group_lines = again.group_lines();
        // What was tunnelled was judged by its origin, whatever the path.
        grounds.is_same = decision.outcome == "tunnelled"
            || again.line() == finding.line && again.verdict().as_str() == finding.verdict;
    }
    Some(grounds)
}
