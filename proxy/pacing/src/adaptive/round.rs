//! Rounds: the times for which a pace is kept before it changes, and the bounds of paces.

use std::time::Duration;

/// The slowest pace, in requests per second: one in five minutes, as the default of `politeness.max_delay`.
pub(super) const MIN_RATE: f64 = 1.0 / 300.0;
/// The pace of the first requests.
pub(super) const FIRST_RATE: f64 = 10.0;
/// The weight of one answer in the share of refusals.
pub(super) const WEIGHT: f64 = 1.0 / 16.0;
/// The shortest round.
pub(super) const MIN_ROUND: Duration = Duration::from_secs(1);
/// The time after a slow-down, with a pace that limits nothing, after which there is no limit.
pub(super) const FORGET_AFTER: Duration = Duration::from_mins(10);

/// The time for which a pace is kept before it changes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    pub(super) started_at: Duration,
    pub(super) answers: u32,
    /// The answers whose time to the first byte is known, and the sum of these times in seconds.
    pub(super) timed: u32,
    pub(super) seconds: f64,
}

impl Round {
    pub(super) fn starting_at(started_at: Duration) -> Self {
        Self { started_at, ..Self::default() }
    }
}

/// Returns the time between two requests at a pace.
pub(super) fn interval(rate: f64) -> Duration {
    Duration::try_from_secs_f64(1.0 / rate).unwrap_or(Duration::MAX)
}
