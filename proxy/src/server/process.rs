//! Runs the proxy as a pingora server.

use std::io;
use std::sync::{Arc, mpsc};

use anyhow::Context;
use pingora_core::server::configuration::ServerConf;
use pingora_core::server::{RunArgs, Server};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::unbounded_channel;
use wayleave_config::{Config, ConfigSources};
use wayleave_telemetry::logging;

use crate::server::services::{Supervised, worker_threads};
use crate::server::shutdown::GracefulShutdown;
use crate::server::start::{self, Startup};

/// Runs the proxy until SIGTERM or SIGINT. `config` was read from `sources`, if from any file, and is reloaded when one changes.
///
/// # Errors
///
/// Returns an error if the proxy cannot start (an address is in use, a CA cannot be read, …) or if one of its services ends
/// by itself.
pub(crate) fn run(config: &Config, sources: Option<ConfigSources>) -> anyhow::Result<()> {
    // Shells and init systems keep the soft limit low for programs that use select(2). If it cannot be raised, the metric
    // process_max_fds shows it.
    let _limit = rlimit::increase_nofile_limit(u64::MAX);
    let state = state_runtime()?;
    let (log, _writing) =
        logging::start(io::stderr(), config.log.format, logging::is_stderr_terminal());
    let Some(startup) = state.block_on(start::start(config, sources, log))? else {
        return Ok(());
    };
    start::warn_of_few_descriptors(config);
    serve(startup)
}

/// Starts the runtime for tasks that have to run before the services, such as the store's writer and the heartbeat in the
/// fleet, for as long as the process: pingora creates the services' runtimes when nothing can fail any more.
pub(super) fn state_runtime() -> anyhow::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("state")
        .enable_all()
        .build()
        .context("starting the runtime")
}

/// Runs the services until a signal arrives, or one of them fails.
fn serve(startup: Startup) -> anyhow::Result<()> {
    let (failed, failures) = unbounded_channel();
    let (cause, causes) = mpsc::channel();
    let downstream = Arc::clone(&startup.crawlers.downstream);
    let shutdown = GracefulShutdown::new(startup.signals, failures, downstream, cause);

    let mut server = Server::new_with_opt_and_conf(None, server_conf());
    let crawlers = server.add_service(Supervised::new(startup.crawlers, &failed));
    let operators = server.add_service(Supervised::new(startup.operators, &failed));
    let reload = server.add_service(Supervised::new(startup.reload, &failed));
    operators.add_dependency(&crawlers);
    reload.add_dependency(&crawlers);
    server.run(RunArgs { shutdown_signal: Box::new(shutdown) });
    causes.try_recv().map_or(Ok(()), Err)
}

/// Returns the settings of the server.
pub(super) fn server_conf() -> ServerConf {
    ServerConf {
        threads: worker_threads(),
        // A request costs less if nothing of it moves between threads. Connections are spread over them when they are accepted.
        work_stealing: false,
        ..ServerConf::default()
    }
}
