//! The responses of the admin listener: JSON, or an error.

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use wayleave_notation::harmless::escape_json;

/// A JSON response that is safe to print on a terminal.
#[derive(Debug)]
pub(super) struct SafeJson<T>(pub(super) T);

impl<T: Serialize> IntoResponse for SafeJson<T> {
    fn into_response(self) -> Response {
        let json = serde_json::to_vec(&self.0).expect("strings and numbers serialise");
        // Rules and URLs are text from strangers, and operators print responses with curl.
        ([(CONTENT_TYPE, "application/json")], escape_json(json)).into_response()
    }
}

/// The body of an error.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Mistake)]
pub(super) struct ErrorBody {
    /// A sentence for people.
    error: String,
}

/// Returns `{"error": message}` with `status`.
pub(super) fn error_response(status: StatusCode, message: impl Into<String>) -> Response {
    (status, SafeJson(ErrorBody { error: message.into() })).into_response()
}

/// Returns `{"error": message}` with status 400.
pub(super) fn bad_request(message: impl Into<String>) -> Response {
    error_response(StatusCode::BAD_REQUEST, message)
}
