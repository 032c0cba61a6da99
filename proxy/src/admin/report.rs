//! `/v1/overview`: counts of a time range, which the decision log is read for; and the same counts for other endpoints.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use wayleave_admission::settings::Settings;
use wayleave_clock::TimeArgument;
use wayleave_decision::{ASSERTED, ClaimedNames, RequestOutcome};
use wayleave_decision_log::{
    CountedReport, DecisionQuery, LogReport, ReportContents, ReportDimension, ReportRequest,
    ReportRow, ReportSource, SummaryRow, Timeline,
};

use super::access::TeamScope;
use super::crawler_naming::{CrawlerNaming, UnnamedSender};
use super::parameters::{QueryParameters, check_limit, parse_time};
use super::response::{ErrorBody, SafeJson, bad_request, error_response};
use super::robots_view::format_instant;
use super::state::AdminState;

/// The start of the time range without parameters.
const DEFAULT_SINCE: TimeArgument = TimeArgument::Ago(Duration::from_mins(5));
/// The start of a time range of which only the end is given.
const ALWAYS: TimeArgument = TimeArgument::Ago(Duration::MAX);
/// The name of a sender without one, such as a User-Agent that was not sent.
const NO_NAME: &str = "-";
/// The most rows of each table.
const MAX_ROWS: usize = 1000;

/// Counts the decisions of a time range that the request may see.
///
/// # Errors
///
/// Returns the response if a time is malformed, or too many logs are being read.
pub(super) async fn counted(
    admin: &AdminState,
    span: (Option<&str>, Option<&str>),
    requests: DecisionQuery,
    contents: ReportContents,
) -> Result<Arc<CountedReport>, Response> {
    let (since, until) = parse_range(span).map_err(bad_request)?;
    let request = ReportRequest { since, until, requests, contents };
    admin.decisions.report(request).await.ok_or_else(|| {
        let message = "too many requests wait for the decision log to be read";
        let busy = error_response(StatusCode::SERVICE_UNAVAILABLE, message);
        ([(RETRY_AFTER, "10")], busy).into_response()
    })
}

fn parse_range(
    (since, until): (Option<&str>, Option<&str>),
) -> Result<(TimeArgument, Option<TimeArgument>), String> {
    let until = until.map(|until| parse_time("until", until)).transpose()?;
    let since = match since {
        Some(since) => parse_time("since", since)?,
        None if until.is_some() => ALWAYS,
        None => DEFAULT_SINCE,
    };
    Ok((since, until))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct OverviewParameters {
    /// Not before this time, or a span before now such as `7d`; without `since` and `until`, `5m`.
    #[param(format = DateTime)]
    since: Option<String>,
    /// Not after this time, or a span before now.
    #[param(format = DateTime)]
    until: Option<String>,
    /// Maximum number of rows of each table, except that of crawlers; default 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// The counts of a time range.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Overview)]
struct OverviewCounts<'a> {
    #[schema(format = DateTime)]
    since: String,
    #[schema(format = DateTime)]
    until: String,
    /// The time at which these were counted. They are reused for a while: the longer, the longer it took to count them.
    #[schema(format = DateTime)]
    counted_at: String,
    /// `memory` if the recent decisions in memory reach back to `since`, else `log`.
    from: &'static str,
    /// Whether all decisions of the time range were counted. Not so if there is no decision log, or some of it cannot be read.
    is_complete: bool,
    requests: u64,
    refused: u64,
    /// The requests that were forwarded only because refusals are observed.
    would_be_refused: u64,
    /// The requests that enforcement would have held for a while, and then sent.
    would_wait: u64,
    failed: u64,
    timeline: &'a Timeline,
    by_crawler: Vec<CrawlerCounts<'a>>,
    by_host: &'a [SummaryRow],
    by_origin: &'a [SummaryRow],
    /// By the line of robots.txt, the `[[rule]]` or the usage preference that decided, else by the reason.
    by_rule: &'a [SummaryRow],
    by_reason: &'a [SummaryRow],
    /// The requests that enforcement would refuse, by crawler, host and rule.
    observed: Vec<&'a ReportRow>,
    unnamed: UnnamedCounts<'a>,
    /// The number of rows that were left out because they are rare and there are too many; the totals are complete.
    left_out: u64,
}

/// The requests of one crawler.
#[derive(Debug, Serialize, ToSchema)]
struct CrawlerCounts<'a> {
    #[serde(flatten)]
    counts: &'a SummaryRow,
    /// `enforce` or `observe`, as it is now; null: it is no longer configured.
    mode: Option<&'static str>,
}

/// The requests that match no `[[crawler]]`, by who sent them.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Unnamed)]
struct UnnamedCounts<'a> {
    by_token: Vec<SenderCounts<'a>>,
    by_user_agent: Vec<SenderCounts<'a>>,
    by_client: Vec<SenderCounts<'a>>,
}

/// The requests with one token, with one User-Agent or of one client.
#[derive(Debug, Serialize, ToSchema)]
struct SenderCounts<'a> {
    #[serde(flatten)]
    counts: &'a SummaryRow,
    /// The owner of the well-known crawler whose name these requests have, or most of a client's; null: of none.
    foreign_owner: Option<&'static str>,
    /// The way to name their crawler; null: they send no User-Agent, or the name of another owner.
    naming: Option<CrawlerNaming>,
}

/// Counts of a time range, by crawler, host, origin, rule and reason: from the recent decisions in memory or, if they do not reach back
/// so far, from the decision log.
#[utoipa::path(
    get,
    path = "/v1/overview",
    tag = "decisions",
    params(OverviewParameters),
    responses(
        (status = 200, body = OverviewCounts<'_>, description = "In each table, those with most refusals first"),
        (status = 400, body = ErrorBody, description = "A parameter is malformed"),
        (status = 503, body = ErrorBody, description = "Too many requests wait for the decision log to be read"),
    )
)]
pub(super) async fn overview(
    State(admin): State<AdminState>,
    scope: TeamScope,
    QueryParameters(parameters): QueryParameters<OverviewParameters>,
) -> Response {
    let limit = match check_limit(parameters.limit, MAX_ROWS) {
        Ok(limit) => limit,
        Err(mistake) => return bad_request(mistake),
    };
    let span = (parameters.since.as_deref(), parameters.until.as_deref());
    let owner = scope.team().map(str::to_owned);
    let requests = DecisionQuery { owner, ..DecisionQuery::default() };
    let counted = match counted(&admin, span, requests, ReportContents::Overview).await {
        Ok(counted) => counted,
        Err(response) => return response,
    };
    match OverviewCounts::new(&counted, &admin.decider.settings(), limit) {
        Some(counts) => SafeJson(counts).into_response(),
        None => error_response(StatusCode::INTERNAL_SERVER_ERROR, "there is no timeline"),
    }
}

impl<'a> OverviewCounts<'a> {
    /// Returns none for a report that is no overview.
    fn new(counted: &'a CountedReport, settings: &Settings, limit: usize) -> Option<Self> {
        let report = &counted.report;
        let crawlers = &settings.crawlers;
        let mode = |name: &str| match crawlers.named(name) {
            Some(crawler) => Some(crawler.mode.as_str()),
            None => (name == ASSERTED).then(|| crawlers.mode.as_str()),
        };
        let by_crawler = report.by_crawler.iter();
        let observed = report.rows.iter().filter(|row| row.outcome == RequestOutcome::Observed);
        Some(Self {
            since: format_instant(report.since),
            until: format_instant(report.until),
            counted_at: format_instant(counted.counted_at),
            from: if counted.source == ReportSource::Log { "log" } else { "memory" },
            is_complete: is_complete(counted),
            requests: report.outcomes.values().sum(),
            refused: report.count_of(RequestOutcome::Refused),
            would_be_refused: report.count_of(RequestOutcome::Observed),
            would_wait: report.by_crawler.iter().map(|counts| counts.would_wait).sum(),
            failed: report.count_of(RequestOutcome::Failed),
            timeline: report.timeline.as_ref()?,
            by_crawler: by_crawler
                .map(|counts| CrawlerCounts { mode: mode(&counts.name), counts })
                .collect(),
            by_host: first_of(report, ReportDimension::Host, limit),
            by_origin: first_of(report, ReportDimension::Origin, limit),
            by_rule: first_of(report, ReportDimension::Rule, limit),
            by_reason: first_of(report, ReportDimension::Reason, limit),
            observed: observed.take(limit).collect(),
            unnamed: UnnamedCounts {
                by_token: senders(report, ReportDimension::Token, limit, settings),
                by_user_agent: senders(report, ReportDimension::UserAgent, limit, settings),
                by_client: senders(report, ReportDimension::Client, limit, settings),
            },
            left_out: report.left_out,
        })
    }
}

fn first_of(report: &LogReport, by: ReportDimension, limit: usize) -> &[SummaryRow] {
    let rows = report.summary(by);
    &rows[..rows.len().min(limit)]
}

/// Returns the first senders, with the owners of the names that are not theirs to send, and the tables that would name the
/// others.
fn senders<'a>(
    report: &'a LogReport,
    by: ReportDimension,
    limit: usize,
    settings: &Settings,
) -> Vec<SenderCounts<'a>> {
    let of_row = |counts| {
        let foreign_owner = foreign_owner(by, counts);
        let sender = if foreign_owner.is_none() { sender(by, counts) } else { None };
        SenderCounts {
            counts,
            foreign_owner,
            naming: sender.map(|sender| sender.naming(&settings.crawlers, &settings.rules)),
        }
    };
    first_of(report, by, limit).iter().map(of_row).collect()
}

/// Returns the sender of a row's requests, or of most of them; none if they have no User-Agent.
fn sender(by: ReportDimension, row: &SummaryRow) -> Option<UnnamedSender<'_>> {
    let user_agent = match by {
        ReportDimension::UserAgent => &row.name,
        _ => row.first_user_agent.as_deref()?,
    };
    let address = (by == ReportDimension::Client).then_some(&*row.name);
    (user_agent != NO_NAME).then_some(UnnamedSender { user_agent, address })
}

fn foreign_owner(by: ReportDimension, row: &SummaryRow) -> Option<&'static str> {
    let sent = match by {
        ReportDimension::Client => row.first_user_agent.as_deref()?,
        _ => &row.name,
    };
    ClaimedNames::parse(sent.as_bytes()).foreign_owner(None)
}

fn is_complete(counted: &CountedReport) -> bool {
    let report = &counted.report;
    counted.source != ReportSource::PartOfMemory
        && report.failures.is_empty()
        && report.damaged_lines == 0
}
