//! One node's pace: the signs that slow it down, and those that speed it up again.

use std::time::Duration;

use super::cause::SlowDownCause;
use super::fleet_part::{FleetPart, PaceChange};
use super::found::FoundPace;
use super::measured::{MeasuredRate, ResponseTime};
use super::round::{FORGET_AFTER, MIN_RATE, MIN_ROUND, Round, WEIGHT, interval};

/// The pace above which a server counts as unlimited.
const MAX_RATE: f64 = 10_000.0;
/// The share of the ceiling up to which the pace rises quickly.
const NEAR_CEILING: f64 = 0.9;
/// The answers that a round needs, before the pace rises again.
const ANSWERS_PER_ROUND: f64 = 5.0;
/// The number of slow-downs in a row without effect on the response time, after which it counts as the server's usual one.
const FUTILE_SLOW_DOWNS: u32 = 4;

/// The pace of requests to one server.
#[derive(Clone, Debug, Default)]
pub struct AdaptivePace {
    pub(super) found: FoundPace,
    /// The part in a fleet; alone, this has no effect.
    pub(super) shared: FleetPart,
    /// Requests sent before then say nothing about the pace since.
    pub(super) slowed_at: Option<Duration>,
    /// The time of the next request.
    pub(super) next_at: Duration,
    /// The end of the last rest.
    rested_at: Duration,
    pub(super) round: Round,
    pub(super) sent: MeasuredRate,
    answered: MeasuredRate,
    /// The share of requests that were refused, of late.
    refused: f64,
    response_time: ResponseTime,
    announced: Option<AnnouncedPace>,
}

/// A pace that the server announced.
#[derive(Clone, Copy, Debug)]
struct AnnouncedPace {
    rate: f64,
    until: Duration,
}

impl AdaptivePace {
    /// Returns the time from which the next request may be sent.
    #[must_use]
    pub fn next_at(&self) -> Duration {
        self.next_at
    }

    /// Returns the most requests per second; `None` if there is no limit.
    #[must_use]
    pub fn rate(&self, now: Duration) -> Option<f64> {
        let announced = self.announced.filter(|announced| announced.until > now);
        match (self.found.rate, announced.map(|announced| announced.rate)) {
            (Some(own), Some(announced)) => Some(own.min(announced)),
            (own, announced) => own.or(announced),
        }
    }

    /// Returns the cause of the last slow-down.
    #[must_use]
    pub(crate) fn last_cause(&self) -> Option<SlowDownCause> {
        self.found.last_cause
    }

    /// Returns the usual and the present time to the first byte, once they are known.
    #[must_use]
    pub fn response_times(&self) -> Option<(Duration, Duration)> {
        let ResponseTime { usual, present, .. } = self.response_time;
        let seconds = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        (usual > 0.0).then(|| (seconds(usual), seconds(present)))
    }

    /// Returns the pace of one of the parties whose requests this measures. Nothing limits it yet.
    #[must_use]
    pub(crate) fn for_party(&self) -> Self {
        let found = FoundPace { rate: None, ceiling: None, ..FoundPace::default() };
        let shared = FleetPart::default();
        Self {
            found,
            shared,
            slowed_at: None,
            next_at: Duration::ZERO,
            announced: None,
            ..self.clone()
        }
    }

    /// Returns whether forgetting this would change nothing.
    #[must_use]
    pub fn is_idle(&self, now: Duration) -> bool {
        let is_limited = self.rate(now).is_some() || self.next_at > now;
        let unused_for = now.saturating_sub(self.sent.last_at);
        unused_for > if is_limited { FORGET_AFTER } else { MIN_ROUND * 60 }
    }

    /// Records that a request is sent now.
    pub fn record_sent(&mut self, now: Duration) {
        self.sent.record(now, 1.0);
        if let Some(rate) = self.rate(now) {
            let spacing = interval(rate);
            // A timer that fires late does not slow the pace, as long as no burst comes of it.
            let late = spacing.min(Duration::from_millis(10));
            self.next_at = self.next_at.max(now.saturating_sub(late)) + spacing;
        }
    }

    /// Records an answer to a request that was sent at `sent_at`, after the time to its first byte. Returns a cause if the pace
    /// is slowed down.
    pub fn record_answer(
        &mut self,
        now: Duration,
        sent_at: Duration,
        time_to_first_byte: Option<Duration>,
    ) -> Option<SlowDownCause> {
        self.refused *= 1.0 - WEIGHT;
        self.answered.record(now, self.shared.requests_per_own());
        if self.is_from_before(sent_at) {
            return None;
        }
        self.round.answers += 1;
        if let Some(time) = time_to_first_byte {
            self.round.timed += 1;
            self.round.seconds += time.as_secs_f64();
            self.response_time.record(time.as_secs_f64());
        }
        let least = MIN_ROUND.max(2 * time_to_first_byte.unwrap_or_default());
        let answers = f64::from(self.round.answers) * self.shared.requests_per_own();
        let is_over =
            answers >= ANSWERS_PER_ROUND && now.saturating_sub(self.round.started_at) >= least;
        if !is_over {
            return None;
        }
        let ended = std::mem::replace(&mut self.round, Round::starting_at(now));
        let is_slow = self.response_time.end_round(ended);
        if is_slow && let Some(factor) = self.response_time_factor(now) {
            self.slow_down(now, factor, SlowDownCause::ResponseTime);
            return Some(SlowDownCause::ResponseTime);
        }
        let before = self.found;
        self.speed_up(now);
        if self.found != before && self.shared.change == PaceChange::None {
            self.shared.change = PaceChange::Faster;
        }
        None
    }

    /// Records that a request that was sent at `sent_at` was refused or broke. Returns the cause if the pace is slowed down.
    pub fn record_refusal(
        &mut self,
        now: Duration,
        sent_at: Duration,
        cause: SlowDownCause,
    ) -> Option<SlowDownCause> {
        self.refused += (1.0 - self.refused) * WEIGHT;
        // One sign counts once, however many requests were under way.
        if self.is_from_before(sent_at) {
            return None;
        }
        self.slow_down(now, (0.9 * (1.0 - self.refused)).clamp(0.3, 0.9), cause);
        Some(cause)
    }

    /// Delays the next request until a rest has ended.
    pub fn note_rest(&mut self, now: Duration, until: Duration) {
        // A rest is no slower pace.
        let rest = until.saturating_sub(now.max(self.rested_at));
        self.rested_at = self.rested_at.max(until);
        for measured in [&mut self.sent, &mut self.answered] {
            measured.since += rest;
        }
        self.next_at = self.next_at.max(until);
    }

    /// Records how many requests the server accepts within `reset` from now. Returns the cause if that slows the pace down. However
    /// far the reset is, one request in five minutes is sent.
    pub(crate) fn note_remaining(
        &mut self,
        now: Duration,
        remaining: u64,
        reset: Duration,
    ) -> Option<SlowDownCause> {
        let until = now + reset;
        if remaining == 0 {
            self.next_at = self.next_at.max(until);
        }
        let before = self.rate(now);
        // Converting loses precision above 2^53 requests only.
        #[expect(clippy::cast_precision_loss)]
        let rate = (remaining.max(1) as f64 / reset.as_secs_f64().max(0.001)).max(MIN_RATE);
        self.announced = Some(AnnouncedPace { rate, until });
        let wanted = before.unwrap_or(f64::INFINITY).min(self.sent.rate(now).max(MIN_RATE));
        let is_slower = remaining == 0 || rate < 0.9 * wanted;
        if is_slower {
            self.found.last_cause = Some(SlowDownCause::RateLimit);
        }
        is_slower.then_some(SlowDownCause::RateLimit)
    }

    fn is_from_before(&self, sent_at: Duration) -> bool {
        self.slowed_at.is_some_and(|slowed_at| sent_at < slowed_at)
    }

    /// Returns the pace that requests really have.
    fn used_rate(&self, now: Duration) -> f64 {
        let sent = self.sent.rate(now);
        match self.found.rate {
            Some(rate) if sent > rate / 2.0 => rate,
            _ => sent,
        }
        .max(MIN_RATE)
    }

    fn slow_down(&mut self, now: Duration, factor: f64, cause: SlowDownCause) {
        // The rate that it answers while more arrives is the rate that it can take.
        let answered = self.answered.rate(now).max(MIN_RATE);
        let used = match cause {
            SlowDownCause::ResponseTime => answered,
            // Few answers are no measure.
            _ => self.used_rate(now).min(answered.max(self.used_rate(now) / 2.0)),
        };
        let is_as_before =
            self.found.ceiling.is_some_and(|before| (used / before - 1.0).abs() < 0.15);
        let signs = if is_as_before { (self.found.signs_at_ceiling + 1).min(5) } else { 0 };
        self.found.signs_at_ceiling = signs;
        self.found.ceiling = match self.found.ceiling {
            Some(before) if is_as_before => Some(before + (used - before) / f64::from(signs + 1)),
            _ => Some(used),
        };
        self.found.rounds_above = 0;
        let rate = (used * factor).max(MIN_RATE);
        self.found.rate = Some(rate);
        self.found.last_cause = Some(cause);
        self.shared.change = PaceChange::Slower;
        self.slowed_at = Some(now);
        self.round = Round::starting_at(now);
        self.next_at = self.next_at.max(now + interval(rate));
    }

    /// Raises the pace after a round without a sign.
    fn speed_up(&mut self, now: Duration) {
        let Some(rate) = self.found.rate else {
            return;
        };
        // A pace that limits nothing has not been tried.
        if self.sent.rate(now) < 0.7 * rate {
            let slowed_at = self.slowed_at.unwrap_or_default();
            if now.saturating_sub(slowed_at) > FORGET_AFTER {
                self.found.rate = None;
            }
            return;
        }
        let Some(ceiling) = self.found.ceiling else {
            self.found.rate = Some(2.0 * rate).filter(|rate| *rate < MAX_RATE);
            return;
        };
        let step = if rate < NEAR_CEILING * ceiling {
            0.05 * ceiling
        } else if rate < ceiling {
            0.005 * ceiling / f64::from(1_u32 << self.found.signs_at_ceiling)
        } else {
            self.found.rounds_above += 1;
            (0.01 * ceiling * 1.5_f64.powi(self.found.rounds_above)).min(rate / 4.0)
        };
        let raised = rate + step;
        if raised > 1.2 * ceiling {
            self.found.signs_at_ceiling = 0;
        }
        self.found.rate = (raised < MAX_RATE).then_some(raised);
    }

    /// Returns the factor by which to slow down because answers take longer than they did, if several are under way.
    fn response_time_factor(&mut self, now: Duration) -> Option<f64> {
        let times = &mut self.response_time;
        // With one request at a time, it is not the pace.
        if self.found.rate.unwrap_or_else(|| self.sent.rate(now)) * times.present <= 1.0 {
            return None;
        }
        let is_futile = times.before_slow_down > 0.0
            && (times.present / times.before_slow_down - 1.0).abs() < 0.1;
        times.futile = if is_futile { times.futile + 1 } else { 0 };
        if times.futile >= FUTILE_SLOW_DOWNS {
            // Other pages, or other clients: slowing down does not help.
            times.usual = times.present;
            times.futile = 0;
            return None;
        }
        times.before_slow_down = times.present;
        Some((times.tolerated() / times.present).sqrt().clamp(0.5, 0.9))
    }
}
