//! The robots.txt that a decision rests on, as it was then.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;
use wayleave_policy::{AccessResult, Dialect, ProductToken, RobotsTxt, Target, decide_strictly};

use super::answer::{Mistake, error, wrong};
use super::parts::Admin;
use super::robots::said_at;
use super::told::Said;
use crate::decisions::Decision;

/// What a decision rests on.
#[derive(Debug, Serialize, ToSchema)]
struct Grounds {
    robots_url: String,
    /// What the origin had said when the request was decided; null if that is not kept, or it had said nothing.
    said: Option<Said>,
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
    params(("id" = String, Path, pattern = "^[0-9a-f]{32}$", description = "As in the refusal and in the log")),
    responses(
        (status = 200, body = Grounds),
        (status = 400, body = Mistake, description = "This is no id"),
        (status = 404, body = Mistake, description = "No such decision is kept, or it does not rest on robots.txt"),
    )
)]
pub(super) async fn grounds(State(admin): State<Admin>, Path(id): Path<String>) -> Response {
    let Ok(id) = id.parse() else {
        return wrong("this is no decision id");
    };
    let Some(decision) = admin.decisions.look_up(id).await else {
        return error(StatusCode::NOT_FOUND, "no such decision is kept");
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
    let said = match finding.robots_fetched_at {
        Some(at) => said_at(admin.flow.robots.store(), origin, at).await,
        None => None,
    };
    let mut grounds = Grounds {
        robots_url: origin.robots_txt_uri(),
        group: Vec::new(),
        group_lines: Vec::new(),
        line: finding.line,
        is_same: false,
        said: None,
    };
    if let Some(body) = said.as_ref().and_then(|said| said.body.as_deref()) {
        let robots = RobotsTxt::parse_with_limit(body.as_bytes(), body.len());
        let access = AccessResult::Successful(Arc::new(robots));
        let tokens = decision.tokens.iter().map(|token| ProductToken::new(token));
        let tokens: Vec<_> = tokens.filter_map(Result::ok).collect();
        let dialect = finding.dialect.parse().unwrap_or(Dialect::Rfc9309);
        let again = decide_strictly(&access, dialect, &tokens, target.path());
        grounds.group = again.group();
        grounds.group_lines = again.group_lines();
        grounds.is_same =
            again.line() == finding.line && again.verdict().as_str() == finding.verdict;
    }
    grounds.said = said;
    Some(grounds)
}
