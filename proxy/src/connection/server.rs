//! What every connection is served with.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::limits::Limits;
use crate::decide::settings::Settings;
use crate::exchange::Exchanges;
use crate::tls::intercept::Interceptor;

/// Serves connections and the streams inside, each in a task of its own.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) exchanges: Arc<Exchanges>,
    pub(crate) interceptor: Interceptor,
    pub(crate) limits: Limits,
    pub(crate) tasks: TaskTracker,
    pub(crate) stopping: CancellationToken,
    /// Nothing goes on.
    pub(crate) ended: CancellationToken,
}

impl Server {
    /// Runs `task` until it is done, or the server has ended.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let ended = self.ended.clone();
        self.tasks.spawn(ended.run_until_cancelled_owned(task));
    }

    pub(super) fn settings(&self) -> Arc<Settings> {
        self.exchanges.decider.settings()
    }
}
