//! The least rate of clients that occupy one of a limited number of slots.

use std::pin::Pin;
use std::time::{Duration, Instant};

use wayleave_clock::timeout;

/// The time for which a client may delay a body, apart from a second for each [`MIN_BYTES_PER_SECOND`]. Clients that expect a 100
/// wait for a second at most.
const GRACE: Duration = Duration::from_millis(1500);
const MIN_BYTES_PER_SECOND: u32 = 8 * 1024;
/// The longest pause, however fast the client was before: buffers take megabytes at once.
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// The interval at which a client that is too slow is looked at again, as long as it keeps nobody waiting.
const INTERVAL: Duration = Duration::from_secs(1);

/// The rate at which a client sends or reads a body, without the time that the origin takes.
#[derive(Default)]
pub(super) struct ClientRate {
    bytes: u64,
    waited: Duration,
}

/// The error for a client that is slower than the least rate.
pub(super) struct TooSlow;

impl ClientRate {
    /// Adds bytes of the body.
    pub(super) fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// Awaits a step that is the client's turn, for as long as it may take, and longer if `is_harmless`.
    pub(super) async fn measure<T>(
        &mut self,
        mut step: Pin<&mut impl Future<Output = T>>,
        is_harmless: impl Fn() -> bool,
    ) -> Result<T, TooSlow> {
        let started = Instant::now();
        let mut limit = self.remaining();
        loop {
            match timeout(limit, step.as_mut()).await {
                Ok(done) => {
                    // Only the time spent waiting for the client counts; the origin may be slow to accept or to send.
                    self.waited += started.elapsed();
                    return Ok(done);
                }
                Err(_) if is_harmless() => limit = INTERVAL,
                Err(_) => return Err(TooSlow),
            }
        }
    }

    /// Returns the time that the next step may take.
    fn remaining(&self) -> Duration {
        let seconds = self.bytes / u64::from(MIN_BYTES_PER_SECOND);
        let allowed = GRACE + Duration::from_secs(seconds);
        allowed.saturating_sub(self.waited).min(MAX_PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_may_keep_us_waiting_for_as_long_as_its_bytes_last() {
        let left = |bytes, waited| {
            let waited = Duration::from_millis(waited);
            ClientRate { bytes, waited }.remaining().as_millis()
        };
        assert_eq!(left(0, 0), 1500);
        assert_eq!(left(1, 1400), 100);
        assert_eq!(left(1, 1600), 0);
        let second = u64::from(MIN_BYTES_PER_SECOND);
        assert_eq!(left(10 * second, 1600), 5000);
        assert_eq!(left(10 * second, 8000), 3500);
    }
}
