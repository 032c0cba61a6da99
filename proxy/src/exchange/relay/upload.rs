//! The client's body on its way to the origin.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::error::RelayError;
use super::progress::Progress;
use crate::http::client::ClientBody;
use crate::http::http1::BodyError;
use crate::origin::OriginWriter;

/// Passes the client's body on, and then watches whether the client stays. Ends only with what broke.
pub(super) async fn upload(
    body: &mut ClientBody,
    writer: &mut OriginWriter,
    progress: &Progress,
    patience: Duration,
) -> RelayError {
    if !progress.is_sent.load(Ordering::Relaxed) {
        if let Err(broken) = pass(body, writer, progress, patience).await {
            return broken;
        }
        progress.is_sent.store(true, Ordering::Relaxed);
    }
    body.gone().await;
    RelayError::ClientGone
}

async fn pass(
    body: &mut ClientBody,
    writer: &mut OriginWriter,
    progress: &Progress,
    patience: Duration,
) -> Result<(), RelayError> {
    let broke = |error| body_broke(&error, progress);
    let failed = |fault| progress.answered(fault);
    while let Some(part) = body.next().await.map_err(broke)? {
        writer.part(part, patience).await.map_err(failed)?;
        progress.sent_parts.fetch_add(1, Ordering::Relaxed);
    }
    let trailers = body.trailers().await.map_err(broke)?;
    writer.finish(&trailers, patience).await.map_err(failed)
}

fn body_broke(error: &BodyError, progress: &Progress) -> RelayError {
    let answered = progress.is_answered.load(Ordering::Relaxed);
    match error {
        BodyError::Malformed(details) => RelayError::Body { details, answered },
        BodyError::Incomplete => RelayError::Body {
            details: "the request body is cut short",
            answered,
        },
        BodyError::Late => RelayError::Late { answered },
        BodyError::Io(_) => RelayError::ClientGone,
    }
}
