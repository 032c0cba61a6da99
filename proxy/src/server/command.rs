//! Runs the proxy for the connections of one command, until it ends. The proxy listens nowhere else, and has no operators.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, mpsc};
use std::thread;

use anyhow::anyhow;
use futures_util::future::BoxFuture;
use pingora_core::server::{RunArgs, Server};
use pingora_core::services::ServiceReadyNotifier;
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::mpsc::unbounded_channel;
use tokio_util::sync::CancellationToken;
use wayleave_admission::request::DialledDestination;
use wayleave_assembly::ProcessParts;
use wayleave_clock::Clock;
use wayleave_config::Config;
use wayleave_config::{ListenAddress, ListenProtocol};
use wayleave_decision_log::DecisionTally;
use wayleave_forwarding::downstream::listeners;
use wayleave_forwarding::downstream::{ConnectionAcceptor, DownstreamServer, Entry};
use wayleave_forwarding::exchange::ExchangeServices;
use wayleave_isolation::{DnsServer, EnclosureSockets, ReservedNames};
use wayleave_robots_cache::StoreError;
use wayleave_telemetry::logging::{self, LogHandle};

use crate::server::process::{server_conf, state_runtime};
use crate::server::services::{ProcessService, Supervised, until_stopped, worker_threads};
use crate::server::shutdown::{GracefulShutdown, StopSignals};
use crate::server::start;

/// The client of all connections: the address that they come from inside means nothing.
const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Runs the proxy while `command` runs, for the connections that arrive at `sockets`, and logs to `log`. Returns the command's
/// result and the count of the decisions.
///
/// # Errors
///
/// Returns an error if the proxy cannot start, if it ends before the command does, or if `command` fails.
pub(crate) fn run_for_command<T: Send + 'static>(
    config: &Config,
    sockets: EnclosureSockets,
    log: File,
    command: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> anyhow::Result<(T, DecisionTally)> {
    let state = state_runtime()?;
    let (log, _writing) = logging::start(log, config.log.format, false);
    let (downstream, refresh) = state.block_on(build(config, log))?;
    let decisions = Arc::clone(&downstream.exchanges.gate.decisions);
    let ended = CancellationToken::new();
    let end = ended.clone().drop_guard();
    let running = thread::Builder::new().name("command".to_owned()).spawn(move || {
        // Dropped however it ends.
        let _end = end;
        command()
    })?;
    let service = CommandService { downstream, sockets, refresh };
    serve(service, ended)?;
    let result = running.join().map_err(|_| anyhow!("the thread of the command panicked"))?;
    Ok((result?, decisions.tally()))
}

/// Builds the proxy, as [`start::start`] does for many clients.
async fn build(
    config: &Config,
    log: LogHandle,
) -> anyhow::Result<(Arc<DownstreamServer>, BoxFuture<'static, ()>)> {
    let metrics = start::start_metrics()?;
    let clock = Clock::start();
    let store = wayleave_assembly::open_store(config, clock, &metrics).await;
    let store = store.map_err(|error| explain_lock(error, config))?;
    let authority = start::load_authority(config, &metrics)?;
    let process = ProcessParts { keeps_tally: true, ..ProcessParts::new(&log, &metrics, clock) };
    let parts = wayleave_assembly::build_in_fleet(config, process, store).await?;
    let exchanges = Arc::new(ExchangeServices::new(parts.gate));
    let downstream = start::build_downstream(config, &exchanges, &authority)?;
    Ok((Arc::new(downstream), parts.refresh))
}

/// Suggests a command if another process has the store open.
fn explain_lock(error: StoreError, config: &Config) -> anyhow::Error {
    let StoreError::Locked(path) = error else {
        return error.into();
    };
    let known = config.proxy.listen.iter().copied().filter(|listener| listener.address.port() != 0);
    let url = ListenAddress::for_local_clients(known).map(ListenAddress::url);
    anyhow!(
        "{} is in use by another wayleave. If that is a proxy, type `wayleave run --proxy {} -- COMMAND` to use it, too; \
         if it is another run, wait for its end",
        path.display(),
        url.as_deref().unwrap_or("http://ADDRESS:PORT")
    )
}

/// Runs the service until the command has ended.
fn serve(service: CommandService, ended: CancellationToken) -> anyhow::Result<()> {
    let (failed, failures) = unbounded_channel();
    let (cause, causes) = mpsc::channel();
    let downstream = Arc::clone(&service.downstream);
    let signals = StopSignals::Command(ended);
    let shutdown = GracefulShutdown::new(signals, failures, downstream, cause);
    let mut server = Server::new_with_opt_and_conf(None, server_conf());
    server.add_service(Supervised::new(service, &failed));
    server.run(RunArgs { shutdown_signal: Box::new(shutdown) });
    causes.try_recv().map_or(Ok(()), Err)
}

/// Serves the connections of a command, and its queries for names.
struct CommandService {
    downstream: Arc<DownstreamServer>,
    sockets: EnclosureSockets,
    /// The task of the robots.txt cache.
    refresh: BoxFuture<'static, ()>,
}

impl ProcessService for CommandService {
    const NAME: &'static str = "command";
    const THREADS: Option<usize> = None;

    async fn run(self, ready: ServiceReadyNotifier) -> anyhow::Result<()> {
        let refreshing = tokio::spawn(self.refresh);
        let names = Arc::new(ReservedNames::default());
        let dns = DnsServer::new(Arc::clone(&names), self.sockets.has_ipv6());
        for socket in self.sockets.dns_udp {
            let dns = dns.clone();
            let socket = UdpSocket::from_std(socket)?;
            tokio::spawn(async move { dns.serve_udp(&socket).await });
        }
        for listener in self.sockets.dns_tcp {
            tokio::spawn(serve_dns(dns.clone(), TcpListener::from_std(listener)?));
        }
        let acceptor =
            ConnectionAcceptor::in_service(Arc::clone(&self.downstream), worker_threads());
        let mut accepting = Vec::new();
        for listener in self.sockets.captured {
            let listener = TcpListener::from_std(listener)?;
            let accept = accept_captured(Arc::clone(&acceptor), listener, Arc::clone(&names));
            accepting.push(self.downstream.accept_loops.spawn(accept));
        }
        ready.notify_ready();
        until_stopped(refreshing, accepting).await
    }
}

/// Accepts the command's connections until the proxy stops. The address at which one arrives is the one that was dialled.
async fn accept_captured(
    acceptor: Arc<ConnectionAcceptor>,
    listener: TcpListener,
    names: Arc<ReservedNames>,
) {
    let stopping = acceptor.server.stopping.clone();
    while let Some((tcp, _)) = stopping.run_until_cancelled(listeners::accept(&listener)).await {
        let destination =
            tcp.local_addr().ok().and_then(|dialled| match names.name(dialled.ip()) {
                Some(name) => DialledDestination::new(&name, dialled.port()).ok(),
                None => DialledDestination::at(dialled).ok(),
            });
        let entry = Entry::Captured { listener: ListenProtocol::Tproxy, destination };
        acceptor.admit(tcp, CLIENT, entry);
    }
}

async fn serve_dns(dns: DnsServer, listener: TcpListener) {
    loop {
        let (tcp, _) = listeners::accept(&listener).await;
        let dns = dns.clone();
        tokio::spawn(async move { dns.serve_tcp(tcp).await });
    }
}
