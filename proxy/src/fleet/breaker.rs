//! The circuit breaker: it stops calls to an engine that does not answer.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

use super::engine::Failure;

/// The number of timeouts in a row that open the breaker. Only the requests that made these calls wait in vain.
const MISSES: u32 = 3;

/// The breaker. While it is open, only beats reach the engine.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    misses: AtomicU32,
    is_open: AtomicBool,
    last: Mutex<Option<Trouble>>,
}

/// The last failure of a call.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    /// The time of the failure; while the breaker is open, of the one that opened it.
    pub(super) since: Instant,
    pub(super) failure: Failure,
}

impl Breaker {
    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Resets the count of timeouts. It does not close the breaker: a late answer does not mean that the engine is back.
    pub(super) fn answered(&self) {
        if self.misses.load(Ordering::Relaxed) > 0 {
            self.misses.store(0, Ordering::Relaxed);
        }
    }

    /// Counts a failure. Returns whether it opened the breaker.
    pub(super) fn failed(&self, failure: &Failure) -> bool {
        let misses = match failure {
            Failure::Timeout => self.misses.fetch_add(1, Ordering::Relaxed) + 1,
            Failure::Connection(_) | Failure::Denied(_) => MISSES,
            // The engine is reachable and still keeps the pace.
            Failure::Full | Failure::Corrupt(_) => 0,
        };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let was_open = self.is_open();
        let since = match (&*last, was_open) {
            (Some(trouble), true) => trouble.since,
            _ => Instant::now(),
        };
        let failure = failure.clone();
        *last = Some(Trouble { since, failure });
        if misses >= MISSES && !was_open {
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
    pub(super) fn trouble(&self) -> Option<Trouble> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_after_three_misses_in_a_row_or_a_closed_connection() {
        let breaker = Breaker::default();
        for _ in 0..2 {
            assert!(!breaker.failed(&Failure::Timeout));
        }
        breaker.answered();
        for _ in 0..2 {
            assert!(!breaker.failed(&Failure::Timeout));
        }
        assert!(!breaker.is_open());
        assert!(breaker.failed(&Failure::Timeout));
        assert!(breaker.is_open() && !breaker.failed(&Failure::Timeout));
        // A late answer is not the engine's return.
        breaker.answered();
        assert!(breaker.is_open());
        breaker.close();
        assert!(!breaker.is_open());
        for _ in 0..9 {
            assert!(!breaker.failed(&Failure::Full));
        }
        assert!(breaker.failed(&Failure::Connection("closed".to_owned())));
    }

    #[test]
    fn misses_are_counted_anew_once_the_engine_is_back() {
        let breaker = Breaker::default();
        for _ in 0..2 {
            for is_last in [false, false, true] {
                assert_eq!(breaker.failed(&Failure::Timeout), is_last);
            }
            breaker.close();
        }
    }
}
