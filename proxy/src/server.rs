//! Ties the parts together and runs until told to stop.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use arc_swap::ArcSwap;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wayleave_policy::lifecycle::Lifetimes;

use crate::admin::{self, Admin, Guard};
use crate::clock::Clock;
use crate::config::{self, Config};
use crate::decisions::{Decisions, JournalOptions};
use crate::egress::{self, Egress};
use crate::flow::{Flow, Listener};
use crate::intercept::{CertificateAuthority, Interceptor};
use crate::listeners::Inherited;
use crate::logging;
use crate::metrics::Metrics;
use crate::politeness::Politeness;
use crate::reload::{self, Reload};
use crate::robots::{self, FetchOptions, HttpFetch, Robots, Store, StoreOptions};
use crate::traffic::Traffic;
use crate::upstream::{self, Upstream};

/// Sessions with origins kept for resumption.
const TLS_SESSIONS: usize = 10_000;

/// Runs the proxy until SIGTERM or SIGINT. `config` was read from `file`, if from any, which is read again when it changes.
///
/// # Errors
///
/// Returns an error if the proxy cannot start (an address in use, a CA that cannot be read, …) or
/// if a part that must run ends by itself.
pub fn run(config: &Config, file: Option<&Path>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    runtime.block_on(serve(config, file))
}

async fn serve(config: &Config, file: Option<&Path>) -> anyhow::Result<()> {
    let (log, _writing) = logging::start(config.log.format);
    let metrics = Arc::new(Metrics::new()?);
    count_panics(Arc::clone(&metrics));
    // Before the listeners: once they are open, a signal must find its handler.
    let mut stop = Stop::new()?;
    let (listeners, admin_listener) = listen(config).await?;
    let authority = Arc::new(CertificateAuthority::load_or_create(&config.https.ca_dir)?);
    let own = own_addresses(&listeners, &admin_listener)?;
    let decisions = Arc::new(Decisions::start(
        journal(&config.log),
        log,
        Arc::clone(&metrics),
    )?);
    let (flow, mut refresh) = build(config, &metrics, &decisions, Arc::clone(&authority), own)?;

    let stopping = CancellationToken::new();
    let tasks = TaskTracker::new();
    let flow = Arc::new(flow);
    let listener = Arc::new(Listener {
        flow: Arc::clone(&flow),
        slots: Arc::new(Semaphore::new(config.proxy.max_connections)),
        tasks: tasks.clone(),
        stopping: stopping.clone(),
    });
    announce(&listeners, &admin_listener, &config.state.dir, &authority)?;
    let reload = reload::start(file, config, &flow, &metrics);
    stop.reload = Some(reload.clone());
    let traffic = watch_over(&decisions, &metrics, flow.robots.clock());
    let admin = Admin {
        metrics,
        traffic,
        reload,
        flow: Arc::clone(&flow),
        decisions: Arc::clone(&decisions),
        certificate_pem: authority.certificate_pem().into(),
        started_at: flow.robots.clock().now(),
        counted: Default::default(),
        proxy: dialable(listeners[0].local_addr()?),
        stopping: stopping.clone(),
    };
    let guard = Guard {
        token_sha256: config.admin.token_sha256,
    };
    let routes = admin::router(admin, guard);
    let mut admin = tokio::spawn(axum::serve(admin_listener, routes).into_future());
    for bound in listeners {
        let listener = Arc::clone(&listener);
        tasks.spawn(async move { listener.run(bound).await });
    }
    notify(&[sd_notify::NotifyState::Ready]);

    let ended = tokio::select! {
        () = stop.wait() => Ok(()),
        ended = &mut refresh => Err(anyhow::anyhow!("the robots.txt task ended: {ended:?}")),
        ended = &mut admin => Err(anyhow::anyhow!("the admin listener ended: {ended:?}")),
    };
    stopping.cancel();
    notify(&[sd_notify::NotifyState::Stopping]);
    drain(&tasks, config.proxy.shutdown_grace, &mut stop).await;
    flow.robots.close().await;
    decisions.close();
    ended
}

/// Starts what operators watch: decisions and traffic as they come.
fn watch_over(decisions: &Arc<Decisions>, metrics: &Arc<Metrics>, clock: Clock) -> Arc<Traffic> {
    let decisions = Arc::clone(decisions);
    tokio::spawn(async move { decisions.tell_watchers().await });
    let traffic = Arc::new(Traffic::new());
    let (counting, metrics) = (Arc::clone(&traffic), Arc::clone(metrics));
    tokio::spawn(async move { counting.run(&metrics, clock).await });
    traffic
}

/// Lets exchanges under way end, but no longer than `grace` and not after a second signal.
async fn drain(tasks: &TaskTracker, grace: Duration, stop: &mut Stop) {
    tasks.close();
    let under_way = tasks.len();
    tracing::info!(under_way, ?grace, "stopping");
    tokio::select! {
        ended = tokio::time::timeout(grace, tasks.wait()) => if ended.is_err() {
            tracing::warn!(cut_off = tasks.len(), "the grace period is over");
        },
        () = stop.wait() => tracing::warn!(cut_off = tasks.len(), "told to stop twice"),
    }
}

fn build(
    config: &Config,
    metrics: &Arc<Metrics>,
    decisions: &Arc<Decisions>,
    authority: Arc<CertificateAuthority>,
    own_listeners: Vec<SocketAddr>,
) -> anyhow::Result<(Flow, tokio::task::JoinHandle<()>)> {
    let egress = Egress::new(egress::Options {
        allow_private: config.upstream.allow_private.clone(),
        servers: config.dns.servers.clone(),
        overrides: config.dns.overrides.clone(),
        own_listeners,
    })
    .context("reading the system's DNS configuration")?;
    let egress = Arc::new(egress);
    let clock = Clock::start();
    let tls = tls_config(&config.upstream)?;
    let upstream = upstream::Options {
        connect_timeout: config.upstream.connect_timeout,
        response_timeout: config.upstream.response_timeout,
        idle_connections: config.upstream.idle_connections,
    };
    for crawler in &config.crawlers.crawlers {
        metrics.know_crawler(&crawler.name);
    }
    let upstream = Upstream::new(upstream, Arc::clone(&egress), &tls, Arc::clone(metrics));
    let fetch = HttpFetch::new(egress, &tls, fetch_options(&config.robots), clock);
    let fetch = fetch.handing_over(upstream.idle());
    let (robots, refresh) = start_robots(config, fetch, clock, metrics)?;
    let now = robots.clock().now();
    let flow = Flow {
        settings: ArcSwap::from_pointee(reload::settings(config, 1, Arc::new(upstream), now)),
        robots,
        politeness: Politeness::default(),
        interceptor: Interceptor::new(authority)?,
        decisions: Arc::clone(decisions),
        metrics: Arc::clone(metrics),
    };
    Ok((flow, refresh))
}

fn journal(log: &config::Log) -> Option<JournalOptions> {
    log.decisions.clone().map(|path| JournalOptions {
        path,
        max_size_bytes: log.decisions_max_size,
        max_age: log.decisions_max_age,
        keep: log.decisions_keep,
    })
}

/// How origins' certificates are checked: by the system's roots and the configured ones.
fn tls_config(upstream: &config::Upstream) -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let system = rustls_native_certs::load_native_certs();
    for error in &system.errors {
        tracing::warn!(%error, "a system root certificate could not be read");
    }
    let (added, _) = roots.add_parsable_certificates(system.certs);
    if added == 0 {
        tracing::warn!("the system has no root certificates (Debian: install ca-certificates)");
    }
    for certificate in upstream.extra_root_certificates() {
        roots
            .add(certificate.clone())
            .context("adding a certificate of upstream.extra_roots")?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.resumption = rustls::client::Resumption::in_memory_sessions(TLS_SESSIONS);
    Ok(tls)
}

/// The listeners for clients and the one for operators.
async fn listen(config: &Config) -> anyhow::Result<(Vec<TcpListener>, TcpListener)> {
    let mut inherited = Inherited::take()?;
    let mut listeners = Vec::with_capacity(config.proxy.listen.len());
    for address in &config.proxy.listen {
        listeners.push(inherited.listen(*address).await?);
    }
    let admin = inherited.listen(config.admin.listen).await?;
    inherited.all_used()?;
    Ok((listeners, admin))
}

fn own_addresses(
    listeners: &[TcpListener],
    admin: &TcpListener,
) -> std::io::Result<Vec<SocketAddr>> {
    listeners
        .iter()
        .chain([admin])
        .map(TcpListener::local_addr)
        .collect()
}

/// Says on standard output where everything is, and the lines that a user pastes next.
fn announce(
    listeners: &[TcpListener],
    admin: &TcpListener,
    state_dir: &Path,
    authority: &CertificateAuthority,
) -> anyhow::Result<()> {
    let certificate = std::path::absolute(authority.certificate_path())?;
    let certificate = certificate.display();
    let mut text = format!("wayleave {}\n", env!("CARGO_PKG_VERSION"));
    for listener in listeners {
        writeln!(text, "  proxy    http://{}", listener.local_addr()?)?;
    }
    writeln!(text, "  admin    http://{}", admin.local_addr()?)?;
    writeln!(
        text,
        "  state    {}",
        std::path::absolute(state_dir)?.display()
    )?;
    writeln!(text, "  CA       {certificate}")?;
    writeln!(text, "           SHA-256 {}", authority.fingerprint())?;
    let proxy = format!("http://{}", dialable(listeners[0].local_addr()?));
    writeln!(text, "\nPaste into the shell of a crawler:")?;
    writeln!(
        text,
        "  export http_proxy={proxy} https_proxy={proxy} HTTP_PROXY={proxy} HTTPS_PROXY={proxy}"
    )?;
    writeln!(
        text,
        "  export SSL_CERT_FILE={certificate} CURL_CA_BUNDLE={certificate} \
         REQUESTS_CA_BUNDLE={certificate} NODE_EXTRA_CA_CERTS={certificate}"
    )?;
    writeln!(text, "  curl -i https://www.example.com/")?;
    // Nobody may be reading, and the proxy serves all the same.
    let mut output = std::io::stdout().lock();
    let _ = output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush());
    Ok(())
}

/// The address for clients on this machine: a wildcard is none to dial.
fn dialable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

fn notify(states: &[sd_notify::NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "the service manager could not be told");
    }
}

/// A panic ends the task it happens in, and shows.
fn count_panics(metrics: Arc<Metrics>) {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        metrics.panic();
        tracing::error!(%panic, "a task panicked: this is a bug in wayleave");
        print(panic);
    }));
}

/// The signals that end the process.
struct Stop {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
    /// Who is told of SIGHUP.
    reload: Option<Reload>,
}

impl Stop {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            reload: None,
        })
    }

    /// Waits for SIGTERM or SIGINT.
    async fn wait(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hangup.recv() => if let Some(reload) = &self.reload {
                    reload.on_signal();
                },
            }
        }
    }
}

/// What fetches robots.txt for `wayleave check`, as the proxy would.
pub(crate) fn robots_fetch(config: &Config, clock: Clock) -> anyhow::Result<HttpFetch> {
    let egress = Egress::new(egress::Options {
        allow_private: config.upstream.allow_private.clone(),
        servers: config.dns.servers.clone(),
        overrides: config.dns.overrides.clone(),
        own_listeners: Vec::new(),
    })
    .context("reading the system's DNS configuration")?;
    let tls = tls_config(&config.upstream)?;
    let options = fetch_options(&config.robots);
    Ok(HttpFetch::new(Arc::new(egress), &tls, options, clock))
}

fn fetch_options(robots: &config::Robots) -> FetchOptions {
    FetchOptions {
        user_agent: robots.user_agent.clone(),
        timeout: robots.fetch_timeout,
        max_redirects: robots.max_redirects,
        max_size: robots.max_size,
    }
}

fn start_robots(
    config: &Config,
    fetch: HttpFetch,
    clock: Clock,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<(Robots, tokio::task::JoinHandle<()>)> {
    let robots = &config.robots;
    let store = Store::open(
        &config.state.dir,
        StoreOptions::default(),
        clock,
        Arc::clone(metrics),
    )?;
    let options = robots::Options {
        lifetimes: Lifetimes {
            max_age: robots.max_age,
            max_stale: robots.max_stale,
            error_ttl: robots.error_ttl,
            ..Lifetimes::default()
        },
        fetch_timeout: robots.fetch_timeout,
        memory: robots.memory,
        ..robots::Options::default()
    };
    let metrics = Arc::clone(metrics);
    Ok(Robots::start(fetch, store, &options, clock, metrics))
}
