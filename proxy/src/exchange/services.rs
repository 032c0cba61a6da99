//! The services that the steps of an exchange use.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use wayleave_decision_log::DecisionLog;
use wayleave_decision_log::traces::Traces;
use wayleave_gate::Decider;
use wayleave_pacing::Pacer;
use wayleave_pacing::budget::DailyBudgets;
use wayleave_telemetry::metrics::Metrics;

use super::allowed_pages::AllowedPages;
use super::own_tunnels::OwnTunnels;

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
        mut work: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        let mut cancelled = pin!(self.cancelled());
        poll_fn(|context| {
            // First: another exchange that is cancelled gives its slot back, for which this one may wait.
            if self.cancelled.is_cancelled() {
                return Poll::Ready(None);
            }
            if let Poll::Ready(done) = work.as_mut().poll(context) {
                return Poll::Ready(Some(done));
            }
            // Only now: most work is done at the first poll, and never has to be woken.
            cancelled.as_mut().poll(context).map(|()| None)
        })
        .await
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
