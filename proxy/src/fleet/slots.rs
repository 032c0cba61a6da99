//! Slots: the right to send a request to an origin now, shared by all nodes.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use ring::digest::{SHA256, digest};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use super::engine::{QueueId, SlotAnswer, SlotRequest};
use super::handle::{Fleet, FleetInner, OnLoss, lock};
use super::held_slots::{ClockReading, HeldSlot};
use super::watch::LOSS_NOTICED_WITHIN;

/// The time after which a slot that its node neither renews nor releases expires.
const SLOT_LEASE: Duration = Duration::from_secs(15);
/// The pause before a release that failed is tried again.
const RELEASE_RETRY: Duration = Duration::from_millis(250);
/// The pause before a request looks again for a slot of this node's share, while the engine is away.
const SHARE_POLL: Duration = Duration::from_millis(100);

/// The reasons why a request gets no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoSlot {
    /// No slot is free before the timeout; one may be after this time.
    NotInTime(Duration),
    /// The engine is away, so the time of the last request is unknown.
    EngineAway,
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
        f.debug_tuple("Held").field(&self.request).finish()
    }
}

impl Fleet {
    /// Waits until `latest` for a slot in a queue that has `most` slots at a time and a `delay` between them. Returns `None` on a
    /// node without a fleet, which needs no slot. Must be called within a tokio runtime.
    pub(crate) async fn wait_for_slot(
        &self,
        queue: impl FnOnce() -> QueueId,
        most: usize,
        delay: Duration,
        latest: Instant,
    ) -> Result<Option<FleetSlot>, NoSlot> {
        if !self.is_shared() {
            return Ok(None);
        }
        let started = Instant::now();
        let shared = &self.inner;
        let mut held = FleetSlot::new(shared, queue(), most, delay);
        loop {
            held.request.timeout = latest.saturating_duration_since(Instant::now());
            held.is_requested = true;
            let asked_at = ClockReading::now();
            let taken = match shared.slot_after_return(&held.request) {
                Some(taken) => Ok(taken),
                None => {
                    shared
                        .call_engine("take", shared.engine.take(&held.request))
                        .await
                }
            };
            let taken = match taken {
                Ok(taken) => taken,
                Err(_) => shared
                    .slot_without_engine(&held.request)
                    .inspect_err(|_| shared.count_slot("unknown", started.elapsed()))?,
            };
            match taken {
                // This node was suspended meanwhile: the slot may have expired and be another's.
                SlotAnswer::Granted if !asked_at.is_recent() => {}
                SlotAnswer::Granted => {
                    held.mark_held(asked_at);
                    shared.count_slot("go", started.elapsed());
                    return Ok(Some(held));
                }
                SlotAnswer::Queued(again) => sleep(again).await,
                SlotAnswer::NotInTime(wait) => {
                    held.is_requested = false;
                    shared.count_slot("too_soon", started.elapsed());
                    return Err(NoSlot::NotInTime(wait));
                }
            }
        }
    }
}

impl FleetInner {
    /// Decides without the engine while it has just come back, because other nodes may not know yet and act without it.
    fn slot_after_return(&self, turn: &SlotRequest) -> Option<SlotAnswer> {
        let left = self.return_window_left()?;
        match (turn.delay.is_zero(), self.options.on_loss) {
            (true, _) => Some(self.slot_of_own_share(turn)),
            (false, OnLoss::Refuse) => None,
            (false, OnLoss::Home) => Some(match left + turn.delay {
                quiet if quiet <= turn.timeout => SlotAnswer::Queued(quiet),
                quiet => SlotAnswer::NotInTime(quiet),
            }),
        }
    }

    /// Decides without the engine while it is away.
    fn slot_without_engine(&self, turn: &SlotRequest) -> Result<SlotAnswer, NoSlot> {
        if turn.delay.is_zero() {
            return Ok(self.slot_of_own_share(turn));
        }
        let Some(trouble) = self.breaker.last_failure() else {
            return Err(NoSlot::EngineAway);
        };
        let is_ours = self.options.on_loss == OnLoss::Home
            && self.breaker.is_open()
            && self.is_home(&turn.queue.origin);
        if !is_ours {
            return Err(NoSlot::EngineAway);
        }
        // The last request is unknown, but no node sent one later than it noticed the loss.
        let quiet = turn.delay + LOSS_NOTICED_WITHIN;
        let quiet = quiet.saturating_sub(trouble.since.elapsed());
        Ok(match quiet {
            Duration::ZERO => SlotAnswer::Granted,
            quiet if quiet <= turn.timeout => SlotAnswer::Queued(quiet),
            quiet => SlotAnswer::NotInTime(quiet),
        })
    }

    /// Decides by this node's share of the slots: an equal part of all, but at least one.
    fn slot_of_own_share(&self, turn: &SlotRequest) -> SlotAnswer {
        let members = self.sharing_nodes.load(Ordering::Relaxed).max(1);
        let share = (turn.max_concurrent / members).max(1);
        let under_way = lock(&self.held_slots);
        let turns = under_way.values().map(|other| &other.request);
        let of_queue = turns.filter(|other| other.queue == turn.queue);
        if of_queue.count() < share {
            SlotAnswer::Granted
        } else if turn.timeout.is_zero() {
            SlotAnswer::NotInTime(SHARE_POLL)
        } else {
            SlotAnswer::Queued(SHARE_POLL.min(turn.timeout))
        }
    }

    /// Returns whether this node is the origin's home, the node with the highest weight by rendezvous hashing.
    fn is_home(&self, origin: &str) -> bool {
        let beat = lock(&self.last_beat);
        let weight = |node: &str| {
            let digest = digest(&SHA256, format!("{node}\0{origin}").as_bytes());
            digest.as_ref().first_chunk::<8>().copied()
        };
        let nodes = beat.members.iter().map(|member| member.node.as_str());
        let home = nodes.max_by_key(|node| weight(node));
        home == Some(&self.options.node)
    }

    /// Renews the slots that this node holds.
    pub(super) async fn renew_slots(&self) {
        let turns: Vec<SlotRequest> = {
            let turns = lock(&self.held_slots);
            turns.values().map(|it| it.request.clone()).collect()
        };
        let keeping = turns.into_iter().map(|turn| async move {
            let asked_at = ClockReading::now();
            // A failure is counted, and the next beat tries again.
            if self
                .call_engine("take", self.engine.take(&turn))
                .await
                .is_ok()
            {
                self.note_renewal(turn.number, asked_at);
            }
            let is_left = !lock(&self.held_slots).contains_key(&turn.number);
            if is_left {
                // It was released during the call, which may have taken it again. If this fails as well, it expires.
                let _ = self.call_engine("leave", self.engine.leave(&turn)).await;
            }
        });
        join_all(keeping).await;
    }

    /// Notes that the engine renewed a slot. A slot that may have expired before is not revived: another node may have used it.
    fn note_renewal(&self, number: u64, asked_at: ClockReading) {
        let mut turns = lock(&self.held_slots);
        let was_sure = |it: &&mut HeldSlot| it.confirmed_at.was_recent_at(asked_at);
        let kept = turns.get_mut(&number).filter(was_sure);
        if let Some(kept) = kept {
            kept.confirmed_at = asked_at;
        }
    }

    fn count_slot(&self, answer: &'static str, waited: Duration) {
        if let Some(metrics) = &self.metrics {
            metrics.fleet().turn(answer, waited);
        }
    }
}

impl FleetSlot {
    fn new(shared: &Arc<FleetInner>, queue: QueueId, most: usize, delay: Duration) -> Self {
        let request = Box::new(SlotRequest {
            queue,
            number: shared.last_slot_number.fetch_add(1, Ordering::Relaxed) + 1,
            max_concurrent: most,
            delay,
            lease: SLOT_LEASE,
            timeout: Duration::ZERO,
            is_held: false,
        });
        Self {
            inner: Arc::clone(shared),
            request,
            is_requested: false,
            runtime: Handle::current(),
        }
    }

    fn mark_held(&mut self, sure_at: ClockReading) {
        self.request.is_held = true;
        let turn = SlotRequest::clone(&self.request);
        let under_way = HeldSlot {
            request: turn,
            confirmed_at: sure_at,
        };
        lock(&self.inner.held_slots).insert(self.request.number, under_way);
    }

    /// Returns whether another node may have the slot by now, because this one was suspended or cannot reach the engine.
    pub(crate) fn may_have_expired(&self) -> bool {
        let turns = lock(&self.inner.held_slots);
        let under_way = turns.get(&self.request.number);
        under_way.is_none_or(|it| !it.confirmed_at.is_recent())
    }

    /// Releases the slot. `permit` is dropped once the engine knows, so that this node's next request comes after it.
    pub(crate) fn release_with<P: Send + 'static>(mut self, permit: P) {
        self.release(permit);
    }

    fn release<P: Send + 'static>(&mut self, permit: P) {
        if !std::mem::take(&mut self.is_requested) {
            return;
        }
        lock(&self.inner.held_slots).remove(&self.request.number);
        let (shared, turn) = (Arc::clone(&self.inner), SlotRequest::clone(&self.request));
        let mut leaving = Box::pin(async move { shared.release_slot(turn, permit).await });
        if (&mut leaving).now_or_never().is_none() {
            self.runtime.spawn(leaving);
        }
    }
}

impl FleetInner {
    async fn release_slot<P: Send>(&self, turn: SlotRequest, permit: P) {
        let started = Instant::now();
        let left = self.call_engine("leave", self.engine.leave(&turn)).await;
        drop(permit);
        let mut is_left = left.is_ok();
        while !is_left && started.elapsed() < SLOT_LEASE {
            sleep(RELEASE_RETRY).await;
            is_left = self
                .call_engine("leave", self.engine.leave(&turn))
                .await
                .is_ok();
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
