//! The clock, from which all other code reads the time.
//!
//! Nothing else reads the system time, so tests can pause it. This crate knows nothing of the uses of time. Begin
//! reading at [`Clock`].

mod time_argument;
mod timeout;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use wayleave_evidence::clock_steps::{ClockStep, ClockSteps, GRACE, MAX_CORRECTION};

pub use self::time_argument::TimeArgument;
pub use self::timeout::timeout;

/// The difference from the system time that is not corrected. Smaller corrections do not change lifetimes, and a machine
/// that synchronizes its clock makes larger ones only when it starts or wakes up.
pub const MAX_DRIFT: Duration = MAX_CORRECTION;

/// A clock that reads the system time once and counts on from there with tokio's clock, so that tests can pause and
/// advance it, and so that small corrections of the system time do not change lifetimes.
///
/// If the two differ by more than a minute, the system time is right: it was corrected, or the machine was suspended, which
/// tokio's clock does not count. The clock then continues from the system time, so that expired exceptions end and new
/// certificates are valid. Copies share their state, which exists until the process ends.
#[derive(Clone, Copy)]
pub struct Clock(&'static ClockState);

struct ClockState {
    started_at: SystemTime,
    started: Instant,
    /// The corrections since the start, in nanoseconds.
    correction: AtomicI64,
    /// The source of the system time; without it the clock is never corrected.
    calendar: Option<Box<dyn Fn() -> SystemTime + Send + Sync>>,
    steps: Mutex<ClockSteps>,
    /// Whether the judgement of the process before was continued.
    has_continued: AtomicBool,
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}

/// Returns the system time, to compare with other machines' clocks and with files: dates in messages, ages of files.
/// Lifetimes are measured with a [`Clock`].
// The one place that may read it.
#[expect(clippy::disallowed_methods)]
pub fn system_time() -> SystemTime {
    SystemTime::now()
}

impl Clock {
    /// Starts a clock that follows the system time.
    pub fn start() -> Self {
        Self::with_calendar(system_time)
    }

    /// Starts a clock that follows `calendar` instead of the system time.
    pub fn with_calendar(calendar: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self::new(calendar(), Some(Box::new(calendar)))
    }

    /// Starts a clock at `now`, which is never corrected.
    pub fn start_at(now: SystemTime) -> Self {
        Self::new(now, None)
    }

    fn new(now: SystemTime, calendar: Option<Box<dyn Fn() -> SystemTime + Send + Sync>>) -> Self {
        let mut steps = ClockSteps::default();
        // The reading that the first request for it is compared with.
        steps.observe(now, GRACE);
        Self(Box::leak(Box::new(ClockState {
            started_at: now,
            started: Instant::now(),
            correction: AtomicI64::new(0),
            calendar,
            steps: Mutex::new(steps),
            has_continued: AtomicBool::new(false),
        })))
    }

    /// Returns the current time.
    pub fn now(&self) -> SystemTime {
        let correction = self.0.correction.load(Ordering::Relaxed);
        let counted = shifted(self.0.started_at + self.0.started.elapsed(), correction);
        let Some(calendar) = &self.0.calendar else {
            return counted;
        };
        let system_time = calendar();
        let offset = offset_nanos(counted, system_time);
        if offset.unsigned_abs() <= MAX_DRIFT.as_nanos() as u64 {
            return counted;
        }
        let corrected = correction.saturating_add(offset);
        // Of several callers that notice the jump at once, one corrects and logs it; all return the same time.
        let order = Ordering::Relaxed;
        let exchanged = self.0.correction.compare_exchange(correction, corrected, order, order);
        if exchanged.is_ok() {
            let by = Duration::from_nanos(offset.unsigned_abs());
            let is_back = offset < 0;
            tracing::warn!(
                ?by,
                is_back,
                "the machine's clock was set, or the machine slept: adopting the new time"
            );
        }
        system_time
    }

    /// Returns the system time now, to be written down.
    pub fn shown(&self) -> SystemTime {
        let counted = || self.0.started_at + self.0.started.elapsed();
        self.0.calendar.as_ref().map_or_else(counted, |calendar| calendar())
    }

    /// Returns the time to go by for changes that cannot be undone: a step of the clock does not count until the clock has
    /// kept its new value for [`GRACE`]. Never later than the system time.
    pub fn settled(&self) -> SystemTime {
        let (shown, running) = self.reading();
        self.steps().observe(shown, running)
    }

    /// Returns the steps of the clock that do not count yet.
    pub fn unsettled_steps(&self) -> Vec<ClockStep> {
        let (shown, running) = self.reading();
        let mut steps = self.steps();
        steps.observe(shown, running);
        steps.steps(shown, running)
    }

    /// Continues the judgement of the process before, which knew these steps when its clock showed `last_at`. Only the first call
    /// has an effect.
    pub fn continue_from(&self, steps: &[ClockStep], last_at: SystemTime) {
        if !self.0.has_continued.swap(true, Ordering::Relaxed) {
            let (shown, running) = self.reading();
            self.steps().continue_from(steps, last_at, shown, running);
        }
    }

    /// Returns the system time, and the time that has passed. That begins at the grace, so that an instant before the start has
    /// times, too.
    fn reading(&self) -> (SystemTime, Duration) {
        (self.shown(), GRACE + self.0.started.elapsed())
    }

    fn steps(&self) -> MutexGuard<'_, ClockSteps> {
        self.0.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time left until `at`, or zero if that has passed.
    pub fn until(&self, at: SystemTime) -> Duration {
        at.duration_since(self.now()).unwrap_or_default()
    }
}

/// Returns how much later `to` is than `from`, at most three centuries: more than a clock is ever off by.
fn offset_nanos(from: SystemTime, to: SystemTime) -> i64 {
    let whole = |span: Duration| i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
    match to.duration_since(from) {
        Ok(later) => whole(later),
        Err(earlier) => -whole(earlier.duration()),
    }
}

fn shifted(at: SystemTime, nanoseconds: i64) -> SystemTime {
    let by = Duration::from_nanos(nanoseconds.unsigned_abs());
    let moved = if nanoseconds >= 0 { at.checked_add(by) } else { at.checked_sub(by) };
    // A calendar beyond the range of `SystemTime` is no reason to panic.
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
    async fn a_paused_clock_can_be_advanced_by_a_month() {
        let clock = Clock::start_at(first());
        let month = 30 * DAY;
        assert_eq!(clock.until(first() + month), month);
        tokio::time::advance(month).await;
        assert_eq!(clock.now(), first() + month);
        assert_eq!(clock.until(first()), Duration::ZERO);
    }

    /// Returns a clock, and the system time that it follows, for the test to set.
    fn scripted() -> (Arc<Mutex<SystemTime>>, Clock) {
        let calendar = Arc::new(Mutex::new(first()));
        let shown = Arc::clone(&calendar);
        (calendar, Clock::with_calendar(move || *shown.lock().unwrap()))
    }

    #[tokio::test(start_paused = true)]
    async fn all_copies_follow_a_corrected_system_time() {
        let (calendar, clock) = scripted();
        let copy = clock;
        for set_to in [first() + 40 * DAY, first() - 3 * DAY, first() + 20_000 * DAY] {
            *calendar.lock().unwrap() = set_to;
            assert_eq!(clock.now(), set_to);
            tokio::time::advance(Duration::from_secs(10)).await;
            assert_eq!(copy.now(), set_to + Duration::from_secs(10), "it continues from there");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn time_in_suspension_is_caught_up_with() {
        let (calendar, clock) = scripted();
        tokio::time::advance(Duration::from_secs(1)).await;
        *calendar.lock().unwrap() = first() + 7 * DAY + Duration::from_secs(1);
        assert_eq!(clock.now(), first() + 7 * DAY + Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn corrections_of_up_to_a_minute_are_ignored() {
        let (calendar, clock) = scripted();
        for seconds in [-60_i64, -1, 1, 60] {
            let off = Duration::from_secs(seconds.unsigned_abs());
            let shown = if seconds < 0 { first() - off } else { first() + off };
            *calendar.lock().unwrap() = shown;
            assert_eq!(clock.now(), first(), "{seconds}");
        }
        *calendar.lock().unwrap() = first() + Duration::from_secs(61);
        assert_eq!(clock.now(), first() + Duration::from_secs(61));
    }
}
