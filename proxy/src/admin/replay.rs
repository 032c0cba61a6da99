//! `/v1/replay`: what the configuration in use would have decided about the requests of the decision log if something in it were
//! different. The change is never put into effect.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use utoipa::{IntoParams, ToSchema};
use wayleave_clock::system_time;
use wayleave_decision_log::{DecisionQuery, TimeRange};

use super::access::TeamScope;
use super::decisions::{no_decision_log, parse_span};
use super::parameters::QueryParameters;
use super::replay_engine::ReplayRequest;
use super::response::{ErrorBody, SafeJson, bad_request, error_response};
use super::state::AdminState;
use super::what_if::WhatIf;

/// The longest body, in bytes.
const MAX_BYTES: usize = 64 << 10;
/// The span of time if none is given.
const DEFAULT_SPAN: Duration = Duration::from_hours(24);

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ReplayParameters {
    /// Only decisions since this time, or for this long, such as `6h`; default `24h`.
    #[param(format = DateTime)]
    since: Option<String>,
    /// Only decisions before this time.
    #[param(format = DateTime)]
    until: Option<String>,
}

/// The decisions of the log, made again.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Replay)]
struct ReplaySchema {
    /// The number of decisions.
    decisions: u64,
    damaged_lines: u64,
    /// A phrase for each part that could not be looked at, such as a missing file of the log.
    missing: Vec<String>,
    /// Whether it ended before the span did: there are too many decisions, or it took too long.
    is_cut: bool,
    newly_refused: ReplayedGroups,
    newly_forwarded: ReplayedGroups,
    unchanged: ReplayedGroups,
    undecidable: ReplayedGroups,
    /// Facts that no replay can know.
    not_replayed: Vec<String>,
}

#[derive(Debug, Serialize, ToSchema)]
struct ReplayedGroups {
    count: u64,
    /// The largest groups.
    groups: Vec<ReplayedGroup>,
    /// The number of further groups.
    groups_left_out: u64,
}

#[derive(Debug, Serialize, ToSchema)]
struct ReplayedGroup {
    crawler: String,
    host: String,
    /// The rule that decides: of newly forwarded requests, the one that refused them; of undecidable ones, what is not known.
    rule: String,
    count: u64,
    /// The first URLs, ten at most.
    samples: Vec<String>,
}

#[derive(Debug, Serialize, ToSchema)]
struct ReplayMistakes {
    error: &'static str,
    /// The first hundred, each with its key.
    mistakes: Vec<String>,
}

/// Decides about the requests of the decision log again: what if these crawlers were enforced, robots.txt were read in this
/// dialect, these rules came first? The rest is the configuration in use. Nothing is put into effect.
#[utoipa::path(
    post,
    path = "/v1/replay",
    tag = "proxy",
    params(ReplayParameters),
    request_body = WhatIf,
    responses(
        (status = 200, body = ReplaySchema),
        (status = 400, body = ErrorBody, description = "A parameter or the body is malformed"),
        (status = 404, body = ErrorBody, description = "There is no decision log"),
        (status = 413, body = ErrorBody, description = "The body is longer than 64 KiB"),
        (status = 422, body = ReplayMistakes, description = "There is no such crawler or dialect, or a rule cannot be used"),
        (status = 429, body = ErrorBody, description = "Another replay is running"),
    )
)]
pub(super) async fn replay(
    State(admin): State<AdminState>,
    scope: TeamScope,
    QueryParameters(parameters): QueryParameters<ReplayParameters>,
    body: Body,
) -> Response {
    let span = match parse_span(parameters.since.as_deref(), parameters.until.as_deref()) {
        Ok(span) => span.unwrap_or_default(),
        Err(mistake) => return bad_request(mistake),
    };
    let Some(journal) = admin.decisions.journal() else {
        return no_decision_log();
    };
    let Ok(body) = to_bytes(body, MAX_BYTES).await else {
        let message = "the body is longer than 64 KiB, or did not arrive";
        return error_response(StatusCode::PAYLOAD_TOO_LARGE, message);
    };
    let what_if: WhatIf = match serde_json::from_slice(&body) {
        Ok(what_if) => what_if,
        Err(error) => return bad_request(format!("the body: {error}")),
    };
    if what_if.is_empty() {
        return bad_request("the body names no change: enforce, dialect or rules".to_owned());
    }
    // After the body has arrived: whoever sends it slowly keeps nobody waiting.
    let Some(turn) = admin.replay.turn() else {
        return error_response(StatusCode::TOO_MANY_REQUESTS, "another replay is running");
    };
    let store = admin.decider.robots.store().clone();
    // A file that was just fetched may not have reached the store yet.
    store.flush().await;
    let since = span.since.or_else(|| system_time().checked_sub(DEFAULT_SPAN));
    let request = ReplayRequest {
        configuration: admin.config.status().toml,
        what_if,
        log: journal.config.path.clone(),
        span: TimeRange { since, ..span },
        query: DecisionQuery { owner: scope.team().map(str::to_owned), ..DecisionQuery::default() },
        store,
        runtime: Handle::current(),
        is_cancelled: Arc::default(),
    };
    match admin.replay.run(request, turn).await {
        Ok(summary) => SafeJson(summary).into_response(),
        Err(mistakes) => {
            let body = ReplayMistakes { error: "the change cannot be tried", mistakes };
            (StatusCode::UNPROCESSABLE_ENTITY, SafeJson(body)).into_response()
        }
    }
}
