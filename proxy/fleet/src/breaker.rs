//! The circuit breaker: it stops calls to an engine that does not answer.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

use super::engine::EngineFailure;

/// The number of timeouts in a row that open the breaker. Calls that waited at the same time count as one: whenever the engine,
/// the network or this process stands still for longer than the timeout, all of them time out together.
const MAX_MISSES: u32 = 3;

/// The breaker. While it is open, only beats reach the engine.
#[derive(Debug, Default)]
pub(super) struct EngineBreaker {
    misses: AtomicU32,
    /// The time of the last timeout that was counted.
    missed_at: Mutex<Option<Instant>>,
    is_open: AtomicBool,
    last_failure: Mutex<Option<LastFailure>>,
}

/// The last failure of a call.
#[derive(Clone, Debug)]
pub(super) struct LastFailure {
    /// The time of the failure; while the breaker is open, of the one that opened it.
    pub(super) since: Instant,
    pub(super) failure: EngineFailure,
}

impl EngineBreaker {
    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Resets the count of timeouts. It does not close the breaker: a late answer does not mean that the engine is back.
    pub(super) fn record_success(&self) {
        // Read first: a write by every call would move the cache line between processors.
        if self.misses.load(Ordering::Relaxed) > 0 {
            self.misses.store(0, Ordering::Relaxed);
        }
    }

    /// Counts the failure of a call that was made at `called_at`. Returns whether it opened the breaker.
    pub(super) fn record_failure(&self, failure: &EngineFailure, called_at: Instant) -> bool {
        // Held until the end, so that of several failing calls only one reports the opening.
        let mut last = self.last_failure.lock().unwrap_or_else(PoisonError::into_inner);
        let misses = match failure {
            EngineFailure::Timeout => self.count_miss(called_at),
            EngineFailure::Connection(_) | EngineFailure::Denied(_) => MAX_MISSES,
            // The engine is reachable and still keeps the pace.
            EngineFailure::Full | EngineFailure::Corrupt(_) => 0,
        };
        let was_open = self.is_open();
        let since = match (&*last, was_open) {
            (Some(failure), true) => failure.since,
            _ => Instant::now(),
        };
        *last = Some(LastFailure { since, failure: failure.clone() });
        if misses >= MAX_MISSES && !was_open {
            self.is_open.store(true, Ordering::Release);
            return true;
        }
        false
    }

    /// Counts the timeout of a call, and returns how many there were in a row.
    fn count_miss(&self, called_at: Instant) -> u32 {
        let mut missed_at = self.missed_at.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.misses.load(Ordering::Relaxed);
        if known > 0 && missed_at.is_some_and(|missed_at| called_at < missed_at) {
            return known;
        }
        *missed_at = Some(Instant::now());
        self.misses.store(known + 1, Ordering::Relaxed);
        known + 1
    }

    /// Closes the breaker.
    pub(super) fn close(&self) {
        self.misses.store(0, Ordering::Relaxed);
        self.is_open.store(false, Ordering::Release);
    }

    /// Returns the last failure, even if calls succeed again.
    pub(super) fn last_failure(&self) -> Option<LastFailure> {
        self.last_failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A call that is made now fails.
    fn fail(breaker: &EngineBreaker, failure: &EngineFailure) -> bool {
        breaker.record_failure(failure, Instant::now())
    }

    #[test]
    fn it_opens_after_three_misses_in_a_row_or_a_closed_connection() {
        let breaker = EngineBreaker::default();
        for _ in 0..2 {
            assert!(!fail(&breaker, &EngineFailure::Timeout));
        }
        breaker.record_success();
        for _ in 0..2 {
            assert!(!fail(&breaker, &EngineFailure::Timeout));
        }
        assert!(!breaker.is_open());
        assert!(fail(&breaker, &EngineFailure::Timeout));
        assert!(breaker.is_open() && !fail(&breaker, &EngineFailure::Timeout));
        // A late answer does not mean that the engine is back.
        breaker.record_success();
        assert!(breaker.is_open());
        breaker.close();
        assert!(!breaker.is_open());
        for _ in 0..9 {
            assert!(!fail(&breaker, &EngineFailure::Full));
        }
        assert!(fail(&breaker, &EngineFailure::Connection("closed".to_owned())));
    }

    #[test]
    fn misses_are_counted_from_zero_once_the_engine_is_back() {
        let breaker = EngineBreaker::default();
        for _ in 0..2 {
            for is_last in [false, false, true] {
                assert_eq!(fail(&breaker, &EngineFailure::Timeout), is_last);
            }
            breaker.close();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_wait_at_the_same_time_count_as_one() {
        const TIMEOUT: Duration = Duration::from_millis(25);
        const CALLS: Duration = Duration::from_millis(1);
        let breaker = EngineBreaker::default();
        let started = Instant::now();
        tokio::time::advance(TIMEOUT).await;
        while !breaker.record_failure(&EngineFailure::Timeout, Instant::now() - TIMEOUT) {
            assert!(!breaker.is_open());
            tokio::time::advance(CALLS).await;
        }
        assert_eq!(started.elapsed(), 3 * TIMEOUT);
    }
}
