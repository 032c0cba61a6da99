//! `/v1/decisions` and `/v1/top`: recent decisions, and those in the decision log.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::answer::{Json, Mistake, error, wrong};
use super::parameters::{NamedDecision, Parameters, limit};
use super::robots::decided_by;
use super::robots_view::DecidedBy;
use super::state::Admin;
use crate::observe::decisions::{By, Decision, Query, Ranked, Span};

/// The most decisions in one answer: as many as are kept in memory.
const MOST_LISTED: usize = 8192;

/// The outcome of a request.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum OutcomeWord {
    Forwarded,
    Observed,
    Refused,
    Failed,
    Tunnelled,
}

impl OutcomeWord {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Forwarded => "forwarded",
            Self::Observed => "observed",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Tunnelled => "tunnelled",
        }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Filter {
    /// Maximum number of decisions; default 100.
    #[param(minimum = 1, maximum = 8192)]
    limit: Option<usize>,
    /// The crawler's configured name, or `asserted`.
    crawler: Option<String>,
    /// Their outcome.
    #[param(inline)]
    outcome: Option<OutcomeWord>,
    /// Their reason, a word of docs/metrics.md.
    reason: Option<String>,
    /// The host of their origin, without a port.
    host: Option<String>,
    /// Text that the URL, the rule, the reason, the details, the ID, the client or a token contains, ignoring case.
    q: Option<String>,
    /// Not before this time. With `since` or `until` the decision log is read instead of the recent decisions in memory.
    #[param(format = DateTime)]
    since: Option<String>,
    /// Not after this time.
    #[param(format = DateTime)]
    until: Option<String>,
}

impl Filter {
    fn query(self) -> Query {
        Query {
            crawler: self.crawler,
            outcome: self.outcome.map(|outcome| outcome.as_str().to_owned()),
            reason: self.reason,
            host: self.host,
            text: self.q,
        }
    }
}

/// Returns the requested span of time, if there is one.
///
/// # Errors
///
/// Returns a message if a time is malformed.
pub(super) fn span(since: Option<&str>, until: Option<&str>) -> Result<Option<Span>, String> {
    let time = |name: &str, text: Option<&str>| {
        let time = text.map(|text| {
            humantime::parse_rfc3339_weak(text)
                .map_err(|_| format!("{name}: {text:?} is not a time; write 2026-11-22T08:00:00Z"))
        });
        time.transpose()
    };
    let is_asked_for = since.is_some() || until.is_some();
    let span = Span {
        since: time("since", since)?,
        until: time("until", until)?,
    };
    Ok(is_asked_for.then_some(span))
}

#[derive(Debug, Serialize, ToSchema)]
struct ListedDecisions<'a> {
    decisions: Vec<&'a Decision>,
    /// Whether there are older decisions in the requested span of time.
    #[serde(skip_serializing_if = "Option::is_none")]
    is_cut: Option<bool>,
}

/// Recent decisions, or those of a span of time, the newest first.
#[utoipa::path(
    get,
    path = "/v1/decisions",
    tag = "decisions",
    params(Filter),
    responses(
        (status = 200, body = ListedDecisions<'_>),
        (status = 400, body = Mistake, description = "A parameter is malformed"),
        (status = 404, body = Mistake, description = "A span of time was asked for, and there is no decision log"),
        (status = 500, body = Mistake, description = "The decision log cannot be read"),
    )
)]
pub(super) async fn list(
    State(admin): State<Admin>,
    Parameters(filter): Parameters<Filter>,
) -> Response {
    let limit = match limit(filter.limit, MOST_LISTED) {
        Ok(limit) => limit,
        Err(mistake) => return wrong(mistake),
    };
    match span(filter.since.as_deref(), filter.until.as_deref()) {
        Err(mistake) => wrong(mistake),
        Ok(Some(span)) => match admin.decisions.past(span, filter.query(), limit).await {
            Ok(Some(newest)) => Json(ListedDecisions {
                decisions: newest.decisions.iter().collect(),
                is_cut: Some(newest.is_cut),
            })
            .into_response(),
            Ok(None) => no_log(),
            Err(mistake) => error(StatusCode::INTERNAL_SERVER_ERROR, mistake.to_string()),
        },
        Ok(None) => {
            let decisions = admin.decisions.list(&filter.query(), limit);
            let decisions = decisions.iter().map(Arc::as_ref).collect();
            let is_cut = None;
            Json(ListedDecisions { decisions, is_cut }).into_response()
        }
    }
}

/// Returns the error for requests that need a decision log where there is none.
pub(super) fn no_log() -> Response {
    let message = "there is no decision log: log.decisions is empty";
    error(StatusCode::NOT_FOUND, message)
}

#[derive(Debug, Serialize, ToSchema)]
struct ShownDecision<'a> {
    #[serde(flatten)]
    decision: &'a Decision,
    /// The file that decided, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    robots_txt: Option<DecidedBy>,
}

/// One decision: a recent one, or else one from the log; with the robots.txt that it was based on.
#[utoipa::path(
    get,
    path = "/v1/decisions/{id}",
    tag = "decisions",
    params(("id" = String, Path, pattern = "^[0-9a-f]{32}$", description = "The `decision_id` of a refusal or of a log line")),
    responses(
        (status = 200, body = ShownDecision<'_>),
        (status = 400, body = Mistake, description = "The id is malformed"),
        (status = 404, body = Mistake, description = "There is no such decision, or it is no longer kept"),
    )
)]
pub(super) async fn show(State(admin): State<Admin>, NamedDecision(id): NamedDecision) -> Response {
    match admin.decisions.look_up(id).await {
        Some(decision) => {
            let robots = decided_by(admin.decider.robots.store(), &decision).await;
            Json(ShownDecision {
                decision: &decision,
                robots_txt: robots.map(|(said, _)| said),
            })
            .into_response()
        }
        None => error(
            StatusCode::NOT_FOUND,
            "there is no such decision, or it is no longer kept",
        ),
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Ranking {
    /// The member to count by.
    #[param(inline)]
    by: By,
    /// Maximum number of rows; default 100.
    #[param(minimum = 1, maximum = 8192)]
    limit: Option<usize>,
    /// The crawler's configured name, or `asserted`.
    crawler: Option<String>,
    /// The requests' outcome.
    #[param(inline)]
    outcome: Option<OutcomeWord>,
    /// Their reason, a word of docs/metrics.md.
    reason: Option<String>,
    /// The host of their origin, without a port.
    host: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
struct Top {
    top: Vec<Ranked>,
}

/// The most frequent hosts, rules, reasons or crawlers of the recent decisions.
#[utoipa::path(
    get,
    path = "/v1/top",
    tag = "decisions",
    params(Ranking),
    responses(
        (status = 200, body = Top, description = "The most frequent first"),
        (status = 400, body = Mistake, description = "A parameter is malformed"),
    )
)]
pub(super) async fn top(
    State(admin): State<Admin>,
    Parameters(ranking): Parameters<Ranking>,
) -> Response {
    let limit = match limit(ranking.limit, MOST_LISTED) {
        Ok(limit) => limit,
        Err(mistake) => return wrong(mistake),
    };
    let query = Query {
        crawler: ranking.crawler,
        outcome: ranking.outcome.map(|outcome| outcome.as_str().to_owned()),
        reason: ranking.reason,
        host: ranking.host,
        text: None,
    };
    let top = admin.decisions.top(ranking.by, &query, limit);
    Json(Top { top }).into_response()
}
