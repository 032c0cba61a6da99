//! The way from the admin listener to the engine that decides again about what the log has, which is not part of it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wayleave_decision_log::{DecisionQuery, TimeRange};
use wayleave_robots_cache::RobotsStore;

use super::what_if::WhatIf;

/// A change of the configuration in use, and the decisions to make again under it.
pub(crate) struct ReplayRequest {
    /// The configuration in use, as TOML.
    pub(crate) configuration: String,
    pub(crate) what_if: WhatIf,
    /// The decision log.
    pub(crate) log: PathBuf,
    pub(crate) span: TimeRange,
    /// The decisions of it that count.
    pub(crate) query: DecisionQuery,
    /// The robots.txt files that decided.
    pub(crate) store: RobotsStore,
    /// The runtime of the store.
    pub(crate) runtime: Handle,
    /// Set when nobody waits for the result any more.
    pub(crate) is_cancelled: Arc<AtomicBool>,
}

/// The result as JSON.
///
/// # Errors
///
/// All mistakes of the change, or why the log cannot be read.
pub(crate) type ReplayResult = Result<Value, Vec<String>>;

/// Replays decisions; one request at a time, because each reads the whole log.
#[derive(Clone)]
pub(crate) struct ReplayEngine {
    replay: Arc<dyn Fn(&ReplayRequest) -> ReplayResult + Send + Sync>,
    turn: Arc<Semaphore>,
}

impl ReplayEngine {
    pub(crate) fn new(
        replay: impl Fn(&ReplayRequest) -> ReplayResult + Send + Sync + 'static,
    ) -> Self {
        Self { replay: Arc::new(replay), turn: Arc::new(Semaphore::new(1)) }
    }

    /// Returns the turn of a request; `None` while another is being replayed.
    pub(super) fn turn(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.turn).try_acquire_owned().ok()
    }

    /// Replays on a thread that may block. Ends early if nobody waits for the result.
    pub(super) async fn run(
        &self,
        request: ReplayRequest,
        turn: OwnedSemaphorePermit,
    ) -> ReplayResult {
        let replay = Arc::clone(&self.replay);
        let _cancel = CancelOnDrop(Arc::clone(&request.is_cancelled));
        let replaying = tokio::task::spawn_blocking(move || {
            // Held until it ends, not only until the client leaves.
            let _turn = turn;
            replay(&request)
        });
        // A panic is reported by the hook of the process.
        replaying.await.unwrap_or_else(|_| Err(vec!["the replay failed".to_owned()]))
    }
}

impl fmt::Debug for ReplayEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplayEngine").finish_non_exhaustive()
    }
}

struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
