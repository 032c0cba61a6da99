//! Queues for Crawl-delay and slots for concurrency, one of each per origin and pace, or for all that share one.

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use wayleave_fairness::{Holder, NoRoom, SharedMap};
use wayleave_fleet::{self as fleet, Fleet, FleetSlot, NoSlot, SlotTerms};
use wayleave_robots_txt::Origin;

use super::tickets::TurnHolder;
use super::too_soon::{TooSoon, TooSoonCause};
use super::turnstile::{Turnstile, TurnstilePermit, lock};
use super::unit::PaceUnit;

/// The maximum number of values, some 100 MB; one client's fill at most half of them.
const MAX_ENTRIES: usize = 250_000;
/// The longest time for which an unanswered request keeps its turn. By then the request has arrived, and a 429 would have.
pub(super) const LONGEST_TURN: Duration = Duration::from_secs(1);
/// The `Retry-After` while the fleet's engine is unreachable: about the interval of reconnection attempts.
pub(super) const ENGINE_RETRY: Duration = Duration::from_secs(2);
/// The error for a request beyond its client's share of queues, slots or rests. When one of them ends is unknown.
pub(super) const SHARE_FULL: TooSoon =
    TooSoon { cause: TooSoonCause::ShareFull, retry_after: Duration::from_secs(10) };

/// Shared values by key. Idle ones are removed, and none in use is ever dropped: forgotten, a delay would not be kept.
pub(super) struct SharedValues<K, V>(SharedMap<K, Arc<V>>);

impl<K: Clone + Hash + Eq, V> SharedValues<K, V> {
    /// Returns the value of `key`, if there is one.
    pub(super) fn get(&self, key: &K) -> Option<Arc<V>> {
        self.0.get(key).cloned()
    }

    /// Returns all values with their keys.
    pub(super) fn to_vec(&self) -> Vec<(K, Arc<V>)> {
        self.0.iter().map(|(key, value)| (key.clone(), Arc::clone(value))).collect()
    }

    /// Returns the value of `key`, created for a client that comes first.
    ///
    /// # Errors
    ///
    /// If this client's share is full of values in use.
    pub(super) fn get_or_insert(
        &mut self,
        holder: Holder,
        key: K,
        new: impl FnOnce() -> V,
        is_idle: impl Fn(&V) -> bool,
    ) -> Result<Arc<V>, TooSoon> {
        self.0
            .get_or_try_insert(
                holder,
                key,
                || Arc::new(new()),
                |value| Arc::strong_count(value) == 1 && is_idle(value),
            )
            .map(|value| Arc::clone(value))
            .map_err(|NoRoom| SHARE_FULL)
    }
}

impl<K: Clone + Hash + Eq, V> Default for SharedValues<K, V> {
    fn default() -> Self {
        Self(SharedMap::new(MAX_ENTRIES))
    }
}

/// The key of a queue: a unit, and a pace (in lower case) if each crawler has its own there.
type QueueKey = (PaceUnit, String);

/// The queues.
#[derive(Default)]
pub(super) struct PaceQueues(Mutex<SharedValues<QueueKey, PaceQueue>>);

/// A queue of one at a time, in which waiting clients take turns.
struct PaceQueue {
    turnstile: Arc<Turnstile>,
    /// The requests that passed the turnstile and whose delay is not over yet.
    inside: AtomicU32,
    last: Mutex<Option<LastRequest>>,
}

/// Returns the time between two requests in a row of one pace unit: the longer of their delays.
#[must_use]
pub fn time_between(delay: Duration, next_delay: Duration) -> Duration {
    delay.max(next_delay)
}

/// The last request of a queue.
#[derive(Clone, Copy)]
struct LastRequest {
    ended_at: Instant,
    delay: Duration,
    /// The time for which it matters to requests with a longer delay.
    remembered_for: Duration,
}

impl LastRequest {
    /// Returns the earliest instant for a request with this `delay`: the longer of both applies.
    fn next_at(&self, delay: Duration) -> Instant {
        self.ended_at + time_between(self.delay, delay)
    }

    fn is_over(&self, now: Instant) -> bool {
        self.next_at(self.remembered_for) <= now
    }
}

impl PaceQueue {
    fn new() -> Self {
        Self { turnstile: Turnstile::new(1), inside: AtomicU32::new(0), last: Mutex::new(None) }
    }

    /// Returns the earliest instant for a request with this `delay`; `None` before the first.
    fn next_at(&self, delay: Duration) -> Option<Instant> {
        lock(&self.last).map(|last| last.next_at(delay))
    }

    /// Returns when the last request ended.
    fn ended_at(&self) -> Option<Instant> {
        lock(&self.last).map(|last| last.ended_at)
    }

    /// Also keeps the delay that pends in another queue.
    fn keep_delay_of(&self, other: &Self) {
        let pending = *lock(&other.last);
        let mut last = lock(&self.last);
        let next_at = |last: &LastRequest| last.next_at(Duration::ZERO);
        if pending.as_ref().map(next_at) > last.as_ref().map(next_at) {
            *last = pending;
        }
    }

    /// Returns the error of a request with this `delay` that comes while another is in progress.
    fn busy(&self, delay: Duration) -> TooSoon {
        let before = lock(&self.last).map_or(Duration::ZERO, |last| last.delay);
        // That one's own delay is not known here if it is the first.
        let least = Duration::from_secs(1);
        delayed(if delay.is_zero() { before.max(least) } else { before.max(delay) })
    }

    /// Returns the head of the queue if it is free and it is this request's turn.
    ///
    /// # Errors
    ///
    /// If not. The request keeps its turn until the time in the error.
    fn head_now(
        &self,
        request: QueueRequest<'_>,
        delay: Duration,
    ) -> Result<QueueHead<'_>, TooSoon> {
        let now = Instant::now();
        let holder = request.turn_holder();
        let next_at = self.next_at(delay);
        if next_at.is_none_or(|at| at <= now)
            && let Some(permit) = self.turnstile.try_take_turn(holder, next_at)
        {
            return Ok(QueueHead { permit, inside: InsideGuard::new(&self.inside) });
        }
        // The permit is another's, or the turn.
        let next_in = match next_at {
            Some(at) if at > now => at - now,
            _ => self.busy(delay).retry_after,
        };
        let behind = delay.saturating_mul(self.ahead_of(holder));
        Err(self.refuse(request, next_in.saturating_add(behind)))
    }

    /// Returns the error for a request that has to wait for this long, which keeps its turn until then.
    fn refuse(&self, request: QueueRequest<'_>, wait: Duration) -> TooSoon {
        if request.keeps_turn {
            self.turnstile.keep_turn(request.turn_holder(), Instant::now() + wait);
        }
        delayed(wait)
    }

    /// Waits until this request is at the head of the queue and the delay since the one before is over.
    async fn wait_for_head(
        &self,
        request: QueueRequest<'_>,
        delay: Duration,
    ) -> Result<QueueHead<'_>, TooSoon> {
        let deadline = request.deadline;
        let holder = request.turn_holder();
        // A request that may not wait must not join the queue, not even for a moment.
        if deadline <= Instant::now() {
            return self.head_now(request, delay);
        }
        let ahead = self.ahead_of(holder);
        let now = Instant::now();
        let next_at = self.next_at(delay);
        let expected_at = next_at.map_or(now, |at| at.max(now)) + delay * ahead;
        // Refused at once instead of after a wait in vain.
        if ahead > 0 && expected_at > deadline {
            return Err(delayed(expected_at - now));
        }
        let permit = match self.turnstile.try_acquire(holder) {
            Some(permit) => permit,
            None => timeout_at(deadline, self.turnstile.acquire(holder))
                .await
                .map_err(|_| self.busy(delay))?,
        };
        // Until the fleet grants a slot, this request still comes before those that wait here.
        let inside = InsideGuard::new(&self.inside);
        // Read again: the request before this one has set it meanwhile.
        if let Some(next_at) = self.next_at(delay) {
            if next_at > deadline {
                return Err(delayed(next_at - Instant::now()));
            }
            tokio::time::sleep_until(next_at).await;
        }
        Ok(QueueHead { permit, inside })
    }

    /// Returns how many requests come before the next one of `holder`.
    fn ahead_of(&self, holder: TurnHolder) -> u32 {
        let waiting = self.turnstile.ahead_of(holder) + self.turnstile.turns_ahead_of(holder);
        let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
        waiting.saturating_add(self.inside.load(Ordering::Relaxed))
    }
}

fn delayed(retry_after: Duration) -> TooSoon {
    TooSoon { cause: TooSoonCause::CrawlDelay, retry_after }
}

/// The head of a queue.
struct QueueHead<'a> {
    permit: TurnstilePermit,
    inside: InsideGuard<'a>,
}

/// Counts as a request past the turnstile while it lives.
struct InsideGuard<'a>(&'a AtomicU32);

impl<'a> InsideGuard<'a> {
    fn new(count: &'a AtomicU32) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for InsideGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A request for a slot.
#[derive(Clone, Copy)]
pub(super) struct QueueRequest<'a> {
    pub(super) origin: &'a Origin,
    /// The unit that shares the origin's pace.
    pub(super) unit: Option<&'a PaceUnit>,
    /// The client, whose turn it takes.
    pub(super) holder: Holder,
    pub(super) pace: &'a str,
    /// The time for which its end is remembered.
    pub(super) remembered_for: Duration,
    /// Whether it waits until the origin's rest is over.
    pub(super) obeys_rest: bool,
    /// Whether it keeps its turn if it is refused, because its client learns when to come again.
    pub(super) keeps_turn: bool,
    /// The end of its wait: a slot granted later is useless.
    pub(super) deadline: Instant,
}

impl QueueRequest<'_> {
    /// Returns the key of the request's queue.
    fn queue_key(&self) -> QueueKey {
        match self.unit {
            // Whoever shares a pace shares it with all crawlers: it is for the sake of the server, which sees the sum.
            Some(unit) => (unit.clone(), String::new()),
            None => self.own_queue_key(),
        }
    }

    /// Returns the key of the queue of an origin that shares no pace.
    fn own_queue_key(&self) -> QueueKey {
        // Product tokens are compared regardless of case (RFC 9309, 2.2.1).
        (PaceUnit::Origin(self.origin.clone()), self.pace.to_ascii_lowercase())
    }

    /// Returns the fleet's queue for this request; `kind` separates delays from concurrency slots.
    fn fleet_queue(&self, kind: &str) -> fleet::engine::QueueId {
        let (unit, pace) = self.queue_key();
        fleet::engine::QueueId { origin: unit.to_string(), name: format!("{kind}/{pace}") }
    }

    /// Returns whose turn the request takes. In a shared pace, origins take turns, and crawlers as clients do.
    fn turn_holder(&self) -> TurnHolder {
        match self.unit {
            Some(_) => self.turn_holder_among_origins(),
            None => {
                let address = hash(self.holder);
                TurnHolder { origin: 0, client: address, address }
            }
        }
    }

    pub(super) fn turn_holder_among_origins(&self) -> TurnHolder {
        TurnHolder {
            origin: hash(self.origin),
            client: hash((self.holder, self.pace.to_ascii_lowercase())),
            address: hash(self.holder),
        }
    }
}

/// Two holders with one hash would only share their turns.
fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl PaceQueues {
    /// Waits for a place at the head of this request's queue, on this node and then in `fleet`. A request without a `delay`
    /// needs none afterwards: it only waits for the delays of others in a shared pace.
    pub(super) async fn wait_for_place(
        &self,
        request: QueueRequest<'_>,
        delay: Duration,
        fleet: &Fleet,
    ) -> Result<Option<QueuePlace>, TooSoon> {
        let queue = match self.queue(request) {
            Ok(queue) => queue,
            // Nothing is known of a queue for which there is no room, so nothing pends there.
            Err(_) if delay.is_zero() => return Ok(None),
            Err(share_full) => return Err(share_full),
        };
        // The local queue comes first, so that one node has at most one request per queue waiting in the fleet.
        let QueueHead { permit, inside } = queue.wait_for_head(request, delay).await?;
        let terms = SlotTerms {
            most: 1,
            delay,
            remembered_for: request.remembered_for,
            is_held: !delay.is_zero(),
            obeys_rest: request.obeys_rest,
            keeps_turn: request.keeps_turn && queue.turnstile.keeps_turn(request.turn_holder()),
        };
        let slot = fleet
            .wait_for_slot(|| request.fleet_queue("pace"), terms, request.deadline)
            .await
            .map_err(|no_slot| match no_slot {
                NoSlot::NotInTime(wait) => queue.refuse(request, wait),
                NoSlot::Resting(rest) => {
                    TooSoon { cause: TooSoonCause::OriginRests, retry_after: rest }
                }
                NoSlot::EngineAway => {
                    TooSoon { cause: TooSoonCause::FleetLost, retry_after: delay.max(ENGINE_RETRY) }
                }
            })?;
        drop(inside);
        let remembered_for = request.remembered_for;
        let holder = request.turn_holder();
        queue.turnstile.end_turn(holder);
        let turn = Mutex::new(PlaceTurn::Held(ConcurrencySlot::new(slot, permit)));
        let place = QueuePlace { queue, delay, remembered_for, holder, turn };
        // Dropped, a place ends here, and the next request follows.
        Ok((!delay.is_zero()).then_some(place))
    }

    /// Returns the request's queue, if it exists or the client's share has room for another.
    fn queue(&self, request: QueueRequest<'_>) -> Result<Arc<PaceQueue>, TooSoon> {
        let now = Instant::now();
        // A queue with a pending delay is not idle: forgotten, it would let the next request go at once.
        let mut queues = lock(&self.0);
        let key = request.queue_key();
        let queue = queues.get_or_insert(request.holder, key, PaceQueue::new, |queue| {
            lock(&queue.last).is_none_or(|last| last.is_over(now))
        })?;
        if request.unit.is_some()
            && let Some(before_reload) = queues.get(&request.own_queue_key())
        {
            queue.keep_delay_of(&before_reload);
        }
        Ok(queue)
    }
}

/// A request's place at the head of its queue.
pub(super) struct QueuePlace {
    queue: Arc<PaceQueue>,
    delay: Duration,
    remembered_for: Duration,
    holder: TurnHolder,
    turn: Mutex<PlaceTurn>,
}

/// The turn of a request at the head of its queue.
enum PlaceTurn {
    Held(ConcurrencySlot),
    /// It passed to others at this instant, because the origin does not answer.
    Passed(Instant),
    Over,
}

impl QueuePlace {
    /// Lets the next request follow, after the delay, although the origin has not answered this one. Until it does, this
    /// client comes after all others: a page that hangs takes a single turn.
    pub(super) fn pass_turn(&self) {
        let mut turn = lock(&self.turn);
        if matches!(*turn, PlaceTurn::Held(_)) {
            // Before the permit is passed on.
            self.queue.turnstile.await_answer(self.holder);
            let now = self.note_end();
            *turn = PlaceTurn::Passed(now);
        }
    }

    /// Lets the next request's delay start now. Only the first call has an effect.
    pub(super) fn release(&self) {
        // Before the permit is passed on: its next holder reads the end.
        match std::mem::replace(&mut *lock(&self.turn), PlaceTurn::Over) {
            PlaceTurn::Held(_slot) => {
                self.note_end();
            }
            PlaceTurn::Passed(at) => {
                self.queue.turnstile.note_answer(self.holder);
                // As long as no other was sent, the delay counts from the answer.
                if self.queue.ended_at() == Some(at) {
                    self.note_end();
                }
            }
            PlaceTurn::Over => {}
        }
    }

    /// Lets the delay start now.
    fn note_end(&self) -> Instant {
        let Self { delay, remembered_for, .. } = *self;
        let ended_at = Instant::now();
        *lock(&self.queue.last) = Some(LastRequest { ended_at, delay, remembered_for });
        ended_at
    }

    /// Lets the delay begin anew, unless a later request's lasts longer.
    pub(super) fn begin_delay_again(&self) {
        let Self { delay, remembered_for, .. } = *self;
        let anew = LastRequest { ended_at: Instant::now(), delay, remembered_for };
        let mut last = lock(&self.queue.last);
        if last.is_none_or(|last| last.next_at(Duration::ZERO) < anew.next_at(Duration::ZERO)) {
            *last = Some(anew);
        }
    }

    /// Returns the delay between the queue's requests.
    pub(super) fn delay(&self) -> Duration {
        self.delay
    }

    /// Returns the time until another request of this client would get a place, as far as this node knows.
    pub(super) fn next_in(&self) -> Duration {
        let ahead = self.queue.ahead_of(self.holder);
        let next_at = self.queue.next_at(self.delay);
        let until =
            next_at.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()));
        until.saturating_add(self.delay.saturating_mul(ahead))
    }

    /// Returns whether another node may hold the slot by now.
    pub(super) fn may_have_expired(&self) -> bool {
        match &*lock(&self.turn) {
            PlaceTurn::Held(slot) => slot.may_have_expired(),
            PlaceTurn::Passed(_) | PlaceTurn::Over => false,
        }
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        self.release();
    }
}

/// One of a limited number of slots, on this node and in the fleet, released when dropped. Boxed, because every request
/// in progress has room for it.
pub(super) struct ConcurrencySlot(Option<Box<(Option<FleetSlot>, TurnstilePermit)>>);

impl ConcurrencySlot {
    fn new(fleet_slot: Option<FleetSlot>, permit: TurnstilePermit) -> Self {
        Self(Some(Box::new((fleet_slot, permit))))
    }

    /// Returns whether anybody waits for the slot on this node, or was refused and may come back.
    pub(super) fn is_wanted(&self) -> bool {
        self.0.as_deref().is_some_and(|(_, permit)| permit.is_wanted())
    }

    /// Returns whether another node may hold the slot by now.
    pub(super) fn may_have_expired(&self) -> bool {
        let fleet_slot = self.0.as_deref().and_then(|(fleet_slot, _)| fleet_slot.as_ref());
        fleet_slot.is_some_and(FleetSlot::may_have_expired)
    }
}

impl Drop for ConcurrencySlot {
    fn drop(&mut self) {
        if let Some(taken) = self.0.take() {
            // The local permit is released only after the fleet's slot, or the node would ask for a second one
            // meanwhile.
            let (fleet_slot, permit) = *taken;
            if let Some(fleet_slot) = fleet_slot {
                fleet_slot.release_with(permit);
            }
        }
    }
}

/// The concurrency slots, by queue and limit.
#[derive(Default)]
pub(super) struct ConcurrencySlots(Mutex<SharedValues<(QueueKey, usize), ConcurrencyQueue>>);

/// The requests to one origin that has a limit of concurrent ones.
struct ConcurrencyQueue {
    turnstile: Arc<Turnstile>,
    /// Held by the request that waits for a slot in the fleet: those behind it would only ask again and again in vain, and each
    /// answer costs the engine more the more wait there.
    fleet_turn: tokio::sync::Mutex<()>,
}

impl ConcurrencySlots {
    /// Waits for one of `count` slots of this unit and pace, on this node and then in `fleet`; a `count` of 0 means
    /// no limit. Slots are per pace because a slow reader holds one for long and must not block others.
    pub(super) async fn acquire(
        &self,
        request: QueueRequest<'_>,
        count: usize,
        fleet: &Fleet,
    ) -> Result<Option<ConcurrencySlot>, TooSoon> {
        if count == 0 {
            return Ok(None);
        }
        // When a slot will be free is unknown: a response may take any time.
        let too_soon =
            TooSoon { cause: TooSoonCause::Concurrency, retry_after: Duration::from_secs(1) };
        // Each permit in use holds a reference.
        let key = (request.queue_key(), count);
        let new = || ConcurrencyQueue {
            turnstile: Turnstile::new(count),
            fleet_turn: tokio::sync::Mutex::default(),
        };
        let queue = lock(&self.0).get_or_insert(request.holder, key, new, |queue| {
            Arc::strong_count(&queue.turnstile) == 1
        })?;
        let slots = &queue.turnstile;
        let holder = request.turn_holder();
        let refuse = || {
            if request.keeps_turn {
                slots.keep_turn(holder, Instant::now() + too_soon.retry_after);
            }
            too_soon
        };
        let permit = if request.deadline <= Instant::now() {
            slots.try_take_turn(holder, None).ok_or_else(refuse)?
        } else {
            timeout_at(request.deadline, slots.acquire(holder)).await.map_err(|_| too_soon)?
        };
        let terms = SlotTerms {
            most: count,
            delay: Duration::ZERO,
            remembered_for: Duration::ZERO,
            is_held: true,
            obeys_rest: false,
            keeps_turn: request.keeps_turn && slots.keeps_turn(holder),
        };
        let _fleet_turn = if request.deadline > Instant::now() {
            let turn = timeout_at(request.deadline, queue.fleet_turn.lock()).await;
            Some(turn.map_err(|_| too_soon)?)
        } else {
            None
        };
        let queue_id = || request.fleet_queue("slots");
        let slot =
            fleet.wait_for_slot(queue_id, terms, request.deadline).await.map_err(|_| refuse())?;
        slots.end_turn(holder);
        Ok(Some(ConcurrencySlot::new(slot, permit)))
    }
}
