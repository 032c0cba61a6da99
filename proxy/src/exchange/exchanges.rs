//! What the steps of an exchange are done with.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::decide::Decider;
use crate::observe::decisions::Decisions;
use crate::observe::metrics::Metrics;
use crate::observe::traces::Traces;
use crate::politeness::Politeness;

/// Everything that a request meets on its way.
pub(crate) struct Exchanges {
    pub(crate) decider: Arc<Decider>,
    pub(crate) politeness: Politeness,
    pub(crate) decisions: Arc<Decisions>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) traces: Option<Arc<Traces>>,
    pub(crate) ending: Ending,
}

/// The end of all exchanges that are under way.
#[derive(Default)]
pub(crate) struct Ending {
    cut: CancellationToken,
    under_way: TaskTracker,
}

impl Ending {
    /// Keeps the end waiting until what is begun is recorded.
    pub(super) fn begin(&self) -> TaskTrackerToken {
        self.under_way.token()
    }

    /// Waits until exchanges are cut.
    pub(crate) async fn cut(&self) {
        self.cut.cancelled().await;
    }

    /// What `work` comes to, unless it is cut.
    pub(super) async fn unless_cut<T>(&self, work: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.cut() => None,
        }
    }

    /// Cuts all exchanges, and waits until each is recorded.
    pub(crate) async fn cut_all(&self) {
        self.cut.cancel();
        self.under_way.close();
        self.under_way.wait().await;
    }
}

impl fmt::Debug for Exchanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchanges")
            .field("decider", &self.decider)
            .finish_non_exhaustive()
    }
}
