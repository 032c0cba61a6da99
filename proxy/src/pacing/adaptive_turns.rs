//! The turns of requests at servers whose pace adapts: one queue per server, for all crawlers.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};

use super::adaptive::{AdaptivePace, SlowDownCause};
use super::queue::{QueueRequest, SharedValues};
use super::too_soon::{TooSoon, TooSoonCause};
use super::turnstile::{Turnstile, lock};
use super::unit::PaceUnit;
use crate::telemetry::metrics::Metrics;

/// The time for which a request waits for its turn even where requests that come too soon are refused: most turns are
/// milliseconds apart.
const SHORT_WAIT: Duration = Duration::from_secs(1);

/// The paces of all servers.
pub(super) struct AdaptivePaces {
    queues: Mutex<SharedValues<PaceUnit, AdaptiveQueue>>,
    /// The start of the time that paces count in.
    started: Instant,
    metrics: Option<Arc<Metrics>>,
}

/// The pace of a server, and the requests that wait for their turn.
struct AdaptiveQueue {
    turnstile: Arc<Turnstile>,
    pace: Mutex<AdaptivePace>,
}

/// A pace as operators see it.
#[derive(Clone, Debug)]
pub(crate) struct PaceReport {
    pub(crate) unit: String,
    /// The most requests per second.
    pub(crate) rate: f64,
    pub(crate) cause: SlowDownCause,
    /// The usual and the present time to the first byte.
    pub(crate) response_times: Option<(Duration, Duration)>,
    /// The time until the next request may be sent.
    pub(crate) next_in: Duration,
}

impl Default for AdaptivePaces {
    fn default() -> Self {
        Self { queues: Mutex::default(), started: Instant::now(), metrics: None }
    }
}

impl AdaptiveQueue {
    fn new() -> Self {
        Self { turnstile: Turnstile::new(1), pace: Mutex::default() }
    }
}

impl AdaptivePaces {
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        for cause in SlowDownCause::ALL {
            metrics.start_slow_downs(cause.as_str());
        }
        Self { metrics: Some(metrics), ..Self::default() }
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Waits for the request's turn at `unit`. Returns `None` if there is no room for another pace: the server is then not
    /// slowed down, but rests as any other.
    pub(super) async fn wait_for_turn(
        self: &Arc<Self>,
        unit: PaceUnit,
        request: QueueRequest<'_>,
    ) -> Result<Option<AdaptiveTurn>, TooSoon> {
        let now = self.now();
        let is_idle = |queue: &AdaptiveQueue| lock(&queue.pace).is_idle(now);
        let queue = lock(&self.queues).get_or_insert(unit, AdaptiveQueue::new, is_idle);
        let Some(queue) = queue else {
            return Ok(None);
        };
        let deadline = request.deadline.max(Instant::now() + SHORT_WAIT);
        let holder = request.turn_holder_among_origins();
        let ahead = u32::try_from(queue.turnstile.ahead_of(holder)).unwrap_or(u32::MAX);
        let (next_at, interval) = {
            let pace = lock(&queue.pace);
            let rate = pace.rate(now);
            let interval = rate.and_then(|rate| Duration::try_from_secs_f64(1.0 / rate).ok());
            (self.started + pace.next_at(), interval.unwrap_or_default())
        };
        let expected_at = next_at.max(Instant::now()) + interval.saturating_mul(ahead);
        // Refused at once instead of after a wait in vain.
        if expected_at > deadline {
            return Err(slowed(expected_at));
        }
        let permit = match queue.turnstile.try_acquire(holder) {
            Some(permit) => permit,
            None => timeout_at(deadline, queue.turnstile.acquire(holder))
                .await
                .map_err(|_| slowed(Instant::now() + interval))?,
        };
        loop {
            // An answer may have changed it meanwhile.
            let next_at = self.started + lock(&queue.pace).next_at();
            if next_at > deadline {
                return Err(slowed(next_at));
            }
            if next_at <= Instant::now() {
                break;
            }
            sleep_until(next_at).await;
        }
        let sent_at = self.now();
        lock(&queue.pace).record_sent(sent_at);
        drop(permit);
        let sent_at = AtomicU64::new(nanoseconds(sent_at));
        Ok(Some(AdaptiveTurn { paces: Arc::clone(self), queue, sent_at }))
    }

    /// Records a rest of a server that another node was asked for.
    pub(super) fn note_rest(&self, unit: &PaceUnit, rest: Duration) {
        let Some(queue) = lock(&self.queues).get(unit) else {
            return;
        };
        let now = self.now();
        let mut pace = lock(&queue.pace);
        let cause = pace.record_refusal(now, now, SlowDownCause::TooManyRequests);
        pace.note_rest(now, now + rest, random_share());
        self.count(cause);
    }

    /// Returns the slowed paces, the slowest first.
    pub(super) fn report(&self) -> Vec<PaceReport> {
        let now = self.now();
        let queues = lock(&self.queues).to_vec();
        let mut reports: Vec<_> = queues
            .into_iter()
            .filter_map(|(unit, queue)| {
                let pace = lock(&queue.pace);
                Some(PaceReport {
                    unit: unit.to_string(),
                    rate: pace.rate(now)?,
                    cause: pace.last_cause()?,
                    response_times: pace.response_times(),
                    next_in: pace.next_at().saturating_sub(now),
                })
            })
            .collect();
        reports.sort_by(|one, other| one.rate.total_cmp(&other.rate));
        reports
    }

    fn count(&self, cause: Option<SlowDownCause>) {
        if let (Some(metrics), Some(cause)) = (&self.metrics, cause) {
            metrics.slow_down(cause.as_str());
        }
    }
}

impl fmt::Debug for AdaptivePaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdaptivePaces").finish_non_exhaustive()
    }
}

/// A request that had its turn, whose answer adapts the pace.
pub(super) struct AdaptiveTurn {
    paces: Arc<AdaptivePaces>,
    queue: Arc<AdaptiveQueue>,
    /// The time at which it was sent, in nanoseconds.
    sent_at: AtomicU64,
}

impl AdaptiveTurn {
    /// Records that the request was sent now, and not when it got its turn.
    pub(super) fn record_sent(&self) {
        self.sent_at.store(nanoseconds(self.paces.now()), Ordering::Relaxed);
    }

    fn sent_at(&self) -> Duration {
        Duration::from_nanos(self.sent_at.load(Ordering::Relaxed))
    }

    /// Records the status of an answer. `is_timed`: nothing but the server delayed it. `rest`: the time that the server rests
    /// after it.
    pub(super) fn record_answer(&self, status: u16, is_timed: bool, rest: Option<Duration>) {
        let (now, sent_at) = (self.paces.now(), self.sent_at());
        let mut pace = lock(&self.queue.pace);
        let cause = match status {
            429 => pace.record_refusal(now, sent_at, SlowDownCause::TooManyRequests),
            503 => pace.record_refusal(now, sent_at, SlowDownCause::Unavailable),
            // Whether the pace is the cause of other errors is unknown.
            500..=599 => None,
            _ => {
                let time = is_timed.then(|| now.saturating_sub(sent_at));
                pace.record_answer(now, sent_at, time)
            }
        };
        if let Some(rest) = rest {
            pace.note_rest(now, now + rest, random_share());
        }
        drop(pace);
        self.paces.count(cause);
    }

    /// Records that the connection broke before an answer.
    pub(super) fn record_reset(&self) {
        let (now, sent_at) = (self.paces.now(), self.sent_at());
        let cause = lock(&self.queue.pace).record_refusal(now, sent_at, SlowDownCause::Reset);
        self.paces.count(cause);
    }

    /// Records how many requests the server accepts in the time until `reset`.
    pub(super) fn note_remaining(&self, remaining: u64, reset: Duration) {
        let now = self.paces.now();
        let cause = lock(&self.queue.pace).note_remaining(now, remaining, reset);
        self.paces.count(cause);
    }
}

fn slowed(next_at: Instant) -> TooSoon {
    let retry_after = next_at.saturating_duration_since(Instant::now());
    TooSoon { cause: TooSoonCause::Slowed, retry_after: retry_after.max(SHORT_WAIT) }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns a random number from 0 to 1.
fn random_share() -> f64 {
    // The hasher's keys are random.
    let random = RandomState::new().hash_one(());
    f64::from(u32::try_from(random >> 32).unwrap_or_default()) / f64::from(u32::MAX)
}
