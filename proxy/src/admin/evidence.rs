//! `/v1/evidence`: the key that signs the decision log, its newest head, and the bodies that decisions were based on.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tokio::task::spawn_blocking;
use utoipa::ToSchema;
use wayleave_decision_log::{LogGap, file_gaps};
use wayleave_evidence::{HeadFiles, Sha256Digest};
use wayleave_signing::Jwk;

use super::parameters::PathSegment;
use super::response::{ErrorBody, SafeJson, bad_request, error_response};
use super::state::AdminState;

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Signing)]
struct LogSigning<'a> {
    /// The public half of the key that the decision log is signed with; `wayleave evidence verify --key` takes its `x`.
    key: &'a Jwk,
    /// The newest signed head of the log, as a line. A copy of it proves later that no line before it was removed.
    head: Option<String>,
    /// The files of the log that are missing or left out.
    missing: Vec<LogGap>,
}

/// The key that signs the decision log, and the log's newest head.
#[utoipa::path(
    get,
    path = "/v1/evidence",
    tag = "decisions",
    responses(
        (status = 200, body = LogSigning<'_>),
        (status = 404, body = ErrorBody, description = "There is no decision log"),
    )
)]
pub(super) async fn signing(State(admin): State<AdminState>) -> Response {
    let Some(log) = admin.decisions.journal() else {
        return error_response(StatusCode::NOT_FOUND, "there is no decision log");
    };
    // Without a head, the key is worth publishing all the same.
    let head = HeadFiles::for_log(&log.config.path, &log.config.state_dir)
        .newest()
        .ok()
        .and_then(|line| String::from_utf8(line).ok());
    let looked_at = Arc::clone(&log);
    let looking = spawn_blocking(move || file_gaps(looked_at.config.place()));
    let Ok(missing) = looking.await else {
        return error_response(StatusCode::INTERNAL_SERVER_ERROR, "the log cannot be looked at");
    };
    SafeJson(LogSigning { key: &log.key, head, missing }).into_response()
}

/// A kept body, by its digest: a robots.txt that decisions name.
#[utoipa::path(
    get,
    path = "/v1/evidence/bodies/{sha256}",
    tag = "decisions",
    params(("sha256" = String, Path, pattern = "^[0-9a-f]{64}$", description = "The `robots_sha256` of a decision")),
    responses(
        (status = 200, body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 400, body = ErrorBody, description = "The digest is malformed"),
        (status = 404, body = ErrorBody, description = "It is not kept"),
    )
)]
pub(super) async fn body(
    State(admin): State<AdminState>,
    PathSegment(sha256): PathSegment,
) -> Response {
    let Some(digest) = Sha256Digest::from_hex(&sha256) else {
        return bad_request(format!("sha256: {sha256:?} is not a SHA-256: 64 hexadecimal digits"));
    };
    let store = admin.decider.robots.store();
    // A file that was just fetched may not have reached the store yet.
    store.flush().await;
    match store.body(digest.0).await {
        Some(bytes) => {
            ([(CONTENT_TYPE, "application/octet-stream")], bytes.to_vec()).into_response()
        }
        None => error_response(StatusCode::NOT_FOUND, "no such body is kept"),
    }
}
