//! What the admin listener answers: JSON, or what is wrong.

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::observe::harmless::harmless_json;

/// An answer as JSON, safe to print on a terminal.
#[derive(Debug)]
pub(super) struct Json<T>(pub(super) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        let json = serde_json::to_vec(&self.0).expect("strings and numbers serialise");
        let kind = [(CONTENT_TYPE, "application/json")];
        (kind, harmless_json(json)).into_response()
    }
}

/// Why something was not answered.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Mistake {
    /// A sentence for people.
    error: String,
}

/// `{"error": message}` with `status`.
pub(super) fn error(status: StatusCode, message: impl Into<String>) -> Response {
    let error = message.into();
    (status, Json(Mistake { error })).into_response()
}

/// `{"error": message}`: what was asked for makes no sense.
pub(super) fn wrong(message: impl Into<String>) -> Response {
    error(StatusCode::BAD_REQUEST, message)
}
