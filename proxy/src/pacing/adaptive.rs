//! The pace that a server can take, found as TCP finds a path's: additive increase, and multiplicative decrease when
//! the server refuses a request, resets a connection or takes longer to answer (`politeness.adaptive`).
//!
//! The pace begins slowly and doubles with each round of answers, until nothing limits it or the first sign of a limit
//! comes, which sets it to a part of what was sent. From there it rises: quickly to nine tenths of the pace at which the
//! sign came, then slowly, and ever more slowly if it comes at the same pace again, and quickly beyond. What the server
//! announces (RateLimit) is spread over the time that it is for.
//!
//! Time is given as the time since any fixed start.

use std::time::Duration;

/// The reasons to slow down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SlowDownCause {
    /// 429.
    TooManyRequests,
    /// 503.
    Unavailable,
    /// The connection broke before an answer.
    Reset,
    /// Answers take longer than they did.
    ResponseTime,
    /// The origin announced how many requests are left.
    RateLimit,
}

impl SlowDownCause {
    /// All causes.
    pub const ALL: [Self; 5] = [
        Self::TooManyRequests,
        Self::Unavailable,
        Self::Reset,
        Self::ResponseTime,
        Self::RateLimit,
    ];

    /// Returns the label in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooManyRequests => "429",
            Self::Unavailable => "503",
            Self::Reset => "reset",
            Self::ResponseTime => "response_time",
            Self::RateLimit => "ratelimit",
        }
    }
}

/// The slowest pace, in requests per second: one in five minutes, as the default of `politeness.max_delay`.
const MIN_RATE: f64 = 1.0 / 300.0;
/// The pace above which a server counts as unlimited.
const MAX_RATE: f64 = 10_000.0;
/// The pace of the first requests.
const FIRST_RATE: f64 = 10.0;
/// The share of the ceiling up to which the pace rises quickly.
const NEAR_CEILING: f64 = 0.9;
/// The weight of one answer in the share of refusals.
const WEIGHT: f64 = 1.0 / 16.0;
/// The weight of a round in the usual response time, if it was faster, and if it was slower: pages change, so it follows, but
/// not as fast as a queue grows.
const WEIGHT_OF_FASTER: f64 = 0.3;
const WEIGHT_OF_SLOWER: f64 = 0.02;
/// The number of requests over which a pace is measured.
const MEASURED_REQUESTS: u32 = 8;
/// The answers that a round needs, before the pace rises again.
const ANSWERS_PER_ROUND: u32 = 5;
/// The shortest round.
const MIN_ROUND: Duration = Duration::from_secs(1);
/// The rise of the response time that is a sign, beside its usual deviation.
const RISE: f64 = 1.25;
/// The number of slow-downs in a row without effect on the response time, after which it counts as the server's usual one.
const FUTILE_SLOW_DOWNS: u32 = 4;
/// The time after a slow-down, with a pace that limits nothing, after which there is no limit.
const FORGET_AFTER: Duration = Duration::from_mins(10);

/// The pace of requests to one server.
#[derive(Clone, Debug)]
pub struct AdaptivePace {
    /// The most requests per second; `None` if there is no limit.
    rate: Option<f64>,
    /// The pace at which a sign came last; `None` before the first.
    ceiling: Option<f64>,
    /// The number of signs in a row at about the same pace.
    signs_at_ceiling: u32,
    /// The number of rounds above the ceiling.
    rounds_above: i32,
    last_cause: Option<SlowDownCause>,
    /// Requests sent before then say nothing about the pace since.
    slowed_at: Option<Duration>,
    /// The time of the next request.
    next_at: Duration,
    /// The end of the last rest.
    rested_at: Duration,
    round: Round,
    sent: MeasuredRate,
    answered: MeasuredRate,
    /// The share of requests that were refused, of late.
    refused: f64,
    response_time: ResponseTime,
    announced: Option<AnnouncedPace>,
}

/// The time for which a pace is kept before it changes.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    started_at: Duration,
    answers: u32,
    /// The answers whose time to the first byte is known, and the sum of these times in seconds.
    timed: u32,
    seconds: f64,
}

impl Round {
    fn starting_at(started_at: Duration) -> Self {
        Self { started_at, ..Self::default() }
    }
}

/// A pace that the server announced.
#[derive(Clone, Copy, Debug)]
struct AnnouncedPace {
    rate: f64,
    until: Duration,
}

impl Default for AdaptivePace {
    fn default() -> Self {
        Self {
            rate: Some(FIRST_RATE),
            ceiling: None,
            signs_at_ceiling: 0,
            rounds_above: 0,
            last_cause: None,
            slowed_at: None,
            next_at: Duration::ZERO,
            rested_at: Duration::ZERO,
            round: Round::default(),
            sent: MeasuredRate::default(),
            answered: MeasuredRate::default(),
            refused: 0.0,
            response_time: ResponseTime::default(),
            announced: None,
        }
    }
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
        match (self.rate, announced.map(|announced| announced.rate)) {
            (Some(own), Some(announced)) => Some(own.min(announced)),
            (own, announced) => own.or(announced),
        }
    }

    /// Returns the cause of the last slow-down.
    #[must_use]
    pub fn last_cause(&self) -> Option<SlowDownCause> {
        self.last_cause
    }

    /// Returns the usual and the present time to the first byte, once they are known.
    #[must_use]
    pub fn response_times(&self) -> Option<(Duration, Duration)> {
        let ResponseTime { usual, present, .. } = self.response_time;
        let seconds = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        (usual > 0.0).then(|| (seconds(usual), seconds(present)))
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
        self.sent.record(now);
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
        self.answered.record(now);
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
        let is_over = self.round.answers >= ANSWERS_PER_ROUND
            && now.saturating_sub(self.round.started_at) >= least;
        if !is_over {
            return None;
        }
        let ended = std::mem::replace(&mut self.round, Round::starting_at(now));
        let is_slow = self.response_time.end_round(ended);
        if is_slow && let Some(factor) = self.response_time_factor(now) {
            self.slow_down(now, factor, SlowDownCause::ResponseTime);
            return Some(SlowDownCause::ResponseTime);
        }
        self.speed_up(now);
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

    /// Delays the next request until a rest has ended, and by this share of the interval, so that nodes of a fleet do not
    /// go on together.
    pub fn note_rest(&mut self, now: Duration, until: Duration, share: f64) {
        // A rest is no slower pace.
        let rest = until.saturating_sub(now.max(self.rested_at));
        self.rested_at = self.rested_at.max(until);
        for measured in [&mut self.sent, &mut self.answered] {
            measured.since += rest;
        }
        if let Some(rate) = self.rate(now) {
            self.next_at = self.next_at.max(until + interval(rate).mul_f64(share.clamp(0.0, 1.0)));
        }
    }

    /// Records how many requests the server accepts within `reset` from now. Returns the cause if that slows the pace down.
    pub fn note_remaining(
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
        let rate = remaining.max(1) as f64 / reset.as_secs_f64().max(0.001);
        self.announced = Some(AnnouncedPace { rate, until });
        let wanted = before.unwrap_or(f64::INFINITY).min(self.sent.rate(now).max(MIN_RATE));
        let is_slower = remaining == 0 || rate < 0.9 * wanted;
        if is_slower {
            self.last_cause = Some(SlowDownCause::RateLimit);
        }
        is_slower.then_some(SlowDownCause::RateLimit)
    }

    fn is_from_before(&self, sent_at: Duration) -> bool {
        self.slowed_at.is_some_and(|slowed_at| sent_at < slowed_at)
    }

    /// Returns the pace that requests really have.
    fn used_rate(&self, now: Duration) -> f64 {
        let sent = self.sent.rate(now);
        match self.rate {
            Some(rate) if sent > rate / 2.0 => rate,
            _ => sent,
        }
        .max(MIN_RATE)
    }

    fn slow_down(&mut self, now: Duration, factor: f64, cause: SlowDownCause) {
        // What it answers while more arrives is what it can take.
        let answered = self.answered.rate(now).max(MIN_RATE);
        let used = match cause {
            SlowDownCause::ResponseTime => answered,
            // Few answers are no measure.
            _ => self.used_rate(now).min(answered.max(self.used_rate(now) / 2.0)),
        };
        let is_as_before = self.ceiling.is_some_and(|before| (used / before - 1.0).abs() < 0.15);
        self.signs_at_ceiling = if is_as_before { (self.signs_at_ceiling + 1).min(5) } else { 0 };
        self.ceiling = Some(used);
        self.rounds_above = 0;
        let rate = (used * factor).max(MIN_RATE);
        self.rate = Some(rate);
        self.last_cause = Some(cause);
        self.slowed_at = Some(now);
        self.round = Round::starting_at(now);
        self.next_at = self.next_at.max(now + interval(rate));
    }

    /// Raises the pace after a round without a sign.
    fn speed_up(&mut self, now: Duration) {
        let Some(rate) = self.rate else {
            return;
        };
        // A pace that limits nothing has not been tried.
        if self.sent.rate(now) < 0.7 * rate {
            let slowed_at = self.slowed_at.unwrap_or_default();
            if now.saturating_sub(slowed_at) > FORGET_AFTER {
                self.rate = None;
            }
            return;
        }
        let Some(ceiling) = self.ceiling else {
            self.rate = Some(2.0 * rate).filter(|rate| *rate < MAX_RATE);
            return;
        };
        let step = if rate < NEAR_CEILING * ceiling {
            0.05 * ceiling
        } else if rate < ceiling {
            0.01 * ceiling / f64::from(1_u32 << self.signs_at_ceiling)
        } else {
            self.rounds_above += 1;
            (0.01 * ceiling * 1.5_f64.powi(self.rounds_above)).min(rate / 4.0)
        };
        let raised = rate + step;
        if raised > 1.2 * ceiling {
            self.signs_at_ceiling = 0;
        }
        self.rate = (raised < MAX_RATE).then_some(raised);
    }

    /// Returns the factor by which to slow down because answers take longer than they did, if several are under way.
    fn response_time_factor(&mut self, now: Duration) -> Option<f64> {
        let times = &mut self.response_time;
        // With one request at a time, it is not the pace.
        if self.rate.unwrap_or_else(|| self.sent.rate(now)) * times.present <= 1.0 {
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
        Some((1.1 * times.usual / times.present).clamp(0.5, 0.9))
    }
}

fn interval(rate: f64) -> Duration {
    Duration::try_from_secs_f64(1.0 / rate).unwrap_or(Duration::MAX)
}

/// The pace of requests, or of answers, of late.
#[derive(Clone, Copy, Debug, Default)]
struct MeasuredRate {
    since: Duration,
    count: u32,
    last_at: Duration,
    /// The pace before `since`.
    before: f64,
}

impl MeasuredRate {
    fn record(&mut self, now: Duration) {
        let span = now.saturating_sub(self.since);
        let is_over = self.count >= MEASURED_REQUESTS && span >= MIN_ROUND;
        if is_over || self.count == 0 {
            self.before = self.present(now);
            (self.since, self.count) = (now, 0);
        }
        self.count += 1;
        self.last_at = now;
    }

    fn present(&self, now: Duration) -> f64 {
        f64::from(self.count) / now.saturating_sub(self.since).max(MIN_ROUND).as_secs_f64()
    }

    /// Returns the requests per second.
    fn rate(&self, now: Duration) -> f64 {
        let is_measured = now.saturating_sub(self.since) >= MIN_ROUND;
        let present = self.present(now);
        // While few were sent, the last full measurement counts.
        if is_measured && self.count >= MEASURED_REQUESTS {
            present
        } else {
            present.max(self.before)
        }
    }
}

/// The time to the first byte, in seconds.
#[derive(Clone, Copy, Debug, Default)]
struct ResponseTime {
    /// The average of the last round.
    present: f64,
    /// The average of many rounds, mostly of the faster ones.
    usual: f64,
    /// The average deviation of an answer from it.
    deviation: f64,
    /// The average at the last slow-down by it.
    before_slow_down: f64,
    /// The number of slow-downs in a row that did not change it.
    futile: u32,
}

impl ResponseTime {
    fn record(&mut self, seconds: f64) {
        if self.usual > 0.0 {
            let deviation = (seconds - self.present).abs();
            self.deviation += (deviation - self.deviation) * WEIGHT;
        }
    }

    /// Returns whether answers of a round took longer than usual.
    fn end_round(&mut self, round: Round) -> bool {
        if round.timed == 0 {
            return false;
        }
        let count = f64::from(round.timed);
        self.present = round.seconds / count;
        if self.usual == 0.0 {
            self.usual = self.present;
            return false;
        }
        // As sure as three standard errors; two milliseconds are noise.
        let noise = 4.0 * self.deviation / count.sqrt() + 0.002;
        if self.present > RISE * self.usual + noise {
            return true;
        }
        let is_faster = self.present < self.usual;
        let weight = if is_faster { WEIGHT_OF_FASTER } else { WEIGHT_OF_SLOWER };
        self.usual += (self.present - self.usual) * weight;
        self.futile = 0;
        false
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// A time, or the cause to slow down that is known after it.
    type Answer = (Duration, Option<SlowDownCause>);

    /// Sends requests as fast as the pace permits, a hundred at a time, each answered as `answer` says. Returns the numbers of
    /// requests and of refusals.
    fn crawl(
        pace: &mut AdaptivePace,
        now: &mut Duration,
        span: Duration,
        mut answer: impl FnMut(Duration) -> Answer,
    ) -> (u32, u32) {
        let (end, mut sent, mut refused) = (*now + span, 0, 0);
        let mut pending = BTreeMap::new();
        while *now < end {
            let next_at = pace.next_at().max(*now);
            let is_due = |at: Duration| at <= next_at || pending.len() >= 100;
            if let Some((&(at, _), _)) = pending.first_key_value()
                && is_due(at)
            {
                let Some((_, (sent_at, cause))) = pending.pop_first() else { break };
                *now = at.max(*now);
                match cause {
                    None => drop(pace.record_answer(*now, sent_at, Some(*now - sent_at))),
                    Some(cause) => {
                        refused += 1;
                        pace.record_refusal(*now, sent_at, cause);
                    }
                }
                continue;
            }
            *now = next_at;
            pace.record_sent(*now);
            sent += 1;
            let (took, cause) = answer(*now);
            pending.insert((*now + took, sent), (*now, cause));
        }
        (sent, refused)
    }

    fn after(seconds: f64) -> impl FnMut(Duration) -> Answer {
        move |_| (Duration::from_secs_f64(seconds), None)
    }

    /// Returns a server that refuses what comes faster than `rate`.
    fn limited(rate: f64) -> impl FnMut(Duration) -> Answer {
        let (mut tokens, mut at) = (5.0, Duration::ZERO);
        move |now| {
            tokens = f64::min(tokens + now.saturating_sub(at).as_secs_f64() * rate, 5.0);
            at = now;
            if tokens < 1.0 {
                return (seconds(0.01), Some(SlowDownCause::TooManyRequests));
            }
            tokens -= 1.0;
            (seconds(0.01), None)
        }
    }

    #[test]
    fn a_limit_is_found_and_nearly_used() {
        for rate in [0.5, 2.0, 30.0, 300.0] {
            let (mut pace, mut now) = (AdaptivePace::default(), Duration::ZERO);
            let mut server = limited(rate);
            let warm_up = seconds(60.0 + 60.0 / rate);
            crawl(&mut pace, &mut now, warm_up, &mut server);
            let span = seconds(600.0 + 600.0 / rate);
            let (sent, refused) = crawl(&mut pace, &mut now, span, &mut server);
            let used = f64::from(sent - refused) / span.as_secs_f64() / rate;
            assert!((0.9..=1.01).contains(&used), "{used} of {rate}");
            assert!(f64::from(refused) < 0.02 * f64::from(sent), "{refused} of {sent}");
        }
    }

    #[test]
    fn a_server_without_a_limit_is_not_slowed_down() {
        let (mut pace, mut now) = (AdaptivePace::default(), Duration::ZERO);
        crawl(&mut pace, &mut now, seconds(20.0), after(0.01));
        assert_eq!((pace.rate(now), pace.last_cause()), (None, None));
    }

    #[test]
    fn one_burst_of_refusals_counts_once() {
        let (mut pace, mut now) = (AdaptivePace::default(), Duration::ZERO);
        crawl(&mut pace, &mut now, seconds(20.0), after(0.01));
        let sent_at = now;
        now += seconds(0.01);
        let cause = SlowDownCause::TooManyRequests;
        assert_eq!(pace.record_refusal(now, sent_at, cause), Some(cause));
        let rate = pace.rate(now);
        for _ in 0..100 {
            assert_eq!(pace.record_refusal(now, sent_at, cause), None);
        }
        assert_eq!(pace.rate(now), rate);
        assert_eq!(pace.record_refusal(now + seconds(1.0), now + seconds(0.5), cause), Some(cause));
        assert!(pace.rate(now) < rate);
    }

    #[test]
    fn a_rising_response_time_slows_down_until_it_falls() {
        let (mut pace, mut now) = (AdaptivePace::default(), Duration::ZERO);
        crawl(&mut pace, &mut now, seconds(10.0), after(0.1));
        // Beyond 100 requests per second a queue grows.
        let (mut free_at, mut slow) = (Duration::ZERO, 0);
        let mut server = |now: Duration| {
            let begun_at = free_at.max(now);
            free_at = begun_at + seconds(0.01);
            let took = begun_at - now + seconds(0.1);
            slow += u32::from(took > seconds(0.15));
            (took, None)
        };
        crawl(&mut pace, &mut now, seconds(120.0), &mut server);
        let (sent, _) = crawl(&mut pace, &mut now, seconds(300.0), &mut server);
        assert!((27_000..=30_100).contains(&sent), "{sent}");
        assert!(slow < 3000, "{slow}, the first queue included");
        assert_eq!(pace.last_cause(), Some(SlowDownCause::ResponseTime));
    }

    #[test]
    fn slower_pages_become_usual() {
        let (mut pace, mut now) = (AdaptivePace::default(), Duration::ZERO);
        crawl(&mut pace, &mut now, seconds(10.0), after(0.01));
        let (sent, _) = crawl(&mut pace, &mut now, seconds(600.0), after(0.5));
        assert!(sent > 600 * 10, "{sent}: the pace does not matter to it");
    }

    #[test]
    fn what_is_announced_is_spread_over_its_time() {
        let (mut pace, mut now) = (AdaptivePace::default(), Duration::ZERO);
        crawl(&mut pace, &mut now, seconds(20.0), after(0.01));
        assert_eq!(pace.note_remaining(now, 30, seconds(60.0)), Some(SlowDownCause::RateLimit));
        let (sent, _) = crawl(&mut pace, &mut now, seconds(59.0), after(0.01));
        assert!((29..=31).contains(&sent), "{sent}");
        assert_eq!(pace.note_remaining(now, 0, seconds(9.0)), Some(SlowDownCause::RateLimit));
        assert!(pace.next_at() >= now + seconds(9.0));
        now += seconds(10.0);
        assert_eq!(pace.rate(now), None, "it was for that time only");
    }

    #[test]
    fn of_an_announced_pace_and_its_own_the_slower_counts() {
        let (mut pace, mut now) = (AdaptivePace::default(), Duration::ZERO);
        crawl(&mut pace, &mut now, seconds(60.0), limited(20.0));
        let own = pace.rate(now);
        assert_eq!(pace.note_remaining(now, 1000, seconds(1.0)), None);
        assert_eq!(pace.rate(now), own);
        assert_eq!(pace.note_remaining(now, 30, seconds(60.0)), Some(SlowDownCause::RateLimit));
        assert_eq!(pace.rate(now), Some(0.5));
    }

    #[test]
    fn a_pace_that_limits_nothing_is_not_raised_and_then_forgotten() {
        let (mut pace, mut now) = (AdaptivePace::default(), Duration::ZERO);
        crawl(&mut pace, &mut now, seconds(60.0), limited(20.0));
        let found = pace.rate(now);
        for second in 0..700 {
            now += seconds(1.0);
            pace.record_sent(now);
            pace.record_answer(now + seconds(0.01), now, Some(seconds(0.01)));
            if second == 500 {
                assert_eq!(pace.rate(now), found);
            }
        }
        assert_eq!(pace.rate(now), None);
    }

    #[test]
    fn a_rest_is_no_slower_pace() {
        let (mut pace, mut now) = (AdaptivePace::default(), Duration::ZERO);
        crawl(&mut pace, &mut now, seconds(60.0), limited(20.0));
        let before = pace.rate(now).unwrap();
        pace.note_rest(now, now + seconds(100.0), 0.0);
        assert!(pace.next_at() >= now + seconds(100.0));
        now += seconds(101.0);
        pace.record_refusal(now, now, SlowDownCause::Unavailable);
        assert!(pace.rate(now).unwrap() > 0.25 * before, "{:?} {before}", pace.rate(now));
    }
}
