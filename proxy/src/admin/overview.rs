//! `/v1/traffic` and `/v1/status`: the proxy at a glance.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use wayleave_decision_log::LoggedClient;
use wayleave_telemetry::traffic::{STEP, TrafficPoint};

use super::access::TeamScope;
use super::response::SafeJson;
use super::robots_view::format_instant;
use super::state::AdminState;

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Timeline)]
struct TrafficTimeline {
    /// The time between two points, in seconds.
    step_seconds: u64,
    /// The last half hour, the oldest first.
    points: Vec<TrafficPoint>,
}

/// The requests of the last half hour, by crawler, outcome and reason.
#[utoipa::path(get, path = "/v1/traffic", tag = "proxy", responses((status = 200, body = TrafficTimeline)))]
pub(super) async fn traffic(State(admin): State<AdminState>, scope: TeamScope) -> Response {
    let points = admin.traffic.points();
    let crawlers = &admin.decider.settings().crawlers;
    let of_scope =
        |point: &Arc<TrafficPoint>| point.of(|name| scope.includes_named(crawlers, name));
    SafeJson(TrafficTimeline {
        step_seconds: STEP.as_secs(),
        points: points.iter().map(of_scope).collect(),
    })
    .into_response()
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Status)]
struct ProxyStatus {
    version: &'static str,
    /// The address of the HTTP proxy for clients on this machine, if there is one.
    proxy: Option<String>,
    /// The listeners for clients, as URLs: `http`, `https`, `socks5`, `redirect` and `tproxy` with addresses.
    listeners: Vec<String>,
    #[schema(format = DateTime)]
    started_at: String,
    is_stopping: bool,
    /// Connections of clients.
    client_connections: u64,
    robots: EntryCounts,
    /// The fault of the store in `state.dir`, if there is one.
    store_fault: Option<String>,
    /// The names of the configured crawlers, in their order.
    crawlers: Vec<String>,
    /// The URL of a copy of `docs/`, if the configuration has one; this listener serves the files at `/docs/`.
    docs_url: Option<String>,
    /// The last client since the start that does not trust the CA, or seems not to. Null for a token of a team.
    untrusting_client: Option<UntrustingView>,
}

/// A client that does not trust the CA.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = UntrustingClient)]
struct UntrustingView {
    #[schema(format = DateTime)]
    at: String,
    /// The client's address, its network, or a digest, as `log.client_address` says.
    #[schema(value_type = String)]
    client: LoggedClient,
    /// The origin that it wanted.
    origin: String,
    /// Whether it sent a TLS alert. If not, it closed a new TLS connection without a request, as Node.js does then.
    has_alerted: bool,
}

/// Origins whose robots.txt is known, in memory or on disk, by state.
#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
#[schema(as = Entries)]
struct EntryCounts {
    fresh: usize,
    stale: usize,
    unavailable: usize,
    unreachable: usize,
    /// The memory that they use, in bytes.
    bytes: usize,
}

/// The status of the proxy.
#[utoipa::path(get, path = "/v1/status", tag = "proxy", responses((status = 200, body = ProxyStatus)))]
pub(super) async fn status(State(admin): State<AdminState>, scope: TeamScope) -> Response {
    let mut crawlers = admin.decider.settings().crawlers.names();
    crawlers.retain(|name| scope.includes_named(&admin.decider.settings().crawlers, name));
    let robots = admin.decider.robots.clone();
    let store_fault = robots.store().fault();
    // Blocks on the store, and this service has only one thread.
    let counting = tokio::task::spawn_blocking(move || {
        let [fresh, stale, unavailable, unreachable] =
            robots.count_by_state().map(|(_, count)| count);
        EntryCounts { fresh, stale, unavailable, unreachable, bytes: robots.memory_bytes() }
    });
    let untrusting = scope.team().is_none().then(|| admin.untrusting.last()).flatten();
    SafeJson(ProxyStatus {
        version: env!("CARGO_PKG_VERSION"),
        proxy: admin.proxy.map(|listen| listen.to_string()),
        listeners: admin.listeners.to_vec(),
        started_at: format_instant(admin.started_at),
        is_stopping: admin.stopping.is_cancelled(),
        client_connections: admin.metrics.open_client_connections(),
        // The task fails only if the process is ending.
        robots: counting.await.unwrap_or_default(),
        store_fault,
        crawlers,
        docs_url: admin.docs_url.as_deref().map(str::to_owned),
        untrusting_client: untrusting.map(|untrusting| UntrustingView {
            at: format_instant(untrusting.at()),
            client: untrusting.client,
            origin: untrusting.origin,
            has_alerted: untrusting.has_alerted,
        }),
    })
    .into_response()
}
