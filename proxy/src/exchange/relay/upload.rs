//! The client's body on its way to the origin.

use std::pin::{Pin, pin};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pingora_timeout::timeout;

use super::progress::{Progress, RelayError};
use crate::http::client::ClientBody;
use crate::http::http1::BodyError;
use crate::origin::OriginWriter;
use crate::politeness::Turn;

/// How long a request's turn lasts that is still being sent: then the next one's delay begins. The origin has had its head for
/// so long.
const TURN_LASTS: Duration = Duration::from_secs(1);
/// Of a request that is one of so many at a time, the client sends its body without keeping us waiting for longer than this
/// and a second for so many bytes. Clients that expect a 100 wait for a second at most.
const GRACE: Duration = Duration::from_millis(1500);
const LEAST_BYTES_PER_SECOND: u32 = 8 * 1024;

/// The request's body on its way.
pub(super) struct Upload<'a> {
    pub(super) body: &'a mut ClientBody,
    pub(super) writer: &'a mut OriginWriter,
    pub(super) progress: &'a Progress,
    pub(super) turn: Option<&'a Turn<'a>>,
    /// With the origin.
    pub(super) patience: Duration,
}

impl Upload<'_> {
    /// Passes the client's body on, and then watches whether the client stays. Ends only with what broke.
    pub(super) async fn run(mut self) -> RelayError {
        if !self.progress.is_sent.load(Ordering::Relaxed) {
            let turn = self.turn;
            let passed = match turn {
                Some(turn) => giving_way(turn, pin!(self.pass())).await,
                None => self.pass().await,
            };
            if let Err(broken) = passed {
                return broken;
            }
            self.progress.is_sent.store(true, Ordering::Relaxed);
        }
        self.body.gone().await;
        RelayError::ClientGone
    }

    async fn pass(&mut self) -> Result<(), RelayError> {
        let (progress, patience) = (self.progress, self.patience);
        let broke = |error| body_broke(&error, progress);
        let failed = |fault| progress.answered(fault);
        let is_limited = self.turn.is_some_and(Turn::is_limited);
        let mut rate = is_limited.then(Rate::default);
        while let Some(part) = next(self.body, rate.as_mut()).await.map_err(broke)? {
            self.writer.part(part, patience).await.map_err(failed)?;
            progress.sent_parts.fetch_add(1, Ordering::Relaxed);
        }
        let trailers = self.body.trailers().await.map_err(broke)?;
        let finishing = self.writer.finish(&trailers, patience);
        finishing.await.map_err(failed)
    }
}

/// What an upload comes to, which keeps nobody waiting for a turn for as long as its client pleases.
async fn giving_way<T>(turn: &Turn<'_>, mut uploading: Pin<&mut impl Future<Output = T>>) -> T {
    match timeout(TURN_LASTS, &mut uploading).await {
        Ok(uploaded) => uploaded,
        Err(_) => {
            turn.begins_next();
            uploading.await
        }
    }
}

async fn next(body: &mut ClientBody, rate: Option<&mut Rate>) -> Result<Option<Bytes>, BodyError> {
    match rate {
        Some(rate) => rate.keep(body).await,
        None => body.next().await,
    }
}

/// How fast a client sends: the time that the origin takes is not its own.
#[derive(Default)]
struct Rate {
    bytes: u64,
    waited: Duration,
}

impl Rate {
    /// The next part of a body that comes fast enough.
    async fn keep(&mut self, body: &mut ClientBody) -> Result<Option<Bytes>, BodyError> {
        let (started, left) = (Instant::now(), self.left());
        let part = timeout(left, body.next()).await;
        let part = part.map_err(|_| BodyError::Late)??;
        self.waited += started.elapsed();
        self.bytes += part.as_ref().map_or(0, |part| part.len() as u64);
        Ok(part)
    }

    /// How long the next part may take.
    fn left(&self) -> Duration {
        let seconds = self.bytes / u64::from(LEAST_BYTES_PER_SECOND);
        let allowed = GRACE + Duration::from_secs(seconds);
        allowed.saturating_sub(self.waited)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_may_keep_us_waiting_for_as_long_as_its_bytes_last() {
        let left = |bytes, waited| {
            let waited = Duration::from_millis(waited);
            Rate { bytes, waited }.left().as_millis()
        };
        assert_eq!(left(0, 0), 1500);
        assert_eq!(left(1, 1400), 100);
        assert_eq!(left(1, 1600), 0);
        let second = u64::from(LEAST_BYTES_PER_SECOND);
        assert_eq!(left(10 * second, 1600), 9900);
    }
}
