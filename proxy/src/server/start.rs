//! Builds the proxy. Everything that can fail at the start does so here, before any service runs: a mistake is one message and
//! one exit status.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use arc_swap::ArcSwap;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wayleave_assembly::ProcessParts;
use wayleave_clock::Clock;
use wayleave_config::{Config, ConfigSources, ListenAddress};
use wayleave_forwarding::downstream::listeners::{
    BoundGateway, BoundListener, BoundListeners, InheritedSockets, bind_when_free,
};
use wayleave_forwarding::downstream::{ConnectionLimits, DownstreamServer};
use wayleave_forwarding::exchange::ExchangeServices;
use wayleave_robots_cache::{self as robots_cache, RobotsStore};
use wayleave_signing::create_private_dir;
use wayleave_telemetry::logging::LogHandle;
use wayleave_telemetry::metrics::Metrics;
use wayleave_telemetry::traffic::Traffic;
use wayleave_transport::descriptors;
use wayleave_transport::http::downstream::ResponseShares;
use wayleave_transport::tls::intercept::{CertificateAuthority, TlsInterceptor};

use crate::admin::{self, AdminGuard, AdminState};
use crate::server::announce::{announce, local_client_address};
use crate::server::gateways;
use crate::server::reload::{self, ReloadService, ReloadedParts, SystemFiles};
use crate::server::services::{CrawlerService, OperatorService};
use crate::server::shutdown::StopSignals;

/// The time that a process which is being replaced may take to end, beyond its `shutdown_grace`.
const TAKEOVER_MARGIN: Duration = Duration::from_secs(10);

/// The proxy, built and listening, before it serves anybody.
pub(super) struct Startup {
    pub(super) crawlers: CrawlerService,
    pub(super) operators: OperatorService,
    pub(super) reload: ReloadService,
    pub(super) signals: StopSignals,
}

/// Builds the proxy for `config`, which was read from `sources`, if from any file. Returns `None` if a signal ended the wait for
/// the process that this one replaces.
///
/// # Errors
///
/// Returns an error if the proxy cannot start.
pub(super) async fn start(
    config: &Config,
    sources: Option<ConfigSources>,
    log: LogHandle,
) -> anyhow::Result<Option<Startup>> {
    let metrics = start_metrics()?;
    // Before the listeners: once they are open, a signal must find its handler.
    let mut signals = StopSignals::new()?;
    let hangup = signal(SignalKind::hangup())?;
    let (listeners, inherited_admin, timeout) = bind_listeners(config)?;
    let clock = Clock::start();
    // Before the decision log, which is opened without waiting: the process that has the store owns the state directory.
    let (admin_listener, store) = tokio::select! {
        taken_over = take_over(config, clock, &metrics, inherited_admin, timeout) => taken_over?,
        () = signals.wait() => return Ok(None),
    };
    let authority = load_authority(config, &metrics)?;
    let admin_address = admin_listener.local_addr()?;
    let own_listeners = own_addresses(&listeners, admin_address);
    let process = ProcessParts::new(&log, &metrics, clock).listening_at(&own_listeners);
    // Before they are used, as the files of the configuration were.
    let system_files = SystemFiles::new();
    let parts = wayleave_assembly::build_in_fleet(config, process, store).await?;
    let exchanges = Arc::new(ExchangeServices::new(parts.gate));
    let downstream = Arc::new(build_downstream(config, &exchanges, &authority)?);
    announce(config, sources.as_ref(), &listeners, admin_address, &authority)?;
    let reloaded = ReloadedParts {
        exchanges: Arc::clone(&exchanges),
        fetcher: parts.fetcher,
        log,
        collector_tls: parts.collector_tls,
        own_listeners,
        guard: Arc::new(ArcSwap::from_pointee(AdminGuard::new(config))),
        published: Arc::new(ArcSwap::from_pointee(config.clone())),
        system_files,
    };
    let guard = Arc::clone(&reloaded.guard);
    let (reload_handle, reload) = reload::service(sources, config, reloaded, hangup);
    let admin = AdminState {
        traffic: Arc::new(Traffic::new(clock)),
        metrics,
        config: reload_handle,
        replay_turn: Arc::new(Semaphore::new(1)),
        decider: Arc::clone(&exchanges.gate.decider),
        budgets: Arc::clone(&exchanges.gate.budgets),
        pacer: Arc::clone(&exchanges.gate.pacer),
        decisions: Arc::clone(&exchanges.gate.decisions),
        log_heads: Arc::default(),
        refreshes: Arc::default(),
        started_at: clock.now(),
        authority: Arc::clone(&authority),
        fingerprint: authority.fingerprint().into(),
        certificate_path: absolute_text(authority.certificate_path()),
        docs_url: config.admin.docs_url.as_deref().map(Arc::from),
        untrusting: Arc::clone(&downstream.untrusting),
        own_address: admin_address,
        proxy: local_client_address(&listeners.clients),
        listeners: listeners.clients.iter().map(BoundListener::url).collect(),
        stopping: downstream.stopping.clone(),
    };
    Ok(Some(Startup {
        crawlers: CrawlerService { downstream, listeners, refresh: parts.refresh },
        operators: OperatorService { listener: admin_listener, admin, guard },
        reload,
        signals,
    }))
}

/// Warns if the process may have fewer descriptors than the configured connections take: one for each client, one for the origin
/// that it waits for, those that are kept, and one for each fetch and each operator.
pub(super) fn warn_of_few_descriptors(config: &Config) {
    let clients = config.proxy.limits.connections;
    let kept = config.upstream.connections.idle_connections;
    let connections = clients.saturating_mul(2).saturating_add(kept);
    let fetches = robots_cache::FetchLimits::default().total;
    let asking = config.gateway.listen.len().saturating_mul(gateways::MAX_CONNECTIONS);
    let operators = admin::MAX_CONNECTIONS;
    let needed = connections.saturating_add(fetches).saturating_add(asking + operators);
    let needed = (needed as u64).saturating_add(descriptors::reserved());
    let available = descriptors::limit();
    if available < needed {
        tracing::warn!(
            needed,
            available,
            "the process may open fewer files than proxy.max_connections and upstream.idle_connections \
             need: raise RLIMIT_NOFILE (ulimit -n, LimitNOFILE=)"
        );
    }
}

/// Returns a path as text that remains right in another directory.
fn absolute_text(path: &Path) -> Arc<str> {
    std::path::absolute(path).as_deref().unwrap_or(path).display().to_string().into()
}

/// Creates the metrics, in which panics are counted, and logged, from now on. A panic ends only the task in which it happens.
///
/// # Errors
///
/// Returns an error if two metrics have the same name.
pub(super) fn start_metrics() -> anyhow::Result<Arc<Metrics>> {
    let metrics = Arc::new(Metrics::new()?);
    let counted = Arc::clone(&metrics);
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // A damaged store is not a bug: it is reported where it is caught.
        if robots_cache::is_panic_caught() {
            return;
        }
        counted.panic();
        tracing::error!(%panic, "a task panicked: this is a bug in wayleave");
        default_hook(panic);
    }));
    Ok(metrics)
}

/// Binds the listeners of clients and of gateways. Returns them, the operators' listener if it was inherited, and the time for
/// which the rest may still be in use by another process.
///
/// A process that inherits sockets may replace one that is still finishing its exchanges. That one has the store and
/// the operators' address until then; clients wait in the listeners' queues.
fn bind_listeners(
    config: &Config,
) -> anyhow::Result<(BoundListeners, Option<TcpListener>, Duration)> {
    let mut inherited = InheritedSockets::from_environment()?;
    let timeout = if inherited.is_empty() {
        Duration::ZERO
    } else {
        config.proxy.connections.shutdown_grace + TAKEOVER_MARGIN
    };
    let mut clients = Vec::with_capacity(config.proxy.listen.len());
    for address in &config.proxy.listen {
        clients.push(inherited.take_or_bind("proxy.listen", *address)?);
    }
    let mut gateways = Vec::with_capacity(config.gateway.listen.len());
    for gateway in &config.gateway.listen {
        let address = ListenAddress::http(gateway.address);
        let bound = inherited.take_or_bind("gateway.listen", address)?;
        gateways.push(BoundGateway { protocol: gateway.protocol, bound });
    }
    let admin = inherited.take(config.admin.listen);
    inherited.ensure_all_used()?;
    Ok((BoundListeners { clients, gateways }, admin, timeout))
}

/// Binds the operators' listener and opens the store, and waits until no other process uses them.
async fn take_over(
    config: &Config,
    clock: Clock,
    metrics: &Arc<Metrics>,
    inherited_admin: Option<TcpListener>,
    timeout: Duration,
) -> anyhow::Result<(TcpListener, RobotsStore)> {
    let listener = match inherited_admin {
        Some(listener) => listener,
        None => bind_when_free("admin.listen", config.admin.listen, timeout).await?,
    };
    let dir = &config.state.dir;
    let options = config.robots_store;
    // The store would go on in memory, and the CA then fail for the same reason in other words.
    create_private_dir(dir).with_context(|| {
        let advice = "the user that runs wayleave must be able to make it, or choose another";
        format!("state.dir: {} cannot be created ({advice})", dir.display())
    })?;
    // Later starts go on in memory on purpose: crawlers are served while a disk is read-only.
    let is_first_start = !config.https.ca_dir.exists();
    if is_first_start {
        tempfile::tempfile_in(dir).with_context(|| {
            let advice =
                "the user that runs wayleave must be able to write there, or choose another";
            format!("state.dir: {} cannot be written ({advice})", dir.display())
        })?;
    }
    let decisions = config.log.decisions.as_ref().map(|log| &*log.path);
    let store =
        RobotsStore::open_when_free(dir, decisions, options, clock, Arc::clone(metrics), timeout)
            .await?;
    Ok((listener, store))
}

/// Loads the interception CA, or creates it at the first start.
pub(super) fn load_authority(
    config: &Config,
    metrics: &Metrics,
) -> anyhow::Result<Arc<CertificateAuthority>> {
    let authority = CertificateAuthority::load_or_create(&config.https.ca_dir)?;
    metrics.ca_expiry(authority.expires_at());
    Ok(Arc::new(authority))
}

/// Returns the addresses of this process, which no outbound connection may lead to.
fn own_addresses(listeners: &BoundListeners, admin: SocketAddr) -> Vec<SocketAddr> {
    let BoundListeners { clients, gateways } = listeners;
    let all = clients.iter().chain(gateways.iter().map(|gateway| &gateway.bound));
    all.map(|listener| listener.listen_address.address).chain([admin]).collect()
}

/// Builds the part that serves downstream connections.
pub(super) fn build_downstream(
    config: &Config,
    exchanges: &Arc<ExchangeServices>,
    authority: &Arc<CertificateAuthority>,
) -> anyhow::Result<DownstreamServer> {
    Ok(DownstreamServer {
        exchanges: Arc::clone(exchanges),
        interceptor: TlsInterceptor::new(Arc::clone(authority))?,
        limits: ConnectionLimits::new(config.proxy.limits),
        response_shares: ResponseShares::default(),
        untrusting: Arc::default(),
        accept_loops: TaskTracker::new(),
        tasks: TaskTracker::new(),
        stopping: CancellationToken::new(),
        terminated: CancellationToken::new(),
    })
}
