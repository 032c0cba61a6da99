//! The services of the process, each of which pingora runs on its own runtime.

use std::net::TcpListener;
use std::num::NonZero;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::available_parallelism;

use anyhow::{Context, anyhow};
use arc_swap::ArcSwap;
use async_trait::async_trait;
use futures_util::future::{BoxFuture, try_join_all};
use pingora_core::server::{ListenFds, ShutdownWatch};
use pingora_core::services::{ServiceReadyNotifier, ServiceWithDependents};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;
use wayleave_config::ConnectionLimitsConfig;
use wayleave_decision_log::log_heads::HeadExchange;
use wayleave_forwarding::downstream::listeners::BoundListeners;
use wayleave_forwarding::downstream::{ConnectionAcceptor, DownstreamServer};
use wayleave_gateway::{GatewayServer, QuestionLimits};

use crate::admin::{self, AdminGuard, AdminState};

use crate::robots_changes;
use crate::server::announce::notify;
use crate::server::gateways;
use crate::server::reload::ReloadService;

/// A part of the proxy that runs until the process stops.
pub(super) trait ProcessService: Send + 'static {
    /// The name of the service and of its threads; Linux keeps 15 bytes of it.
    const NAME: &'static str;
    /// The number of its threads; `None`: [`worker_threads`].
    const THREADS: Option<usize>;

    /// Runs the service until the proxy stops. Signals `ready` once services that depend on it may start.
    ///
    /// # Errors
    ///
    /// Returns an error if the service cannot go on, which ends the process.
    fn run(self, ready: ServiceReadyNotifier) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// Returns the number of threads of a service that does not choose it: one per processor.
pub(super) fn worker_threads() -> usize {
    available_parallelism().map_or(1, NonZero::get)
}

/// A service in the form that pingora runs. It reports its failure, because pingora itself ignores how a service ends, even by
/// a panic, and a proxy without one of its services must not continue.
pub(super) struct Supervised<S> {
    /// Taken when pingora starts the service. Services have to be `Sync`, which a lock provides.
    service: Mutex<Option<S>>,
    failed: UnboundedSender<anyhow::Error>,
}

impl<S> Supervised<S> {
    pub(super) fn new(service: S, failed: &UnboundedSender<anyhow::Error>) -> Self {
        Self { service: Mutex::new(Some(service)), failed: failed.clone() }
    }
}

#[async_trait]
impl<S: ProcessService> ServiceWithDependents for Supervised<S> {
    async fn start_service(
        &mut self,
        _fds: Option<ListenFds>,
        _shutdown: ShutdownWatch,
        _listeners_per_fd: usize,
        ready: ServiceReadyNotifier,
    ) {
        let service = self.service.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(service) = service.take() else {
            return;
        };
        // In a task, so that a panic arrives here as an error.
        let error = match tokio::spawn(service.run(ready)).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(panic) => panic.into(),
        };
        // Nobody receives it if the process is already stopping.
        let _ = self.failed.send(error.context(format!("the service of {} ended", S::NAME)));
    }

    fn name(&self) -> &str {
        S::NAME
    }

    fn threads(&self) -> Option<usize> {
        S::THREADS
    }
}

/// Serves crawlers: accepts their connections, and fetches robots.txt files.
pub(super) struct CrawlerService {
    pub(super) downstream: Arc<DownstreamServer>,
    pub(super) listeners: BoundListeners,
    /// The task of the robots.txt cache. It runs here because the requests that waited for a fetch reuse its connection: on
    /// threads of another service, each of their reads would wake two threads.
    pub(super) refresh: BoxFuture<'static, ()>,
}

impl ProcessService for CrawlerService {
    const NAME: &'static str = "crawlers";
    const THREADS: Option<usize> = None;

    async fn run(self, ready: ServiceReadyNotifier) -> anyhow::Result<()> {
        let refreshing = tokio::spawn(self.refresh);
        let acceptor =
            ConnectionAcceptor::in_service(Arc::clone(&self.downstream), worker_threads());
        let mut accepting = Vec::new();
        for listener in self.listeners.clients {
            accepting.push(acceptor.start(listener)?);
        }
        let gate = Arc::clone(&self.downstream.exchanges.gate);
        let ConnectionLimitsConfig { connections, per_client } = self.downstream.limits.options;
        let limits = QuestionLimits { total: connections, per_client };
        let server = Arc::new(GatewayServer::new(gate, limits));
        for gateway in self.listeners.gateways {
            accepting.push(gateways::start(&acceptor, &server, gateway)?);
        }
        ready.notify_ready();
        until_stopped(refreshing, accepting).await
    }
}

/// Waits until all accept loops have stopped.
///
/// # Errors
///
/// Returns an error if one of them panicked, or if the task of the robots.txt cache, `refreshing`, ends before.
pub(super) async fn until_stopped(
    refreshing: JoinHandle<()>,
    accepting: Vec<JoinHandle<()>>,
) -> anyhow::Result<()> {
    tokio::select! {
        ended = refreshing => Err(anyhow!("the robots.txt task ended: {ended:?}")),
        stopped = try_join_all(accepting) => {
            stopped.context("accepting connections")?;
            Ok(())
        }
    }
}

/// Serves operators, on a thread of its own, so that a query over a million origins never delays a crawler.
pub(super) struct OperatorService {
    pub(super) listener: TcpListener,
    pub(super) admin: AdminState,
    pub(super) guard: Arc<ArcSwap<AdminGuard>>,
}

impl ProcessService for OperatorService {
    const NAME: &'static str = "operators";
    const THREADS: Option<usize> = Some(1);

    async fn run(self, ready: ServiceReadyNotifier) -> anyhow::Result<()> {
        let listener = tokio::net::TcpListener::from_std(self.listener)?;
        let decisions = Arc::clone(&self.admin.decisions);
        tokio::spawn(async move { decisions.publish_live().await });
        let traffic = Arc::clone(&self.admin.traffic);
        let metrics = Arc::clone(&self.admin.metrics);
        tokio::spawn(async move { traffic.run(&metrics).await });
        tokio::spawn(robots_changes::count(
            self.admin.decider.robots.changes(),
            Arc::clone(&self.admin.decisions),
            Arc::clone(&self.admin.metrics),
        ));
        let fleet = self.admin.decider.robots.fleet().clone();
        let (decisions, known) =
            (Arc::clone(&self.admin.decisions), Arc::clone(&self.admin.log_heads));
        tokio::spawn(HeadExchange::new(fleet, decisions, known).run());
        let routes = admin::router(self.admin, self.guard);
        ready.notify_ready();
        // The last service: crawlers are being served already.
        notify(&[sd_notify::NotifyState::Ready]);
        match admin::serve(listener, routes).await {}
    }
}

impl ProcessService for ReloadService {
    const NAME: &'static str = "reload";
    const THREADS: Option<usize> = Some(1);

    async fn run(self, ready: ServiceReadyNotifier) -> anyhow::Result<()> {
        ready.notify_ready();
        self.serve().await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::{mpsc, watch};

    use super::*;

    struct PanickingService;

    impl ProcessService for PanickingService {
        const NAME: &'static str = "tests";
        const THREADS: Option<usize> = Some(1);

        async fn run(self, _ready: ServiceReadyNotifier) -> anyhow::Result<()> {
            panic!("a bug");
        }
    }

    #[tokio::test]
    async fn the_panic_of_a_service_is_reported() {
        let (failed, mut failures) = mpsc::unbounded_channel();
        let (_stop, shutdown) = watch::channel(false);
        let ready = ServiceReadyNotifier::new(watch::channel(false).0);
        let mut service = Supervised::new(PanickingService, &failed);
        service.start_service(None, shutdown, 1, ready).await;
        let failure = failures.recv().await.unwrap();
        assert!(failure.to_string().contains("the service of tests ended"));
    }
}
