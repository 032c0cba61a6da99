//! The slots that a node holds, and how long it can rely on them.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use wayleave_clock::system_time;

use super::engine::SlotRequest;

/// The time for which a node relies on a slot, counted from the moment just before the engine is asked. The engine's lease is
/// longer: the difference covers the call and clocks that run at different speeds.
const CONFIRMED_FOR: Duration = Duration::from_secs(12);

/// The most slots that a node renews at a time, and the most releases that it tries again at a time. The engine serves one call
/// after another: a node that asked about thousands of slots at once would have no answer to the last within `store.timeout`, and
/// consider the engine lost. It can serve this many calls from each of eight nodes within 10 ms.
pub(super) const MAX_CONCURRENT_CALLS: usize = 32;

/// A reading of both clocks. The monotonic one stops while the machine is suspended, and the calendar can be set back, so the
/// longer of the two elapsed times counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockReading {
    monotonic: Instant,
    calendar: SystemTime,
}

impl ClockReading {
    pub(super) fn now() -> Self {
        Self { monotonic: Instant::now(), calendar: system_time() }
    }

    /// Returns whether an answer to a call that was made at this time can still be relied on.
    pub(super) fn is_recent(self) -> bool {
        self.was_recent_at(Self::now())
    }

    /// Returns the same as `is_recent`, but at `now`, a later reading.
    pub(super) fn was_recent_at(self, now: Self) -> bool {
        let by_monotonic = now.monotonic.saturating_duration_since(self.monotonic);
        let by_calendar = now.calendar.duration_since(self.calendar).unwrap_or_default();
        by_monotonic.max(by_calendar) < CONFIRMED_FOR
    }
}

/// A slot that was granted and not released yet.
#[derive(Debug)]
pub(super) struct HeldSlot {
    pub(super) request: SlotRequest,
    /// The time before the last call in which the engine confirmed the slot without a gap.
    pub(super) confirmed_at: ClockReading,
}

impl HeldSlot {
    pub(super) fn new(request: &SlotRequest, confirmed_at: ClockReading) -> Self {
        Self { request: SlotRequest { is_held: true, ..request.clone() }, confirmed_at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_is_not_trusted_longer_after_suspend_or_clock_change() {
        let requested_at = ClockReading::now();
        let is_recent_after = |counted: u64, shown: i64| {
            let change = Duration::from_secs(shown.unsigned_abs());
            requested_at.was_recent_at(ClockReading {
                monotonic: requested_at.monotonic + Duration::from_secs(counted),
                calendar: match shown {
                    0.. => requested_at.calendar + change,
                    _ => requested_at.calendar - change,
                },
            })
        };
        assert!(is_recent_after(0, 0) && is_recent_after(11, 11));
        assert!(!is_recent_after(12, 12));
        assert!(!is_recent_after(1, 20), "suspended");
        assert!(!is_recent_after(20, -3600), "the calendar was set back");
        assert!(is_recent_after(11, -3600));
    }
}
