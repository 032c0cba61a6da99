//! `/v1/reload`: reloads the configuration.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::reload_handle::Reloaded;
use super::response::SafeJson;
use super::state::AdminState;

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Mistakes)]
struct ReloadMistakes {
    error: &'static str,
    /// All of them, each with its file, line and key.
    mistakes: Vec<String>,
}

/// Reloads the configuration; the running one remains in use if there is a mistake.
#[utoipa::path(
    post,
    path = "/v1/reload",
    tag = "proxy",
    responses(
        (status = 200, body = Reloaded),
        (status = 422, body = ReloadMistakes, description = "The configuration cannot be used"),
    )
)]
pub(super) async fn reload(State(admin): State<AdminState>) -> Response {
    match admin.config.reload().await {
        Ok(reloaded) => SafeJson(reloaded).into_response(),
        Err(mistakes) => {
            let answer = ReloadMistakes {
                error: "the configuration is unchanged",
                mistakes,
            };
            (StatusCode::UNPROCESSABLE_ENTITY, SafeJson(answer)).into_response()
        }
    }
}
