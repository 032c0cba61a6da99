//! The end of the process: the signals that ask for it, and the drain before pingora shuts the services down.

use std::io;
use std::sync::{Arc, mpsc};

use async_trait::async_trait;
use pingora_core::server::{ShutdownSignal, ShutdownSignalWatch};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Mutex;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;
use wayleave_forwarding::downstream::DownstreamServer;

use crate::server::announce::notify;

/// The reasons to end the process.
pub(super) enum StopSignals {
    /// SIGTERM or SIGINT.
    Process { terminate: Signal, interrupt: Signal },
    /// The end of the command for which the proxy runs.
    Command(CancellationToken),
}

impl StopSignals {
    /// Installs the handlers of the signals that end the process.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self::Process {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next reason.
    pub(super) async fn wait(&mut self) {
        match self {
            Self::Process { terminate, interrupt } => {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            }
            Self::Command(ended) => ended.cancelled().await,
        }
    }
}

/// Drains the proxy when a signal arrives, or when a service fails.
///
/// pingora asks for the kind of shutdown, and would wait for exchanges by sleeping through a fixed grace period. So the drain
/// happens before it is answered, and the answer is always the fast shutdown: nothing is left to wait for.
pub(super) struct GracefulShutdown(Mutex<Drain>);

struct Drain {
    signals: StopSignals,
    failures: UnboundedReceiver<anyhow::Error>,
    downstream: Arc<DownstreamServer>,
    cause: mpsc::Sender<anyhow::Error>,
}

impl GracefulShutdown {
    /// The first of the `failures` ends the process, and is passed on as the `cause` of its end.
    pub(super) fn new(
        signals: StopSignals,
        failures: UnboundedReceiver<anyhow::Error>,
        downstream: Arc<DownstreamServer>,
        cause: mpsc::Sender<anyhow::Error>,
    ) -> Self {
        Self(Mutex::new(Drain { signals, failures, downstream, cause }))
    }
}

#[async_trait]
impl ShutdownSignalWatch for GracefulShutdown {
    async fn recv(&self) -> ShutdownSignal {
        let mut drain = self.0.lock().await;
        drain.wait().await;
        drain.run().await;
        ShutdownSignal::FastShutdown
    }
}

impl Drain {
    /// Waits for a reason to stop.
    async fn wait(&mut self) {
        tokio::select! {
            () = self.signals.wait() => {}
            Some(failure) = self.failures.recv() => {
                // The receiver is held until pingora returns.
                let _ = self.cause.send(failure);
            }
        }
    }

    /// Accepts no more connections, lets exchanges end, and writes the robots.txt files and decisions.
    async fn run(&mut self) {
        let downstream = Arc::clone(&self.downstream);
        downstream.stopping.cancel();
        notify(&[sd_notify::NotifyState::Stopping]);
        downstream.accept_loops.close();
        downstream.accept_loops.wait().await;
        self.wait_for_exchanges().await;
        // Exchanges that still run are cut. Each is recorded as such, and no task is left that could begin another.
        downstream.exchanges.gate.shutdown.cancel_all().await;
        downstream.terminated.cancel();
        downstream.tasks.wait().await;
        wayleave_assembly::close(&downstream.exchanges.gate).await;
    }

    /// Waits for running exchanges, up to the grace period or until a second signal; not at all if their command has ended.
    async fn wait_for_exchanges(&mut self) {
        let tasks = &self.downstream.tasks;
        let grace = self.downstream.exchanges.gate.decider.settings().options.shutdown_grace;
        tasks.close();
        let under_way = tasks.len();
        tracing::info!(under_way, ?grace, "stopping");
        if let StopSignals::Command(_) = self.signals {
            // Nobody is left who could read a response.
            return;
        }
        tokio::select! {
            ended = tokio::time::timeout(grace, tasks.wait()) => if ended.is_err() {
                tracing::warn!(cut_off = tasks.len(), "the grace period is over");
            },
            () = self.signals.wait() => tracing::warn!(cut_off = tasks.len(), "a second signal to stop arrived"),
        }
    }
}
