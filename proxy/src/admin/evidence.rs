//! `/v1/evidence`: the key that signs the decision log, its newest head, and the bodies that decisions were based on.

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::answer::{Json, Mistake, error, wrong};
use super::parameters::Named;
use super::state::Admin;
use crate::observe::decisions::Heads;
use crate::observe::digest::Digest;
use crate::signing::Jwk;

#[derive(Debug, Serialize, ToSchema)]
struct Signing<'a> {
    /// The public half of the key that the decision log is signed with; `x` is what `wayleave evidence verify --key` takes.
    key: &'a Jwk,
    /// The newest signed head of the log, as a line. A copy of it proves later that no line before it was removed.
    head: Option<String>,
}

/// The key that signs the decision log, and the log's newest head.
#[utoipa::path(
    get,
    path = "/v1/evidence",
    tag = "decisions",
    responses(
        (status = 200, body = Signing<'_>),
        (status = 404, body = Mistake, description = "There is no decision log"),
    )
)]
pub(super) async fn signing(State(admin): State<Admin>) -> Response {
    let Some(log) = admin.decisions.log_file() else {
        return error(StatusCode::NOT_FOUND, "there is no decision log");
    };
    let head = Heads::of(&log.options)
        .newest()
        .ok()
        .and_then(|line| String::from_utf8(line).ok());
    let key = &log.key;
    Json(Signing { key, head }).into_response()
}

/// A kept body, by its digest: a robots.txt that decisions name.
#[utoipa::path(
    get,
    path = "/v1/evidence/bodies/{sha256}",
    tag = "decisions",
    params(("sha256" = String, Path, pattern = "^[0-9a-f]{64}$", description = "The `robots_sha256` of a decision")),
    responses(
        (status = 200, body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 400, body = Mistake, description = "The digest is malformed"),
        (status = 404, body = Mistake, description = "It is not kept"),
    )
)]
pub(super) async fn body(State(admin): State<Admin>, Named(sha256): Named) -> Response {
    let Some(digest) = Digest::from_hex(&sha256) else {
        let mistake = format!("sha256: {sha256:?} is not a SHA-256: 64 hexadecimal digits");
        return wrong(mistake);
    };
    let store = admin.decider.robots.store();
    // A file that was just fetched may not have reached the store yet.
    store.flush().await;
    match store.body(digest.0).await {
        Some(bytes) => {
            let kind = [(CONTENT_TYPE, "application/octet-stream")];
            (kind, bytes.to_vec()).into_response()
        }
        None => error(StatusCode::NOT_FOUND, "no such body is kept"),
    }
}
