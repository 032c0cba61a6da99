//! The fleet as this node sees it, for operators.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::breaker::Trouble;
use super::engine::{Member, Server};
use super::handle::{Fleet, OnLoss, lock};
use super::state::State;

/// The fleet as this node sees it.
#[derive(Clone, Debug)]
pub struct Status {
    /// This node's state.
    pub state: State,
    /// The time since the engine was lost.
    pub lost_for: Option<Duration>,
    /// The last error, and how long ago it was.
    pub last_error: Option<(String, Duration)>,
    /// This node's name.
    pub node: String,
    /// All nodes, as of the last beat.
    pub members: Vec<Member>,
    /// The engine's server, as of the last beat.
    pub server: Server,
    /// The milliseconds by which the engine's clock is ahead of this machine's.
    pub clock_offset: i64,
    /// The treatment of origins with a delay while the engine is away.
    pub on_loss: OnLoss,
    /// The number of slots that requests of this node hold.
    pub turns: usize,
    /// The number of records fetched while the engine was away and not sent to it yet.
    pub unsettled: usize,
}

impl Fleet {
    /// Returns the fleet as this node sees it.
    #[must_use]
    pub fn status(&self) -> Status {
        let shared = &self.shared;
        let beat = lock(&shared.last_beat).clone();
        let state = shared.state();
        let trouble = match state {
            State::BeatsFailing => lock(&shared.beats_fail).clone(),
            _ => shared.breaker.trouble(),
        };
        let since = |trouble: &Trouble| trouble.since.elapsed();
        Status {
            state,
            lost_for: trouble.as_ref().filter(|_| state == State::Lost).map(since),
            last_error: trouble
                .as_ref()
                .map(|trouble| (trouble.failure.to_string(), since(trouble))),
            node: shared.options.node.clone(),
            members: beat.members,
            server: beat.server,
            clock_offset: shared.offset.load(Ordering::Relaxed),
            on_loss: shared.options.on_loss,
            turns: lock(&shared.turns).len(),
            unsettled: lock(&shared.unsettled).len(),
        }
    }
}
