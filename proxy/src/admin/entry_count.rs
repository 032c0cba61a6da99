//! The number of known origins, cached for a while because counting is expensive.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::Instant;
use utoipa::ToSchema;

/// Looking at all entries takes a while where there are millions: what was counted serves for this long.
const COUNTED_EVERY: Duration = Duration::from_secs(10);

/// Origins whose robots.txt is known, in memory or on disk, by state.
#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
pub(crate) struct Entries {
    pub(super) fresh: usize,
    pub(super) stale: usize,
    pub(super) unavailable: usize,
    pub(super) unreachable: usize,
    /// What they hold in memory.
    pub(super) bytes: usize,
}

/// What was counted last, and when.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted(Arc<Mutex<Option<(Instant, Entries)>>>);

impl Counted {
    /// The entries, counted by `count` if that was long ago. Whoever asks meanwhile waits for the same count.
    pub(super) async fn entries(
        &self,
        count: impl FnOnce() -> Entries + Send + 'static,
    ) -> Entries {
        let mut counted = self.0.lock().await;
        if let Some((at, entries)) = *counted
            && at.elapsed() < COUNTED_EVERY
        {
            return entries;
        }
        let at = Instant::now();
        // Cancelled only when the process ends.
        let entries = spawn_blocking(count).await.unwrap_or_default();
        *counted = Some((at, entries));
        entries
    }
}
