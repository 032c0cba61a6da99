//! The turns of requests at servers whose pace adapts: one queue per server, for all crawlers. In a fleet, the request whose
//! turn it is on this node then takes the next turn among all nodes. An answer adapts the pace of the requests that it applies to
//! (`signals`).

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};
use wayleave_fleet::Fleet;
use wayleave_fleet::pace_turn::PaceTurn;
use wayleave_telemetry::metrics::Metrics;

use super::adaptive::{AdaptivePace, SlowDownCause};
use super::party_paces::{PacedParty, PartyPace, PartyPaces};
use super::queue::{QueueRequest, SharedValues};
use super::signals::{
    AnsweredRequest, PageAndClient, Signal, SignalScope, ToldQuota, UnsecondedRefusals,
};
use super::too_soon::{TooSoon, TooSoonCause};
use super::turnstile::{Turnstile, lock};
use super::unit::PaceUnit;

/// The time for which a request waits for its turn even where requests that come too soon are refused: most turns are
/// milliseconds apart.
const SHORT_WAIT: Duration = Duration::from_secs(1);

/// The paces of all servers.
pub(super) struct AdaptivePaces {
    queues: Mutex<SharedValues<PaceUnit, AdaptiveQueue>>,
    parties: PartyPaces,
    /// The instant from which paces measure time.
    started: Instant,
    metrics: Option<Arc<Metrics>>,
}

/// The pace of a server, and the requests that wait for their turn.
struct AdaptiveQueue {
    turnstile: Arc<Turnstile>,
    pace: Mutex<AdaptivePace>,
    refusals: Mutex<UnsecondedRefusals>,
}

/// A pace as operators see it.
#[derive(Clone, Debug)]
pub struct PaceReport {
    pub unit: String,
    /// The client, or its IPv6 /64, if the pace is of its requests alone.
    pub client: Option<IpAddr>,
    /// The most requests per second.
    pub rate: f64,
    pub cause: SlowDownCause,
    /// The usual and the present time to the first byte.
    pub response_times: Option<(Duration, Duration)>,
    /// The time until the next request may be sent.
    pub next_in: Duration,
}

impl Default for AdaptivePaces {
    fn default() -> Self {
        Self {
            queues: Mutex::default(),
            parties: PartyPaces::default(),
            started: Instant::now(),
            metrics: None,
        }
    }
}

impl AdaptiveQueue {
    fn new() -> Self {
        Self { turnstile: Turnstile::new(1), pace: Mutex::default(), refusals: Mutex::default() }
    }

    /// Records that a request is sent now; or returns the question that the fleet must be asked before.
    fn turn(
        &self,
        fleet: &Fleet,
        unit: &PaceUnit,
        now: Duration,
        deadline: Instant,
    ) -> Option<PaceTurn> {
        let mut pace = lock(&self.pace);
        if !fleet.is_shared() {
            pace.record_sent(now);
            return None;
        }
        if !pace.needs_turn(now) {
            pace.record_unasked();
            return None;
        }
        let timeout = deadline.saturating_duration_since(Instant::now());
        Some(pace.turn(now, unit.to_string(), timeout))
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

    /// Waits for the request's turn at `unit`.
    pub(super) async fn wait_for_turn(
        self: &Arc<Self>,
        unit: PaceUnit,
        request: QueueRequest<'_>,
        fleet: &Fleet,
    ) -> Result<AdaptiveTurn, TooSoon> {
        let now = self.now();
        let key = unit.clone();
        let queue =
            lock(&self.queues).get_or_insert(request.holder, key, AdaptiveQueue::new, |queue| {
                lock(&queue.pace).is_idle(now)
            })?;
        let deadline = request.deadline.max(Instant::now() + SHORT_WAIT);
        let of_client = PacedParty::Client(unit.clone(), request.holder);
        let of_origin = PacedParty::Origin(request.origin.clone());
        let own_paces = self.parties.find([&of_client, &of_origin]);
        // A party's own pace comes before the queue, in which others would wait for this party.
        for pace in &own_paces {
            self.wait_for_party(pace, deadline).await.map_err(slowed)?;
        }
        let holder = request.turn_holder_among_origins();
        let ahead = u32::try_from(queue.turnstile.ahead_of(holder)).unwrap_or(u32::MAX);
        let (next_at, interval) = {
            let pace = lock(&queue.pace);
            (self.started + pace.next_at(), pace.own_interval(now))
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
        self.pass(&queue, (fleet, &unit, request.obeys_rest), deadline).await.map_err(slowed)?;
        drop(permit);
        let sent_at = AtomicU64::new(nanoseconds(self.now()));
        let fleet = fleet.is_shared().then(|| fleet.clone());
        let keeper = PaceKeeper { unit, of_client, of_origin, own_paces, fleet };
        Ok(AdaptiveTurn { paces: Arc::clone(self), queue, sent_at, keeper: Box::new(keeper) })
    }

    /// Waits until a party's own pace permits a request, and reserves its time.
    async fn wait_for_party(&self, pace: &PartyPace, deadline: Instant) -> Result<(), Instant> {
        let at = {
            let mut pace = lock(pace);
            let at = pace.next_at().max(self.now());
            if self.started + at > deadline {
                return Err(self.started + at);
            }
            pace.record_sent(at);
            at
        };
        self.sleep_until(at, deadline).await
    }

    /// Waits until the pace, which the nodes of a fleet keep together, permits a request.
    ///
    /// # Errors
    ///
    /// If that is after `deadline`; the error is the instant.
    async fn pass(
        &self,
        queue: &AdaptiveQueue,
        (fleet, unit, obeys_rest): (&Fleet, &PaceUnit, bool),
        deadline: Instant,
    ) -> Result<(), Instant> {
        let mut has_turn = false;
        loop {
            let now = self.now();
            // An answer may have changed the pace meanwhile; a turn from before is not used then.
            let next_at = lock(&queue.pace).next_at();
            if next_at > now {
                has_turn = false;
                self.sleep_until(next_at, deadline).await?;
                continue;
            }
            if has_turn {
                return Ok(());
            }
            let Some(turn) = queue.turn(fleet, unit, now, deadline) else {
                return Ok(());
            };
            let turn = PaceTurn { obeys_rest, ..turn };
            let Some(answer) = fleet.take_pace_turn(&turn).await else {
                return self.pass_without_engine(queue, fleet, deadline).await;
            };
            let now = self.now();
            lock(&queue.pace).record_turn(now, &turn, &answer);
            self.sleep_until(now + answer.wait, deadline).await?;
            has_turn = answer.is_granted;
        }
    }

    /// Waits until a request is permitted by this node's part of the pace.
    async fn pass_without_engine(
        &self,
        queue: &AdaptiveQueue,
        fleet: &Fleet,
        deadline: Instant,
    ) -> Result<(), Instant> {
        let nodes = u32::try_from(fleet.sharing_nodes()).unwrap_or(u32::MAX);
        loop {
            let now = self.now();
            let next_at = {
                let mut pace = lock(&queue.pace);
                let next_at = pace.next_at_without_engine(now, nodes);
                if next_at <= now {
                    pace.record_sent_without_engine(now, nodes);
                    return Ok(());
                }
                next_at
            };
            self.sleep_until(next_at, deadline).await?;
        }
    }

    /// Waits until a time of paces, or returns it if it is after `deadline`.
    async fn sleep_until(&self, at: Duration, deadline: Instant) -> Result<(), Instant> {
        let at = self.started + at;
        if at > deadline {
            return Err(at);
        }
        if at > Instant::now() {
            sleep_until(at).await;
        }
        Ok(())
    }

    /// Records a rest that a server asked of another node.
    pub(super) fn note_rest(&self, unit: &PaceUnit, rest: Duration) {
        let Some(queue) = lock(&self.queues).get(unit) else {
            return;
        };
        let now = self.now();
        // The pace itself comes with the next turn.
        lock(&queue.pace).note_rest(now, now + rest);
    }

    /// Returns the slowed paces, the slowest first.
    pub(super) fn report(&self) -> Vec<PaceReport> {
        let now = self.now();
        let queues = lock(&self.queues).to_vec();
        let of_units = queues
            .into_iter()
            .filter_map(|(unit, queue)| report_of(unit.to_string(), None, &lock(&queue.pace), now));
        let of_parties = self.parties.to_vec().into_iter().filter_map(|(party, pace)| {
            let (unit, client) = match party {
                PacedParty::Client(unit, client) => (unit.to_string(), client.address()),
                PacedParty::Origin(origin) => (origin.to_string(), None),
            };
            report_of(unit, client, &lock(&pace), now)
        });
        let mut reports: Vec<_> = of_units.chain(of_parties).collect();
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
    keeper: Box<PaceKeeper>,
}

/// A request by whose pace it keeps.
struct PaceKeeper {
    unit: PaceUnit,
    of_client: PacedParty,
    of_origin: PacedParty,
    /// The paces that its parties had when it got its turn.
    own_paces: Vec<PartyPace>,
    /// The fleet that finds the pace of the unit together.
    fleet: Option<Fleet>,
}

impl AdaptiveTurn {
    /// Records that the request was sent now, and not when it got its turn.
    pub(super) fn record_sent(&self) {
        self.sent_at.store(nanoseconds(self.paces.now()), Ordering::Relaxed);
    }

    fn sent_at(&self) -> Duration {
        Duration::from_nanos(self.sent_at.load(Ordering::Relaxed))
    }

    /// Records the status of an answer. `is_timed`: nothing but the server delayed it. `rest`: the time for which the whole unit
    /// rests after it.
    pub(super) fn record_answer(
        &self,
        answered: AnsweredRequest<'_>,
        status: u16,
        is_timed: bool,
        rest: Option<Duration>,
    ) {
        let now = self.paces.now();
        match Signal::of_response(status, answered.target) {
            Some(signal) => {
                let cause = match signal {
                    Signal::TooManyRequests => SlowDownCause::TooManyRequests,
                    _ => SlowDownCause::Unavailable,
                };
                self.record_refusal(answered, signal, cause);
            }
            // Whether the pace is the cause of other errors is unknown.
            None if (500..=599).contains(&status) => {}
            None => {
                let sent_at = self.sent_at();
                let time = is_timed.then(|| now.saturating_sub(sent_at));
                for pace in &self.keeper.own_paces {
                    self.paces.count(lock(pace).record_answer(now, sent_at, time));
                }
                if answered.units().contains(&self.keeper.unit) {
                    let cause = lock(&self.queue.pace).record_answer(now, sent_at, time);
                    self.note_slow_down(cause);
                }
            }
        }
        if let Some(rest) = rest {
            lock(&self.queue.pace).note_rest(now, now + rest);
        }
    }

    /// Records that the connection broke before an answer.
    pub(super) fn record_reset(&self, answered: AnsweredRequest<'_>) {
        self.record_refusal(answered, Signal::Unavailable, SlowDownCause::Reset);
    }

    /// Slows down the requests that a refusal applies to.
    fn record_refusal(&self, answered: AnsweredRequest<'_>, signal: Signal, cause: SlowDownCause) {
        let keeper = &self.keeper;
        let now = self.paces.now();
        let sent_at = self.sent_at();
        if !answered.units().contains(&keeper.unit) {
            let pace = self.pace_of(&keeper.of_origin, answered.client);
            self.paces.count(lock(&pace).record_refusal(now, sent_at, cause));
            return;
        }
        let is_seconded = signal == Signal::Unavailable && {
            let refused = PageAndClient::of(answered.target, answered.client, &keeper.unit);
            lock(&self.queue.refusals).record(refused)
        };
        match signal.scope(is_seconded) {
            SignalScope::All => {
                let cause = lock(&self.queue.pace).record_refusal(now, sent_at, cause);
                self.note_slow_down(cause);
            }
            SignalScope::Page | SignalScope::Client => {
                let pace = self.pace_of(&keeper.of_client, answered.client);
                self.paces.count(lock(&pace).record_refusal(now, sent_at, cause));
            }
        }
    }

    fn pace_of(&self, party: &PacedParty, client: IpAddr) -> PartyPace {
        self.paces.parties.begin(party, client, &self.queue.pace, self.paces.now())
    }

    /// Counts a slow-down of the unit, and informs the fleet at once: this node's next turn may be far off.
    fn note_slow_down(&self, cause: Option<SlowDownCause>) {
        self.paces.count(cause);
        let (Some(_), Some(fleet)) = (cause, &self.keeper.fleet) else {
            return;
        };
        let paces = Arc::clone(&self.paces);
        let queue = Arc::clone(&self.queue);
        let fleet = fleet.clone();
        let unit = self.keeper.unit.to_string();
        tokio::spawn(async move {
            let turn = lock(&queue.pace).turn(paces.now(), unit, Duration::ZERO);
            let turn = PaceTurn { requests: 0, ..turn };
            if let Some(answer) = fleet.take_pace_turn(&turn).await {
                lock(&queue.pace).record_turn(paces.now(), &turn, &answer);
            }
        });
    }

    /// Records the quota that an answer says is left. `rest`: the time for which the whole unit rests after it.
    pub(super) fn note_quota(
        &self,
        answered: AnsweredRequest<'_>,
        quota: &ToldQuota,
        rest: Option<Duration>,
    ) {
        let now = self.paces.now();
        let keeper = &self.keeper;
        let note = |pace: &Mutex<AdaptivePace>| {
            let cause = lock(pace).note_remaining(now, quota.remaining, quota.reset);
            self.paces.count(cause);
        };
        match quota.signal().scope(false) {
            // Another origin at the same server has a quota of its own.
            SignalScope::All if keeper.unit.is_shared() => {
                note(&self.pace_of(&keeper.of_origin, answered.client));
            }
            SignalScope::All => note(&self.queue.pace),
            SignalScope::Page | SignalScope::Client => {
                note(&self.pace_of(&keeper.of_client, answered.client));
            }
        }
        if let Some(rest) = rest {
            lock(&self.queue.pace).note_rest(now, now + rest);
        }
    }
}

fn report_of(
    unit: String,
    client: Option<IpAddr>,
    pace: &AdaptivePace,
    now: Duration,
) -> Option<PaceReport> {
    Some(PaceReport {
        unit,
        client,
        rate: pace.rate(now)?,
        cause: pace.last_cause()?,
        response_times: pace.response_times(),
        next_in: pace.next_at().saturating_sub(now),
    })
}

fn slowed(next_at: Instant) -> TooSoon {
    let retry_after = next_at.saturating_duration_since(Instant::now());
    TooSoon { cause: TooSoonCause::Slowed, retry_after: retry_after.max(SHORT_WAIT) }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
