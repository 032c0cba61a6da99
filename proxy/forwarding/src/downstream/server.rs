//! The state that all downstream connections share.

use std::net::IpAddr;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio_util::future::FutureExt;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wayleave_admission::settings::Settings;
use wayleave_fairness::{Holder, InTurn};
use wayleave_robots_txt::Origin;
use wayleave_transport::http::downstream::ResponseShares;
use wayleave_transport::tls::intercept::TlsInterceptor;

use super::limits::ConnectionLimits;
use super::untrusting_clients::UntrustingClients;
use crate::exchange::ExchangeServices;

/// Everything that serving a connection needs, and the tasks in which connections are served.
#[derive(Debug)]
pub struct DownstreamServer {
    pub exchanges: Arc<ExchangeServices>,
    pub interceptor: TlsInterceptor,
    pub limits: ConnectionLimits,
    pub response_shares: ResponseShares,
    pub untrusting: Arc<UntrustingClients>,
    /// The loops that accept connections, which end when the process begins to stop.
    pub accept_loops: TaskTracker,
    /// The tasks of connections and of their streams.
    pub tasks: TaskTracker,
    /// Cancelled when the process begins to stop: no new connections, and none is kept alive.
    pub stopping: CancellationToken,
    /// Cancelled when every task must end at once.
    pub terminated: CancellationToken,
}

impl DownstreamServer {
    /// Spawns a task of a client's on the current thread. It runs, in the client's turns, until it is done or the server is
    /// terminated.
    pub fn spawn(&self, client: IpAddr, task: impl Future<Output = ()> + Send + 'static) {
        self.spawn_on(&Handle::current(), client, task);
    }

    /// Does the same as [`spawn`](Self::spawn) on the thread of `runtime`.
    pub fn spawn_on(
        &self,
        runtime: &Handle,
        client: IpAddr,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let task = InTurn::new(Holder::of_client(client), task);
        // `run_until_cancelled_owned` is an async function, whose future would hold the task three times.
        let task = task.with_cancellation_token_owned(self.terminated.clone());
        self.tasks.spawn_on(task, runtime);
    }

    /// Keeps that a client does not trust the CA, or that it seems not to, because it left without a request.
    pub(super) fn keep_untrusting(&self, client: IpAddr, origin: &Origin, has_alerted: bool) {
        let now = self.exchanges.gate.decider.robots.clock().now();
        let masked = self.exchanges.gate.decisions.mask_client(client);
        self.untrusting.add(client, masked, origin.to_string(), has_alerted, now);
    }

    pub(super) fn settings(&self) -> Arc<Settings> {
        self.exchanges.gate.decider.settings()
    }
}
