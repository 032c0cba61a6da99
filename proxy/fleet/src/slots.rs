//! Slots: the right to send a request to an origin now, shared by all nodes.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::ready;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use ring::digest::{SHA256, digest};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use super::engine::{QueueId, SlotAnswer, SlotRequest};
use super::handle::{Fleet, FleetInner, OnLoss, lock};
use super::held_slots::{ClockReading, HeldSlot, MAX_CONCURRENT_CALLS};
use super::watch::LOSS_NOTICED_WITHIN;

/// The time after which a slot that its node neither renews nor releases expires.
const SLOT_LEASE: Duration = Duration::from_secs(15);
/// The pause before a release that failed is tried again.
const RELEASE_RETRY: Duration = Duration::from_millis(250);
/// The pause before a request looks again for a slot of this node's share, while the engine is away.
const SHARE_POLL: Duration = Duration::from_millis(100);

/// The reasons why a request gets no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSlot {
    /// No slot is free before the timeout; one may be after this time.
    NotInTime(Duration),
    /// The origin rests for this time.
    Resting(Duration),
    /// The engine is away, so the time of the last request is unknown.
    EngineAway,
}

/// The terms of a slot.
#[derive(Clone, Copy, Debug)]
pub struct SlotTerms {
    /// The most slots that are held at a time.
    pub most: usize,
    /// The time from the end of one slot to the start of the next.
    pub delay: Duration,
    /// The time for which its end is remembered after the delay.
    pub remembered_for: Duration,
    /// Whether it is held until it is released. Otherwise it only marks the time.
    pub is_held: bool,
    /// Whether none is granted while the origin rests.
    pub obeys_rest: bool,
    /// Whether this node's next request takes the turn of one that is refused because it may not wait.
    pub keeps_turn: bool,
}

/// A slot, or a place in the queue for one. It is released when this is dropped.
pub struct FleetSlot {
    inner: Arc<FleetInner>,
    /// Boxed, because every request in progress has space for one, and few need it.
    request: Box<SlotRequest>,
    /// Whether the engine may know of it, so that it has to be released.
    is_requested: bool,
    runtime: Handle,
}

impl fmt::Debug for FleetSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FleetSlot").field(&self.request).finish()
    }
}

impl Fleet {
    /// Waits at most until `deadline` for a slot in a queue. Returns `None` if there is nothing to release: on a node without a
    /// fleet, which needs no slot, and for a slot that is not held. Must be called within a tokio runtime.
    pub async fn wait_for_slot(
        &self,
        queue: impl FnOnce() -> QueueId,
        terms: SlotTerms,
        deadline: Instant,
    ) -> Result<Option<FleetSlot>, NoSlot> {
        if !self.is_shared() {
            return Ok(None);
        }
        let started = Instant::now();
        let inner = &self.inner;
        // Made before the engine is asked, so that a caller that stops waiting drops it and releases its place in the queue.
        let mut slot = FleetSlot::new(inner, queue(), terms);
        loop {
            slot.request.timeout = deadline.saturating_duration_since(Instant::now());
            // While the breaker is open no call is made, so the engine learns nothing.
            slot.is_requested |= !inner.breaker.is_open();
            let requested_at = ClockReading::now();
            match inner.request_slot(&slot.request, requested_at).await {
                // This node was suspended meanwhile: the slot may have expired and be another's.
                Ok(SlotAnswer::Granted) if !requested_at.is_recent() => {}
                Ok(SlotAnswer::Granted) if !terms.is_held => {
                    slot.is_requested = false;
                    inner.count_slot("go", started.elapsed());
                    return Ok(None);
                }
                Ok(SlotAnswer::Granted) => {
                    slot.mark_held(requested_at);
                    inner.count_slot("go", started.elapsed());
                    return Ok(Some(slot));
                }
                Ok(SlotAnswer::Queued(again)) => sleep(again).await,
                // The engine keeps no place for it.
                Ok(SlotAnswer::NotInTime(wait)) => {
                    slot.is_requested = false;
                    inner.count_slot("too_soon", started.elapsed());
                    return Err(NoSlot::NotInTime(wait));
                }
                Ok(SlotAnswer::Resting(rest)) => {
                    slot.is_requested = false;
                    inner.count_slot("too_soon", started.elapsed());
                    return Err(NoSlot::Resting(rest));
                }
                Err(no_slot) => {
                    inner.count_slot("unknown", started.elapsed());
                    return Err(no_slot);
                }
            }
        }
    }
}

impl FleetInner {
    /// Requests a slot from the engine, or decides without it while other nodes may not know that it is back.
    async fn request_slot(
        &self,
        request: &SlotRequest,
        requested_at: ClockReading,
    ) -> Result<SlotAnswer, NoSlot> {
        if let Some(answer) = self.slot_after_return(request, requested_at) {
            return Ok(answer);
        }
        match self.call_engine("take", self.engine.take_slot(request)).await {
            Ok(answer) => Ok(answer),
            Err(_) => self.slot_without_engine(request, requested_at),
        }
    }

    /// Decides without the engine when it has just come back, while other nodes may not know that it is back.
    fn slot_after_return(
        &self,
        request: &SlotRequest,
        requested_at: ClockReading,
    ) -> Option<SlotAnswer> {
        let left = self.return_window_left()?;
        if request.delay.is_zero() {
            return Some(self.slot_of_own_share(request, requested_at));
        }
        match self.settings.on_loss {
            // No node sends requests to such an origin without the engine.
            OnLoss::Refuse => None,
            OnLoss::Home => Some(request.answer_after(left + request.delay)),
        }
    }

    /// Decides without the engine while it is away.
    fn slot_without_engine(
        &self,
        request: &SlotRequest,
        requested_at: ClockReading,
    ) -> Result<SlotAnswer, NoSlot> {
        if request.delay.is_zero() {
            return Ok(self.slot_of_own_share(request, requested_at));
        }
        // A single failed call proves nothing: the other nodes may still use the engine.
        let is_ours = self.settings.on_loss == OnLoss::Home
            && self.breaker.is_open()
            && self.is_home(&request.queue.origin);
        let Some(loss) = self.breaker.last_failure().filter(|_| is_ours) else {
            return Err(NoSlot::EngineAway);
        };
        // The last request is unknown, but no node sent one later than it noticed the loss.
        let quiet = request.delay + LOSS_NOTICED_WITHIN;
        Ok(request.answer_after(quiet.saturating_sub(loss.since.elapsed())))
    }

    /// Decides by this node's share of the slots: an equal part of all, but at least one. A slot that is granted and held counts
    /// at once.
    fn slot_of_own_share(&self, request: &SlotRequest, requested_at: ClockReading) -> SlotAnswer {
        let nodes = self.sharing_nodes.load(Ordering::Relaxed).max(1);
        let share = (request.max_concurrent / nodes).max(1);
        // Held until the slot is counted: another worker may ask for the last one at the same time.
        let mut held_slots = lock(&self.held_slots);
        let others = held_slots.values().map(|held| &held.request);
        let others =
            others.filter(|other| other.queue == request.queue && other.number != request.number);
        if others.count() < share {
            if !request.lease.is_zero() {
                held_slots.insert(request.number, HeldSlot::new(request, requested_at));
            }
            SlotAnswer::Granted
        } else if request.timeout.is_zero() {
            SlotAnswer::NotInTime(SHARE_POLL)
        } else {
            SlotAnswer::Queued(SHARE_POLL.min(request.timeout))
        }
    }

    /// Returns whether this node is the origin's home, the node with the highest weight by rendezvous hashing.
    fn is_home(&self, origin: &str) -> bool {
        let beat = lock(&self.last_beat);
        let weight = |node: &str| {
            let digest = digest(&SHA256, format!("{node}\0{origin}").as_bytes());
            digest.as_ref().first_chunk::<8>().copied()
        };
        // Nodes with different lists may name different homes; only then both crawl the origin.
        let nodes = beat.members.iter().map(|member| member.node.as_str());
        nodes.max_by_key(|node| weight(node)) == Some(&self.settings.node)
    }

    /// Renews the slots that this node holds.
    pub(super) async fn renew_slots(&self) {
        // Copied, because the lock must not be held across the calls.
        let requests: Vec<SlotRequest> = {
            let held_slots = lock(&self.held_slots);
            held_slots.values().map(|held| held.request.clone()).collect()
        };
        let renewals = stream::iter(requests).map(|request| async move {
            // It may have been released while others were renewed.
            if !lock(&self.held_slots).contains_key(&request.number) {
                return;
            }
            let requested_at = ClockReading::now();
            let renewed = self.call_engine("take", self.engine.take_slot(&request)).await;
            // A failure is counted, and the next beat tries again.
            if renewed.is_ok() {
                self.note_renewal(request.number, requested_at);
            }
            let is_released = !lock(&self.held_slots).contains_key(&request.number);
            if is_released {
                // It was released while being renewed; the renewal may have taken it again. If this fails too, it expires.
                let _ = self.call_engine("leave", self.engine.release_slot(&request)).await;
            }
        });
        renewals.buffer_unordered(MAX_CONCURRENT_CALLS).for_each(|()| ready(())).await;
    }

    /// Notes that the engine renewed a slot. A slot that may have expired before is not revived: another node may have used it.
    fn note_renewal(&self, number: u64, requested_at: ClockReading) {
        if let Some(held) = lock(&self.held_slots).get_mut(&number)
            && held.confirmed_at.was_recent_at(requested_at)
        {
            held.confirmed_at = requested_at;
        }
    }

    fn count_slot(&self, answer: &'static str, waited: Duration) {
        if let Some(metrics) = &self.metrics {
            metrics.fleet().turn(answer, waited);
        }
    }
}

impl FleetSlot {
    fn new(inner: &Arc<FleetInner>, queue: QueueId, terms: SlotTerms) -> Self {
        let request = Box::new(SlotRequest {
            queue,
            number: inner.last_slot_number.fetch_add(1, Ordering::Relaxed) + 1,
            max_concurrent: terms.most,
            delay: terms.delay,
            remembered_for: terms.remembered_for,
            lease: if terms.is_held { SLOT_LEASE } else { Duration::ZERO },
            timeout: Duration::ZERO,
            obeys_rest: terms.obeys_rest,
            keeps_turn: terms.keeps_turn,
            is_held: false,
        });
        Self { inner: Arc::clone(inner), request, is_requested: false, runtime: Handle::current() }
    }

    fn mark_held(&mut self, confirmed_at: ClockReading) {
        self.request.is_held = true;
        // Even if it was granted without the engine, which learns of it when it is renewed.
        self.is_requested = true;
        let held = HeldSlot::new(&self.request, confirmed_at);
        lock(&self.inner.held_slots).insert(self.request.number, held);
    }

    /// Returns whether another node may have the slot by now, because this one was suspended or cannot reach the engine.
    pub fn may_have_expired(&self) -> bool {
        let held_slots = lock(&self.inner.held_slots);
        let held = held_slots.get(&self.request.number);
        held.is_none_or(|held| !held.confirmed_at.is_recent())
    }

    /// Releases the slot. `permit` is dropped after the first attempt to tell the engine, so that this node's next request
    /// reaches it later. If the attempt fails, the next request does not wait for another: it gets a slot of this node's share,
    /// or waits in the engine's queue until the release succeeds or the lease ends.
    pub fn release_with<P: Send + 'static>(mut self, permit: P) {
        self.release(permit);
    }

    fn release<P: Send + 'static>(&mut self, permit: P) {
        // Also one that was granted without the engine and could not be relied on any more.
        lock(&self.inner.held_slots).remove(&self.request.number);
        if !std::mem::take(&mut self.is_requested) {
            return;
        }
        let inner = Arc::clone(&self.inner);
        let request = SlotRequest::clone(&self.request);
        let mut releasing = Box::pin(async move { inner.release_slot(request, permit).await });
        // Polled once here, so that a call that completes at once needs no task.
        if (&mut releasing).now_or_never().is_none() {
            self.runtime.spawn(releasing);
        }
    }
}

impl FleetInner {
    async fn release_slot<P: Send>(&self, request: SlotRequest, permit: P) {
        let started = Instant::now();
        let mut released = self.call_engine("leave", self.engine.release_slot(&request)).await;
        drop(permit);
        while released.is_err() {
            sleep(RELEASE_RETRY).await;
            // It is never closed.
            let _turn = self.release_retries.acquire().await;
            // After its lease it has expired in the engine as well.
            if started.elapsed() >= SLOT_LEASE {
                return;
            }
            released = self.call_engine("leave", self.engine.release_slot(&request)).await;
        }
    }
}

impl Drop for FleetSlot {
    fn drop(&mut self) {
        self.release(());
    }
}

#[cfg(test)]
mod tests;
