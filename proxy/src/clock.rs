//! Clock: the only reader of time.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// Tells the time. Reads the calendar once and counts on from there by tokio's clock, so that tests can pause and
/// advance it, and so that nobody who sets the machine's clock moves the lifetimes of a running proxy.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started_at: SystemTime,
    started: Instant,
}

impl Clock {
    /// A clock that goes by the machine's.
    pub fn start() -> Self {
        Self::start_at(SystemTime::now())
    }

    /// A clock that shows `now` now.
    pub fn start_at(now: SystemTime) -> Self {
        Self {
            started_at: now,
            started: Instant::now(),
        }
    }

    /// What time it is.
    pub fn now(&self) -> SystemTime {
        self.started_at + self.started.elapsed()
    }

    /// How long it is until `at`; nothing if that is past.
    pub fn until(&self, at: SystemTime) -> Duration {
        at.duration_since(self.now()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_month_passes_in_no_time() {
        let first = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let clock = Clock::start_at(first);
        let month = Duration::from_secs(30 * 24 * 60 * 60);
        assert_eq!(clock.until(first + month), month);
        tokio::time::advance(month).await;
        assert_eq!(clock.now(), first + month);
        assert_eq!(clock.until(first), Duration::ZERO);
    }
}
