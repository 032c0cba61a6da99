//! Mistakes of a gateway, about which its client can do nothing: problem details (RFC 9457).

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;

/// A request to us that is none of those that a gateway may make.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mistake {
    status: StatusCode,
    detail: Cow<'static, str>,
}

impl Mistake {
    /// Describes a question that cannot be understood.
    pub(crate) fn new(detail: impl Into<Cow<'static, str>>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, detail: detail.into() }
    }

    /// Describes credentials that are not those of a gateway.
    pub(crate) fn unknown_token() -> Self {
        let detail = "this is not the token of a gateway: its SHA-256 is not in gateway.tokens";
        Self { status: StatusCode::UNAUTHORIZED, detail: detail.into() }
    }

    /// Describes a path, or a decision, that does not exist.
    pub(crate) fn not_found(detail: &'static str) -> Self {
        Self { status: StatusCode::NOT_FOUND, detail: detail.into() }
    }

    /// Returns the answer by gRPC.
    pub(crate) fn grpc_status(&self) -> tonic::Status {
        let detail = self.detail.as_ref();
        match self.status {
            StatusCode::UNAUTHORIZED => tonic::Status::unauthenticated(detail),
            _ => tonic::Status::invalid_argument(detail),
        }
    }

    /// Returns the answer.
    pub(crate) fn response(&self) -> Response<Full<Bytes>> {
        let body = problem(self.status, &self.detail);
        let mut response = Response::new(Full::new(Bytes::from(body)));
        *response.status_mut() = self.status;
        let fields = response.headers_mut();
        fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = "Bearer realm=\"wayleave\", error=\"invalid_token\"";
            fields.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        response
    }
}

/// Returns problem details that are about the gateway, and not about its client's request.
pub(crate) fn problem(status: StatusCode, detail: &str) -> String {
    let problem = serde_json::json!({
        "type": "urn:wayleave:problem:gateway",
        "title": status.canonical_reason(),
        "status": status.as_u16(),
        "detail": detail,
    });
    format!("{problem}\n")
}
