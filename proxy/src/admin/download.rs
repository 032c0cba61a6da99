//! `/v1/decisions/download`: the decisions of a span of time as a file, for spreadsheets and programs.

use std::borrow::Cow;
use std::io;
use std::ops::ControlFlow;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{Stream, stream};
use serde::Deserialize;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use utoipa::{IntoParams, ToSchema};
use wayleave_decision_log::{ChosenCrawler, DecisionQuery, DecisionRecord, StreamStart};
use wayleave_notation::csv::quote_field;

use super::access::TeamScope;
use super::decision_filter::{OutcomeWord, ViaWord, decision_parameters};
use super::decisions::{no_decision_log, parse_span};
use super::parameters::QueryParameters;
use super::response::{ErrorBody, bad_request, error_response};
use super::state::AdminState;

/// The size of the chunks that are sent.
const CHUNK_BYTES: usize = 64 * 1024;
/// The number of chunks that may wait for a slow client.
const MAX_WAITING_CHUNKS: usize = 4;
/// The time after which the download of a client that takes no chunk is ended. The system's buffers take megabytes, which a
/// client that reads 20 KB in a second needs minutes for.
const STALL_LIMIT: Duration = Duration::from_mins(5);

/// The members of the record that are columns of a table.
const COLUMNS: [&str; 18] = [
    "at",
    "outcome",
    "status",
    "reason",
    "crawler",
    "identity",
    "client",
    "method",
    "url",
    "line",
    "rule",
    "details",
    "robots_sha256",
    "body_bytes",
    "took_us",
    "user_agent",
    "trace_id",
    "id",
];

/// The format of the file.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum DownloadFormat {
    /// A table with a header line (RFC 4180).
    Csv,
    /// An array of the log's lines.
    Json,
}

decision_parameters! {
    DownloadParameters {
        /// The format of the file.
        #[param(inline)]
        format: DownloadFormat,
    } {
        /// Not before this time, or a span before now such as `7d`.
        #[param(format = DateTime)]
        since: Option<String>,
        /// Not after this time, or a span before now.
        #[param(format = DateTime)]
        until: Option<String>,
    }
}

/// All decisions of a span of time, from the decision log, the oldest first.
#[utoipa::path(
    get,
    path = "/v1/decisions/download",
    tag = "decisions",
    params(DownloadParameters),
    responses(
        (status = 200, content((String = "text/csv"), (Vec<DecisionRecord> = "application/json")), description = "A file"),
        (status = 400, body = ErrorBody, description = "A parameter is malformed"),
        (status = 404, body = ErrorBody, description = "There is no decision log"),
        (status = 503, body = ErrorBody, description = "Too many downloads are in progress"),
    )
)]
pub(super) async fn download(
    State(admin): State<AdminState>,
    scope: TeamScope,
    QueryParameters(parameters): QueryParameters<DownloadParameters>,
) -> Response {
    let format = parameters.format;
    let span = match parse_span(parameters.since.as_deref(), parameters.until.as_deref()) {
        // Without one, the whole log.
        Ok(span) => span.unwrap_or_default(),
        Err(mistake) => return bad_request(mistake),
    };
    let query = parameters.query(&scope);
    // Bounded: while a slow client does not read, neither is the log read, which may be larger than memory.
    let (sender, receiver) = mpsc::channel(MAX_WAITING_CHUNKS);
    let mut writer = DownloadWriter::new(format, sender, Handle::current());
    let take = move |found: io::Result<Option<(&DecisionRecord, &[u8])>>| match found {
        Ok(Some((decision, line))) => match scope.view(decision) {
            Cow::Borrowed(decision) => writer.write(decision, line),
            Cow::Owned(decision) => {
                let line = serde_json::to_vec(&decision).expect("strings and numbers serialise");
                writer.write(&decision, &line)
            }
        },
        Ok(None) => writer.finish(),
        // The transfer breaks off: a file without the rest must not pass for a whole one.
        Err(error) => writer.fail(error),
    };
    admin.decisions.settle().await;
    match admin.decisions.stream_past(span, query, take) {
        StreamStart::Started => {}
        StreamStart::NoLog => return no_decision_log(),
        StreamStart::TooMany => {
            let message = "too many downloads are in progress, or wait for their clients to read";
            let busy = error_response(StatusCode::SERVICE_UNAVAILABLE, message);
            return ([(RETRY_AFTER, "30")], busy).into_response();
        }
    }
    let (kind, disposition) = match format {
        DownloadFormat::Csv => {
            ("text/csv; charset=utf-8", "attachment; filename=\"decisions.csv\"")
        }
        DownloadFormat::Json => ("application/json", "attachment; filename=\"decisions.json\""),
    };
    let fields = [(CONTENT_TYPE, kind), (CONTENT_DISPOSITION, disposition)];
    (fields, Body::from_stream(chunks(receiver))).into_response()
}

/// A part of the file, or `None` after the last.
type DownloadPart = io::Result<Option<Bytes>>;

/// Returns the file as it arrives.
fn chunks(receiver: mpsc::Receiver<DownloadPart>) -> impl Stream<Item = io::Result<Bytes>> {
    stream::try_unfold(receiver, |mut receiver| async move {
        // The writer gave the client up: a part must not pass for the whole file.
        let ended = || Err(io::Error::other("the download has ended early"));
        let part: DownloadPart = receiver.recv().await.unwrap_or_else(ended);
        let part = part?;
        Ok(part.map(|chunk| (chunk, receiver)))
    })
}

/// Writes the file and sends it in chunks.
struct DownloadWriter {
    format: DownloadFormat,
    sender: mpsc::Sender<DownloadPart>,
    /// The runtime, whose clock shows that a client has stopped reading.
    runtime: Handle,
    chunk: Vec<u8>,
    is_first: bool,
}

impl DownloadWriter {
    fn new(format: DownloadFormat, sender: mpsc::Sender<DownloadPart>, runtime: Handle) -> Self {
        let chunk = match format {
            DownloadFormat::Csv => csv_row(COLUMNS.iter().map(|name| (*name).to_owned())),
            DownloadFormat::Json => b"[".to_vec(),
        };
        Self { format, sender, runtime, chunk, is_first: true }
    }

    fn write(&mut self, decision: &DecisionRecord, line: &[u8]) -> ControlFlow<()> {
        match self.format {
            DownloadFormat::Csv => self.chunk.extend_from_slice(&csv_row(csv_cells(decision))),
            DownloadFormat::Json => {
                let separator: &[u8] = if self.is_first { b"\n" } else { b",\n" };
                self.chunk.extend_from_slice(separator);
                // The line rather than the decision: it also has the members that link it to the line before.
                self.chunk.extend_from_slice(line);
            }
        }
        self.is_first = false;
        if self.chunk.len() < CHUNK_BYTES { ControlFlow::Continue(()) } else { self.send() }
    }

    fn finish(&mut self) -> ControlFlow<()> {
        if matches!(self.format, DownloadFormat::Json) {
            self.chunk.extend_from_slice(b"\n]\n");
        }
        self.send()?;
        self.pass(Ok(None))
    }

    fn fail(&mut self, error: io::Error) -> ControlFlow<()> {
        self.pass(Err(error))
    }

    /// Sends the current chunk. Breaks if the client has gone, or does not read.
    fn send(&mut self) -> ControlFlow<()> {
        let chunk = std::mem::take(&mut self.chunk);
        self.pass(Ok(Some(chunk.into())))
    }

    fn pass(&self, part: DownloadPart) -> ControlFlow<()> {
        // Called on a thread that may block, see `stream_past`.
        match self.runtime.block_on(self.sender.send_timeout(part, STALL_LIMIT)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}

/// Returns the members that the columns name; an empty text for each that the decision does not have.
fn csv_cells(decision: &DecisionRecord) -> impl Iterator<Item = String> {
    let members = serde_json::to_value(decision).expect("strings and numbers serialise");
    COLUMNS.into_iter().map(move |name| match members.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => String::new(),
    })
}

/// Formats a line of a table.
fn csv_row(cells: impl Iterator<Item = String>) -> Vec<u8> {
    let mut line = cells.map(|cell| quote_field(&cell)).collect::<Vec<_>>().join(",");
    line.push_str("\r\n");
    line.into_bytes()
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;

    use super::*;

    /// The clock stands still unless the test advances it.
    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_given_up_and_notices() {
        let (sender, receiver) = mpsc::channel(MAX_WAITING_CHUNKS);
        let mut writer = DownloadWriter::new(DownloadFormat::Json, sender, Handle::current());
        let writing = std::thread::spawn(move || {
            let mut sent = 0;
            while writer.send().is_continue() {
                sent += 1;
            }
            sent
        });
        while !writing.is_finished() {
            tokio::time::advance(STALL_LIMIT).await;
        }
        assert_eq!(writing.join().unwrap(), MAX_WAITING_CHUNKS);
        let mut chunks = std::pin::pin!(chunks(receiver));
        for _ in 0..MAX_WAITING_CHUNKS {
            chunks.next().await.unwrap().unwrap();
        }
        chunks.next().await.unwrap().unwrap_err();
    }

    #[test]
    fn columns_are_as_they_were() {
        const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../policy/record/tests/golden");
        let lines = std::fs::read_to_string(format!("{FOLDER}/decisions.jsonl")).unwrap();
        let decisions: Vec<DecisionRecord> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let mut written = csv_row(COLUMNS.iter().map(|name| (*name).to_owned()));
        for decision in &decisions {
            written.extend(csv_row(csv_cells(decision)));
        }
        let path = format!("{FOLDER}/decisions.csv");
        if std::env::var_os("WAYLEAVE_GENERATE").is_some() {
            std::fs::write(&path, &written).unwrap();
        }
        assert_eq!(String::from_utf8(written).unwrap(), std::fs::read_to_string(&path).unwrap());
    }

    #[tokio::test]
    async fn a_file_that_was_read_ends() {
        let (sender, receiver) = mpsc::channel(MAX_WAITING_CHUNKS);
        let mut writer = DownloadWriter::new(DownloadFormat::Json, sender, Handle::current());
        let writing = std::thread::spawn(move || writer.finish());
        let chunks: Vec<_> = chunks(receiver).map(Result::unwrap).collect().await;
        assert_eq!(chunks, [Bytes::from_static(b"[\n]\n")]);
        assert!(writing.join().unwrap().is_continue());
    }
}
