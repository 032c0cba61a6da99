//! How the fleet looks from this node, for operators.

use std::time::Duration;

use super::breaker::Trouble;
use super::engine::{Member, Server};
use super::handle::{Fleet, OnLoss, lock};

/// The fleet as this node sees it.
#[derive(Clone, Debug)]
pub struct Status {
    /// Whether there is one: a node that is alone has no more to say.
    pub is_shared: bool,
    /// Whether the engine answers.
    pub is_up: bool,
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
        let trouble = shared.breaker.trouble();
        let is_up = !shared.breaker.is_open();
        let since = |trouble: &Trouble| trouble.since.elapsed();
        Status {
            is_shared: shared.engine.is_shared(),
            is_up,
            lost_for: trouble.as_ref().filter(|_| !is_up).map(since),
            last_error: trouble
                .as_ref()
                .map(|trouble| (trouble.failure.to_string(), since(trouble))),
            node: shared.options.node.clone(),
            members: beat.members,
            server: beat.server,
            on_loss: shared.options.on_loss,
            turns: lock(&shared.turns).len(),
            unsettled: lock(&shared.unsettled).len(),
        }
    }
}
