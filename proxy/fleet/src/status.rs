//! The fleet as this node sees it, for operators.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::breaker::LastFailure;
use super::engine::{EngineServer, MemberNode};
use super::handle::{Fleet, OnLoss, lock};
use super::state::FleetState;

/// The fleet as this node sees it.
#[derive(Clone, Debug)]
pub struct FleetReport {
    /// This node's state.
    pub state: FleetState,
    /// The time since the engine was lost.
    pub lost_for: Option<Duration>,
    /// The last error, and how long ago it was.
    pub last_error: Option<(String, Duration)>,
    /// This node's name.
    pub node: String,
    /// All nodes, as of the last beat.
    pub members: Vec<MemberNode>,
    /// The engine's server, as of the last beat.
    pub server: EngineServer,
    /// The milliseconds by which the engine's clock is ahead of this machine's.
    pub clock_offset: i64,
    /// The treatment of origins with a delay while the engine is away.
    pub on_loss: OnLoss,
    /// The number of slots that requests of this node hold.
    pub held_slots: usize,
    /// The number of records fetched while the engine was unreachable and not sent to it yet.
    pub unsettled: usize,
}

impl Fleet {
    /// Returns the fleet as this node sees it.
    #[must_use]
    pub fn status(&self) -> FleetReport {
        let inner = &self.inner;
        let beat = lock(&inner.last_beat).clone();
        let state = inner.state();
        let last_failure = match state {
            FleetState::BeatsFailing => lock(&inner.beat_failure).clone(),
            _ => inner.breaker.last_failure(),
        };
        let age = |failure: &LastFailure| failure.since.elapsed();
        FleetReport {
            state,
            lost_for: last_failure.as_ref().filter(|_| state == FleetState::Lost).map(age),
            last_error: last_failure.as_ref().map(|last| (last.failure.to_string(), age(last))),
            node: inner.settings.node.clone(),
            members: beat.members,
            server: beat.server,
            clock_offset: inner.clock_offset.load(Ordering::Relaxed),
            on_loss: inner.settings.on_loss,
            held_slots: lock(&inner.held_slots).len(),
            unsettled: lock(&inner.unsettled).len(),
        }
    }
}
