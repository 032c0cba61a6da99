//! `/v1/crawlers`: each crawler with its settings and the outcomes of its requests.

use std::collections::HashMap;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use wayleave_decision::{ASSERTED, RequestOutcome};
use wayleave_decision_log::{DecisionQuery, ReportContents, SummaryRow};
use wayleave_signing::SigningMode;
use wayleave_usage_preferences::Purpose;

use super::access::TeamScope;
use super::parameters::QueryParameters;
use super::report::counted;
use super::response::{ErrorBody, SafeJson};
use super::robots_view::format_instant;
use super::state::AdminState;

#[derive(Debug, Serialize, ToSchema)]
struct ListedCrawlers {
    /// The configured ones in their order, then `asserted`: all that no `[[crawler]]` matches. For a token of a team, its own only.
    crawlers: Vec<ListedCrawler>,
}

#[derive(Debug, Default, Serialize, ToSchema)]
struct ListedCrawler {
    name: String,
    /// The team or the address that answers for it; null: not stated.
    owner: Option<String>,
    /// `enforce` or `observe`.
    mode: &'static str,
    /// Its product tokens; empty: those of its `User-Agent`.
    tokens: Vec<String>,
    dialect: &'static str,
    /// The purposes that it declares.
    purposes: Vec<&'static str>,
    /// The URL of the agent that its requests are signed for; null: they are not signed, or name no agent.
    agent: Option<String>,
    /// Its requests since the process started, or in the time range.
    requests: u64,
    /// The number of those that were refused.
    refused: u64,
    /// The number of those that were forwarded although they would have been refused: refusals are only observed.
    observed: u64,
    /// The number of those that were allowed, but the origin or the path to it failed.
    failed: u64,
    /// The rule or reason by which most of its requests in the time range were refused, or would have been.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_rule: Option<String>,
    /// The host at which most of them were.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_host: Option<String>,
    /// The number of its requests since the start without any of its tokens in `User-Agent`.
    user_agent_mismatches: u64,
    /// The daily budgets that it has, on all nodes as far as this one knows.
    budgets: Vec<ListedBudget>,
    /// The time of its last request, to two seconds; null: none since the start.
    #[schema(format = DateTime)]
    last_seen_at: Option<String>,
}

/// A crawler's daily budget.
#[derive(Debug, Serialize, ToSchema)]
struct ListedBudget {
    /// `requests`, `bytes` or `new_origins`.
    budget: &'static str,
    /// The use since midnight UTC.
    used: u64,
    limit: u64,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct CrawlerParameters {
    /// Count requests not before this time, or a span before now such as `7d`; without it, since the process started.
    #[param(format = DateTime)]
    since: Option<String>,
    /// Not after this time, or a span before now.
    #[param(format = DateTime)]
    until: Option<String>,
}

/// The number of one crawler's requests, in total and by outcome.
#[derive(Clone, Debug, Default)]
struct RequestCounts {
    all: u64,
    refused: u64,
    observed: u64,
    failed: u64,
    first_rule: Option<String>,
    first_host: Option<String>,
}

impl From<&SummaryRow> for RequestCounts {
    fn from(row: &SummaryRow) -> Self {
        Self {
            all: row.requests,
            refused: row.refused,
            observed: row.would_be_refused,
            failed: row.failed,
            first_rule: row.first_rule.clone(),
            first_host: row.first_host.clone(),
        }
    }
}

impl RequestCounts {
    fn add(&mut self, outcome: &str, requests: u64) {
        self.all += requests;
        match RequestOutcome::named(outcome) {
            Some(RequestOutcome::Refused) => self.refused += requests,
            Some(RequestOutcome::Observed) => self.observed += requests,
            Some(RequestOutcome::Failed) => self.failed += requests,
            _ => {}
        }
    }
}

/// Every crawler, with the outcomes of its requests since the start or in a time range.
#[utoipa::path(
    get,
    path = "/v1/crawlers",
    tag = "proxy",
    params(CrawlerParameters),
    responses(
        (status = 200, body = ListedCrawlers),
        (status = 400, body = ErrorBody, description = "A parameter is malformed"),
        (status = 503, body = ErrorBody, description = "Too many requests wait for the decision log to be read"),
    )
)]
pub(super) async fn list(
    State(admin): State<AdminState>,
    scope: TeamScope,
    QueryParameters(parameters): QueryParameters<CrawlerParameters>,
) -> Response {
    let counts = match count_requests(&admin, &scope, &parameters).await {
        Ok(counts) => counts,
        Err(response) => return response,
    };
    let crawlers = &admin.decider.settings().crawlers;
    let is_signing = admin.config.published().signing.options.mode != SigningMode::Off;
    let known = crawlers.all().filter(|crawler| scope.includes(crawler.owner.as_deref()));
    let known = known.map(|crawler| ListedCrawler {
        owner: crawler.owner.as_deref().map(str::to_owned),
        mode: crawler.mode.as_str(),
        tokens: crawler.tokens.iter().map(ToString::to_string).collect(),
        dialect: crawler.dialect.as_str(),
        purposes: crawler.declaration.purposes.iter().map(Purpose::as_str).collect(),
        agent: crawler.agent.as_deref().filter(|_| is_signing).map(str::to_owned),
        budgets: admin
            .budgets
            .usage(crawler)
            .into_iter()
            .map(|part| ListedBudget {
                budget: part.kind.as_str(),
                used: part.used,
                limit: part.limit,
            })
            .collect(),
        user_agent_mismatches: admin.metrics.user_agent_mismatches(&crawler.name),
        ..with_counts(&admin, &counts, &crawler.name)
    });
    let asserted = ListedCrawler {
        mode: crawlers.mode.as_str(),
        dialect: crawlers.dialect.as_str(),
        ..with_counts(&admin, &counts, ASSERTED)
    };
    // Whoever sends such requests, they are nobody's.
    let asserted = scope.team().is_none().then_some(asserted);
    SafeJson(ListedCrawlers { crawlers: known.chain(asserted).collect() }).into_response()
}

/// Counts the requests by crawler.
async fn count_requests(
    admin: &AdminState,
    scope: &TeamScope,
    parameters: &CrawlerParameters,
) -> Result<HashMap<String, RequestCounts>, Response> {
    let span = (parameters.since.as_deref(), parameters.until.as_deref());
    let mut counts: HashMap<String, RequestCounts> = HashMap::new();
    if span == (None, None) {
        // The metric, because it has counted every request since the start; the decisions in memory are only the newest.
        for ([crawler, outcome, _], requests) in admin.metrics.requests() {
            counts.entry(crawler).or_default().add(&outcome, requests);
        }
        return Ok(counts);
    }
    let owner = scope.team().map(str::to_owned);
    let requests = DecisionQuery { owner, ..DecisionQuery::default() };
    // The same as for the overview, so that the log is read once for both.
    let counted = counted(admin, span, requests, ReportContents::Overview).await?;
    counts.extend(counted.report.by_crawler.iter().map(|row| (row.name.clone(), row.into())));
    Ok(counts)
}

/// Returns a crawler with its requests; its settings are left empty.
fn with_counts(
    admin: &AdminState,
    counts: &HashMap<String, RequestCounts>,
    name: &str,
) -> ListedCrawler {
    let requests = counts.get(name).cloned().unwrap_or_default();
    ListedCrawler {
        name: name.to_owned(),
        requests: requests.all,
        refused: requests.refused,
        observed: requests.observed,
        failed: requests.failed,
        first_rule: requests.first_rule,
        first_host: requests.first_host,
        last_seen_at: admin.traffic.last_request_at(name).map(format_instant),
        ..ListedCrawler::default()
    }
}
