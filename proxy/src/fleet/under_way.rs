//! Turns under way, and for how long a node may be sure of them.

use std::time::Duration;

use tokio::time::Instant;

use super::engine::Turn;

/// What the engine said of a turn holds for so long on this side, however late the answer is read: then others may have it. The rest of
/// the term is for the way to the engine, and for clocks that do not run alike.
pub(super) const SURE: Duration = Duration::from_secs(12);

/// A turn that was taken and not left yet.
#[derive(Debug)]
pub(super) struct UnderWay {
    pub(super) turn: Turn,
    /// When the engine was last asked for it, and agreed before others could have it.
    pub(super) sure_at: Instant,
}

impl UnderWay {
    /// Whether it was this node's at that time, as far as this node can know.
    pub(super) fn is_sure(&self, at: Instant) -> bool {
        at.saturating_duration_since(self.sure_at) < SURE
    }
}
