//! `/v1/edge`: requests that robots.txt allows, and that origins or their bot managers turned away.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use wayleave_decision_log::{EdgeCount, EdgeCountBy, SignedEdge};

use super::parameters::{QueryParameters, check_limit};
use super::response::{ErrorBody, SafeJson, bad_request};
use super::state::AdminState;

/// The most hosts or crawlers that one response lists.
const MAX_LISTED: usize = 10_000;

/// The property by which answers at the edge are counted.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum EdgeGrouping {
    /// Refusals by host.
    Host,
    /// Refusals by crawler.
    Crawler,
    /// Answers to signed and unsigned requests, let in or refused: by host, crawler, agent and purposes.
    Signed,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EdgeParameters {
    /// The member to count by.
    #[param(inline)]
    by: EdgeGrouping,
    /// Maximum number of rows, and of hosts in a list; default 100.
    #[param(minimum = 1, maximum = 10000)]
    limit: Option<usize>,
}

#[derive(Debug, Serialize, ToSchema)]
struct EdgeCounts {
    edge: Vec<EdgeCount>,
}

/// An answer of this endpoint.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum EdgeListing {
    Counts(EdgeCounts),
    Signed(Box<SignedEdge>),
}

/// Refusals at the edge since the start, by host or crawler; or the answers to signed and unsigned requests.
#[utoipa::path(
    get,
    path = "/v1/edge",
    tag = "decisions",
    params(EdgeParameters),
    responses(
        (status = 200, body = EdgeListing, description = "Those with the most refusals first. Of more than 10,000 hosts, the oldest are forgotten"),
        (status = 400, body = ErrorBody, description = "A parameter is malformed"),
    )
)]
pub(super) async fn edge(
    State(admin): State<AdminState>,
    QueryParameters(counted): QueryParameters<EdgeParameters>,
) -> Response {
    let limit = match check_limit(counted.limit, MAX_LISTED) {
        Ok(limit) => limit,
        Err(mistake) => return bad_request(mistake),
    };
    let counts = |by| EdgeListing::Counts(EdgeCounts { edge: admin.decisions.edge(by, limit) });
    let answer = match counted.by {
        EdgeGrouping::Host => counts(EdgeCountBy::Host),
        EdgeGrouping::Crawler => counts(EdgeCountBy::Crawler),
        EdgeGrouping::Signed => {
            EdgeListing::Signed(Box::new(admin.decisions.edge_by_signature(limit)))
        }
    };
    SafeJson(answer).into_response()
}
