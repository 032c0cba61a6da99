//! Where events go: standard error, as text or JSON.

use std::io;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::batch::{Lines, Writing};
pub(crate) use crate::config::LogFormat as Format;

/// What is logged unless `RUST_LOG` says otherwise. The libraries report through their errors, which
/// are logged here in our words.
const DEFAULT_FILTER: &str = "info,pingora_core=off,hickory_resolver=off,hickory_net=off,h2=off";

/// The log, for those who write their own lines.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub(crate) lines: Lines,
    pub(crate) format: Format,
}

/// Starts logging. Events are written until the guard is dropped.
pub(crate) fn start(format: Format) -> (Log, Writing) {
    let (lines, writing) = Lines::to(io::stderr());
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    let builder = tracing_subscriber::fmt()
        .with_writer(Events(lines.clone()))
        .with_env_filter(filter);
    let started = match format {
        Format::Text => builder.with_ansi(false).try_init(),
        Format::Json => builder.json().flatten_event(true).try_init(),
    };
    // A test that runs two servers in one process has one log.
    let _ = started;
    (Log { lines, format }, writing)
}

/// Hands tracing a writer for each event.
struct Events(Lines);

impl<'a> MakeWriter<'a> for Events {
    type Writer = Lines;

    fn make_writer(&'a self) -> Lines {
        self.0.clone()
    }
}
