//! The circuit breaker: it stops calls to an engine that does not answer.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

use super::engine::EngineFailure;

/// The number of timeouts in a row that open the breaker. Only the requests that made these calls wait in vain.
const MAX_MISSES: u32 = 3;

/// The breaker. While it is open, only beats reach the engine.
#[derive(Debug, Default)]
pub(super) struct EngineBreaker {
    misses: AtomicU32,
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

    /// Counts a failure. Returns whether it opened the breaker.
    pub(super) fn record_failure(&self, failure: &EngineFailure) -> bool {
        let misses = match failure {
            EngineFailure::Timeout => self.misses.fetch_add(1, Ordering::Relaxed) + 1,
            EngineFailure::Connection(_) | EngineFailure::Denied(_) => MAX_MISSES,
            // The engine is reachable and still keeps the pace.
            EngineFailure::Full | EngineFailure::Corrupt(_) => 0,
        };
        // Held until the end, so that of several failing calls only one reports the opening.
        let mut last = self.last_failure.lock().unwrap_or_else(PoisonError::into_inner);
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
    use super::*;

    #[test]
    fn it_opens_after_three_misses_in_a_row_or_a_closed_connection() {
        let breaker = EngineBreaker::default();
        for _ in 0..2 {
            assert!(!breaker.record_failure(&EngineFailure::Timeout));
        }
        breaker.record_success();
        for _ in 0..2 {
            assert!(!breaker.record_failure(&EngineFailure::Timeout));
        }
        assert!(!breaker.is_open());
        assert!(breaker.record_failure(&EngineFailure::Timeout));
        assert!(breaker.is_open() && !breaker.record_failure(&EngineFailure::Timeout));
        // A late answer does not mean that the engine is back.
        breaker.record_success();
        assert!(breaker.is_open());
        breaker.close();
        assert!(!breaker.is_open());
        for _ in 0..9 {
            assert!(!breaker.record_failure(&EngineFailure::Full));
        }
        assert!(breaker.record_failure(&EngineFailure::Connection("closed".to_owned())));
    }

    #[test]
    fn misses_are_counted_from_zero_once_the_engine_is_back() {
        let breaker = EngineBreaker::default();
        for _ in 0..2 {
            for is_last in [false, false, true] {
                assert_eq!(breaker.record_failure(&EngineFailure::Timeout), is_last);
            }
            breaker.close();
        }
    }
}
