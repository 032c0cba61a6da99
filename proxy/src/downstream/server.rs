//! The state that all downstream connections share.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::limits::ConnectionLimits;
use super::untrusting_clients::UntrustingClients;
use crate::decider::settings::Settings;
use crate::exchange::ExchangeServices;
use crate::tls::intercept::TlsInterceptor;

/// Everything that serving a connection needs, and the tasks in which connections are served.
#[derive(Debug)]
pub(crate) struct DownstreamServer {
    pub(crate) exchanges: Arc<ExchangeServices>,
    pub(crate) interceptor: TlsInterceptor,
    pub(crate) limits: ConnectionLimits,
    pub(crate) untrusting: Arc<UntrustingClients>,
    /// The loops that accept connections, which end when the process begins to stop.
    pub(crate) accept_loops: TaskTracker,
    /// The tasks of connections and of their streams.
    pub(crate) tasks: TaskTracker,
    /// Cancelled when the process begins to stop: no new connections, and none is kept alive.
    pub(crate) stopping: CancellationToken,
    /// Cancelled when every task must end at once.
    pub(crate) terminated: CancellationToken,
}

impl DownstreamServer {
    /// Spawns `task`, which runs until it is done or the server is terminated.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let ended = self.terminated.clone();
        self.tasks.spawn(ended.run_until_cancelled_owned(task));
    }

    pub(super) fn settings(&self) -> Arc<Settings> {
        self.exchanges.decider.settings()
    }
}
