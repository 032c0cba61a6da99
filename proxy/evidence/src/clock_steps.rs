//! Judges whether a clock may be believed for changes that cannot be undone: somebody may have set it wrong for a moment.
//!
//! The time by the clock is compared with the time that has passed. A step of the clock is only believed once the clock has kept
//! its new value for [`GRACE`]; until then, the settled time goes on from the value before. A clock that is set back is believed
//! at once, because nothing expires earlier then.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use wayleave_notation::rfc3339;

/// The time for which a clock must keep a new value until it is believed.
pub const GRACE: Duration = Duration::from_hours(24);
/// The largest correction that is no step.
pub const MAX_CORRECTION: Duration = Duration::from_mins(1);
/// The longest time between the last line of one process and the start of the next that is no step.
pub const MAX_PAUSE: Duration = Duration::from_hours(1);
/// Steps this soon after another count as of then, which bounds their number.
const MERGED: Duration = Duration::from_mins(90);
const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// A step of the clock: until a time, it was behind its present value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockStep {
    /// The time of the step, by the present value.
    #[serde(serialize_with = "rfc3339::serialize", deserialize_with = "rfc3339::deserialize")]
    pub since: SystemTime,
    pub behind_seconds: u64,
}

impl ClockStep {
    /// Returns the settled time when the clock showed `at`, and had made these steps, the earliest first.
    #[must_use]
    pub fn settled(steps: &[Self], at: SystemTime) -> SystemTime {
        let behind = steps.first().map_or(0, |step| step.behind_seconds);
        at.checked_sub(Duration::from_secs(behind)).unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

/// A value that the clock had from some time on.
#[derive(Clone, Copy, Debug)]
struct ClockValue {
    /// The running time since which it has had this value.
    since: Duration,
    /// The difference between the clock and the running time, in nanoseconds.
    offset: i128,
}

/// The values of a clock in the last [`GRACE`], each greater than the one before it.
#[derive(Clone, Debug, Default)]
pub struct ClockSteps(VecDeque<ClockValue>);

impl ClockSteps {
    /// Notes the clock's reading after `running`, the time that has passed since some instant. Returns the settled time,
    /// which is never later.
    pub fn observe(&mut self, shown: SystemTime, running: Duration) -> SystemTime {
        let offset = nanos_since_epoch(shown) - nanos(running);
        while self.0.back().is_some_and(|value| value.offset > offset + nanos(MAX_CORRECTION)) {
            self.0.pop_back();
        }
        let is_first = self.0.len() < 2;
        match self.0.back_mut() {
            Some(value) if offset <= value.offset + nanos(MAX_CORRECTION) => {}
            Some(value) if !is_first && running < value.since + MERGED => value.offset = offset,
            _ => self.0.push_back(ClockValue { since: running, offset }),
        }
        while self.0.get(1).is_some_and(|value| value.since + GRACE <= running) {
            self.0.pop_front();
        }
        shown.checked_sub(self.behind(0)).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// Continues from the steps that were known when the clock showed `last_at`: in the last line of the process before.
    pub fn continue_from(
        &mut self,
        steps: &[ClockStep],
        last_at: SystemTime,
        shown: SystemTime,
        running: Duration,
    ) {
        let gap = match shown.duration_since(last_at) {
            Ok(pause) if pause <= MAX_PAUSE => 0,
            Ok(pause) => nanos(pause),
            Err(set_back) => -nanos(set_back.duration()),
        };
        let now = nanos_since_epoch(shown) - nanos(running);
        // Running time begins at zero, and earlier readings of the clock are older.
        let since = |at: SystemTime| {
            running.saturating_sub(shown.duration_since(at).unwrap_or_default().min(GRACE))
        };
        let mut values = VecDeque::new();
        let mut from = Duration::ZERO;
        for step in steps {
            let behind = i128::from(step.behind_seconds) * NANOS_PER_SECOND;
            values.push_back(ClockValue { since: from, offset: now - behind - gap });
            from = since(step.since);
        }
        values.push_back(ClockValue { since: from, offset: now - gap });
        self.0 = values;
        self.observe(shown, running);
    }

    /// Returns the steps of the last [`GRACE`], the earliest first.
    #[must_use]
    pub fn steps(&self, shown: SystemTime, running: Duration) -> Vec<ClockStep> {
        let since = |value: &ClockValue| {
            shown.checked_sub(running.saturating_sub(value.since)).unwrap_or(SystemTime::UNIX_EPOCH)
        };
        let step = |(at, value)| ClockStep {
            since: since(value),
            behind_seconds: self.behind(at).as_secs(),
        };
        self.0.iter().skip(1).enumerate().map(step).collect()
    }

    /// Returns by how much the value at an index is behind the present one.
    fn behind(&self, at: usize) -> Duration {
        let difference = match (self.0.get(at), self.0.back()) {
            (Some(value), Some(present)) => present.offset - value.offset,
            _ => 0,
        };
        Duration::from_nanos(u64::try_from(difference).unwrap_or(u64::MAX))
    }
}

fn nanos(span: Duration) -> i128 {
    i128::try_from(span.as_nanos()).unwrap_or(i128::MAX / 4)
}

fn nanos_since_epoch(at: SystemTime) -> i128 {
    match at.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => nanos(since),
        Err(before) => -nanos(before.duration()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);
    const DAY: Duration = Duration::from_hours(24);

    /// Running time of a process that has run for a while.
    fn after(hours: u32) -> Duration {
        10 * DAY + hours * HOUR
    }

    fn first() -> SystemTime {
        SystemTime::UNIX_EPOCH + 20_000 * DAY
    }

    #[test]
    fn a_wrong_minute_moves_nothing() {
        let mut clock = ClockSteps::default();
        assert_eq!(clock.observe(first(), after(0)), first());
        let minute = Duration::from_secs(60);
        assert_eq!(clock.observe(first() + 40 * DAY, after(0)), first());
        let settled = clock.observe(first() + 40 * DAY + minute, after(0) + minute);
        assert_eq!(settled, first() + minute);
        let back = clock.observe(first() + 2 * minute, after(0) + 2 * minute);
        assert_eq!(back, first() + 2 * minute);
        assert!(clock.steps(back, after(0) + 2 * minute).is_empty());
    }

    #[test]
    fn a_value_kept_for_the_grace_is_believed() {
        let mut clock = ClockSteps::default();
        clock.observe(first(), after(0));
        let ahead = first() + 40 * DAY;
        for hour in 0..24 {
            let settled = clock.observe(ahead + hour * HOUR, after(hour));
            assert_eq!(settled, first() + hour * HOUR, "{hour}");
        }
        assert_eq!(clock.observe(ahead + DAY, after(24)), ahead + DAY);
        let set_back = clock.observe(first() + DAY, after(24));
        assert_eq!(set_back, first() + DAY, "a clock that is set back is believed at once");
    }

    #[test]
    fn nightly_sleep_delays_by_less_than_a_day() {
        let mut clock = ClockSteps::default();
        let mut shown = first();
        for hours in 0..1000 {
            shown += HOUR;
            if hours % 16 == 0 {
                shown += 8 * HOUR;
            }
            let settled = clock.observe(shown, after(hours));
            assert!(shown.duration_since(settled).unwrap() <= 16 * HOUR, "{hours}");
        }
        assert!(clock.0.len() < 20);
    }

    #[test]
    fn many_small_steps_are_bounded_in_number() {
        let mut clock = ClockSteps::default();
        let mut shown = first();
        for minutes in 0..10_000 {
            shown += Duration::from_mins(10);
            let settled = clock.observe(shown, Duration::from_mins(minutes));
            // The time that it was ahead by in the last day and a bit.
            let behind = shown.duration_since(settled).unwrap();
            assert!(behind <= 26 * 9 * HOUR, "{minutes}: {behind:?}");
        }
        assert!(clock.0.len() < 20, "{}", clock.0.len());
    }

    /// Restarts with the clock at `shown` after a last line at `last_at`, and returns the settled time.
    fn restart(steps: &[ClockStep], last_at: SystemTime, shown: SystemTime) -> ClockSteps {
        let mut clock = ClockSteps::default();
        clock.observe(shown, GRACE);
        clock.continue_from(steps, last_at, shown, GRACE);
        clock
    }

    #[test]
    fn a_restart_neither_forgets_a_step_nor_begins_its_grace_again() {
        let mut clock = ClockSteps::default();
        clock.observe(first(), after(0));
        let ahead = first() + 40 * DAY;
        clock.observe(ahead, after(0));
        clock.observe(ahead + HOUR, after(1));
        let steps = clock.steps(ahead + HOUR, after(1));
        assert_eq!(steps, [ClockStep { since: ahead, behind_seconds: 40 * 86_400 }]);
        assert_eq!(ClockStep::settled(&steps, ahead + HOUR), first() + HOUR);
        let mut clock = restart(&steps, ahead + HOUR, ahead + HOUR + MAX_PAUSE);
        let later = |hours: u32| (ahead + hours * HOUR, GRACE + (hours - 2) * HOUR);
        let (shown, running) = later(2);
        assert_eq!(clock.observe(shown, running), first() + 2 * HOUR);
        let (shown, running) = later(24);
        assert_eq!(clock.observe(shown, running), shown);
        // The clock was right again before the restart. How long the pause was, nobody knows.
        let mut clock = restart(&steps, ahead + HOUR, first() + 2 * HOUR);
        assert_eq!(clock.observe(first() + 2 * HOUR, GRACE), first() + HOUR);
    }

    #[test]
    fn a_clock_far_beyond_the_last_line_is_doubted_at_the_start() {
        let mut clock = restart(&[], first(), first() + 40 * DAY);
        assert_eq!(clock.observe(first() + 40 * DAY, GRACE), first());
        assert_eq!(clock.observe(first() + 41 * DAY, GRACE + DAY), first() + 41 * DAY);
        let mut clock = restart(&[], first(), first() + MAX_PAUSE);
        assert_eq!(clock.observe(first() + MAX_PAUSE, GRACE), first() + MAX_PAUSE);
    }
}
