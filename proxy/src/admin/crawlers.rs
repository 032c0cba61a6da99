//! `/v1/crawlers`: each crawler with its settings and the outcomes of its requests.

use std::collections::HashMap;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use wayleave_decision::ASSERTED;

use super::access::TeamScope;
use super::response::SafeJson;
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
    /// Its requests since the process started.
    requests: u64,
    /// The number of those that were refused.
    refused: u64,
    /// The number of those that were forwarded although they would have been refused: refusals are only observed.
    observed: u64,
    /// The number of those that were allowed, but the origin or the path to it failed.
    failed: u64,
    /// The number of those without any of its tokens in `User-Agent`.
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

/// The number of one crawler's requests, in total and by outcome.
#[derive(Clone, Copy, Debug, Default)]
struct RequestCounts {
    all: u64,
    refused: u64,
    observed: u64,
    failed: u64,
}

impl RequestCounts {
    fn add(&mut self, outcome: &str, requests: u64) {
        self.all += requests;
        match outcome {
            "refused" => self.refused += requests,
            "observed" => self.observed += requests,
            "failed" => self.failed += requests,
            _ => {}
        }
    }
}

/// Every crawler, with the outcomes of its requests since the start.
#[utoipa::path(get, path = "/v1/crawlers", tag = "proxy", responses((status = 200, body = ListedCrawlers)))]
pub(super) async fn list(State(admin): State<AdminState>, scope: TeamScope) -> Response {
    // The metric, because it has counted every request since the start; the decisions in memory are only the newest.
    let mut counts: HashMap<String, RequestCounts> = HashMap::new();
    for ([crawler, outcome, _], requests) in admin.metrics.requests() {
        counts.entry(crawler).or_default().add(&outcome, requests);
    }
    let crawlers = &admin.decider.settings().crawlers;
    let known = crawlers.all().filter(|crawler| scope.includes(crawler.owner.as_deref()));
    let known = known.map(|crawler| ListedCrawler {
        owner: crawler.owner.as_deref().map(str::to_owned),
        mode: crawler.mode.as_str(),
        tokens: crawler.tokens.iter().map(ToString::to_string).collect(),
        dialect: crawler.dialect.as_str(),
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

/// Returns a crawler with its requests; its settings are left empty.
fn with_counts(
    admin: &AdminState,
    counts: &HashMap<String, RequestCounts>,
    name: &str,
) -> ListedCrawler {
    let requests = counts.get(name).copied().unwrap_or_default();
    ListedCrawler {
        name: name.to_owned(),
        requests: requests.all,
        refused: requests.refused,
        observed: requests.observed,
        failed: requests.failed,
        last_seen_at: admin.traffic.last_request_at(name).map(format_instant),
        ..ListedCrawler::default()
    }
}
