//! Pacing: Crawl-delay across all connections and clients, rests for origins that ask for them, and a limit on
//! concurrent requests.
//!
//! A Crawl-delay is the time between an origin's answer to one request and the sending of the next. It is shared by
//! everyone who keeps the same pace: a configured crawler by its product token, all others by the group of robots.txt
//! that applies to them, whatever they call themselves. It counts from the answer because that is the latest instant at
//! which the origin can have received the request: whatever the network does, two requests never arrive closer together
//! than the delay. An origin that does not answer within a second has received it by then.
//!
//! With a burst of one, GCRA (the generic cell rate algorithm) is one instant per key: the next at which a request
//! conforms. A limiter library such as governor gives one rate to all of its keys and counts from the start of a
//! request; here each origin names its own delay.
//!
//! Requests to an origin with a delay follow one another. Clients that wait for the same origin take turns, by IPv4
//! address or IPv6 /64, and the requests of one client keep their order of arrival. Clients that are refused instead keep
//! their turns until they come back.
//!
//! Origins may share one pace, as tenants of one server do (`unit`). It is the pace of all crawlers there: between two
//! requests in a row lies the longer of their delays, and origins take turns before clients do.
//!
//! [`budget`] limits a crawler's requests and bytes of a day.
//!
//! This crate knows nothing of HTTP, connections or the configuration file: it takes the times at which a
//! request was sent and answered, and lets the next one wait: `Pacer::wait_for_slot` waits, `queue` keeps the delay, `rests` the
//! rests. Begin reading at [`Pacer`].

pub mod adaptive;
mod adaptive_turns;
pub mod budget;
mod client_limit;
mod party_paces;
mod prediction;
mod queue;
mod rate_limit;
mod rest_scope;
mod rests;
mod signals;
mod tickets;
mod too_soon;
mod turnstile;
mod unit;

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use ipnet::IpNet;
use tokio::sync::mpsc;
use tokio::time::Instant;
use wayleave_fairness::Holder;
use wayleave_fleet::engine::PacingResponse;
use wayleave_fleet::{Fleet, FleetEvent};
use wayleave_robots_txt::Target;
use wayleave_telemetry::metrics::Metrics;

pub use self::adaptive_turns::PaceReport;
use self::adaptive_turns::{AdaptivePaces, AdaptiveTurn};
pub use self::client_limit::ClientLimit;
use self::prediction::PredictedQueues;
pub use self::prediction::PredictedWait;
pub use self::queue::time_between;
use self::queue::{
    ConcurrencySlot, ConcurrencySlots, LONGEST_TURN, PaceQueues, QueuePlace, QueueRequest,
};
pub use self::rate_limit::{ServiceLimit, is_absent_or_list, read_service_limit};
use self::rest_scope::RestScope;
use self::rests::RestingOrigins;
use self::signals::AnsweredRequest;
pub use self::signals::{CredentialsMark, ToldQuota, credentials_mark};
pub use self::too_soon::{TooSoon, TooSoonCause};
use self::turnstile::lock;
pub use self::unit::PaceShare;
pub use self::unit::PaceUnit;

/// The effect of a Crawl-delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CrawlDelayMode {
    /// None, and origins that ask for a rest get none.
    Ignore,
    /// A request waits for its slot.
    Wait,
    /// A request that comes too soon is refused.
    #[default]
    Reject,
}

impl CrawlDelayMode {
    /// Returns the spelling used in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ignore => "ignore",
            Self::Wait => "wait",
            Self::Reject => "reject",
        }
    }
}

/// The section `[politeness]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacingConfig {
    /// The effect of a Crawl-delay. Default: reject.
    pub crawl_delay: CrawlDelayMode,
    /// The longest time that a request waits for its slot. Default: 30 s.
    pub max_wait: Duration,
    /// The delay for origins that name none. Default: none.
    pub default_delay: Duration,
    /// The shortest delay, whatever an origin asks for. Default: none.
    pub min_delay: Duration,
    /// The longest delay or rest that an origin can ask for. Default: 5 min.
    pub max_delay: Duration,
    /// The maximum number of concurrent requests of one crawler, or of one group of robots.txt, to one origin; 0: no
    /// limit.
    pub max_concurrent_per_origin: usize,
    /// Whether an origin rests when its `RateLimit` says that nothing is left, and clients learn their own pace from that
    /// field. Default: true.
    pub rate_limit_fields: bool,
    /// The origins that share one pace. Default: each origin has its own.
    pub share: PaceShare,
    /// Whether the pace adapts to the rate that a server can take. Default: no.
    pub adaptive: bool,
}

impl Default for PacingConfig {
    fn default() -> Self {
        Self {
            crawl_delay: CrawlDelayMode::default(),
            max_wait: Duration::from_secs(30),
            default_delay: Duration::ZERO,
            min_delay: Duration::ZERO,
            max_delay: Duration::from_mins(5),
            max_concurrent_per_origin: 0,
            rate_limit_fields: true,
            share: PaceShare::default(),
            adaptive: false,
        }
    }
}

impl PacingConfig {
    /// Returns the same configuration without waiting: observing must not change when requests are sent.
    pub fn without_waiting(self) -> Self {
        let crawl_delay = match self.crawl_delay {
            CrawlDelayMode::Wait => CrawlDelayMode::Reject,
            other => other,
        };
        Self { crawl_delay, adaptive: false, ..self }
    }

    /// Returns the same configuration with a wait of up to `max_wait` instead of a refusal, for a request that no client could
    /// send later.
    pub fn waiting(self, max_wait: Duration) -> Self {
        let crawl_delay = match self.crawl_delay {
            CrawlDelayMode::Reject => CrawlDelayMode::Wait,
            other => other,
        };
        Self { crawl_delay, max_wait, ..self }
    }

    /// Returns the delay between requests to an origin whose robots.txt has this `crawl_delay`, of a crawler with its own
    /// `min_delay`.
    pub fn delay(&self, crawl_delay: Option<Duration>, min_delay: Duration) -> Duration {
        let delay = match self.crawl_delay {
            CrawlDelayMode::Ignore => Duration::ZERO,
            _ => crawl_delay.unwrap_or(self.default_delay).min(self.max_delay),
        };
        // After `max_delay`, which only limits the delays that origins ask for.
        delay.max(self.min_delay).max(min_delay)
    }

    /// Returns the `crawl_delay` of robots.txt if it is the reason for `delay`, and not this configuration.
    pub fn decisive_crawl_delay(
        &self,
        crawl_delay: Option<Duration>,
        delay: Duration,
    ) -> Option<Duration> {
        let is_kept = self.crawl_delay != CrawlDelayMode::Ignore;
        crawl_delay.filter(|delay_of_site| is_kept && *delay_of_site.min(&self.max_delay) >= delay)
    }

    /// Returns whether a pace has to be found for requests, of no configured crawler, to an origin whose robots.txt has this
    /// `crawl_delay`.
    pub fn needs_pace(&self, crawl_delay: Option<Duration>) -> bool {
        self.adaptive
            || self.max_concurrent_per_origin > 0
            || !self.delay(crawl_delay, Duration::ZERO).is_zero()
    }

    /// Returns whether an origin that asks for a rest gets one.
    fn honours_rests(&self) -> bool {
        self.crawl_delay != CrawlDelayMode::Ignore
    }

    /// Returns the request for a slot, with its deadline counted from now.
    fn queue_request<'a>(&self, request: PacedRequest<'a>) -> QueueRequest<'a> {
        let timeout = match self.crawl_delay {
            CrawlDelayMode::Wait => self.max_wait,
            _ => Duration::ZERO,
        };
        QueueRequest {
            origin: request.target.origin(),
            unit: request.unit.map(|unit| &**unit),
            holder: Holder::of_client(request.client),
            pace: request.pace,
            // The delays of one origin and crawler hardly differ; those of several do.
            remembered_for: match request.unit {
                Some(_) => self.max_delay.max(self.min_delay),
                None => Duration::ZERO,
            },
            obeys_rest: self.honours_rests() && request.unit.is_some(),
            keeps_turn: request.keeps_turn,
            deadline: Instant::now() + timeout,
        }
    }
}

/// A request that is about to be sent.
#[derive(Clone, Copy, Debug)]
pub struct PacedRequest<'a> {
    pub target: &'a Target,
    /// The address of the client that waits for it.
    pub client: IpAddr,
    /// The pace that it keeps: a product token or the key of a group.
    pub pace: &'a str,
    /// The unit that shares the pace of its origin; `None` if nothing else does.
    pub unit: Option<&'a Arc<PaceUnit>>,
    /// Whether its client learns of a refusal, and keeps its turn until then.
    pub keeps_turn: bool,
}

/// Returns the holder of a request's pace: its pace unit, or its origin.
fn pace_unit(target: &Target, unit: Option<&Arc<PaceUnit>>) -> PaceUnit {
    match unit {
        Some(unit) => PaceUnit::clone(unit),
        None => PaceUnit::Origin(target.origin().clone()),
    }
}

/// The slots of every pace at every origin.
#[derive(Default)]
pub struct Pacer {
    pace_queues: PaceQueues,
    concurrency_slots: ConcurrencySlots,
    resting_origins: Arc<RestingOrigins>,
    adaptive: Arc<AdaptivePaces>,
    predicted_queues: PredictedQueues,
    fleet: Fleet,
}

impl Pacer {
    /// Returns the pacer of one node of `fleet`. Needs a tokio runtime.
    pub fn in_fleet(fleet: &Fleet, metrics: Arc<Metrics>) -> Self {
        let resting_origins = Arc::<RestingOrigins>::default();
        let adaptive = Arc::new(AdaptivePaces::new(metrics));
        let followers = (Arc::downgrade(&resting_origins), Arc::downgrade(&adaptive));
        tokio::spawn(follow_fleet(followers, fleet.subscribe()));
        Self { resting_origins, adaptive, fleet: fleet.clone(), ..Self::default() }
    }

    /// Returns the paces that are slowed down, the slowest first.
    pub fn slowed_paces(&self) -> Vec<PaceReport> {
        self.adaptive.report()
    }

    /// Waits for a slot if `options` allow it, or returns one that is free now.
    ///
    /// # Errors
    ///
    /// If the slot is too far off; the error says when to come again.
    pub async fn wait_for_slot(
        &self,
        options: &PacingConfig,
        request: PacedRequest<'_>,
        delay: Duration,
    ) -> Result<PacingSlot<'_>, TooSoon> {
        // One that makes so many origins rest gets no further slot, or some of those rests would have to be forgotten.
        if options.honours_rests() && self.resting_origins.is_share_full(request.client) {
            return Err(queue::SHARE_FULL);
        }
        if let Some(slot) = self.free_slot(options, request, delay) {
            return Ok(slot);
        }
        let queued = options.queue_request(request);
        // The delay comes first: a concurrency slot held while waiting for it would block others.
        let place = if delay.is_zero() && request.unit.is_none() {
            None
        } else {
            self.pace_queues.wait_for_place(queued, delay, &self.fleet).await?
        };
        let honours_rests = options.honours_rests();
        loop {
            if honours_rests {
                self.wait_until_rested(request, queued.deadline).await?;
            }
            let slots = options.max_concurrent_per_origin;
            let slot = self.concurrency_slots.acquire(queued, slots, &self.fleet).await?;
            // Last, because it is about when requests are sent. Boxed, because few wait.
            let turn = if options.adaptive {
                let unit = pace_unit(request.target, request.unit);
                // Also that of an origin which shares its pace with no other.
                let queued = QueueRequest { obeys_rest: honours_rests, ..queued };
                Some(Box::pin(self.adaptive.wait_for_turn(unit, queued, &self.fleet)).await?)
            } else {
                None
            };
            // Counted before the check, or the answer to this request could end a rest that begins between the two.
            let rests_before = self.resting_origins.begun();
            // Another request's answer may have asked for a rest while this one waited for its slot.
            if !honours_rests || self.rested_at(request).is_none() {
                let slot = self.slot(options, request, rests_before, slot);
                return Ok(PacingSlot { queue_place: place, turn, ..slot });
            }
        }
    }

    /// Returns the slot of a request that nothing can delay, as that of most: it reads no clock, and takes no lock.
    fn free_slot(
        &self,
        options: &PacingConfig,
        request: PacedRequest<'_>,
        delay: Duration,
    ) -> Option<PacingSlot<'_>> {
        let has_pace = !delay.is_zero()
            || request.unit.is_some()
            || options.max_concurrent_per_origin > 0
            || options.adaptive;
        let rests_before = self.resting_origins.begun();
        let rests = || options.honours_rests() && self.rested_at(request).is_some();
        (!has_pace && !rests()).then(|| self.slot(options, request, rests_before, None))
    }

    /// Returns the wait that enforcement would impose on a request that comes too soon; `None` if it would be refused, because
    /// nothing waits or not for that long.
    pub fn predict_wait(
        &self,
        options: &PacingConfig,
        request: PacedRequest<'_>,
        too_soon: TooSoon,
        delay: Duration,
    ) -> Option<PredictedWait<'_>> {
        if options.crawl_delay != CrawlDelayMode::Wait {
            return None;
        }
        let key = (pace_unit(request.target, request.unit), request.pace);
        self.predicted_queues.predict(key, too_soon.retry_after, delay, options.max_wait)
    }

    /// Waits for a concurrency slot only: for robots.txt, which may always be fetched. Its answer may still start a
    /// rest.
    ///
    /// # Errors
    ///
    /// If no slot is free in time; the error says when to come again.
    pub async fn wait_for_concurrency_slot(
        &self,
        options: &PacingConfig,
        request: PacedRequest<'_>,
    ) -> Result<PacingSlot<'_>, TooSoon> {
        let queued = options.queue_request(request);
        let slots = options.max_concurrent_per_origin;
        let slot = self.concurrency_slots.acquire(queued, slots, &self.fleet).await?;
        Ok(self.slot(options, request, self.resting_origins.begun(), slot))
    }

    /// Returns a slot without a place in the queue.
    fn slot(
        &self,
        options: &PacingConfig,
        request: PacedRequest<'_>,
        rests_before: u64,
        concurrency_slot: Option<ConcurrencySlot>,
    ) -> PacingSlot<'_> {
        PacingSlot {
            client: request.client,
            unit: request.unit.cloned(),
            queue_place: None,
            concurrency_slot,
            turn: None,
            pacer: options.honours_rests().then_some(self),
            max_rest: options.max_delay,
            rests_before,
            sent_to: Mutex::default(),
            is_timed: AtomicBool::new(false),
        }
    }

    /// Returns the end of the origin's rest, if it rests.
    fn rested_at(&self, request: PacedRequest<'_>) -> Option<Instant> {
        let unit = request.unit.map(|unit| &**unit);
        self.resting_origins.until(request.target, unit, request.client)
    }

    /// Waits until the origin's rest is over, even if it is extended meanwhile.
    async fn wait_until_rested(
        &self,
        request: PacedRequest<'_>,
        deadline: Instant,
    ) -> Result<(), TooSoon> {
        while let Some(until) = self.rested_at(request) {
            // Refused at once instead of after a wait in vain.
            if until > deadline {
                return Err(TooSoon {
                    cause: TooSoonCause::OriginRests,
                    retry_after: until - Instant::now(),
                });
            }
            tokio::time::sleep_until(until).await;
        }
        Ok(())
    }
}

impl fmt::Debug for Pacer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pacer").finish_non_exhaustive()
    }
}

/// A request's slot. The next request's delay begins when the origin has answered, or when this is dropped.
pub struct PacingSlot<'a> {
    client: IpAddr,
    unit: Option<Arc<PaceUnit>>,
    queue_place: Option<QueuePlace>,
    concurrency_slot: Option<ConcurrencySlot>,
    /// The turn at a server whose pace adapts.
    turn: Option<AdaptiveTurn>,
    /// The pacer that records a rest the origin asks for; `None` if that is ignored.
    pacer: Option<&'a Pacer>,
    max_rest: Duration,
    /// The number of rests that had begun, anywhere, when the slot was granted.
    rests_before: u64,
    /// The network of the address to which the request was sent last, if origins share a pace by address.
    sent_to: Mutex<Option<IpNet>>,
    /// Whether nothing but the origin delays its answer.
    is_timed: AtomicBool,
}

/// A slot whose request somebody else sends, out of sight: others may follow after the delay, which began when the slot was
/// handed over. A later notice of the response still applies.
pub struct HandedSlot {
    slot: PacingSlot<'static>,
    honours_rests: bool,
}

impl HandedSlot {
    /// Returns the slot, which keeps nobody from following.
    pub fn into_slot(self, pacer: &Pacer) -> PacingSlot<'_> {
        PacingSlot { pacer: self.honours_rests.then_some(pacer), ..self.slot }
    }

    /// Lets the delay begin anew, because the request is sent only now. Other nodes of a fleet do not learn of it.
    pub fn record_sent(&self) {
        if let Some(place) = &self.slot.queue_place {
            place.begin_delay_again();
        }
        self.slot.record_sent(false);
    }
}

impl PacingSlot<'_> {
    /// Hands the slot over to whoever sends the request. The delay begins now, and its concurrency slot is another's: when
    /// the request ends is unknown.
    pub fn hand_over(self) -> HandedSlot {
        self.release_queue();
        HandedSlot {
            honours_rests: self.pacer.is_some(),
            slot: PacingSlot {
                client: self.client,
                unit: self.unit,
                queue_place: self.queue_place,
                concurrency_slot: None,
                turn: self.turn,
                pacer: None,
                max_rest: self.max_rest,
                rests_before: self.rests_before,
                sent_to: self.sent_to,
                is_timed: self.is_timed,
            },
        }
    }

    /// Returns why the slot is no longer valid, if so. It has to be called right before the request is sent.
    pub fn lost(&self) -> Option<TooSoon> {
        let is_lost = self.queue_place.as_ref().is_some_and(QueuePlace::may_have_expired)
            || self.concurrency_slot.as_ref().is_some_and(ConcurrencySlot::may_have_expired);
        is_lost
            .then_some(TooSoon { cause: TooSoonCause::SlotLost, retry_after: queue::ENGINE_RETRY })
    }

    /// Returns the time for which the request may remain unanswered until its turn passes to other clients; `None` if the
    /// origin has no delay.
    pub fn longest_turn(&self) -> Option<Duration> {
        self.queue_place.as_ref().map(|_| LONGEST_TURN)
    }

    /// Lets other clients' requests follow, although the origin has not answered: it received this request's head long enough ago.
    pub fn pass_turn(&self) {
        if let Some(place) = &self.queue_place {
            place.pass_turn();
        }
    }

    /// Lets the next request's delay start now.
    pub fn release_queue(&self) {
        if let Some(place) = &self.queue_place {
            place.release();
        }
    }

    /// Returns whether the next request has to wait for a pace.
    pub fn has_pace(&self) -> bool {
        self.queue_place.is_some() || self.turn.is_some()
    }

    /// Returns the network whose pace the request keeps, so that one of its addresses has to be dialled.
    pub fn network(&self) -> Option<IpNet> {
        self.unit.as_ref().and_then(|unit| unit.network())
    }

    /// Returns whether other requests wait for its concurrency slot, or were refused for want of one.
    pub fn is_concurrency_wanted(&self) -> bool {
        self.concurrency_slot.as_ref().is_some_and(ConcurrencySlot::is_wanted)
    }

    /// Returns whether a concurrency limit applies.
    pub fn has_concurrency_slot(&self) -> bool {
        self.concurrency_slot.is_some()
    }

    /// Returns the pace as reported to the client; `None` if the origin has no delay. Called once the answer is recorded.
    pub fn client_limit(&self, target: &Target) -> Option<ClientLimit> {
        let place = self.queue_place.as_ref()?;
        let pacer = self.pacer;
        let rest = pacer.and_then(|pacer| {
            pacer.resting_origins.until(target, self.unit.as_deref(), self.client)
        });
        let rest = rest.map_or(Duration::ZERO, |until| until - Instant::now());
        Some(ClientLimit { delay: place.delay(), next_in: place.next_in().max(rest) })
    }

    /// Records the quota that an answer says is left. With nothing left, the client or the whole origin rests for at most
    /// the longest rest, as `signals` says.
    pub fn record_quota(&self, target: &Target, quota: &ToldQuota) {
        if quota.remaining == 0 {
            self.record_used_up(target, quota);
        }
        if let Some(turn) = &self.turn {
            let is_used_up = quota.remaining == 0;
            let rest = is_used_up.then(|| self.whole_rest(target)).flatten();
            turn.note_quota(self.answered_request(target), &quota.limited(self.max_rest), rest);
        }
    }

    /// Returns the time for which all of the unit rests, if rests are honoured.
    fn whole_rest(&self, target: &Target) -> Option<Duration> {
        let unit = pace_unit(target, self.unit.as_ref());
        let until = self.pacer?.resting_origins.whole_until(&unit)?;
        Some(until.saturating_duration_since(Instant::now()))
    }

    fn record_used_up(&self, target: &Target, quota: &ToldQuota) {
        let Some(pacer) = self.pacer else {
            return;
        };
        let rest = quota.reset.min(self.max_rest);
        if rest.is_zero() {
            return;
        }
        let answered = self.answered_request(target);
        let begun = pacer.resting_origins.record_used_up(answered, quota, rest);
        // To the fleet it is like a 429 with this Retry-After.
        self.report_rests(pacer, begun, 429, Some(rest));
    }

    fn answered_request<'a>(&'a self, target: &'a Target) -> AnsweredRequest<'a> {
        let unit = self.unit.as_deref();
        // Without a network to compare it with, nobody asks where the request went.
        let network = unit.and_then(PaceUnit::network).and_then(|_| *lock(&self.sent_to));
        AnsweredRequest {
            target,
            unit,
            network,
            client: self.client,
            rests_before: self.rests_before,
        }
    }

    /// Records the network of the address to which the request is sent.
    pub fn record_dialled(&self, network: Option<IpNet>) {
        if self.network().is_some() {
            *lock(&self.sent_to) = network;
        }
    }

    /// Records the origin's answer: the delay counts from now, and a 429 or 503 starts a rest.
    pub fn record_answer(&self, target: &Target, status: u16, retry_after: Option<Duration>) {
        // First, because the next request in the queue must know of a rest.
        self.record_rest(target, status, retry_after);
        if let Some(turn) = &self.turn {
            let is_refusal = matches!(status, 429 | 503);
            let rest = is_refusal.then(|| self.whole_rest(target)).flatten();
            let answered = self.answered_request(target);
            turn.record_answer(answered, status, self.is_timed.load(Ordering::Relaxed), rest);
        }
        self.release_queue();
    }

    /// Records that the request is sent now. `has_body`: its answer also depends on how fast the client sends.
    pub fn record_sent(&self, has_body: bool) {
        if let Some(turn) = &self.turn {
            turn.record_sent();
            self.is_timed.store(!has_body, Ordering::Relaxed);
        }
    }

    /// Records that the connection broke before an answer.
    pub fn record_reset(&self, target: &Target) {
        if let Some(turn) = &self.turn {
            turn.record_reset(self.answered_request(target));
        }
    }

    fn record_rest(&self, target: &Target, status: u16, retry_after: Option<Duration>) {
        let Some(pacer) = self.pacer else {
            return;
        };
        let answered = self.answered_request(target);
        let changed =
            pacer.resting_origins.record_answer(answered, status, retry_after, self.max_rest);
        self.report_rests(pacer, changed, status, retry_after);
    }

    /// Reports to the fleet the rests that began or ended with an answer.
    fn report_rests(
        &self,
        pacer: &Pacer,
        changed: Vec<(PaceUnit, RestScope)>,
        status: u16,
        retry_after: Option<Duration>,
    ) {
        for (unit, scope) in changed {
            let response = PacingResponse {
                origin: scope.name(&unit),
                status,
                retry_after,
                max_rest: self.max_rest,
            };
            let resting_origins = Arc::clone(&pacer.resting_origins);
            // Other nodes may have been refused as well, so the engine's rest may be longer than this node's.
            pacer.fleet.report_response(response, move |rest| {
                resting_origins.begin(&unit, scope, rest);
            });
        }
    }
}

/// Applies the rests that other nodes of the fleet report.
async fn follow_fleet(
    (resting_origins, adaptive): (Weak<RestingOrigins>, Weak<AdaptivePaces>),
    mut events: mpsc::UnboundedReceiver<FleetEvent>,
) {
    while let Some(event) = events.recv().await {
        // Held weakly, so that this task ends with the pacer.
        let Some(resting_origins) = resting_origins.upgrade() else {
            return;
        };
        match event {
            FleetEvent::RestStarted(name, rest) => {
                if let Some((unit, scope)) = RestScope::parse_name(&name) {
                    resting_origins.begin(&unit, scope, rest);
                    if let (RestScope::Whole, Some(adaptive)) = (scope, adaptive.upgrade()) {
                        adaptive.note_rest(&unit, rest);
                    }
                }
            }
            FleetEvent::RestEnded(name) => {
                if let Some((unit, scope)) = RestScope::parse_name(&name) {
                    resting_origins.end(&unit, scope);
                }
            }
            // Only the cache of robots.txt depends on these.
            FleetEvent::Changed(_)
            | FleetEvent::Superseded(..)
            | FleetEvent::Forgotten(_)
            | FleetEvent::NotesLost(_) => {}
        }
    }
}

#[cfg(test)]
mod party_pace_tests;
#[cfg(test)]
mod rest_tests;
#[cfg(test)]
mod shared_pace_tests;
#[cfg(test)]
mod turn_tests;

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;

    use futures_util::future::join_all;
    use wayleave_fleet::memory::MemoryEngine;

    use super::*;

    pub(crate) fn metrics() -> Arc<Metrics> {
        Arc::new(Metrics::new().unwrap())
    }

    pub(crate) fn target() -> Target {
        Target::parse("http://shop.test/").unwrap()
    }

    /// Returns a request of the client that most tests use.
    pub(crate) fn request<'a>(target: &'a Target, pace: &'a str) -> PacedRequest<'a> {
        PacedRequest { target, client: [192, 0, 2, 1].into(), pace, unit: None, keeps_turn: true }
    }

    pub(crate) fn options(crawl_delay: CrawlDelayMode) -> PacingConfig {
        PacingConfig { crawl_delay, ..PacingConfig::default() }
    }

    /// Returns a quota of all requests of which nothing is left.
    pub(crate) fn used_up(reset: Duration) -> ToldQuota {
        ToldQuota { remaining: 0, reset, is_partitioned: false, credentials: None }
    }

    pub(crate) const DELAY: Duration = Duration::from_secs(2);

    #[tokio::test(start_paused = true)]
    async fn a_suspended_node_loses_its_slot() {
        let memory = MemoryEngine::new("");
        let joined = async |name| Pacer::in_fleet(&memory.join(name).await, metrics());
        let one = joined("one").await;
        let other = joined("other").await;
        let limits = PacingConfig { max_concurrent_per_origin: 1, ..options(CrawlDelayMode::Wait) };
        for delay in [DELAY, Duration::ZERO] {
            let slot = one.wait_for_slot(&limits, request(&target(), "a"), delay).await.unwrap();
            // As long as it is renewed it remains valid, however long its connection takes.
            tokio::time::sleep(Duration::from_secs(20)).await;
            assert_eq!(slot.lost(), None);
            // The whole node stands still, and then everything is due at once.
            tokio::time::advance(Duration::from_secs(20)).await;
            let ended = slot.lost().map(|soon| soon.cause);
            assert_eq!(ended, Some(TooSoonCause::SlotLost));
            // That the engine renews it afterwards proves nothing about the time in between.
            tokio::time::sleep(Duration::from_secs(3)).await;
            assert_eq!(slot.lost().map(|soon| soon.cause), ended);
            drop(slot);
            let next = other.wait_for_slot(&limits, request(&target(), "a"), delay).await.unwrap();
            assert_eq!(next.lost(), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn crowds_that_wait_for_an_origin_do_not_keep_the_engine_busy() {
        const NODES: usize = 8;
        const MOST: usize = 100;
        let memory = MemoryEngine::new("");
        let mut fleets = Vec::new();
        for number in 0..NODES {
            fleets.push(memory.join(&number.to_string()).await);
        }
        let nodes: Vec<_> = fleets.iter().map(|fleet| Pacer::in_fleet(fleet, metrics())).collect();
        let limits =
            PacingConfig { max_concurrent_per_origin: MOST, ..options(CrawlDelayMode::Wait) };
        let origin = target();
        let slot =
            |node: usize| nodes[node].wait_for_slot(&limits, request(&origin, "a"), Duration::ZERO);
        let mut held = Vec::new();
        for _ in 0..MOST {
            held.push(slot(0).await.unwrap());
        }
        memory.serve_one_at_a_time(Duration::from_micros(50), Duration::from_millis(25));
        let waiting = (0..NODES * MOST).map(async |number| slot(number % NODES).await.map(drop));
        let mut waiting = pin!(join_all(waiting));
        let seconds = tokio::time::timeout(Duration::from_secs(5), &mut waiting).await;
        assert!(seconds.is_err(), "all slots are held");
        drop(held);
        assert!(waiting.await.iter().all(Result::is_ok));
        let failures: Vec<_> = fleets.iter().map(|fleet| fleet.status().last_error).collect();
        assert!(failures.iter().all(Option::is_none), "{failures:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slot_that_is_handed_over_holds_up_nobody_but_by_its_delay() {
        let pacer = Pacer::default();
        let limits = PacingConfig { max_concurrent_per_origin: 1, ..options(CrawlDelayMode::Wait) };
        let next = async || {
            let before = Instant::now();
            let slot = pacer.wait_for_slot(&limits, request(&target(), "a"), DELAY).await.unwrap();
            (before.elapsed(), slot.hand_over())
        };
        let (_, unknown) = next().await;
        // Its request may last for hours.
        let (waited, sent_late) = next().await;
        assert_eq!(waited, DELAY);
        let half = DELAY / 2;
        tokio::time::advance(half).await;
        sent_late.record_sent();
        let (waited, refused) = next().await;
        assert_eq!(waited, DELAY);
        // Told long after others were sent, it shortens nothing.
        tokio::time::advance(half).await;
        unknown.into_slot(&pacer).record_answer(&target(), 200, None);
        let rest = Duration::from_secs(20);
        refused.into_slot(&pacer).record_answer(&target(), 429, Some(rest));
        assert_eq!(next().await.0, rest);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_too_soon_gets_the_exact_retry_after() {
        let pacer = Pacer::default();
        let reject = options(CrawlDelayMode::Reject);
        let first = pacer.wait_for_slot(&reject, request(&target(), "a"), DELAY).await.unwrap();
        let under_way = pacer.wait_for_slot(&reject, request(&target(), "a"), DELAY).await;
        assert_eq!(under_way.err().map(|soon| soon.retry_after), Some(DELAY));
        tokio::time::advance(Duration::from_secs(5)).await;
        first.record_answer(&target(), 200, None);
        drop(first);
        tokio::time::advance(Duration::from_millis(500)).await;
        let soon = pacer.wait_for_slot(&reject, request(&target(), "a"), DELAY).await;
        let soon = soon.err().unwrap();
        assert_eq!(soon.cause, TooSoonCause::CrawlDelay);
        assert_eq!(soon.retry_after, Duration::from_millis(1500));
        assert!(pacer.wait_for_slot(&reject, request(&target(), "b"), DELAY).await.is_ok());
        tokio::time::advance(Duration::from_millis(1500)).await;
        assert!(pacer.wait_for_slot(&reject, request(&target(), "a"), DELAY).await.is_ok());
    }

    #[test]
    fn the_longest_of_the_minimums_and_the_origins_delay_applies() {
        let seconds = Duration::from_secs;
        let all = PacingConfig { default_delay: seconds(2), ..options(CrawlDelayMode::Wait) };
        let floor = PacingConfig { min_delay: seconds(20), ..all };
        let ignoring = PacingConfig { crawl_delay: CrawlDelayMode::Ignore, ..floor };
        for (config, asked, own, expected) in [
            (all, None, 0, 2),
            (all, Some(1), 0, 1),
            (all, Some(1), 3, 3),
            (all, None, 3, 3),
            (all, Some(9), 3, 9),
            (floor, None, 0, 20),
            (floor, Some(0), 3, 20),
            (floor, Some(1), 30, 30),
            (floor, Some(40), 30, 40),
            (floor, Some(4000), 30, 300),
            (floor, Some(4000), 400, 400),
            (ignoring, Some(40), 0, 20),
            (ignoring, None, 30, 30),
        ] {
            let delay = config.delay(asked.map(seconds), seconds(own));
            assert_eq!(delay.as_secs(), expected, "{config:?} {asked:?} {own}");
        }
        assert!(floor.needs_pace(Some(Duration::ZERO)));
        assert!(!PacingConfig { default_delay: Duration::ZERO, ..all }.needs_pace(None));
    }

    #[tokio::test(start_paused = true)]
    async fn nodes_of_a_fleet_wait_together_for_min_delay() {
        let memory = MemoryEngine::new("");
        let joined = async |name| Pacer::in_fleet(&memory.join(name).await, metrics());
        let nodes = [joined("one").await, joined("other").await];
        let floor = Duration::from_secs(20);
        let wait = PacingConfig { min_delay: floor, ..options(CrawlDelayMode::Wait) };
        let delay = wait.delay(Some(Duration::from_millis(100)), Duration::ZERO);
        let mut last: Option<Instant> = None;
        for pacer in nodes.iter().cycle().take(5) {
            let slot = pacer.wait_for_slot(&wait, request(&target(), "a"), delay).await.unwrap();
            if let Some(gap) = last.map(|at| at.elapsed()) {
                // A node asks the engine again after a tenth of the delay.
                assert!(gap >= floor && gap < 2 * floor, "{gap:?}");
            }
            last = Some(Instant::now());
            slot.record_answer(&target(), 200, None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_requests_keep_order_and_deadline() {
        let pacer = Arc::new(Pacer::default());
        let wait =
            PacingConfig { max_wait: Duration::from_secs(7), ..options(CrawlDelayMode::Wait) };
        let started = Instant::now();
        let tasks = (0..6).map(|_| {
            let pacer = Arc::clone(&pacer);
            tokio::spawn(async move {
                let slot = pacer.wait_for_slot(&wait, request(&target(), "a"), DELAY).await;
                let at = started.elapsed().as_secs();
                slot.map(|slot| slot.record_answer(&target(), 200, None)).map(|()| at)
            })
        });
        let mut outcomes = Vec::new();
        for task in tasks.collect::<Vec<_>>() {
            outcomes.push(task.await.unwrap().map_err(|soon| soon.cause));
        }
        let late = Err(TooSoonCause::CrawlDelay);
        assert_eq!(outcomes, [Ok(0), Ok(2), Ok(4), Ok(6), late, late]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_is_told_when_its_next_request_gets_a_slot() {
        let pacer = Arc::new(Pacer::default());
        let wait = options(CrawlDelayMode::Wait);
        let shop = target();
        let first = pacer.wait_for_slot(&wait, request(&shop, "a"), DELAY).await.unwrap();
        first.record_answer(&shop, 200, None);
        let told = |slot: &PacingSlot<'_>| slot.client_limit(&target()).map(|limit| limit.next_in);
        assert_eq!(told(&first), Some(DELAY));
        let waiting = (0..2).map(|_| {
            let pacer = Arc::clone(&pacer);
            tokio::spawn(async move {
                drop(pacer.wait_for_slot(&wait, request(&target(), "a"), DELAY).await);
            })
        });
        let waiting: Vec<_> = waiting.collect();
        tokio::task::yield_now().await;
        assert_eq!(told(&first), Some(3 * DELAY), "two requests wait before it");
        first.record_quota(&shop, &used_up(10 * DELAY));
        assert_eq!(told(&first), Some(10 * DELAY), "the origin rests");
        for task in waiting {
            task.await.unwrap();
        }
        let free = pacer.wait_for_slot(&wait, request(&shop, "a"), Duration::ZERO).await.unwrap();
        assert_eq!(told(&free), None, "no delay");
    }

    #[tokio::test(start_paused = true)]
    async fn concurrency_is_limited_per_pace() {
        let pacer = Pacer::default();
        let two = PacingConfig { max_concurrent_per_origin: 2, ..options(CrawlDelayMode::Ignore) };
        let shop = target();
        let slot = |pace| pacer.wait_for_slot(&two, request(&shop, pace), Duration::ZERO);
        let first = slot("a").await.unwrap();
        let _second = slot("A").await.unwrap();
        let soon = slot("a").await.err().unwrap();
        assert_eq!(soon.cause, TooSoonCause::Concurrency);
        assert!(slot("b").await.is_ok());
        drop(first);
        assert!(slot("a").await.is_ok());
    }

    pub(crate) fn numbered(number: usize) -> Target {
        Target::parse(&format!("http://shop{number}.test/")).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn among_thousands_no_pending_delay_is_forgotten() {
        let pacer = Pacer::default();
        let options = options(CrawlDelayMode::Reject);
        let slot = |number: usize| {
            let pacer = &pacer;
            let options = &options;
            async move {
                let origin = numbered(number);
                let slot = pacer.wait_for_slot(options, request(&origin, "NewsBot"), 100 * DELAY);
                slot.await.map(drop)
            }
        };
        for number in 0..3000 {
            slot(number).await.unwrap();
        }
        for number in [0, 1, 1023, 1024, 2999] {
            let too_soon = slot(number).await.unwrap_err();
            assert_eq!(too_soon.retry_after, 100 * DELAY, "{number}");
        }
    }

    /// As many origins as one client may make wait, or rest.
    pub(crate) const SHARE: usize = 125_000;

    pub(crate) fn request_of<'a>(client: [u8; 4], target: &'a Target) -> PacedRequest<'a> {
        PacedRequest { client: client.into(), ..request(target, "NewsBot") }
    }

    #[tokio::test(start_paused = true)]
    async fn one_client_cannot_fill_the_queues_of_others() {
        let pacer = Pacer::default();
        let options = options(CrawlDelayMode::Reject);
        let slot = async |client: [u8; 4], number: usize| {
            let origin = numbered(number);
            let slot = pacer.wait_for_slot(&options, request_of(client, &origin), 100 * DELAY);
            slot.await.map(drop).map_err(|soon| soon.cause)
        };
        for number in 0..SHARE {
            slot([192, 0, 2, 1], number).await.unwrap();
        }
        assert_eq!(slot([192, 0, 2, 1], SHARE).await, Err(TooSoonCause::ShareFull));
        for number in 0..1_000 {
            assert_eq!(slot([192, 0, 2, 2], SHARE + number).await, Ok(()), "another client");
        }
        assert_eq!(slot([192, 0, 2, 2], 0).await, Err(TooSoonCause::CrawlDelay), "kept");
        tokio::time::advance(100 * DELAY).await;
        assert_eq!(slot([192, 0, 2, 1], SHARE).await, Ok(()), "the delays are over");
    }
}
