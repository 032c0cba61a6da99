//! The services that the steps of an exchange use.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use wayleave_decision_log::DecisionLog;
use wayleave_otlp::traces::Traces;
use wayleave_pacing::Pacer;
use wayleave_pacing::budget::DailyBudgets;
use wayleave_telemetry::metrics::Metrics;

use crate::decider::Decider;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::allowed_pages::AllowedPages;

/// The services that exchanges share. Its methods are in the files of the steps that they begin or end, such as `record`.
pub struct Gate {
    pub decider: Arc<Decider>,
    pub pacer: Arc<Pacer>,
    pub budgets: Arc<DailyBudgets>,
    pub decisions: Arc<DecisionLog>,
    pub metrics: Arc<Metrics>,
    pub traces: Option<Arc<Traces>>,
    pub shutdown: ExchangeShutdown,
    pub allowed_pages: AllowedPages,
}

/// The shutdown of all exchanges in progress.
#[derive(Default)]
pub struct ExchangeShutdown {
    cancelled: CancellationToken,
    in_progress: TaskTracker,
}

impl ExchangeShutdown {
    /// Delays the shutdown until the returned token is dropped.
    pub fn track(&self) -> TaskTrackerToken {
        self.in_progress.token()
    }

    /// Waits until exchanges are cancelled.
    pub async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }

    /// Awaits `work` unless it is cancelled.
    pub async fn unless_cancelled<T>(
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
    pub async fn cancel_all(&self) {
        self.cancelled.cancel();
        // A closed tracker lets `wait` return once the last token is gone.
        self.in_progress.close();
        self.in_progress.wait().await;
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("decider", &self.decider).finish_non_exhaustive()
    }
}
