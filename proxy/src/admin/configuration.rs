//! `/v1/configuration` and `/v1/reload`: the configuration in use, and reloading it.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::reload_handle::Reloaded;
use super::response::SafeJson;
use super::robots_view::format_instant;
use super::state::AdminState;

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Configuration)]
struct ConfigurationView {
    /// The version of the configuration in use, counted from 1 at the start.
    configuration: u64,
    /// The file that it was read from; null: the built-in defaults.
    file: Option<String>,
    /// The files that it includes, in the order in which their tables follow its own.
    included: Vec<String>,
    /// The time at which it was read.
    #[schema(format = DateTime)]
    read_at: String,
    /// The last attempt to reload it, if any.
    last_attempt: Option<AttemptView>,
    /// Sections and keys of it that take effect only after a restart.
    needs_restart: Vec<String>,
    /// The whole configuration as TOML, including defaults; hashes of passwords and tokens are left out.
    toml: String,
    /// The part of that which differs from the defaults.
    changed_toml: String,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Attempt)]
struct AttemptView {
    #[schema(format = DateTime)]
    at: String,
    /// The reason for reading the file.
    cause: String,
    /// The mistakes in it; empty if it was loaded.
    mistakes: Vec<String>,
}

/// The configuration in use, and the result of the last reload.
#[utoipa::path(get, path = "/v1/configuration", tag = "proxy", responses((status = 200, body = ConfigurationView)))]
pub(super) async fn configuration(State(admin): State<AdminState>) -> Response {
    let status = admin.config.status();
    SafeJson(ConfigurationView {
        configuration: status.configuration,
        file: status.file,
        included: status.included,
        read_at: format_instant(status.read_at),
        last_attempt: status.last_attempt.map(|attempt| AttemptView {
            at: format_instant(attempt.at),
            cause: attempt.cause,
            mistakes: attempt.mistakes,
        }),
        needs_restart: status.needs_restart,
        toml: status.toml,
        changed_toml: status.changed_toml,
    })
    .into_response()
}

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
            // Not 400: nothing is wrong with the request itself (RFC 9110 section 15.5.21).
            let body = ReloadMistakes { error: "the configuration is unchanged", mistakes };
            (StatusCode::UNPROCESSABLE_ENTITY, SafeJson(body)).into_response()
        }
    }
}
