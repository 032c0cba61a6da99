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

use super::engine::{Queue, Taken, Turn};
use super::handle::{Fleet, OnLoss, Shared, lock};
use super::under_way::{Moment, UnderWay};
use super::watch::NOTICED_WITHIN;

/// The time after which a slot that its node neither renews nor releases expires.
const TERM: Duration = Duration::from_secs(15);
/// The pause before a release that failed is tried again.
const LEAVE_AGAIN: Duration = Duration::from_millis(250);
/// The pause before a request looks again for a slot of this node's share, while the engine is away.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The reasons why a request gets no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoTurn {
    /// No slot is free before the timeout; one may be after this time.
    TooSoon(Duration),
    /// The engine is away, so the time of the last request is unknown.
    Unknown,
}

/// A slot, or a place in the queue for one. It is released when this is dropped.
pub struct Held {
    shared: Arc<Shared>,
    /// Boxed, because every request in progress has space for one, and few need it.
    turn: Box<Turn>,
    /// Whether the engine may know of it, so that it has to be released.
    is_asked: bool,
    runtime: Handle,
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Held").field(&self.turn).finish()
    }
}

impl Fleet {
    /// Waits until `latest` for a slot in a queue that has `most` slots at a time and a `delay` between them. Returns `None` on a
    /// node without a fleet, which needs no slot. Must be called within a tokio runtime.
    pub(crate) async fn turn(
        &self,
        queue: impl FnOnce() -> Queue,
        most: usize,
        delay: Duration,
        latest: Instant,
    ) -> Result<Option<Held>, NoTurn> {
        if !self.is_shared() {
            return Ok(None);
        }
        let started = Instant::now();
        let shared = &self.shared;
        let mut held = Held::new(shared, queue(), most, delay);
        loop {
            held.turn.patience = latest.saturating_duration_since(Instant::now());
            held.is_asked = true;
            let asked_at = Moment::now();
            let taken = match shared.take_returning(&held.turn) {
                Some(taken) => Ok(taken),
                None => shared.ask("take", shared.engine.take(&held.turn)).await,
            };
            let taken = match taken {
                Ok(taken) => taken,
                Err(_) => shared
                    .take_alone(&held.turn)
                    .inspect_err(|_| shared.count_turn("unknown", started.elapsed()))?,
            };
            match taken {
                // This node was suspended meanwhile: the slot may have expired and be another's.
                Taken::Go if !asked_at.is_sure() => {}
                Taken::Go => {
                    held.begin(asked_at);
                    shared.count_turn("go", started.elapsed());
                    return Ok(Some(held));
                }
                Taken::Later(again) => sleep(again).await,
                Taken::TooSoon(wait) => {
                    held.is_asked = false;
                    shared.count_turn("too_soon", started.elapsed());
                    return Err(NoTurn::TooSoon(wait));
                }
            }
        }
    }
}

impl Shared {
    /// Decides without the engine while it has just come back, because other nodes may not know yet and act without it.
    fn take_returning(&self, turn: &Turn) -> Option<Taken> {
        let left = self.returning()?;
        match (turn.delay.is_zero(), self.options.on_loss) {
            (true, _) => Some(self.take_share(turn)),
            (false, OnLoss::Refuse) => None,
            (false, OnLoss::Home) => Some(match left + turn.delay {
                quiet if quiet <= turn.patience => Taken::Later(quiet),
                quiet => Taken::TooSoon(quiet),
            }),
        }
    }

    /// Decides without the engine while it is away.
    fn take_alone(&self, turn: &Turn) -> Result<Taken, NoTurn> {
        if turn.delay.is_zero() {
            return Ok(self.take_share(turn));
        }
        let Some(trouble) = self.breaker.trouble() else {
            return Err(NoTurn::Unknown);
        };
        let is_ours = self.options.on_loss == OnLoss::Home
            && self.breaker.is_open()
            && self.is_home(&turn.queue.origin);
        if !is_ours {
            return Err(NoTurn::Unknown);
        }
        // The last request is unknown, but no node sent one later than it noticed the loss.
        let quiet = turn.delay + NOTICED_WITHIN;
        let quiet = quiet.saturating_sub(trouble.since.elapsed());
        Ok(match quiet {
            Duration::ZERO => Taken::Go,
            quiet if quiet <= turn.patience => Taken::Later(quiet),
            quiet => Taken::TooSoon(quiet),
        })
    }

    /// Decides by this node's share of the slots: an equal part of all, but at least one.
    fn take_share(&self, turn: &Turn) -> Taken {
        let members = self.sharers.load(Ordering::Relaxed).max(1);
        let share = (turn.most / members).max(1);
        let under_way = lock(&self.turns);
        let turns = under_way.values().map(|other| &other.turn);
        let of_queue = turns.filter(|other| other.queue == turn.queue);
        if of_queue.count() < share {
            Taken::Go
        } else if turn.patience.is_zero() {
            Taken::TooSoon(LOOK_AGAIN)
        } else {
            Taken::Later(LOOK_AGAIN.min(turn.patience))
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
    pub(super) async fn keep_turns(&self) {
        let turns: Vec<Turn> = {
            let turns = lock(&self.turns);
            turns.values().map(|it| it.turn.clone()).collect()
        };
        let keeping = turns.into_iter().map(|turn| async move {
            let asked_at = Moment::now();
            // A failure is counted, and the next beat tries again.
            if self.ask("take", self.engine.take(&turn)).await.is_ok() {
                self.kept(turn.number, asked_at);
            }
            let is_left = !lock(&self.turns).contains_key(&turn.number);
            if is_left {
                // It was released during the call, which may have taken it again. If this fails as well, it expires.
                let _ = self.ask("leave", self.engine.leave(&turn)).await;
            }
        });
        join_all(keeping).await;
    }

    /// Notes that the engine renewed a slot. A slot that may have expired before is not revived: another node may have used it.
    fn kept(&self, number: u64, asked_at: Moment) {
        let mut turns = lock(&self.turns);
        let was_sure = |it: &&mut UnderWay| it.sure_at.is_sure_at(asked_at);
        let kept = turns.get_mut(&number).filter(was_sure);
        if let Some(kept) = kept {
            kept.sure_at = asked_at;
        }
    }

    fn count_turn(&self, answer: &'static str, waited: Duration) {
        if let Some(metrics) = &self.metrics {
            metrics.fleet().turn(answer, waited);
        }
    }
}

impl Held {
    fn new(shared: &Arc<Shared>, queue: Queue, most: usize, delay: Duration) -> Self {
        let turn = Box::new(Turn {
            queue,
            number: shared.last_turn.fetch_add(1, Ordering::Relaxed) + 1,
            most,
            delay,
            term: TERM,
            patience: Duration::ZERO,
            is_under_way: false,
        });
        Self {
            shared: Arc::clone(shared),
            turn,
            is_asked: false,
            runtime: Handle::current(),
        }
    }

    fn begin(&mut self, sure_at: Moment) {
        self.turn.is_under_way = true;
        let turn = Turn::clone(&self.turn);
        let under_way = UnderWay { turn, sure_at };
        lock(&self.shared.turns).insert(self.turn.number, under_way);
    }

    /// Returns whether another node may have the slot by now, because this one was suspended or cannot reach the engine.
    pub(crate) fn may_have_ended(&self) -> bool {
        let turns = lock(&self.shared.turns);
        let under_way = turns.get(&self.turn.number);
        under_way.is_none_or(|it| !it.sure_at.is_sure())
    }

    /// Releases the slot. `permit` is dropped once the engine knows, so that this node's next request comes after it.
    pub(crate) fn leave_with<P: Send + 'static>(mut self, permit: P) {
        self.leave(permit);
    }

    fn leave<P: Send + 'static>(&mut self, permit: P) {
        if !std::mem::take(&mut self.is_asked) {
            return;
        }
        lock(&self.shared.turns).remove(&self.turn.number);
        let (shared, turn) = (Arc::clone(&self.shared), Turn::clone(&self.turn));
        let mut leaving = Box::pin(async move { shared.leave(turn, permit).await });
        if (&mut leaving).now_or_never().is_none() {
            self.runtime.spawn(leaving);
        }
    }
}

impl Shared {
    async fn leave<P: Send>(&self, turn: Turn, permit: P) {
        let started = Instant::now();
        let left = self.ask("leave", self.engine.leave(&turn)).await;
        drop(permit);
        let mut is_left = left.is_ok();
        while !is_left && started.elapsed() < TERM {
            sleep(LEAVE_AGAIN).await;
            is_left = self.ask("leave", self.engine.leave(&turn)).await.is_ok();
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.leave(());
    }
}

#[cfg(test)]
mod tests;
