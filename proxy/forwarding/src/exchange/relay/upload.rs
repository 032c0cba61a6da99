//! The client's body on its way to the origin.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;
use wayleave_http_wire::http1::BodyError;
use wayleave_pacing::PacingSlot;
use wayleave_transport::http::downstream::{ClientGone, DownstreamReader, SentBody};
use wayleave_upstream::UpstreamWriter;

use super::client_rate::{ClientRate, TooSlow};
use super::error::RelayError;
use super::progress::RelayProgress;

/// The request's body on its way to the origin.
pub(super) struct RequestRelay<'a> {
    pub(super) body: &'a mut DownstreamReader,
    /// The bytes of the body that were read before, and are sent first.
    pub(super) sent: &'a mut SentBody,
    pub(super) writer: &'a mut UpstreamWriter,
    pub(super) progress: &'a RelayProgress,
    pub(super) slot: Option<&'a PacingSlot<'a>>,
    /// The timeout of each upstream write.
    pub(super) timeout: Duration,
}

impl RequestRelay<'_> {
    /// Relays the client's body, then watches whether the client is still connected. Returns only when something broke.
    pub(super) async fn run(self) -> RelayError {
        let Some((slot, longest)) = self.slot.and_then(|slot| Some((slot, slot.longest_turn()?)))
        else {
            return self.send_and_watch().await;
        };
        let mut relaying = pin!(self.send_and_watch());
        if let Ok(broken) = timeout(longest, &mut relaying).await {
            return broken;
        }
        // Neither a client that sends slowly nor an origin that does not answer takes the time of other clients.
        slot.pass_turn();
        relaying.await
    }

    async fn send_and_watch(mut self) -> RelayError {
        if !self.progress.is_upload_complete.load(Ordering::Relaxed) {
            if let Err(broken) = self.send_body().await {
                return broken;
            }
            self.progress.is_upload_complete.store(true, Ordering::Relaxed);
        }
        // A client that only ended its side still reads the response.
        self.body.wait_until_broken().await;
        ClientGone::Left.into()
    }

    async fn send_body(&mut self) -> Result<(), RelayError> {
        let progress = self.progress;
        let timeout = self.timeout;
        let broke = |error| body_broke(&error, progress);
        let failed = |fault| progress.upstream_error(fault);
        // A client that holds one of a limited number of slots must not hold it by sending slowly.
        let limited = self.slot.filter(|slot| slot.has_concurrency_slot());
        let mut rate = limited.map(|slot| (ClientRate::default(), slot));
        let (chunks, whole) = self.sent.sent();
        for chunk in chunks {
            self.writer.send_chunk(chunk, timeout).await.map_err(failed)?;
            progress.count_sent_chunk();
        }
        if let Some(trailers) = whole {
            return self.writer.finish(&trailers, timeout).await.map_err(failed);
        }
        // An HTTP/1 origin does not say which requests it has begun to serve.
        let may_be_repeated = matches!(self.writer, UpstreamWriter::Http2(_));
        while let Some(chunk) = next(self.body, rate.as_mut()).await.map_err(broke)? {
            self.sent.keep(&chunk, may_be_repeated);
            self.writer.send_chunk(chunk, timeout).await.map_err(failed)?;
            progress.count_sent_chunk();
        }
        let trailers = self.body.trailers().await.map_err(broke)?;
        self.sent.end(trailers.clone());
        let finishing = self.writer.finish(&trailers, timeout);
        finishing.await.map_err(failed)
    }
}

async fn next(
    body: &mut DownstreamReader,
    rate: Option<&mut (ClientRate, &PacingSlot<'_>)>,
) -> Result<Option<Bytes>, BodyError> {
    let Some((rate, slot)) = rate else {
        return body.next_chunk().await;
    };
    let next = rate.measure(pin!(body.next_chunk()), || !slot.is_concurrency_wanted()).await;
    let chunk = next.map_err(|TooSlow| BodyError::Timeout)??;
    rate.add(chunk.as_ref().map_or(0, Bytes::len));
    Ok(chunk)
}

fn body_broke(error: &BodyError, progress: &RelayProgress) -> RelayError {
    let answered = progress.is_answered.load(Ordering::Relaxed);
    match error {
        BodyError::Malformed(details) => RelayError::Body { details, answered },
        BodyError::Timeout => RelayError::BodyTimeout { answered },
        // Over HTTP/1 a client that leaves ends the body too early, over HTTP/2 it resets the stream.
        BodyError::Incomplete | BodyError::Io(_) => ClientGone::Left.into(),
    }
}
