//! Starts the parts, announces the proxy and runs until told to stop.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use arc_swap::ArcSwap;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admin::{self, AdminState};
use crate::clock::Clock;
use crate::config::Config;
use crate::decide::Decider;
use crate::decision_log::DecisionLog;
use crate::downstream::listeners::{
    BoundListener, InheritedSockets, ListenAddress, bind_when_free,
};
use crate::downstream::{ConnectionAcceptor, ConnectionLimits, DownstreamServer, limits};
use crate::environment::{GENERAL_TEMPLATE, fill_template};
use crate::exchange::{ExchangeServices, ExchangeShutdown};
use crate::fleet::Fleet;
use crate::pacing::Pacer;
use crate::robots_cache::{self, HttpFetcher, RobotsCache, RobotsStore};
use crate::server::reload::{self, ReloadTrigger, ReloadedParts};
use crate::server::wiring::{self, OutboundConfig};
use crate::telemetry::logging;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::traces::Traces;
use crate::telemetry::traffic::Traffic;
use crate::tls::intercept::{CertificateAuthority, TlsInterceptor};

/// What a process that is replaced may take to end beyond its `shutdown_grace`.
const TAKEOVER_MARGIN: Duration = Duration::from_secs(10);

/// Runs the proxy until SIGTERM or SIGINT. `config` was read from `file`, if from any, which is read again when it changes.
///
/// # Errors
///
/// Returns an error if the proxy cannot start (an address in use, a CA that cannot be read, …) or
/// if a part that must run ends by itself.
pub fn run(config: &Config, file: Option<&Path>) -> anyhow::Result<()> {
    // Shells and init systems keep the soft limit low for programs that use select(2). If it stays, it is known from the
    // metric process_max_fds.
    let _most = rlimit::increase_nofile_limit(u64::MAX);
    let runtime = Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    // Operators have a thread of their own: what they ask may mean a look at a million origins, and no crawler waits
    // for that.
    let operators = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("operators")
        .enable_all()
        .build()
        .context("starting the operators' runtime")?;
    let served = runtime.block_on(serve(config, file, operators.handle()));
    operators.shutdown_background();
    served
}

async fn serve(config: &Config, file: Option<&Path>, operators: &Handle) -> anyhow::Result<()> {
    let (log, _writing) = logging::start(config.log.format);
    log.set_decisions(config.log.events);
    let metrics = Arc::new(Metrics::new()?);
    count_panics(Arc::clone(&metrics));
    // Before the listeners: once they are open, a signal must find its handler.
    let mut stop = StopSignals::new()?;
    let (listeners, operators_listener, patience) = listen(config).await?;
    let clock = Clock::start();
    // Before the decision log: who has the store has the directory.
    let (admin_listener, store) = tokio::select! {
        taken_over = take_over(config, clock, &metrics, operators_listener, patience) => taken_over?,
        () = stop.wait() => return Ok(()),
    };
    let authority = authority(config, &metrics)?;
    let own = own_addresses(&listeners, &admin_listener)?;
    let decisions = Arc::new(record(config, &log, &metrics)?);
    let fleet = wiring::join_fleet(config, &metrics).await?;
    let robots = (store, clock, fleet);
    let (exchanges, fetch, mut refresh) = build(config, &metrics, &decisions, &own, robots)?;

    let exchanges = Arc::new(exchanges);
    fetch.load().set_redirect_gate(exchanges.gate());
    let server = Arc::new(server(config.proxy.limits, &exchanges, &authority)?);
    announce(&listeners, &admin_listener, &config.state.dir, &authority)?;
    let parts = ReloadedParts {
        exchanges: Arc::clone(&exchanges),
        fetch,
        log,
        own_listeners: own,
    };
    let (reload, signals) = reload::start(file, config, parts);
    stop.signals = Some(signals);
    let admin = AdminState {
        traffic: watch_over(&decisions, &metrics, clock, operators),
        metrics,
        config: reload,
        decider: Arc::clone(&exchanges.decider),
        decisions,
        started_at: clock.now(),
        certificate_pem: authority.certificate_pem().into(),
        fingerprint: authority.fingerprint().into(),
        proxy: local_client_address(&listeners),
        listeners: listeners.iter().map(BoundListener::url).collect(),
        stopping: server.stopping.clone(),
    };
    let mut admin = take_operators(config, admin_listener, admin, operators)?;
    let taking = take_clients(listeners, &server);
    notify(&[sd_notify::NotifyState::Ready]);

    let ended = tokio::select! {
        () = stop.wait() => Ok(()),
        ended = &mut refresh => Err(anyhow::anyhow!("the robots.txt task ended: {ended:?}")),
        ended = &mut admin => Err(anyhow::anyhow!("the admin listener ended: {ended:?}")),
    };
    wind_down(&server, &taking, &mut stop).await;
    ended
}

/// Takes no more clients, lets exchanges end and keeps what came of them.
async fn wind_down(server: &DownstreamServer, taking: &TaskTracker, stop: &mut StopSignals) {
    server.stopping.cancel();
    notify(&[sd_notify::NotifyState::Stopping]);
    taking.wait().await;
    drain(&server.tasks, &server.exchanges.decider, stop).await;
    cut(server).await;
    close(&server.exchanges).await;
}

/// The interception CA, which is made if there is none.
fn authority(config: &Config, metrics: &Metrics) -> anyhow::Result<Arc<CertificateAuthority>> {
    let authority = CertificateAuthority::load_or_create(&config.https.ca_dir)?;
    metrics.ca_expiry(authority.expires_at());
    Ok(Arc::new(authority))
}

/// Starts to write decisions, and keeps the configuration that they are made by.
pub(super) fn record(
    config: &Config,
    log: &logging::LogHandle,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<DecisionLog> {
    let journal = wiring::open_journal(config)?;
    let configuration = wiring::archive_config(config, config, 1)?;
    DecisionLog::start(journal, configuration, log.clone(), Arc::clone(metrics))
}

fn take_operators(
    config: &Config,
    listener: TcpListener,
    admin: AdminState,
    operators: &Handle,
) -> std::io::Result<JoinHandle<std::io::Result<()>>> {
    let routes = admin::router(admin, config.admin.guard.clone());
    // It belongs to the runtime that it was made in.
    let listener = listener.into_std()?;
    Ok(operators.spawn(async move {
        let listener = TcpListener::from_std(listener)?;
        match admin::serve(listener, routes).await {}
    }))
}

fn server(
    limits: limits::ConnectionLimitsConfig,
    exchanges: &Arc<ExchangeServices>,
    authority: &Arc<CertificateAuthority>,
) -> anyhow::Result<DownstreamServer> {
    Ok(DownstreamServer {
        exchanges: Arc::clone(exchanges),
        interceptor: TlsInterceptor::new(Arc::clone(authority))?,
        limits: ConnectionLimits::new(limits),
        tasks: TaskTracker::new(),
        stopping: CancellationToken::new(),
        terminated: CancellationToken::new(),
    })
}

/// Serves clients until the server stops. Returns those who take connections, for the proxy to wait for.
fn take_clients(listeners: Vec<BoundListener>, server: &Arc<DownstreamServer>) -> TaskTracker {
    let listener = Arc::new(ConnectionAcceptor {
        server: Arc::clone(server),
    });
    let taking = TaskTracker::new();
    for bound in listeners {
        let listener = Arc::clone(&listener);
        taking.spawn(async move { listener.run(bound).await });
    }
    taking.close();
    taking
}

/// Starts what operators watch: decisions and traffic as they come.
fn watch_over(
    decisions: &Arc<DecisionLog>,
    metrics: &Arc<Metrics>,
    clock: Clock,
    operators: &Handle,
) -> Arc<Traffic> {
    let decisions = Arc::clone(decisions);
    operators.spawn(async move { decisions.publish_live().await });
    let traffic = Arc::new(Traffic::new());
    let (counting, metrics) = (Arc::clone(&traffic), Arc::clone(metrics));
    operators.spawn(async move { counting.run(&metrics, clock).await });
    traffic
}

/// Lets exchanges under way end, but no longer than the grace period and not after a second signal.
async fn drain(tasks: &TaskTracker, decider: &Decider, stop: &mut StopSignals) {
    let grace = decider.settings().options.shutdown_grace;
    tasks.close();
    let under_way = tasks.len();
    tracing::info!(under_way, ?grace, "stopping");
    tokio::select! {
        ended = tokio::time::timeout(grace, tasks.wait()) => if ended.is_err() {
            tracing::warn!(cut_off = tasks.len(), "the grace period is over");
        },
        () = stop.wait() => tracing::warn!(cut_off = tasks.len(), "told to stop a second time"),
    }
}

/// Ends what still goes on. Each exchange is recorded as cut, and no task is left that could begin another.
async fn cut(server: &DownstreamServer) {
    server.exchanges.shutdown.cancel_all().await;
    server.terminated.cancel();
    server.tasks.wait().await;
}

/// Keeps what was learned and decided, now that nothing more will be.
async fn close(exchanges: &ExchangeServices) {
    // Before the store: who has that begins to write decisions.
    exchanges.decisions.close();
    exchanges.decider.robots.close().await;
    exchanges.decider.robots.fleet().leave().await;
    if let Some(traces) = &exchanges.traces {
        traces.stop().await;
    }
}

/// Builds what takes part in exchanges, as `config` says.
pub(super) fn build(
    config: &Config,
    metrics: &Arc<Metrics>,
    decisions: &Arc<DecisionLog>,
    own_listeners: &[SocketAddr],
    (store, clock, fleet): (RobotsStore, Clock, Fleet),
) -> anyhow::Result<(ExchangeServices, Arc<ArcSwap<HttpFetcher>>, JoinHandle<()>)> {
    let tls = wiring::upstream_tls_config(&config.upstream.extra_roots)?;
    let traces = Traces::start(&config.traces, &tls, metrics)?.map(Arc::new);
    let ways =
        wiring::outbound_clients(OutboundConfig::new(config, own_listeners), clock, metrics)?;
    metrics.client_connections_limit(config.proxy.limits.connections);
    for crawler in &config.crawlers.crawlers {
        metrics.start_crawler_series(&crawler.name);
    }
    let fetch = ways.fetch.with_traces(traces.clone());
    let fetch = Arc::new(ArcSwap::from_pointee(fetch));
    let options = wiring::robots_cache_config(config);
    let around = (clock, Arc::clone(metrics), fleet.clone());
    let (robots, refresh) =
        RobotsCache::start_in_fleet(Arc::clone(&fetch), store, &options, around);
    let settings = wiring::build_settings(config, None, ways.upstream, robots.clock().now());
    let exchanges = ExchangeServices {
        decider: Arc::new(Decider::new(settings, robots)),
        politeness: Pacer::in_fleet(&fleet),
        decisions: Arc::clone(decisions),
        metrics: Arc::clone(metrics),
        traces,
        shutdown: ExchangeShutdown::default(),
    };
    Ok((exchanges, fetch, refresh))
}

/// The listeners for clients; the one for operators, if it was inherited; and how long others may have what is left to take.
///
/// Who inherits a listener may be there to replace a process that still ends its exchanges, and has the store and the
/// operators' address until then; clients wait in the listener's queue meanwhile.
async fn listen(
    config: &Config,
) -> anyhow::Result<(Vec<BoundListener>, Option<TcpListener>, Duration)> {
    let mut inherited = InheritedSockets::from_environment()?;
    let patience = match inherited.is_empty() {
        true => Duration::ZERO,
        false => config.proxy.connections.shutdown_grace + TAKEOVER_MARGIN,
    };
    let mut clients = Vec::with_capacity(config.proxy.listen.len());
    for listen in &config.proxy.listen {
        clients.push(inherited.listen(*listen).await?);
    }
    let operators = inherited.take_listener(config.admin.listen)?;
    inherited.ensure_all_used()?;
    Ok((clients, operators, patience))
}

fn own_addresses(
    listeners: &[BoundListener],
    admin: &TcpListener,
) -> std::io::Result<Vec<SocketAddr>> {
    let mut own: Vec<_> = listeners
        .iter()
        .map(|bound| bound.listen_address.address)
        .collect();
    own.push(admin.local_addr()?);
    Ok(own)
}

/// Where clients on this machine reach the proxy.
fn local_client_address(listeners: &[BoundListener]) -> ListenAddress {
    let nearest =
        ListenAddress::for_local_clients(listeners.iter().map(|bound| bound.listen_address));
    nearest.expect("there is a listener")
}

/// Says on standard output where everything is, and the lines that a user pastes next.
fn announce(
    listeners: &[BoundListener],
    admin: &TcpListener,
    state_dir: &Path,
    authority: &CertificateAuthority,
) -> anyhow::Result<()> {
    let certificate = std::path::absolute(authority.certificate_path())?;
    let certificate = certificate.display().to_string();
    let mut text = format!("wayleave {}\n", env!("CARGO_PKG_VERSION"));
    for listener in listeners {
        writeln!(text, "  proxy    {}", listener.url())?;
    }
    writeln!(text, "  admin    http://{}", admin.local_addr()?)?;
    writeln!(
        text,
        "  state    {}",
        std::path::absolute(state_dir)?.display()
    )?;
    writeln!(text, "  CA       {certificate}")?;
    writeln!(text, "           SHA-256 {}", authority.fingerprint())?;
    let proxy = local_client_address(listeners);
    let operators = ListenAddress {
        address: admin.local_addr()?,
        is_tls: false,
    };
    let operators = operators.dialable().url();
    writeln!(text, "\nOther machines and clients: {operators}/#/connect")?;
    writeln!(text, "Paste into the shell of a crawler:")?;
    let lines = fill_template(GENERAL_TEMPLATE, &proxy.into(), &certificate);
    for line in lines.lines().filter(|line| !line.starts_with('#')) {
        writeln!(text, "  {line}")?;
    }
    writeln!(text, "  curl -i https://www.example.com/")?;
    // Nobody may be reading, and the proxy serves all the same.
    let mut output = std::io::stdout().lock();
    let _ = output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush());
    Ok(())
}

fn notify(states: &[sd_notify::NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "the service manager could not be notified");
    }
}

/// A panic ends the task it happens in, and shows.
fn count_panics(metrics: Arc<Metrics>) {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // A damaged store is not a bug: it is reported where it is caught.
        if robots_cache::is_panic_caught() {
            return;
        }
        metrics.panic();
        tracing::error!(%panic, "a task panicked: this is a bug in wayleave");
        print(panic);
    }));
}

/// The signals that end the process.
struct StopSignals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
    /// Who is told of SIGHUP.
    signals: Option<ReloadTrigger>,
}

impl StopSignals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            signals: None,
        })
    }

    /// Waits for SIGTERM or SIGINT.
    async fn wait(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hangup.recv() => if let Some(signals) = &self.signals {
                    signals.hangup();
                },
            }
        }
    }
}

/// The operators' listener and the store, when nobody else has them.
async fn take_over(
    config: &Config,
    clock: Clock,
    metrics: &Arc<Metrics>,
    operators: Option<TcpListener>,
    patience: Duration,
) -> anyhow::Result<(TcpListener, RobotsStore)> {
    let operators = match operators {
        Some(listener) => listener,
        None => bind_when_free(config.admin.listen, patience).await?,
    };
    let dir = &config.state.dir;
    let opening = RobotsStore::open_when_free(
        dir,
        config.robots_store,
        clock,
        Arc::clone(metrics),
        patience,
    );
    Ok((operators, opening.await?))
}
