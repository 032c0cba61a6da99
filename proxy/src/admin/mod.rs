//! The operators' listener: metrics, health, decisions, robots.txt files, and what clients need.

mod answer;
mod clients;
mod decisions;
mod guard;
mod parts;
mod reload;
mod robots;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

pub(crate) use self::guard::Guard;
pub(crate) use self::parts::Admin;

/// The routes of the operators' listener, for whom `guard` lets in.
pub(crate) fn router(admin: Admin, guard: Guard) -> Router {
    Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/ca.pem", get(clients::certificate))
        .route("/proxy.pac", get(clients::proxy_auto_config))
        .route("/v1/decision", get(decisions::preview))
        .route("/v1/decisions", get(decisions::list))
        .route("/v1/decisions/stream", get(decisions::stream))
        .route("/v1/decisions/{id}", get(decisions::show))
        .route("/v1/robots", get(robots::list))
        .route(
            "/v1/robots/{origin}",
            get(robots::show).delete(robots::forget),
        )
        .route("/v1/robots/{origin}/refresh", post(robots::refresh))
        .route("/v1/top", get(decisions::top))
        .route("/v1/reload", post(reload::reload))
        .with_state(admin)
        .layer(middleware::from_fn_with_state(
            Arc::new(guard),
            guard::guard,
        ))
}

/// Served only once the listeners are open, so there is nothing to wait for but the end.
///
/// A store that fails does not stop the proxy, so it is ready all the same, but says so.
async fn readyz(State(admin): State<Admin>) -> (StatusCode, String) {
    if admin.stopping.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n".to_owned());
    }
    let body = match admin.flow.robots.store().fault() {
        Some(fault) => format!("ready, but the store fails: {fault}\n"),
        None => "ready\n".to_owned(),
    };
    (StatusCode::OK, body)
}

async fn metrics(State(admin): State<Admin>) -> Response {
    admin.flow.observe();
    match admin.metrics.text() {
        Ok((content_type, text)) => ([(CONTENT_TYPE, content_type)], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "the metrics could not be encoded");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
