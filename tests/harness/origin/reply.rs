//! The script of a response: a status, fields, and a body in steps that can stall, break off or contradict the head.

use std::sync::{Arc, LazyLock};

use tokio::sync::Semaphore;

/// A gate at which a response, or a client, waits until the test opens it.
#[derive(Clone, Debug)]
pub struct Gate(Arc<Semaphore>);

impl Gate {
    pub fn closed() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    pub fn open(&self) {
        self.0.add_permits(Semaphore::MAX_PERMITS / 4);
    }

    pub async fn passed(&self) {
        let _permit = self.0.acquire().await.expect("a gate's semaphore is never closed");
    }
}

/// One step of sending a body.
#[derive(Clone, Debug)]
pub enum Step {
    Bytes(Vec<u8>),
    /// Sends this many bytes of a fixed pattern (`pattern_pieces`).
    Pattern(u64),
    Wait(Gate),
    /// Sends nothing more, and closes only after the other side has.
    Hang,
    /// Resets the TCP connection; in HTTP/2, the stream.
    Reset,
    /// Closes here in good order, whatever the head announced.
    Close,
    /// Closes the connection without `close_notify` (RFC 5246 section 7.2.1).
    Cut,
    /// Sends back what it reads, after a 101.
    Echo,
}

/// The framing of an HTTP/1.1 body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    Length,
    Chunked,
    UntilClose,
    /// The steps are the whole response, with its head.
    Raw,
}

/// A scripted response.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub framing: Framing,
    pub claimed_length: Option<u64>,
    pub steps: Vec<Step>,
    pub trailers: Vec<(String, String)>,
    /// Whether the response is sent before the request's body is read.
    pub early: bool,
}

/// The period of patterned bodies. It is prime, so that lost or repeated buffers show.
const PERIOD: usize = 251;
/// The longest piece in which a patterned body is sent: whole periods, so that every piece begins like the first.
const PIECE: usize = 256 * PERIOD;

/// Returns up to `PIECE` bytes of a patterned body from `offset` on. They are copied and compared as a whole: byte by byte, a
/// gibibyte takes a test ten seconds.
fn pattern_from(offset: u64, length: usize) -> &'static [u8] {
    static BYTES: LazyLock<Vec<u8>> =
        LazyLock::new(|| (0..PIECE + PERIOD).map(|at| (at % PERIOD) as u8).collect());
    let from = (offset % PERIOD as u64) as usize;
    &BYTES[from..from + length]
}

/// Returns the pieces in which a patterned body of `length` bytes is sent.
pub fn pattern_pieces(length: u64) -> impl Iterator<Item = &'static [u8]> {
    let pieces = (0..length).step_by(PIECE);
    pieces.map(move |from| pattern_from(from, (length - from).min(PIECE as u64) as usize))
}

/// Returns a patterned body.
pub fn pattern(length: u64) -> Vec<u8> {
    pattern_pieces(length).flatten().copied().collect()
}

/// Whether these are the bytes of a patterned body from `offset` on.
pub fn is_pattern(bytes: &[u8], offset: u64) -> bool {
    bytes.chunks(PIECE).all(|piece| piece == pattern_from(offset, piece.len()))
}

impl Reply {
    pub fn new(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            framing: Framing::Length,
            claimed_length: None,
            steps: Vec::new(),
            trailers: Vec::new(),
            early: false,
        }
    }

    pub fn text(body: impl AsRef<[u8]>) -> Self {
        Self::new(200).header("Content-Type", "text/plain").body(body)
    }

    pub fn html(body: impl AsRef<[u8]>) -> Self {
        Self::new(200).header("Content-Type", "text/html; charset=utf-8").body(body)
    }

    pub fn redirect(status: u16, location: &str) -> Self {
        Self::new(status).header("Location", location)
    }

    /// Sends `first half,`, then, when the gate opens, `second half`.
    pub fn in_halves(gate: &Gate) -> Self {
        Self::new(200).body("first half,").step(Step::Wait(gate.clone())).body("second half")
    }

    /// Sends exactly these bytes, then does `end` (`Close`, `Reset`, `Hang`).
    pub fn raw(bytes: impl AsRef<[u8]>, end: Step) -> Self {
        let mut reply = Self::new(0).body(bytes).step(end);
        reply.framing = Framing::Raw;
        reply
    }

    /// Opens the WebSocket of `Request::websocket`, and echoes what comes.
    pub fn websocket() -> Self {
        Self::new(101)
            .header("Upgrade", "websocket")
            .header("Connection", "Upgrade")
            .header("Sec-WebSocket-Accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
            .step(Step::Echo)
    }

    /// Reads the request, and does `end` without a response.
    pub fn nothing(end: Step) -> Self {
        Self::raw("", end)
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(field, _)| field != name);
        self
    }

    pub fn body(self, bytes: impl AsRef<[u8]>) -> Self {
        self.step(Step::Bytes(bytes.as_ref().to_vec()))
    }

    pub fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    pub fn framing(mut self, framing: Framing) -> Self {
        self.framing = framing;
        self
    }

    pub fn claims_length(mut self, bytes: u64) -> Self {
        self.claimed_length = Some(bytes);
        self
    }

    pub fn trailer(mut self, name: &str, value: &str) -> Self {
        self.trailers.push((name.to_owned(), value.to_owned()));
        self.framing = Framing::Chunked;
        self
    }

    pub fn early(mut self) -> Self {
        self.early = true;
        self
    }

    /// Returns the number of bytes that the steps send, or that the test claims.
    pub fn length(&self) -> u64 {
        let sent = self.steps.iter().map(|step| match step {
            Step::Bytes(bytes) => bytes.len() as u64,
            Step::Pattern(bytes) => *bytes,
            _ => 0,
        });
        self.claimed_length.unwrap_or_else(|| sent.sum())
    }
}
