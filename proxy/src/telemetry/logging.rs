//! The program's log: tracing events, as text or JSON, on standard error or wherever the command says.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};

use crate::telemetry::harmless::{escape_controls, escape_json};
use crate::telemetry::line_writer::{LineWriter, LineWriterGuard};

/// The form of a log event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// One readable line.
    #[default]
    Text,
    /// One JSON object on one line.
    Json,
}

/// The filter unless `RUST_LOG` is set. Libraries report problems through the errors they return, which wayleave logs itself.
const DEFAULT_FILTER: &str = "info,pingora_core=off,hickory_resolver=off,hickory_net=off,h2=off";

type AnyLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// A handle to the log, for writing lines directly and for changing its format. Clones share the log.
#[derive(Clone)]
pub(crate) struct LogHandle {
    pub(crate) lines: LineWriter,
    is_json: Arc<AtomicBool>,
    has_decisions: Arc<AtomicBool>,
    events: reload::Handle<AnyLayer, Registry>,
}

/// Starts logging to `output`. Events are written until the returned guard is dropped.
pub(crate) fn start(
    output: impl Write + Send + 'static,
    format: LogFormat,
) -> (LogHandle, LineWriterGuard) {
    let (log, writing, layer) = log_to(output, format);
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER))
        // It logs passwords at level trace.
        .add_directive("suppaftp=off".parse().expect("a directive"));
    // Fails in tests that run two servers in one process: both use the first log.
    let _ = tracing_subscriber::registry().with(layer).with(filter).try_init();
    (log, writing)
}

/// Returns a log whose output is discarded and that takes no events.
#[cfg(test)]
pub(crate) fn start_discarding(format: LogFormat) -> (LogHandle, LineWriterGuard) {
    let (log, writing, _) = log_to(io::sink(), format);
    (log, writing)
}

fn log_to(
    output: impl Write + Send + 'static,
    format: LogFormat,
) -> (LogHandle, LineWriterGuard, reload::Layer<AnyLayer, Registry>) {
    let (lines, writing) = LineWriter::spawn(output);
    let (layer, events) = reload::Layer::new(layer(format, &lines));
    let is_json = Arc::new(AtomicBool::new(format == LogFormat::Json));
    let log = LogHandle { lines, is_json, has_decisions: Arc::new(AtomicBool::new(true)), events };
    (log, writing, layer)
}

fn layer(format: LogFormat, lines: &LineWriter) -> AnyLayer {
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(EventWriters(EventWriter { lines: lines.clone(), format }));
    match format {
        // Without colours: their escape sequences would be escaped like those of strangers.
        LogFormat::Text => layer.with_ansi(false).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    }
}

impl LogHandle {
    pub(crate) fn format(&self) -> LogFormat {
        if self.is_json.load(Ordering::Relaxed) { LogFormat::Json } else { LogFormat::Text }
    }

    /// Returns whether decisions are logged as events, too.
    pub(crate) fn has_decisions(&self) -> bool {
        self.has_decisions.load(Ordering::Relaxed)
    }

    /// Sets whether decisions are logged as events from now on.
    pub(crate) fn set_decisions(&self, are_events: bool) {
        self.has_decisions.store(are_events, Ordering::Relaxed);
    }

    /// Sets the format of all further lines.
    pub(crate) fn set_format(&self, format: LogFormat) {
        // Reloading the layer rebuilds tracing's cache of interests, so it is done only for a change.
        let is_json = format == LogFormat::Json;
        if self.is_json.swap(is_json, Ordering::Relaxed) != is_json {
            // Fails only if the subscriber is gone, which happens at the end of the process.
            let _ = self.events.reload(layer(format, &self.lines));
        }
    }
}

/// Gives tracing a writer for each event.
struct EventWriters(EventWriter);

impl<'a> MakeWriter<'a> for EventWriters {
    type Writer = EventWriter;

    fn make_writer(&'a self) -> EventWriter {
        self.0.clone()
    }
}

/// The sink for tracing's formatted events, one per call. Each becomes one escaped line, since events contain text from
/// strangers.
#[derive(Clone)]
struct EventWriter {
    lines: LineWriter,
    format: LogFormat,
}

impl Write for EventWriter {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = event.strip_suffix(b"\n").unwrap_or(event);
        let line = match self.format {
            LogFormat::Text => {
                escape_controls(&String::from_utf8_lossy(text)).into_owned().into_bytes()
            }
            LogFormat::Json => escape_json(text.to_vec()),
        };
        self.lines.append(|buffer| {
            buffer.extend_from_slice(&line);
            buffer.push(b'\n');
        });
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_is_one_escaped_line() {
        let mut written = tempfile::NamedTempFile::new().unwrap();
        let (lines, writing) = LineWriter::spawn(written.reopen().unwrap());
        for (format, event) in [
            (LogFormat::Text, "INFO a\u{1b}[2J\nb\u{9b}\u{202e}\u{2028}\n"),
            (LogFormat::Json, "{\"a\":\"\u{9b}\u{202e}\u{2028}\"}\n"),
        ] {
            let mut events = EventWriter { lines: lines.clone(), format };
            events.write_all(event.as_bytes()).unwrap();
        }
        drop(writing);
        let mut text = String::new();
        io::Read::read_to_string(&mut written, &mut text).unwrap();
        assert_eq!(
            text,
            "INFO a\\u{1b}[2J\\nb\\u{9b}\\u{202e}\\u{2028}\n{\"a\":\"\\u009b\\u202e\\u2028\"}\n"
        );
    }
}
