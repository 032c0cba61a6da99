//! `/v1/replay`: the decisions of the configuration in use about the requests of the decision log if something in it were
//! different. The change is never put into effect.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;
use utoipa::{IntoParams, ToSchema};
use wayleave_audit::replay::{
    ChangeSummary, GroupRow, NOT_REPLAYED, ReplaySummary, Replayer, replay_log,
};
use wayleave_audit::{StoreMaterials, WhatIf};
use wayleave_clock::system_time;
use wayleave_decision_log::{DecisionQuery, LogPlace, TimeRange};

use super::access::TeamScope;
use super::decisions::{no_decision_log, parse_span};
use super::parameters::QueryParameters;
use super::response::{ErrorBody, SafeJson, bad_request, error_response};
use super::state::AdminState;

/// The longest body, in bytes.
const MAX_BYTES: usize = 64 << 10;
/// The span of time if none is given.
const DEFAULT_SPAN: Duration = Duration::from_hours(24);
/// The most decisions, and the longest time, of a replay.
const MAX_DECISIONS: u64 = 1_000_000;
const MAX_TIME: Duration = Duration::from_secs(60);
/// The most groups of one kind that are shown.
const MAX_SHOWN_GROUPS: usize = 100;

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
struct ShownReplay<'a> {
    /// The number of decisions.
    decisions: u64,
    damaged_lines: u64,
    /// A phrase for each part that could not be looked at, such as a missing file of the log.
    missing: &'a [String],
    /// Whether it ended before the span did: there are too many decisions, or it took too long.
    is_cut: bool,
    newly_refused: ReplayedGroups<'a>,
    newly_forwarded: ReplayedGroups<'a>,
    unchanged: ReplayedGroups<'a>,
    undecidable: ReplayedGroups<'a>,
    /// Facts that no replay can know.
    #[schema(value_type = Vec<String>)]
    not_replayed: [&'static str; NOT_REPLAYED.len()],
}

#[derive(Debug, Serialize, ToSchema)]
struct ReplayedGroups<'a> {
    count: u64,
    /// The largest groups.
    groups: Vec<GroupRow<'a>>,
    /// The number of further groups.
    #[schema(value_type = u64)]
    groups_left_out: usize,
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
        (status = 200, body = ShownReplay<'_>),
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
    let Ok(turn) = Arc::clone(&admin.replay_turn).try_acquire_owned() else {
        return error_response(StatusCode::TOO_MANY_REQUESTS, "another replay is running");
    };
    let store = admin.decider.robots.store().clone();
    // A file that was just fetched may not have reached the store yet.
    store.flush().await;
    let since = span.since.or_else(|| system_time().checked_sub(DEFAULT_SPAN));
    let span = TimeRange { since, ..span };
    let query =
        DecisionQuery { owner: scope.team().map(str::to_owned), ..DecisionQuery::default() };
    let configuration = admin.config.status().toml;
    let log = journal.config.clone();
    let materials = StoreMaterials::new(log.state_dir.clone(), store, Handle::current());
    // Ends early if nobody waits for the result any more.
    let cancelled = CancellationToken::new();
    let _cancel = cancelled.clone().drop_guard();
    let replaying = spawn_blocking(move || {
        // Held until it ends, not only until the client leaves.
        let _turn = turn;
        let replayer = Replayer::new(what_if.settings(&configuration)?, &materials);
        replay_within_limits(log.place(), span, &query, replayer, &cancelled)
    });
    // A panic is reported by the hook of the process.
    let replayed = replaying.await.unwrap_or_else(|_| Err(vec!["the replay failed".to_owned()]));
    match replayed {
        Ok(summary) => SafeJson(summary).into_response(),
        Err(mistakes) => {
            let body = ReplayMistakes { error: "the change cannot be tried", mistakes };
            (StatusCode::UNPROCESSABLE_ENTITY, SafeJson(body)).into_response()
        }
    }
}

/// Replays decisions until there are too many, it takes too long, or it is cancelled. Returns the result as JSON.
///
/// # Errors
///
/// Returns an error if the log cannot be read.
fn replay_within_limits(
    log: LogPlace<'_>,
    span: TimeRange,
    query: &DecisionQuery,
    replayer: Replayer<'_>,
    cancelled: &CancellationToken,
) -> Result<Value, Vec<String>> {
    let end = Instant::now() + MAX_TIME;
    let mut is_cut = false;
    let summary = replay_log(log, span, query, replayer, |summary, _| {
        is_cut = summary.decisions >= MAX_DECISIONS || Instant::now() > end;
        let is_over = is_cut || cancelled.is_cancelled();
        if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    match summary {
        Ok(summary) => Ok(json!(ShownReplay::new(&summary, is_cut))),
        Err(error) => Err(vec![format!("{error:#}")]),
    }
}

impl<'a> ShownReplay<'a> {
    /// Returns a summary as it is shown: the largest groups, and not where the log is.
    fn new(summary: &'a ReplaySummary, is_cut: bool) -> Self {
        Self {
            decisions: summary.decisions,
            damaged_lines: summary.damaged_lines,
            missing: &summary.missing,
            is_cut,
            newly_refused: ReplayedGroups::new(&summary.newly_refused),
            newly_forwarded: ReplayedGroups::new(&summary.newly_forwarded),
            unchanged: ReplayedGroups::new(&summary.unchanged),
            undecidable: ReplayedGroups::new(&summary.undecidable),
            not_replayed: NOT_REPLAYED,
        }
    }
}

impl<'a> ReplayedGroups<'a> {
    fn new(summary: &'a ChangeSummary) -> Self {
        let mut groups = summary.rows();
        let groups_left_out = groups.len().saturating_sub(MAX_SHOWN_GROUPS);
        groups.truncate(MAX_SHOWN_GROUPS);
        Self { count: summary.count, groups, groups_left_out }
    }
}
