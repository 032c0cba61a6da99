//! One node's part in a pace that a fleet finds together: its knowledge of the others.

use std::time::Duration;

/// The facts about the fleet that a node needs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FleetPart {
    /// The version of the pace that the engine knows.
    pub(super) version: u64,
    pub(super) change: PaceChange,
    /// The requests of all nodes when the engine was asked last, and the time.
    pub(super) total: u64,
    pub(super) asked_at: Option<Duration>,
    /// The requests that were sent since.
    pub(super) unreported: u64,
    /// The requests of all nodes for each one of this node, of late.
    pub(super) requests_per_own: Option<f64>,
}

/// The change of the pace that the engine does not know yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PaceChange {
    #[default]
    None,
    Faster,
    Slower,
}

impl FleetPart {
    /// Returns the number of requests of all nodes for each one of this node.
    pub(super) fn requests_per_own(&self) -> f64 {
        self.requests_per_own.unwrap_or(1.0)
    }
}
