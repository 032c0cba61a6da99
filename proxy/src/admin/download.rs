//! `/v1/decisions/download`: the decisions of a span of time as a file, for spreadsheets and programs.

use std::io;
use std::ops::ControlFlow;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use serde::Deserialize;
use tokio::sync::mpsc;
use utoipa::{IntoParams, ToSchema};

use super::answer::{Mistake, error, wrong};
use super::decisions::{OutcomeWord, no_log, span};
use super::parameters::Parameters;
use super::state::Admin;
use crate::observe::decisions::{Decision, Query};

/// The size of the chunks that are sent.
const PART_BYTES: usize = 64 * 1024;
/// The number of chunks that may wait for a slow client.
const WAITING: usize = 4;

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
enum Format {
    /// A table with a header line (RFC 4180).
    Csv,
    /// An array of the log's lines.
    Json,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// The format of the file.
    #[param(inline)]
    format: Format,
    /// The crawler's configured name, or `asserted`.
    crawler: Option<String>,
    /// Their outcome.
    #[param(inline)]
    outcome: Option<OutcomeWord>,
    /// Their reason, a word of docs/metrics.md.
    reason: Option<String>,
    /// The host of their origin, without a port.
    host: Option<String>,
    /// Text that the URL, the rule, the reason, the details, the ID, the client or a token contains, ignoring case.
    q: Option<String>,
    /// Not before this time.
    #[param(format = DateTime)]
    since: Option<String>,
    /// Not after this time.
    #[param(format = DateTime)]
    until: Option<String>,
}

/// All decisions of a span of time, from the decision log, the oldest first.
#[utoipa::path(
    get,
    path = "/v1/decisions/download",
    tag = "decisions",
    params(Wanted),
    responses(
        (status = 200, content((String = "text/csv"), (Vec<Decision> = "application/json")), description = "A file"),
        (status = 400, body = Mistake, description = "A parameter is malformed"),
        (status = 404, body = Mistake, description = "There is no decision log"),
    )
)]
pub(super) async fn download(
    State(admin): State<Admin>,
    Parameters(wanted): Parameters<Wanted>,
) -> Response {
    let format = wanted.format;
    let span = match span(wanted.since.as_deref(), wanted.until.as_deref()) {
        Ok(span) => span.unwrap_or_default(),
        Err(mistake) => return wrong(mistake),
    };
    let query = Query {
        crawler: wanted.crawler,
        outcome: wanted.outcome.map(|outcome| outcome.as_str().to_owned()),
        reason: wanted.reason,
        host: wanted.host,
        text: wanted.q,
    };
    let (sender, receiver) = mpsc::channel::<Bytes>(WAITING);
    let mut parts = Parts::new(format, sender);
    let take = move |found: Option<(&Decision, &[u8])>| match found {
        Some((decision, line)) => parts.take(decision, line),
        None => parts.end(),
    };
    if !admin.decisions.tell_past(span, query, take) {
        return no_log();
    }
    let (kind, name) = match format {
        Format::Csv => ("text/csv; charset=utf-8", "decisions.csv"),
        Format::Json => ("application/json", "decisions.json"),
    };
    let parts = stream::unfold(receiver, |mut receiver| async move {
        let part = receiver.recv().await?;
        Some((io::Result::Ok(part), receiver))
    });
    Response::builder()
        .header(CONTENT_TYPE, kind)
        .header(
            CONTENT_DISPOSITION,
            format!("attachment; filename=\"{name}\""),
        )
        .body(Body::from_stream(parts))
        .unwrap_or_else(|_| error(StatusCode::INTERNAL_SERVER_ERROR, "no answer").into_response())
}

/// Writes the file and sends it in chunks.
struct Parts {
    format: Format,
    sender: mpsc::Sender<Bytes>,
    part: Vec<u8>,
    is_first: bool,
}

impl Parts {
    fn new(format: Format, sender: mpsc::Sender<Bytes>) -> Self {
        let part = match format {
            Format::Csv => row(COLUMNS.iter().map(|name| (*name).to_owned())),
            Format::Json => b"[".to_vec(),
        };
        Self {
            format,
            sender,
            part,
            is_first: true,
        }
    }

    fn take(&mut self, decision: &Decision, line: &[u8]) -> ControlFlow<()> {
        match self.format {
            Format::Csv => self.part.extend_from_slice(&row(cells(decision))),
            Format::Json => {
                let before: &[u8] = if self.is_first { b"\n" } else { b",\n" };
                self.part.extend_from_slice(before);
                self.part.extend_from_slice(line);
            }
        }
        self.is_first = false;
        match self.part.len() < PART_BYTES {
            true => ControlFlow::Continue(()),
            false => self.send(),
        }
    }

    fn end(&mut self) -> ControlFlow<()> {
        if matches!(self.format, Format::Json) {
            self.part.extend_from_slice(b"\n]\n");
        }
        self.send()
    }

    /// Sends the current chunk. Breaks if the client has gone.
    fn send(&mut self) -> ControlFlow<()> {
        let part = std::mem::take(&mut self.part);
        match self.sender.blocking_send(part.into()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}

fn cells(decision: &Decision) -> impl Iterator<Item = String> {
    let finding = decision.finding.as_ref();
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let number = |number: Option<u64>| number.map_or(String::new(), |it| it.to_string());
    let line = finding.and_then(|found| found.line).map(u64::from);
    let digest = finding.and_then(|found| found.robots_sha256);
    let rule = finding.and_then(|found| found.rule.clone());
    let cells: [String; COLUMNS.len()] = [
        humantime::format_rfc3339_micros(decision.at).to_string(),
        decision.outcome.to_string(),
        decision.status.to_string(),
        decision.reason.to_string(),
        decision.crawler.to_string(),
        decision.identity.to_string(),
        decision.client.to_string(),
        decision.method.clone(),
        decision.url.clone(),
        number(line),
        rule.unwrap_or_default(),
        text(&decision.details),
        digest.map_or(String::new(), |it| it.to_string()),
        number(decision.body_bytes),
        decision.took_us.to_string(),
        text(&decision.user_agent),
        text(&decision.trace_id),
        decision.id.to_string(),
    ];
    cells.into_iter()
}

/// Formats a line of a table. An apostrophe keeps spreadsheets from running a cell as a formula: crawlers and sites choose
/// much of the text.
fn row(cells: impl Iterator<Item = String>) -> Vec<u8> {
    let quoted = cells.map(|cell| {
        let is_formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r']);
        let mark = if is_formula { "'" } else { "" };
        format!("\"{mark}{}\"", cell.replace('"', "\"\""))
    });
    let mut line = quoted.collect::<Vec<_>>().join(",");
    line.push_str("\r\n");
    line.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_is_a_formula_or_more_than_one_cell() {
        let cells = ["=1+1", "a\"b", "x,y", "line\nline", "-1", ""];
        let row = row(cells.into_iter().map(str::to_owned));
        let expected = "\"'=1+1\",\"a\"\"b\",\"x,y\",\"line\nline\",\"'-1\",\"\"\r\n";
        assert_eq!(String::from_utf8(row).unwrap(), expected);
    }
}
