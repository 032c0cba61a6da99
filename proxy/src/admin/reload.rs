//! Reads the configuration again.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::parts::Admin;

/// Answers with what holds now and what needs a restart, or with every mistake.
pub(super) async fn reload(State(admin): State<Admin>) -> Response {
    match admin.reload.now().await {
        Ok(reloaded) => {
            let answer = json!({
                "configuration": reloaded.configuration,
                "needs_restart": reloaded.needs_restart,
            });
            Json(answer).into_response()
        }
        Err(mistakes) => {
            let answer = json!({
                "error": "the configuration stays as it was",
                "mistakes": mistakes,
            });
            (StatusCode::UNPROCESSABLE_ENTITY, Json(answer)).into_response()
        }
    }
}
