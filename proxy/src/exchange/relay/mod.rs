//! Both bodies, both ways at once: the client's to the origin, the origin's to the client.

mod download;
mod progress;

use std::pin::{Pin, pin};
use std::sync::atomic::Ordering;
use std::time::Duration;

use self::download::Download;
pub(super) use self::download::Relaying;
use self::progress::Progress;
pub(crate) use self::progress::RelayError;
use super::splice;
use crate::http::client::{Client, ClientBody};
use crate::http::http1::{BodyError, Framing};
use crate::origin::{OriginReader, OriginWriter};

/// A response that reached the client whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Relayed {
    pub(crate) status: u16,
    pub(crate) connection_serves_again: bool,
}

/// Sends the client's body to the origin, and the origin's response to the client.
pub(super) async fn relay(
    relaying: Relaying<'_>,
    client: &mut Client,
    writer: &mut OriginWriter,
    reader: &mut OriginReader,
) -> Result<Relayed, RelayError> {
    let Relaying {
        received, patience, ..
    } = relaying;
    let progress = Progress::default();
    // Then the head said all, and the upload has only to watch the client.
    let is_sent = received.framing() == Framing::Length(0);
    progress.is_sent.store(is_sent, Ordering::Relaxed);
    let upload = upload(&mut client.body, writer, &progress, patience);
    let download = Download {
        relaying,
        reader,
        progress: &progress,
    };
    let download = download.run(&mut client.answer);
    let status = both(pin!(upload), pin!(download)).await?;
    let is_somebodys = progress.is_somebodys.load(Ordering::Relaxed);
    let is_upgraded = status == 101;
    if is_upgraded {
        splice::splice(client, writer, reader).await;
    }
    let is_sent = progress.is_sent.load(Ordering::Relaxed);
    let connection_serves_again = is_sent && !is_upgraded && !is_somebodys;
    Ok(Relayed {
        status,
        connection_serves_again,
    })
}

/// Drives both directions until the response is complete or one of them breaks the exchange. Pinned by the caller: taken by value
/// they would stand in this future twice, and so in that of every exchange.
async fn both(
    mut upload: Pin<&mut impl Future<Output = RelayError>>,
    mut download: Pin<&mut impl Future<Output = Result<u16, RelayError>>>,
) -> Result<u16, RelayError> {
    let mut is_uploading = true;
    loop {
        tokio::select! {
            biased;
            done = &mut download => return done,
            broken = &mut upload, if is_uploading => match broken {
                // The origin may have answered before it stopped to listen.
                RelayError::Origin { .. } => is_uploading = false,
                broken => return Err(broken),
            },
        }
    }
}

/// Passes the client's body on, and then watches whether the client stays. Ends only with what broke.
async fn upload(
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
