//! Where events go: standard error, as text or JSON.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};

use crate::batch::{Lines, Writing};
pub(crate) use crate::config::LogFormat as Format;

/// What is logged unless `RUST_LOG` says otherwise. The libraries report through their errors, which
/// are logged here in our words.
const DEFAULT_FILTER: &str = "info,pingora_core=off,hickory_resolver=off,hickory_net=off,h2=off";

type Events = Box<dyn Layer<Registry> + Send + Sync>;

/// The log, for those who write their own lines. Clones are of the same log.
#[derive(Clone)]
pub(crate) struct Log {
    pub(crate) lines: Lines,
    is_json: Arc<AtomicBool>,
    events: reload::Handle<Events, Registry>,
}

/// Starts logging. Events are written until the guard is dropped.
pub(crate) fn start(format: Format) -> (Log, Writing) {
    let (lines, writing) = Lines::to(io::stderr());
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    let (layer, events) = reload::Layer::new(layer(format, &lines));
    // A test that runs two servers in one process has one log.
    let _ = tracing_subscriber::registry()
        .with(layer)
        .with(filter)
        .try_init();
    let is_json = Arc::new(AtomicBool::new(format == Format::Json));
    let log = Log {
        lines,
        is_json,
        events,
    };
    (log, writing)
}

fn layer(format: Format, lines: &Lines) -> Events {
    let layer = tracing_subscriber::fmt::layer().with_writer(Writers(lines.clone()));
    match format {
        Format::Text => layer.with_ansi(false).boxed(),
        Format::Json => layer.json().flatten_event(true).boxed(),
    }
}

impl Log {
    pub(crate) fn format(&self) -> Format {
        match self.is_json.load(Ordering::Relaxed) {
            true => Format::Json,
            false => Format::Text,
        }
    }

    /// Writes lines in this form from now on.
    pub(crate) fn set_format(&self, format: Format) {
        let is_json = format == Format::Json;
        if self.is_json.swap(is_json, Ordering::Relaxed) != is_json {
            // It fails if the log has ended.
            let _ = self.events.reload(layer(format, &self.lines));
        }
    }
}

/// Hands tracing a writer for each event.
struct Writers(Lines);

impl<'a> MakeWriter<'a> for Writers {
    type Writer = Lines;

    fn make_writer(&'a self) -> Lines {
        self.0.clone()
    }
}
