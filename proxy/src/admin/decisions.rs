//! `/v1/decisions` and `/v1/top`: recent decisions, and those in the decision log.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use wayleave_clock::system_time;
use wayleave_decision_log::{
    ChosenCrawler, DecisionId, DecisionQuery, DecisionRecord, RankBy, RankedName, ReportContents,
    TimeRange,
};
use wayleave_robots_txt::Target;

use super::access::TeamScope;
use super::decision_filter::{OutcomeWord, ViaWord, decision_parameters};
use super::parameters::{PathDecision, QueryParameters, check_limit, parse_time};
use super::report::counted;
use super::response::{ErrorBody, SafeJson, bad_request, error_response};
use super::robots::deciding_file;
use super::robots_view::DecidingFile;
use super::state::AdminState;

/// The most decisions in one response: as many as are kept in memory.
const MAX_LISTED: usize = 8192;

decision_parameters! {
    DecisionParameters {
        /// Maximum number of decisions; default 100.
        #[param(minimum = 1, maximum = 8192)]
        limit: Option<usize>,
    } {
        /// The URL: its origin, and its path and query byte for byte.
        #[param(format = "uri")]
        url: Option<String>,
        /// Not before this time, or a span before now such as `7d`. With `since` or `until` the decision log is read instead of the recent decisions in memory.
        #[param(format = DateTime)]
        since: Option<String>,
        /// Not after this time, or a span before now.
        #[param(format = DateTime)]
        until: Option<String>,
    }
}

/// Returns the requested span of time, if there is one.
///
/// # Errors
///
/// Returns a message if a time is malformed.
pub(super) fn parse_span(
    since: Option<&str>,
    until: Option<&str>,
) -> Result<Option<TimeRange>, String> {
    let time = |name: &str, text: Option<&str>| text.map(|text| parse_time(name, text)).transpose();
    let now = system_time();
    let span = TimeRange {
        since: time("since", since)?.map(|since| since.start(now)),
        until: time("until", until)?.map(|until| until.end(now)),
    };
    Ok((since.is_some() || until.is_some()).then_some(span))
}

#[derive(Debug, Serialize, ToSchema)]
struct ListedDecisions<'a> {
    #[schema(value_type = Vec<DecisionRecord>)]
    decisions: Vec<Cow<'a, DecisionRecord>>,
    /// Whether there are older decisions in the requested span of time.
    #[serde(skip_serializing_if = "Option::is_none")]
    is_cut: Option<bool>,
    /// The number of damaged lines of the decision log that were left out, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    damaged_lines: Option<u64>,
}

/// Recent decisions, or those of a span of time, the newest first.
#[utoipa::path(
    get,
    path = "/v1/decisions",
    tag = "decisions",
    params(DecisionParameters),
    responses(
        (status = 200, body = ListedDecisions<'_>),
        (status = 400, body = ErrorBody, description = "A parameter is malformed"),
        (status = 404, body = ErrorBody, description = "A span of time was requested, but there is no decision log"),
        (status = 500, body = ErrorBody, description = "The decision log cannot be read"),
    )
)]
pub(super) async fn list(
    State(admin): State<AdminState>,
    scope: TeamScope,
    QueryParameters(filter): QueryParameters<DecisionParameters>,
) -> Response {
    let limit = match check_limit(filter.limit, MAX_LISTED) {
        Ok(limit) => limit,
        Err(mistake) => return bad_request(mistake),
    };
    // Memory holds the newest decisions only, and none from before the start. So a span of time is read from the log, even a
    // span that memory could serve in part.
    let span = parse_span(filter.since.as_deref(), filter.until.as_deref());
    let url = filter.url.as_deref();
    let url = url.map(|url| Target::parse(url).map_err(|error| format!("url: {url:?}: {error}")));
    let url = match url.transpose() {
        Ok(url) => url,
        Err(mistake) => return bad_request(mistake),
    };
    let query = DecisionQuery { url, ..filter.query(&scope) };
    match span {
        Err(mistake) => bad_request(mistake),
        Ok(Some(span)) => match admin.decisions.list_past(span, query, limit).await {
            Ok(Some(newest)) => SafeJson(ListedDecisions {
                decisions: newest.decisions.iter().map(|decision| scope.view(decision)).collect(),
                is_cut: Some(newest.is_truncated),
                damaged_lines: (newest.damaged_lines > 0).then_some(newest.damaged_lines),
            })
            .into_response(),
            Ok(None) => no_decision_log(),
            Err(mistake) => error_response(StatusCode::INTERNAL_SERVER_ERROR, mistake.to_string()),
        },
        Ok(None) => {
            let recent = admin.decisions.list_recent(&query, limit);
            SafeJson(ListedDecisions {
                decisions: recent.iter().map(|decision| scope.view(decision)).collect(),
                is_cut: None,
                damaged_lines: None,
            })
            .into_response()
        }
    }
}

/// Returns the error for requests that need a decision log where there is none.
pub(super) fn no_decision_log() -> Response {
    error_response(StatusCode::NOT_FOUND, "there is no decision log: log.decisions is empty")
}

/// Returns the error for an id that is in neither memory nor the log.
pub(super) fn unknown_decision() -> Response {
    error_response(StatusCode::NOT_FOUND, "there is no such decision, or it is no longer kept")
}

/// Finds a decision that the request may see.
pub(super) async fn look_up(
    admin: &AdminState,
    scope: &TeamScope,
    id: DecisionId,
) -> Option<Arc<DecisionRecord>> {
    let found = admin.decisions.look_up(id).await;
    found.filter(|decision| scope.includes(decision.owner.as_deref()))
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ShownDecision<'a> {
    #[serde(flatten)]
    pub(crate) decision: &'a DecisionRecord,
    /// The file that decided, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) robots_txt: Option<DecidingFile>,
}

/// One decision: a recent one, or else one from the log; with the robots.txt that it was based on.
#[utoipa::path(
    get,
    path = "/v1/decisions/{id}",
    tag = "decisions",
    params(("id" = String, Path, pattern = "^[0-9a-f]{32}$", description = "The `decision_id` of a refusal or of a log line")),
    responses(
        (status = 200, body = ShownDecision<'_>),
        (status = 400, body = ErrorBody, description = "The id is malformed"),
        (status = 404, body = ErrorBody, description = "There is no such decision, or it is no longer kept"),
    )
)]
pub(super) async fn show(
    State(admin): State<AdminState>,
    scope: TeamScope,
    PathDecision(id): PathDecision,
) -> Response {
    let Some(decision) = look_up(&admin, &scope, id).await else {
        return unknown_decision();
    };
    // The copy that decided, which may no longer be the one in the cache.
    let robots_txt = deciding_file(admin.decider.robots.store(), &decision).await;
    let decision = &*scope.view(&decision);
    SafeJson(ShownDecision { decision, robots_txt: robots_txt.map(|(file, _)| file) })
        .into_response()
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct TopParameters {
    /// The member to count by.
    #[param(inline)]
    by: RankBy,
    /// Maximum number of rows; default 100.
    #[param(minimum = 1, maximum = 8192)]
    limit: Option<usize>,
    /// The crawler's configured name; `unnamed`, or `asserted`: of clients that match none.
    #[param(value_type = Option<String>)]
    crawler: Option<ChosenCrawler>,
    /// The requests' outcome; repeated, one of several.
    #[serde(default)]
    #[param(inline, required = false)]
    outcome: Vec<OutcomeWord>,
    /// Their reason, a word of docs/metrics.md.
    reason: Option<String>,
    /// The host of their origin, without a port.
    host: Option<String>,
    /// Not before this time, or a span before now such as `7d`; without it, of the recent decisions in memory.
    #[param(format = DateTime)]
    since: Option<String>,
    /// Not after this time, or a span before now.
    #[param(format = DateTime)]
    until: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Top)]
struct TopDecisions {
    top: Vec<RankedName>,
}

/// The most frequent hosts, rules, reasons, crawlers or senders of the recent decisions, or of those of a time range.
#[utoipa::path(
    get,
    path = "/v1/top",
    tag = "decisions",
    params(TopParameters),
    responses(
        (status = 200, body = TopDecisions, description = "The most frequent first. Of a time range, 1,000 at most"),
        (status = 400, body = ErrorBody, description = "A parameter is malformed"),
        (status = 503, body = ErrorBody, description = "Too many requests wait for the decision log to be read"),
    )
)]
pub(super) async fn top(
    State(admin): State<AdminState>,
    scope: TeamScope,
    QueryParameters(ranking): QueryParameters<TopParameters>,
) -> Response {
    let limit = match check_limit(ranking.limit, MAX_LISTED) {
        Ok(limit) => limit,
        Err(mistake) => return bad_request(mistake),
    };
    let query = DecisionQuery {
        crawler: ranking.crawler,
        owner: scope.team().map(str::to_owned),
        outcomes: OutcomeWord::outcomes(&ranking.outcome),
        reason: ranking.reason,
        host: ranking.host,
        ..DecisionQuery::default()
    };
    if ranking.since.is_none() && ranking.until.is_none() {
        let top = admin.decisions.top(ranking.by, &query, limit);
        return SafeJson(TopDecisions { top }).into_response();
    }
    let span = (ranking.since.as_deref(), ranking.until.as_deref());
    let dimension = ranking.by.dimension();
    let counted = match counted(&admin, span, query, ReportContents::Top(dimension)).await {
        Ok(counted) => counted,
        Err(response) => return response,
    };
    let rows = counted.report.summary(dimension).iter();
    let mut top: Vec<_> =
        rows.map(|row| RankedName { name: row.name.clone(), count: row.requests }).collect();
    top.sort_by_key(|ranked| Reverse(ranked.count));
    top.truncate(limit);
    SafeJson(TopDecisions { top }).into_response()
}
