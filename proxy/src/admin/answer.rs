//! The responses of the admin listener: JSON, or an error.

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::observe::harmless::harmless_json;

/// A JSON response that is safe to print on a terminal.
#[derive(Debug)]
pub(super) struct Json<T>(pub(super) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        let json = serde_json::to_vec(&self.0).expect("strings and numbers serialise");
        let kind = [(CONTENT_TYPE, "application/json")];
        (kind, harmless_json(json)).into_response()
    }
}

/// The body of an error.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Mistake {
    /// A sentence for people.
    error: String,
}

/// Returns `{"error": message}` with `status`.
pub(super) fn error(status: StatusCode, message: impl Into<String>) -> Response {
    let error = message.into();
    (status, Json(Mistake { error })).into_response()
}

/// Returns `{"error": message}` with status 400.
pub(super) fn wrong(message: impl Into<String>) -> Response {
    error(StatusCode::BAD_REQUEST, message)
}
