//! The program's log: tracing events, as text or JSON, on standard error or wherever the command says.

use std::io::{self, IsTerminal as _, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};
use wayleave_notation::harmless::{escape_controls, escape_json};

use crate::line_writer::{GATHER_INTERVAL, LineWriter, LineWriterGuard};

/// The form of a log event in files and pipes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// One readable line.
    #[default]
    Text,
    /// One JSON object on one line.
    Json,
}

/// The form of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineForm {
    /// Text, with everything in it.
    Text,
    /// Text for a person at a terminal: short, with colours.
    Terminal,
    Json,
}

impl LogFormat {
    fn on(self, is_terminal: bool) -> LineForm {
        match self {
            Self::Json => LineForm::Json,
            Self::Text if is_terminal => LineForm::Terminal,
            Self::Text => LineForm::Text,
        }
    }
}

/// The target of decisions as events, by which `RUST_LOG` can filter them.
pub const DECISION_TARGET: &str = "wayleave::decision";

/// The filter unless `RUST_LOG` is set. Libraries report problems through the errors they return, which wayleave logs itself.
const DEFAULT_FILTER: &str = "info,pingora_core=off,hickory_resolver=off,hickory_net=off,h2=off";

type AnyLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// A handle to the log, for writing lines directly and for changing its format. Clones share the log.
#[derive(Clone)]
pub struct LogHandle {
    pub lines: LineWriter,
    is_terminal: bool,
    is_json: Arc<AtomicBool>,
    has_decisions: Arc<AtomicBool>,
    /// Whether `RUST_LOG` lets decisions pass. Asked once, because it does not change.
    passes_decisions: bool,
    events: reload::Handle<AnyLayer, Registry>,
}

/// Starts logging to `output`, which may be a terminal that takes colours. Events are written until the returned guard is
/// dropped.
pub fn start(
    output: impl Write + Send + 'static,
    format: LogFormat,
    is_terminal: bool,
) -> (LogHandle, LineWriterGuard) {
    let (mut log, writing, layer) = log_to(output, format, is_terminal);
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER))
        // It logs passwords at level trace.
        .add_directive("suppaftp=off".parse().expect("a directive"));
    // Fails in tests that run two servers in one process: both use the first log.
    let _ = tracing_subscriber::registry().with(layer).with(filter).try_init();
    log.passes_decisions = tracing::enabled!(target: DECISION_TARGET, tracing::Level::INFO);
    (log, writing)
}

/// Returns a log whose output is discarded and that takes no events.
pub fn start_discarding(format: LogFormat) -> (LogHandle, LineWriterGuard) {
    let (log, writing, _) = log_to(io::sink(), format, false);
    (log, writing)
}

fn log_to(
    output: impl Write + Send + 'static,
    format: LogFormat,
    is_terminal: bool,
) -> (LogHandle, LineWriterGuard, reload::Layer<AnyLayer, Registry>) {
    let (lines, writing) = LineWriter::spawn(output, GATHER_INTERVAL);
    let (layer, events) = reload::Layer::new(layer(format.on(is_terminal), &lines));
    let is_json = Arc::new(AtomicBool::new(format == LogFormat::Json));
    let has_decisions = Arc::new(AtomicBool::new(true));
    let passes_decisions = true;
    let log = LogHandle { lines, is_terminal, is_json, has_decisions, passes_decisions, events };
    (log, writing, layer)
}

fn layer(form: LineForm, lines: &LineWriter) -> AnyLayer {
    let layer = tracing_subscriber::fmt::layer().with_writer(EventWriters(EventWriter {
        lines: lines.clone(),
        form,
        is_urgent: false,
    }));
    match form {
        // Without colours: their escape sequences would be escaped like those of strangers.
        LineForm::Text => layer.with_ansi(false).boxed(),
        LineForm::Terminal => layer.with_ansi(false).with_target(false).boxed(),
        LineForm::Json => layer.json().flatten_event(true).boxed(),
    }
}

/// Returns whether people see standard error, with the colours that they want (`NO_COLOR`, `TERM`).
pub fn is_stderr_terminal() -> bool {
    let colours = AutoStream::choice(&io::stderr());
    io::stderr().is_terminal() && colours != ColorChoice::Never
}

/// Returns the time of day within a timestamp such as `2026-11-21T08:45:10.174312Z`.
pub fn time_of_day(timestamp: &str) -> &str {
    timestamp.get(11..19).unwrap_or(timestamp)
}

/// Shortens a line such as `2026-11-21T08:45:10.174312Z  INFO it was reloaded cause="SIGHUP"`, and colours its level.
fn terminal_line(line: &str) -> String {
    let mut words = line.splitn(2, ' ').map(str::trim_start);
    let timestamp = words.next().unwrap_or_default();
    let rest = words.next().unwrap_or_default();
    let (level, message) = rest.split_once(' ').unwrap_or((rest, ""));
    let style = match level {
        "ERROR" => AnsiColor::Red.on_default().bold(),
        "WARN" => AnsiColor::Yellow.on_default(),
        "INFO" => AnsiColor::Green.on_default(),
        _ => Style::new().dimmed(),
    };
    format!("{} {style}{level:<5}{style:#} {message}", time_of_day(timestamp))
}

impl LogHandle {
    fn format(&self) -> LogFormat {
        if self.is_json.load(Ordering::Relaxed) { LogFormat::Json } else { LogFormat::Text }
    }

    /// Returns the form of lines that are written directly.
    pub fn form(&self) -> LineForm {
        self.format().on(self.is_terminal)
    }

    /// Returns whether decisions are logged as events, too.
    pub fn has_decisions(&self) -> bool {
        self.passes_decisions && self.has_decisions.load(Ordering::Relaxed)
    }

    /// Sets whether decisions are logged as events from now on.
    pub fn set_decisions(&self, are_events: bool) {
        self.has_decisions.store(are_events, Ordering::Relaxed);
    }

    /// Sets the format of all further lines.
    pub fn set_format(&self, format: LogFormat) {
        // Reloading the layer rebuilds tracing's cache of interests, so it is done only for a change.
        let is_json = format == LogFormat::Json;
        if self.is_json.swap(is_json, Ordering::Relaxed) != is_json {
            // Fails only if the subscriber is gone, which happens at the end of the process.
            let _ = self.events.reload(layer(format.on(self.is_terminal), &self.lines));
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

    fn make_writer_for(&'a self, event: &tracing::Metadata<'_>) -> EventWriter {
        EventWriter { is_urgent: *event.level() <= tracing::Level::WARN, ..self.make_writer() }
    }
}

/// The sink for tracing's formatted events, one per call. Each becomes one escaped line, since events contain text from
/// strangers.
#[derive(Clone)]
struct EventWriter {
    lines: LineWriter,
    form: LineForm,
    /// Whether it is written at once, as warnings and errors are.
    is_urgent: bool,
}

impl Write for EventWriter {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = event.strip_suffix(b"\n").unwrap_or(event);
        let harmless = |text| escape_controls(&String::from_utf8_lossy(text)).into_owned();
        let line = match self.form {
            LineForm::Text => harmless(text).into_bytes(),
            // Coloured last: the escape sequences of colours must remain.
            LineForm::Terminal => terminal_line(&harmless(text)).into_bytes(),
            LineForm::Json => escape_json(text.to_vec()),
        };
        self.lines.append(|buffer| {
            buffer.extend_from_slice(&line);
            buffer.push(b'\n');
        });
        if self.is_urgent {
            self.lines.flush_soon();
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::line_writer::tests::{GatedOutput, Output};

    #[test]
    fn warnings_are_written_at_once() {
        let (sender, written) = mpsc::channel();
        let (lines, _writing) = LineWriter::spawn(Output(sender), Duration::from_hours(1));
        let next = || String::from_utf8(written.recv().unwrap()).unwrap();
        let events = tracing_subscriber::registry().with(layer(LineForm::Text, &lines));
        tracing::subscriber::with_default(events, || {
            for number in 1..=2 {
                tracing::info!(number, "close to nothing");
                assert!(next().contains(&format!("number={number}")));
            }
            tracing::info!("it waits for others");
            tracing::warn!("it does not");
            let both = next();
            assert!(both.contains("it waits") && both.contains("it does not"), "{both}");
            tracing::error!("neither does this");
            assert!(next().contains("neither"));
        });
    }

    /// The only test that starts the log of the process, in which the thread that writes reports what was lost.
    #[test]
    fn lost_lines_are_counted_by_an_event_of_the_log() {
        let (sender, written) = mpsc::channel();
        let (permit, permits) = mpsc::channel();
        let output = GatedOutput(Output(sender), permits);
        let (log, writing) = start(output, LogFormat::Json, false);
        let append = |text: &[u8]| log.lines.append(|buffer| buffer.extend_from_slice(text));
        let full = vec![b' '; 33 * 1024 * 1024];
        let lost_in = |report: Vec<u8>| {
            let event: serde_json::Value = serde_json::from_slice(&report).unwrap();
            assert_eq!(event["level"], "WARN", "{event}");
            event["lines"].as_u64()
        };
        append(b"{}\n{}\n");
        assert_eq!(written.recv().unwrap(), b"{}\n{}\n");
        append(&full);
        append(b"{}\n{}\n{}\n");
        permit.send(false).unwrap();
        assert_eq!(written.recv().unwrap().len(), full.len());
        permit.send(true).unwrap();
        assert_eq!(lost_in(written.recv().unwrap()), Some(5));
        // At the end, too.
        append(&full);
        append(b"{}\n");
        drop(permit);
        drop(writing);
        assert_eq!(written.recv().unwrap().len(), full.len());
        assert_eq!(lost_in(written.recv().unwrap()), Some(1));
        written.recv().unwrap_err();
    }

    #[test]
    fn event_is_one_escaped_line() {
        let mut written = tempfile::NamedTempFile::new().unwrap();
        let (lines, writing) = LineWriter::spawn(written.reopen().unwrap(), GATHER_INTERVAL);
        for (form, event) in [
            (LineForm::Text, "INFO a\u{1b}[2J\nb\u{9b}\u{202e}\u{2028}\n"),
            (LineForm::Json, "{\"a\":\"\u{9b}\u{202e}\u{2028}\"}\n"),
            (LineForm::Terminal, "2026-11-21T08:45:10.174312Z  WARN a\u{1b}[2J n=1\n"),
        ] {
            let mut events = EventWriter { lines: lines.clone(), form, is_urgent: false };
            events.write_all(event.as_bytes()).unwrap();
        }
        drop(writing);
        let mut text = String::new();
        io::Read::read_to_string(&mut written, &mut text).unwrap();
        assert_eq!(
            text,
            "INFO a\\u{1b}[2J\\nb\\u{9b}\\u{202e}\\u{2028}\n{\"a\":\"\\u009b\\u202e\\u2028\"}\n\
             08:45:10 \u{1b}[33mWARN \u{1b}[0m a\\u{1b}[2J n=1\n"
        );
    }
}
