//! The services that the steps of an exchange use.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::allowed_pages::AllowedPages;
use super::own_tunnels::OwnTunnels;
use crate::budget::DailyBudgets;
use crate::decider::Decider;
use crate::decision_log::DecisionLog;
use crate::pacing::Pacer;
use crate::telemetry::metrics::Metrics;
use crate::traces::Traces;

/// The services that exchanges share. Its methods are in the files of the steps that they begin or end, such as `tunnel` and
/// `record`.
pub(crate) struct ExchangeServices {
    pub(crate) decider: Arc<Decider>,
    pub(crate) pacer: Arc<Pacer>,
    pub(crate) budgets: Arc<DailyBudgets>,
    pub(crate) decisions: Arc<DecisionLog>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) traces: Option<Arc<Traces>>,
    pub(crate) shutdown: ExchangeShutdown,
    pub(crate) own_tunnels: Arc<OwnTunnels>,
    pub(crate) allowed_pages: AllowedPages,
}

/// The shutdown of all exchanges in progress.
#[derive(Default)]
pub(crate) struct ExchangeShutdown {
    cancelled: CancellationToken,
    in_progress: TaskTracker,
}

impl ExchangeShutdown {
    /// Delays the shutdown until the returned token is dropped.
    pub(super) fn track(&self) -> TaskTrackerToken {
        self.in_progress.token()
    }

    /// Waits until exchanges are cancelled.
    pub(crate) async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }

    /// Awaits `work` unless it is cancelled.
    pub(super) async fn unless_cancelled<T>(
        &self,
        work: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        tokio::select! {
            biased;
            // First: another exchange that is cancelled gives its slot back, for which this one may wait.
            () = self.cancelled() => None,
            done = work => Some(done),
        }
    }

    /// Cancels all exchanges, and waits until each is recorded.
    pub(crate) async fn cancel_all(&self) {
        self.cancelled.cancel();
        // A closed tracker lets `wait` return once the last token is gone.
        self.in_progress.close();
        self.in_progress.wait().await;
    }
}

impl fmt::Debug for ExchangeServices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExchangeServices").field("decider", &self.decider).finish_non_exhaustive()
    }
}
