//! The operators' listener: metrics and health.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::robots::Robots;

/// What the operators' listener shows.
#[derive(Clone, Debug)]
pub(crate) struct Admin {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) robots: Robots,
    /// Cancelled when the process was told to stop.
    pub(crate) stopping: CancellationToken,
}

impl Admin {
    /// The routes of the operators' listener.
    pub(crate) fn router(self) -> Router {
        Router::new()
            .route("/livez", get(|| async { "ok\n" }))
            .route("/readyz", get(readyz))
            .route("/metrics", get(metrics))
            .with_state(self)
    }
}

/// Served only once the listeners are open, so there is nothing to wait for but the end.
///
/// A store that fails does not stop the proxy, so it is ready all the same, but says so.
async fn readyz(State(admin): State<Admin>) -> (StatusCode, String) {
    if admin.stopping.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n".to_owned());
    }
    let body = match admin.robots.store().fault() {
        Some(fault) => format!("ready, but the store fails: {fault}\n"),
        None => "ready\n".to_owned(),
    };
    (StatusCode::OK, body)
}

async fn metrics(State(admin): State<Admin>) -> Response {
    admin.robots.observe();
    match admin.metrics.text() {
        Ok((content_type, text)) => ([(CONTENT_TYPE, content_type)], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "the metrics could not be encoded");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
