//! Where events go: standard error, as text or JSON.

use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;

use crate::config::LogFormat;

/// Events that wait to be written; when the reader of standard error stalls, further ones are
/// dropped instead of requests.
const WAITING_EVENTS: usize = 65_536;

/// What is logged unless `RUST_LOG` says otherwise. The libraries report through their errors, which
/// are logged here in our words.
const DEFAULT_FILTER: &str = "info,pingora_core=off,hickory_resolver=off,hickory_net=off,h2=off";

/// Starts logging. Events are written until the guard is dropped.
pub(crate) fn start(format: LogFormat) -> WorkerGuard {
    let (writer, guard) = NonBlockingBuilder::default()
        .buffered_lines_limit(WAITING_EVENTS)
        .finish(std::io::stderr());
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    let builder = tracing_subscriber::fmt()
        .with_writer(writer)
        .with_env_filter(filter);
    let started = match format {
        LogFormat::Text => builder.with_ansi(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    // A test that runs two servers in one process has one log.
    let _ = started;
    guard
}
