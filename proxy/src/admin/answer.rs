//! Parsing of requests to the admin listener, and its error responses.

use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa::ToSchema;
use wayleave_robots_txt::Origin;

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

/// The query's parameters; a mistake in them is answered as any other.
#[derive(Debug)]
pub(super) struct Parameters<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Parameters<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(parameters)) => Ok(Self(parameters)),
            Err(QueryRejection::FailedToDeserializeQueryString(mistake)) => {
                // It begins with what the parser was at, which whoever asked knows.
                let text = mistake.body_text();
                let (_, about) = text.split_once("query string: ").unwrap_or(("", &text));
                Err(wrong(about))
            }
            Err(mistake) => Err(wrong(mistake.to_string())),
        }
    }
}

/// The origin that the path names.
#[derive(Debug)]
pub(super) struct Named(pub(super) Origin);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let Path(origin) = path.map_err(|mistake| wrong(mistake.body_text()))?;
        let origin = Origin::parse(&origin);
        origin
            .map(Self)
            .map_err(|mistake| wrong(format!("origin: {mistake}")))
    }
}

/// How many are listed unless another number is asked for.
pub(super) const LISTED: usize = 100;

/// How many to list.
///
/// # Errors
///
/// If it is not a number from 1 to `most`.
pub(super) fn limit(asked: Option<usize>, most: usize) -> Result<usize, String> {
    match asked {
        None => Ok(LISTED),
        Some(limit) if (1..=most).contains(&limit) => Ok(limit),
        Some(limit) => Err(format!("limit: {limit} is not 1 to {most}")),
    }
}
