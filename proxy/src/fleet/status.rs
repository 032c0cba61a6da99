//! How the fleet looks from this node, for operators.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::breaker::Trouble;
use super::engine::{Member, Server};
use super::handle::{Fleet, OnLoss, lock};
use super::state::State;

/// The fleet as this node sees it.
#[derive(Clone, Debug)]
pub struct Status {
    /// How this node takes part.
    pub state: State,
    /// How long it has not.
    pub lost_for: Option<Duration>,
    /// What went wrong last, and how long ago.
    pub last_error: Option<(String, Duration)>,
    /// This node.
    pub node: String,
    /// All nodes, as of the last beat.
    pub members: Vec<Member>,
    /// What the engine said of itself then.
    pub server: Server,
    /// How far the engine's calendar is ahead of this machine's, in milliseconds.
    pub clock_offset: i64,
    /// What becomes of origins with a delay while it is away.
    pub on_loss: OnLoss,
    /// Turns that requests of this node have now.
    pub turns: usize,
    /// Entries learned while the engine was away, and not told to it yet.
    pub unsettled: usize,
}

impl Fleet {
    /// How the fleet looks.
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
