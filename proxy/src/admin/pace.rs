//! `/v1/pace`: the servers to which requests are slowed down, for all or for single clients, and the cost of delays for
//! crawlers.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use wayleave_decision_log::DecisionLog;
use wayleave_pacing::PaceReport;

use super::pace_costs::{CountedCosts, PaceCost, pace_costs};
use super::response::SafeJson;
use super::state::AdminState;

/// The most servers that are listed.
const MAX_LISTED: usize = 1000;

#[derive(Debug, Serialize, ToSchema)]
struct SlowedPaces {
    /// The number of paces that are slowed down: of servers, and of single clients there.
    total: usize,
    /// The slowest, a thousand at most.
    paces: Vec<SlowedPace>,
    /// The paces of crawlers that keep a delay: the dearest, a thousand at most.
    costs: Vec<PaceCost>,
    /// The number of decisions from which the costs are added up: those in memory of at most an hour.
    decisions: usize,
    /// The time of the oldest of these decisions; null without one.
    #[schema(format = DateTime)]
    since: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
struct SlowedPace {
    /// An origin, `domain:NAME` or `address:NETWORK`, by `politeness.share`.
    unit: String,
    /// The client, in the form of `log.client_address`, if only its requests are slowed down.
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    /// The most requests per second that are sent now.
    requests_per_second: f64,
    /// The last reason to slow down: `429`, `503`, `reset`, `response_time` or `ratelimit`.
    cause: &'static str,
    /// The usual time to the first byte, in milliseconds.
    usual_response_ms: Option<f64>,
    /// The time to the first byte of late, in milliseconds.
    response_ms: Option<f64>,
    /// The time until the next request may be sent, in seconds.
    next_in_seconds: f64,
}

impl SlowedPace {
    fn new(report: PaceReport, decisions: &DecisionLog) -> Self {
        let times = report.response_times;
        Self {
            unit: report.unit,
            client: report.client.map(|client| decisions.mask_client(client).to_string()),
            requests_per_second: report.rate,
            cause: report.cause.as_str(),
            usual_response_ms: times.map(|(usual, _)| usual.as_secs_f64() * 1000.0),
            response_ms: times.map(|(_, present)| present.as_secs_f64() * 1000.0),
            next_in_seconds: report.next_in.as_secs_f64(),
        }
    }
}

/// The servers to which requests are slowed down (`politeness.adaptive`), the slowest first; and the cost of delays.
#[utoipa::path(get, path = "/v1/pace", tag = "proxy", responses((status = 200, body = SlowedPaces)))]
pub(super) async fn pace(State(admin): State<AdminState>) -> Response {
    let slowed = admin.pacer.slowed_paces();
    let total = slowed.len();
    let listed = slowed.into_iter().take(MAX_LISTED);
    let paces = listed.map(|report| SlowedPace::new(report, &admin.decisions)).collect();
    let CountedCosts { mut costs, decisions, since } =
        pace_costs(&admin, admin.decider.robots.clock().now());
    costs.truncate(MAX_LISTED);
    SafeJson(SlowedPaces { total, paces, costs, decisions, since }).into_response()
}
