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
    /// The number of records fetched while the engine was away and not sent to it yet.
    pub unsettled: usize,
}

impl Fleet {
    /// Returns the fleet as this node sees it.
    #[must_use]
    pub fn status(&self) -> FleetReport {
        let shared = &self.inner;
        let beat = lock(&shared.last_beat).clone();
        let state = shared.state();
        let trouble = match state {
            FleetState::BeatsFailing => lock(&shared.beat_failure).clone(),
            _ => shared.breaker.last_failure(),
        };
        let since = |trouble: &LastFailure| trouble.since.elapsed();
        FleetReport {
            state,
            lost_for: trouble
                .as_ref()
                .filter(|_| state == FleetState::Lost)
                .map(since),
            last_error: trouble
                .as_ref()
                .map(|trouble| (trouble.failure.to_string(), since(trouble))),
            node: shared.options.node.clone(),
            members: beat.members,
            server: beat.server,
            clock_offset: shared.clock_offset.load(Ordering::Relaxed),
            on_loss: shared.options.on_loss,
            held_slots: lock(&shared.held_slots).len(),
            unsettled: lock(&shared.unsettled).len(),
        }
    }
}
