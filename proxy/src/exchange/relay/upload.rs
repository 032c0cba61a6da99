//! The client's body on its way to the origin.

use std::pin::{Pin, pin};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pingora_timeout::timeout;
use wayleave_http_wire::http1::BodyError;

use super::error::RelayError;
use super::progress::RelayProgress;
use crate::http::downstream::{ClientGone, DownstreamReader};
use crate::pacing::PacingSlot;
use crate::upstream::UpstreamWriter;

/// The time after which a request that is still being sent releases its slot, so that the next one's delay begins. By then the
/// origin has had its head for that long.
const SLOT_DURATION: Duration = Duration::from_secs(1);
/// The time for which a client may delay an upload that occupies one of a limited number of slots, apart from a second for each
/// [`MIN_BYTES_PER_SECOND`] sent. Clients that expect a 100 wait for a second at most.
const GRACE: Duration = Duration::from_millis(1500);
const MIN_BYTES_PER_SECOND: u32 = 8 * 1024;

/// The request's body on its way to the origin.
pub(super) struct RequestRelay<'a> {
    pub(super) body: &'a mut DownstreamReader,
    pub(super) writer: &'a mut UpstreamWriter,
    pub(super) progress: &'a RelayProgress,
    pub(super) slot: Option<&'a PacingSlot<'a>>,
    /// The timeout of each upstream write.
    pub(super) timeout: Duration,
}

impl RequestRelay<'_> {
    /// Relays the client's body, then watches whether the client is still connected. Returns only when something broke.
    pub(super) async fn run(mut self) -> RelayError {
        if !self.progress.is_upload_complete.load(Ordering::Relaxed) {
            let sent = match self.slot {
                Some(slot) => release_slot_after(slot, pin!(self.send_body())).await,
                None => self.send_body().await,
            };
            if let Err(broken) = sent {
                return broken;
            }
            self.progress.is_upload_complete.store(true, Ordering::Relaxed);
        }
        // A client that only ended its side still reads the response.
        self.body.wait_until_broken().await;
        ClientGone::Left.into()
    }

    async fn send_body(&mut self) -> Result<(), RelayError> {
        let (progress, timeout) = (self.progress, self.timeout);
        let broke = |error| body_broke(&error, progress);
        let failed = |fault| progress.upstream_error(fault);
        let is_limited = self.slot.is_some_and(PacingSlot::has_concurrency_slot);
        // A client that holds one of a limited number of slots must not hold it by sending slowly.
        let mut rate = is_limited.then(UploadRate::default);
        while let Some(chunk) = next(self.body, rate.as_mut()).await.map_err(broke)? {
            self.writer.send_chunk(chunk, timeout).await.map_err(failed)?;
            progress.count_sent_chunk();
        }
        let trailers = self.body.trailers().await.map_err(broke)?;
        let finishing = self.writer.finish(&trailers, timeout);
        finishing.await.map_err(failed)
    }
}

/// Awaits an upload, and releases its slot if it takes long, so that no client can block others by sending slowly.
async fn release_slot_after<T>(
    slot: &PacingSlot<'_>,
    mut uploading: Pin<&mut impl Future<Output = T>>,
) -> T {
    match timeout(SLOT_DURATION, &mut uploading).await {
        Ok(uploaded) => uploaded,
        Err(_) => {
            slot.release_queue();
            uploading.await
        }
    }
}

async fn next(
    body: &mut DownstreamReader,
    rate: Option<&mut UploadRate>,
) -> Result<Option<Bytes>, BodyError> {
    match rate {
        Some(rate) => rate.next_chunk(body).await,
        None => body.next_chunk().await,
    }
}

/// The rate at which a client sends, without the time that the origin takes.
#[derive(Default)]
struct UploadRate {
    bytes: u64,
    waited: Duration,
}

impl UploadRate {
    /// Returns the next chunk, or an error if the client is too slow.
    async fn next_chunk(
        &mut self,
        body: &mut DownstreamReader,
    ) -> Result<Option<Bytes>, BodyError> {
        let (started, left) = (Instant::now(), self.remaining());
        let chunk = timeout(left, body.next_chunk()).await.map_err(|_| BodyError::Timeout)??;
        // Only the time spent waiting for the client counts; the origin may be slow to accept.
        self.waited += started.elapsed();
        self.bytes += chunk.as_ref().map_or(0, |chunk| chunk.len() as u64);
        Ok(chunk)
    }

    /// Returns the time that the next chunk may take.
    fn remaining(&self) -> Duration {
        let seconds = self.bytes / u64::from(MIN_BYTES_PER_SECOND);
        let allowed = GRACE + Duration::from_secs(seconds);
        allowed.saturating_sub(self.waited)
    }
}

fn body_broke(error: &BodyError, progress: &RelayProgress) -> RelayError {
    let answered = progress.is_answered.load(Ordering::Relaxed);
    match error {
        BodyError::Malformed(details) => RelayError::Body { details, answered },
        BodyError::Incomplete => {
            RelayError::Body { details: "the request body is cut short", answered }
        }
        BodyError::Timeout => RelayError::BodyTimeout { answered },
        BodyError::Io(_) => ClientGone::Left.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_may_keep_us_waiting_for_as_long_as_its_bytes_last() {
        let left = |bytes, waited| {
            let waited = Duration::from_millis(waited);
            UploadRate { bytes, waited }.remaining().as_millis()
        };
        assert_eq!(left(0, 0), 1500);
        assert_eq!(left(1, 1400), 100);
        assert_eq!(left(1, 1600), 0);
        let second = u64::from(MIN_BYTES_PER_SECOND);
        assert_eq!(left(10 * second, 1600), 9900);
    }
}
