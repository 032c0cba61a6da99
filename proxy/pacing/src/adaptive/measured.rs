//! The measurements that a pace is found by: how many requests are sent and answered, and how long answers take.

use std::time::Duration;

use super::round::{MIN_ROUND, Round, WEIGHT};

/// The weight of a round in the usual response time, if it was faster, and if it was slower: pages change, so it follows, but
/// not as fast as a queue grows.
const WEIGHT_OF_FASTER: f64 = 0.3;
const WEIGHT_OF_SLOWER: f64 = 0.02;
/// The number of requests over which a pace is measured.
const MEASURED_REQUESTS: f64 = 8.0;
/// The rise of the response time that is a sign, beside its usual deviation.
const RISE: f64 = 1.25;
/// The usual deviations by which the response time may rise beyond that: where answers differ anyway, a longer queue does not show.
/// With two, simulated servers whose times vary exponentially would be used to 88 % instead of 82 %, but the queue before a single
/// worker would remain: it makes answers differ, and so hides itself.
const TOLERATED_DEVIATIONS: f64 = 0.5;

/// The pace of requests, or of answers, of late.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MeasuredRate {
    pub(super) since: Duration,
    count: f64,
    pub(super) last_at: Duration,
    /// The pace before `since`.
    before: f64,
}

impl MeasuredRate {
    /// Records that many were sent, or answered, since the last time.
    pub(super) fn record(&mut self, now: Duration, count: f64) {
        let span = now.saturating_sub(self.since);
        let is_over = self.count >= MEASURED_REQUESTS && span >= MIN_ROUND;
        if is_over || self.count == 0.0 {
            self.before = self.present(now);
            (self.since, self.count) = (now, 0.0);
        }
        self.count += count;
        self.last_at = now;
    }

    fn present(&self, now: Duration) -> f64 {
        self.count / now.saturating_sub(self.since).max(MIN_ROUND).as_secs_f64()
    }

    /// Returns the requests per second.
    pub(super) fn rate(&self, now: Duration) -> f64 {
        let is_measured = now.saturating_sub(self.since) >= MIN_ROUND;
        let present = self.present(now);
        // While few requests were sent, the last full measurement applies.
        if is_measured && self.count >= MEASURED_REQUESTS {
            present
        } else {
            present.max(self.before)
        }
    }
}

/// The time to the first byte, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ResponseTime {
    /// The average of the last round.
    pub(super) present: f64,
    /// The average of many rounds, mostly of the faster ones.
    pub(super) usual: f64,
    /// The average deviation of an answer from the last round's average: of late, and usually.
    deviation: f64,
    usual_deviation: f64,
    /// The average at the last slow-down by it.
    pub(super) before_slow_down: f64,
    /// The number of slow-downs in a row that did not change it.
    pub(super) futile: u32,
}

impl ResponseTime {
    pub(super) fn record(&mut self, seconds: f64) {
        if self.usual > 0.0 {
            let deviation = (seconds - self.present).abs();
            self.deviation += (deviation - self.deviation) * WEIGHT;
        }
    }

    /// Returns whether answers of a round took longer than usual.
    pub(super) fn end_round(&mut self, round: Round) -> bool {
        if round.timed == 0 {
            return false;
        }
        let count = f64::from(round.timed);
        self.present = round.seconds / count;
        if self.usual == 0.0 {
            self.usual = self.present;
            return false;
        }
        if self.usual_deviation == 0.0 {
            self.usual_deviation = self.deviation;
        }
        // As sure as three standard errors; two milliseconds are noise.
        let noise = 4.0 * self.deviation / count.sqrt() + 0.002;
        if self.present > self.tolerated() + noise {
            return true;
        }
        let is_faster = self.present < self.usual;
        let weight = if is_faster { WEIGHT_OF_FASTER } else { WEIGHT_OF_SLOWER };
        self.usual += (self.present - self.usual) * weight;
        self.usual_deviation += (self.deviation - self.usual_deviation) * weight;
        self.futile = 0;
        false
    }

    /// Returns the time up to which answers are not slower than usual.
    pub(super) fn tolerated(&self) -> f64 {
        RISE * self.usual + TOLERATED_DEVIATIONS * self.usual_deviation
    }
}
