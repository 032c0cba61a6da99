//! `/v1/edge`: requests that robots.txt allows, and that origins or their bot managers turned away.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use wayleave_decision_log::{EdgeCount, EdgeCountBy};

use super::parameters::{QueryParameters, check_limit};
use super::response::{ErrorBody, SafeJson, bad_request};
use super::state::AdminState;

/// The most hosts or crawlers that one response lists.
const MAX_LISTED: usize = 10_000;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EdgeParameters {
    /// The member to count by.
    #[param(inline)]
    by: EdgeCountBy,
    /// Maximum number of rows; default 100.
    #[param(minimum = 1, maximum = 10000)]
    limit: Option<usize>,
}

#[derive(Debug, Serialize, ToSchema)]
struct EdgeCounts {
    edge: Vec<EdgeCount>,
}

/// Refusals at the edge since the start, by host or crawler.
#[utoipa::path(
    get,
    path = "/v1/edge",
    tag = "decisions",
    params(EdgeParameters),
    responses(
        (status = 200, body = EdgeCounts, description = "Those with the most first. Of more than 10,000 hosts, those that refused longest ago are forgotten"),
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
    SafeJson(EdgeCounts { edge: admin.decisions.edge(counted.by, limit) }).into_response()
}
