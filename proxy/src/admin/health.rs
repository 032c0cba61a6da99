//! `/livez`, `/readyz` and `/metrics`: health for load balancers and Prometheus.

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use wayleave_fleet::FleetState;

use super::state::AdminState;

/// Whether the process runs.
#[utoipa::path(get, path = "/livez", tag = "proxy", security(()), responses((status = 200, body = String, content_type = "text/plain")))]
pub(super) async fn livez() -> &'static str {
    "ok\n"
}

/// Whether the proxy takes requests.
///
/// A store or a decision log that fails, or a fleet's engine that does not answer, does not stop it, but is reported.
// The admin listener starts after the listeners for clients, so only a shutdown can make the proxy unready.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "proxy",
    security(()),
    responses(
        (status = 200, body = String, content_type = "text/plain"),
        (status = 503, body = String, content_type = "text/plain", description = "The proxy is stopping"),
    )
)]
pub(super) async fn readyz(State(admin): State<AdminState>) -> (StatusCode, String) {
    if admin.stopping.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n".to_owned());
    }
    if let Some(fault) = &admin.decisions.warnings().head_fault {
        let text = format!("ready, but the decision log cannot be signed: {fault}\n");
        return (StatusCode::OK, text);
    }
    let body = match admin.decider.robots.store().fault() {
        Some(fault) => format!("ready, but the store fails: {fault}\n"),
        None => match admin.decider.robots.store().set_aside_file() {
            Some(what) => format!("ready, but earlier entries are lost: {what}\n"),
            // The node still works without the engine. If this were an error, a load balancer would drop all nodes at once.
            None => match admin.decider.robots.fleet().status().state {
                FleetState::Alone | FleetState::Up => "ready\n".to_owned(),
                state => {
                    let what = fleet_fault(state).unwrap_or_default();
                    // The second line is for programs.
                    format!("ready, but {what}\n{{\"fleet\":\"{}\"}}\n", state.as_str())
                }
            },
        },
    };
    (StatusCode::OK, body)
}

/// Returns the fault of this node's part in the fleet, in words.
pub(super) fn fleet_fault(state: FleetState) -> Option<&'static str> {
    match state {
        FleetState::Alone | FleetState::Up => None,
        FleetState::Lost => Some("the fleet's engine does not answer"),
        FleetState::BeatsFailing => Some("the beats to the fleet's engine fail"),
        FleetState::ClockOff => Some("this machine's clock differs too much from the engine's"),
    }
}

/// Sets the use and the limits of the crawlers' daily budgets.
fn update_budget_metrics(admin: &AdminState) {
    let settings = admin.decider.settings();
    let uses = settings.crawlers.all().flat_map(|crawler| {
        let uses = admin.budgets.usage(crawler).into_iter();
        uses.map(|part| (crawler.name.as_str(), part.kind.as_str(), part.used, part.limit))
    });
    admin.metrics.budgets(uses);
}

/// Metrics in Prometheus' text format.
#[utoipa::path(get, path = "/metrics", tag = "proxy", responses((status = 200, body = String, content_type = "text/plain")))]
pub(super) async fn metrics(State(admin): State<AdminState>) -> Response {
    // Not on the only thread of this service: counting the entries and reading /proc take time.
    let gathering = tokio::task::spawn_blocking(move || {
        admin.decider.update_metrics(&admin.metrics);
        update_budget_metrics(&admin);
        admin.metrics.slowed_paces(admin.pacer.slowed_paces().len());
        admin.metrics.text()
    });
    match gathering.await.map_err(Into::into).flatten() {
        Ok((content_type, text)) => ([(CONTENT_TYPE, content_type)], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "the metrics could not be encoded");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
