//! Queues for Crawl-delay and slots for concurrency, one of each per origin and pace.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use wayleave_robots_txt::Origin;

use super::too_soon::{TooSoon, TooSoonCause};
use super::turnstile::{Turnstile, TurnstilePermit, lock};
use crate::fleet::{self, Fleet, FleetSlot, NoSlot};

/// The number of values at which idle ones are removed for the first time; then again whenever it has doubled.
const SWEEP_THRESHOLD: usize = 1024;
/// The maximum number of values, some 100 MB. A request for another one comes too soon; none in use is ever dropped.
const MAX_ENTRIES: usize = 250_000;
/// The minimum time between two sweeps of a full map.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// The `Retry-After` while the fleet's engine is unreachable: about the interval of reconnection attempts.
pub(super) const ENGINE_RETRY: Duration = Duration::from_secs(2);

/// Shared values by key; idle ones are removed.
struct SharedValues<K, V> {
    values: HashMap<K, Arc<V>>,
    sweep_at: usize,
    swept_at: Option<Instant>,
}

impl<K: Hash + Eq, V> SharedValues<K, V> {
    /// Returns the value of `key`, or `None` if the map is full.
    fn get_or_insert(
        &mut self,
        key: K,
        new: impl FnOnce() -> V,
        is_idle: impl Fn(&V) -> bool,
    ) -> Option<Arc<V>> {
        if let Some(value) = self.values.get(&key) {
            return Some(Arc::clone(value));
        }
        // A sweep reads all values, so the map has to double before the next one.
        if self.values.len() >= self.sweep_at && self.may_sweep() {
            self.values.retain(|_, value| Arc::strong_count(value) > 1 || !is_idle(value));
            self.sweep_at = (2 * self.values.len()).clamp(SWEEP_THRESHOLD, MAX_ENTRIES);
            self.swept_at = Some(Instant::now());
        }
        (self.values.len() < MAX_ENTRIES)
            .then(|| Arc::clone(self.values.entry(key).or_insert_with(|| Arc::new(new()))))
    }

    fn may_sweep(&self) -> bool {
        // A full map would otherwise be swept by every request, though all of its values are in use.
        self.values.len() < MAX_ENTRIES
            || self.swept_at.is_none_or(|at| at.elapsed() >= SWEEP_INTERVAL)
    }
}

impl<K, V> Default for SharedValues<K, V> {
    fn default() -> Self {
        Self { values: HashMap::new(), sweep_at: SWEEP_THRESHOLD, swept_at: None }
    }
}

/// The queues, by origin and pace (in lower case).
#[derive(Default)]
pub(super) struct PaceQueues(Mutex<SharedValues<(Origin, String), PaceQueue>>);

/// A queue of one at a time, in which waiting clients take turns.
struct PaceQueue {
    turnstile: Arc<Turnstile>,
    /// The requests that passed the turnstile and whose delay is not over yet.
    inside: AtomicU32,
    /// The earliest instant for the next request; `None` before the first.
    next_at: Mutex<Option<Instant>>,
}

impl PaceQueue {
    fn new() -> Self {
        Self { turnstile: Turnstile::new(1), inside: AtomicU32::new(0), next_at: Mutex::new(None) }
    }

    /// Waits until this request is at the head of the queue and the delay since the one before is over.
    async fn wait_for_head(
        &self,
        request: QueueRequest<'_>,
        delay: Duration,
    ) -> Result<QueueHead<'_>, TooSoon> {
        let deadline = request.deadline;
        let ahead = self.ahead_of(request.client);
        let now = Instant::now();
        let next_at = *lock(&self.next_at);
        let expected_at = next_at.map_or(now, |at| at.max(now)) + delay * ahead;
        // Refused at once instead of after a wait in vain.
        if ahead > 0 && expected_at > deadline {
            return Err(delayed(expected_at - now));
        }
        let permit = match self.turnstile.try_acquire(request.client) {
            Some(permit) => permit,
            // A request that may not wait must not join the queue, not even for a moment.
            None if deadline <= Instant::now() => return Err(delayed(delay)),
            None => timeout_at(deadline, self.turnstile.acquire(request.client))
                .await
                .map_err(|_| delayed(delay))?,
        };
        // Until the fleet grants a slot, this request still comes before those that wait here.
        let inside = InsideGuard::new(&self.inside);
        // Read again: the request before this one has set it meanwhile.
        let next_at = *lock(&self.next_at);
        if let Some(next_at) = next_at {
            if next_at > deadline {
                return Err(delayed(next_at - Instant::now()));
            }
            tokio::time::sleep_until(next_at).await;
        }
        Ok(QueueHead { permit, inside })
    }

    /// Returns how many requests come before the next one of `client`.
    fn ahead_of(&self, client: IpAddr) -> u32 {
        let waiting = u32::try_from(self.turnstile.ahead_of(client)).unwrap_or(u32::MAX);
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
    /// The client's address, reduced to its network.
    pub(super) client: IpAddr,
    pub(super) pace: &'a str,
    /// The end of its wait: a slot granted later is useless.
    pub(super) deadline: Instant,
}

impl QueueRequest<'_> {
    /// Returns the fleet's queue for this request; `kind` separates delays from concurrency slots.
    fn fleet_queue(&self, kind: &str) -> fleet::engine::QueueId {
        fleet::engine::QueueId {
            origin: self.origin.to_string(),
            name: format!("{kind}/{}", self.pace.to_ascii_lowercase()),
        }
    }
}

impl PaceQueues {
    /// Waits for a place at the head of this origin's and pace's queue, on this node and then in `fleet`.
    pub(super) async fn wait_for_place(
        &self,
        request: QueueRequest<'_>,
        delay: Duration,
        fleet: &Fleet,
    ) -> Result<QueuePlace, TooSoon> {
        // Product tokens are compared regardless of case (RFC 9309, 2.2.1).
        let key = (request.origin.clone(), request.pace.to_ascii_lowercase());
        // A queue with a pending delay is not idle: forgotten, it would let the next request go at once.
        let is_idle = |queue: &PaceQueue| *lock(&queue.next_at) <= Some(Instant::now());
        let queue = lock(&self.0)
            .get_or_insert(key, PaceQueue::new, is_idle)
            .ok_or_else(|| delayed(delay))?;
        // The local queue comes first, so that one node has at most one request per queue waiting in the fleet.
        let QueueHead { permit, inside } = queue.wait_for_head(request, delay).await?;
        let slot = fleet
            .wait_for_slot(|| request.fleet_queue("pace"), 1, delay, request.deadline)
            .await
            .map_err(|no_slot| match no_slot {
                NoSlot::NotInTime(wait) => delayed(wait),
                NoSlot::EngineAway => {
                    TooSoon { cause: TooSoonCause::FleetLost, retry_after: delay.max(ENGINE_RETRY) }
                }
            })?;
        drop(inside);
        Ok(QueuePlace { queue, delay, slot: Mutex::new(Some(ConcurrencySlot::new(slot, permit))) })
    }
}

/// A request's place at the head of its queue.
pub(super) struct QueuePlace {
    queue: Arc<PaceQueue>,
    delay: Duration,
    slot: Mutex<Option<ConcurrencySlot>>,
}

impl QueuePlace {
    /// Lets the next request's delay start now. Only the first call counts.
    pub(super) fn release(&self) {
        if let Some(slot) = lock(&self.slot).take() {
            // Before the permit is passed on: its next holder reads this.
            *lock(&self.queue.next_at) = Some(Instant::now() + self.delay);
            drop(slot);
        }
    }

    /// Returns the delay between the queue's requests.
    pub(super) fn delay(&self) -> Duration {
        self.delay
    }

    /// Returns the time until another request of `client` would get a place, as far as this node knows.
    pub(super) fn next_in(&self, client: IpAddr) -> Duration {
        let ahead = self.queue.ahead_of(client);
        let next_at = *lock(&self.queue.next_at);
        let until =
            next_at.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()));
        until.saturating_add(self.delay.saturating_mul(ahead))
    }

    /// Returns whether another node may hold the slot by now.
    pub(super) fn may_have_expired(&self) -> bool {
        lock(&self.slot).as_ref().is_some_and(ConcurrencySlot::may_have_expired)
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

/// The concurrency slots, by origin, pace and limit.
#[derive(Default)]
pub(super) struct ConcurrencySlots(Mutex<SharedValues<(Origin, String, usize), Arc<Turnstile>>>);

impl ConcurrencySlots {
    /// Waits for one of `count` slots of this origin and pace, on this node and then in `fleet`; a `count` of 0 means
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
        let is_idle = |slots: &Arc<Turnstile>| Arc::strong_count(slots) == 1;
        let key = (request.origin.clone(), request.pace.to_ascii_lowercase(), count);
        let slots =
            lock(&self.0).get_or_insert(key, || Turnstile::new(count), is_idle).ok_or(too_soon)?;
        let permit = timeout_at(request.deadline, slots.acquire(request.client))
            .await
            .map_err(|_| too_soon)?;
        let queue = || request.fleet_queue("slots");
        let slot = fleet
            .wait_for_slot(queue, count, Duration::ZERO, request.deadline)
            .await
            .map_err(|_| too_soon)?;
        Ok(Some(ConcurrencySlot::new(slot, permit)))
    }
}
