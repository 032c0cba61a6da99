//! The clock: all other code gets the time from here.

pub(crate) mod rfc3339;

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// What the machine's clock may be off by before it is followed. Smaller corrections move nobody's lifetimes, and a machine
/// whose clock is disciplined makes none that are larger, but once: when it starts, or wakes.
const TOLERATED: Duration = Duration::from_secs(60);

/// Tells the time. Reads the calendar once and counts on from there by tokio's clock, so that tests can pause and
/// advance it, and so that small corrections of the machine's clock move no lifetimes.
///
/// When the two are more than a minute apart, the calendar is right: it was corrected, or the machine was suspended, which
/// tokio's clock does not count. From then on this clock goes by the calendar anew, so expired exceptions end and new
/// certificates are valid. Copies show the same: what they share is there until the process ends, which has one clock.
#[derive(Clone, Copy)]
pub struct Clock(&'static Shared);

struct Shared {
    started_at: SystemTime,
    started: Instant,
    /// What the calendar has moved by since, in nanoseconds.
    correction: AtomicI64,
    /// The calendar; none: nothing corrects this clock.
    calendar: Option<Box<dyn Fn() -> SystemTime + Send + Sync>>,
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}

/// What the machine's calendar shows: for what is compared with other calendars, such as dates in messages and the ages of
/// files. What is measured here goes by a [`Clock`].
// The one place that may.
#[expect(clippy::disallowed_methods)]
pub fn calendar() -> SystemTime {
    SystemTime::now()
}

impl Clock {
    /// A clock that goes by the machine's.
    pub fn start() -> Self {
        Self::by(calendar)
    }

    /// A clock that goes by `calendar`.
    pub fn by(calendar: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self::new(calendar(), Some(Box::new(calendar)))
    }

    /// A clock that shows `now` now, and is never corrected.
    pub fn start_at(now: SystemTime) -> Self {
        Self::new(now, None)
    }

    fn new(now: SystemTime, calendar: Option<Box<dyn Fn() -> SystemTime + Send + Sync>>) -> Self {
        Self(Box::leak(Box::new(Shared {
            started_at: now,
            started: Instant::now(),
            correction: AtomicI64::new(0),
            calendar,
        })))
    }

    /// What time it is.
    pub fn now(&self) -> SystemTime {
        let correction = self.0.correction.load(Ordering::Relaxed);
        let counted = moved(self.0.started_at + self.0.started.elapsed(), correction);
        let Some(calendar) = &self.0.calendar else {
            return counted;
        };
        let shown = calendar();
        let off = nanoseconds(counted, shown);
        if off.unsigned_abs() <= TOLERATED.as_nanos() as u64 {
            return counted;
        }
        let corrected = correction.saturating_add(off);
        let order = Ordering::Relaxed;
        let ours = self
            .0
            .correction
            .compare_exchange(correction, corrected, order, order);
        if ours.is_ok() {
            let (by, is_back) = (Duration::from_nanos(off.unsigned_abs()), off < 0);
            tracing::warn!(
                ?by,
                is_back,
                "the machine's clock was set, or the machine slept: adopting the new time"
            );
        }
        shown
    }

    /// How long it is until `at`; nothing if that is past.
    pub fn until(&self, at: SystemTime) -> Duration {
        at.duration_since(self.now()).unwrap_or_default()
    }
}

/// How much later `to` is than `from`. Up to three centuries, which is more than a calendar is ever off by.
fn nanoseconds(from: SystemTime, to: SystemTime) -> i64 {
    let whole = |span: Duration| i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
    match to.duration_since(from) {
        Ok(later) => whole(later),
        Err(earlier) => -whole(earlier.duration()),
    }
}

fn moved(at: SystemTime, nanoseconds: i64) -> SystemTime {
    let by = Duration::from_nanos(nanoseconds.unsigned_abs());
    let moved = match nanoseconds {
        0.. => at.checked_add(by),
        _ => at.checked_sub(by),
    };
    moved.unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn first() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
    }

    #[tokio::test(start_paused = true)]
    async fn a_month_passes_in_no_time() {
        let clock = Clock::start_at(first());
        let month = 30 * DAY;
        assert_eq!(clock.until(first() + month), month);
        tokio::time::advance(month).await;
        assert_eq!(clock.now(), first() + month);
        assert_eq!(clock.until(first()), Duration::ZERO);
    }

    /// A calendar that the test sets.
    fn scripted() -> (Arc<Mutex<SystemTime>>, Clock) {
        let calendar = Arc::new(Mutex::new(first()));
        let shown = Arc::clone(&calendar);
        (calendar, Clock::by(move || *shown.lock().unwrap()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_calendar_that_is_set_is_followed_by_all_copies_there_and_back() {
        let (calendar, clock) = scripted();
        let copy = clock;
        for set_to in [
            first() + 40 * DAY,
            first() - 3 * DAY,
            first() + 20_000 * DAY,
        ] {
            *calendar.lock().unwrap() = set_to;
            assert_eq!(clock.now(), set_to);
            tokio::time::advance(Duration::from_secs(10)).await;
            assert_eq!(
                copy.now(),
                set_to + Duration::from_secs(10),
                "it counts on from there"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_slept_for_a_week_knows_it() {
        let (calendar, clock) = scripted();
        tokio::time::advance(Duration::from_secs(1)).await;
        *calendar.lock().unwrap() = first() + 7 * DAY + Duration::from_secs(1);
        assert_eq!(clock.now(), first() + 7 * DAY + Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn small_corrections_move_nothing() {
        let (calendar, clock) = scripted();
        for seconds in [-60_i64, -1, 1, 60] {
            let off = Duration::from_secs(seconds.unsigned_abs());
            let shown = if seconds < 0 {
                first() - off
            } else {
                first() + off
            };
            *calendar.lock().unwrap() = shown;
            assert_eq!(clock.now(), first(), "{seconds}");
        }
        *calendar.lock().unwrap() = first() + Duration::from_secs(61);
        assert_eq!(clock.now(), first() + Duration::from_secs(61));
    }
}
