//! HTTP/2 with an origin: connections and their streams.
//!
//! Messages are read and written with h2 itself, because pingora's session accepts heads of 16 MiB and drops interim
//! responses.

use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Ping, PingPong, RecvStream, SendStream};
use http::{HeaderMap, Request};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use wayleave_decision::Reason;
use wayleave_http_wire::http1::oddities::{Oddities, Oddity};
use wayleave_http_wire::http1::{
    MAX_FIELDS, MAX_HTTP2_TRAILERS, MAX_RESPONSE_HEAD_BYTES, agreed_content_length,
};
use wayleave_transport::http::transport::BoxedStream;

use crate::describe;
use crate::error::{Unprocessed, UpstreamError};

/// The most streams that one connection carries at a time.
const MAX_STREAMS: usize = 100;
/// The longest frame that an origin may send, in bytes: bodies then arrive in fewer of them.
const MAX_FRAME_BYTES: u32 = 64 * 1024;
/// The time that an unused connection has to send GOAWAY: its origin may read nothing.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The time without a sign of life after which an origin has to answer a PING before it gets another request.
const SILENCE: Duration = Duration::from_secs(10);
/// The time that the origin has to answer it.
const PING_TIMEOUT: Duration = Duration::from_secs(2);

/// The bytes that an origin may send before they are read. They occupy memory until then.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowWindow {
    stream: u32,
    connection: u32,
}

/// The window of new streams. A client may open a hundred before their origin learns of a smaller window.
const NARROW_WINDOW_BYTES: u32 = 32 * 1024;
/// The number of streams beyond which all windows are narrow. A long body makes them wide while there are half as many.
const FEW_STREAMS: usize = 8;
/// The interval at which a change of windows is tried again while the origin has not acknowledged the one before.
const WINDOW_RETRY_INTERVAL: Duration = Duration::from_millis(100);

impl FlowWindow {
    /// For pages of several clients: 2.5 MB/s for a long one at a round trip of 100 ms while there are few streams. The connection's
    /// window is the sum of those of its streams, so that clients that do not read delay no others.
    pub(super) const SHARED: Self =
        Self { stream: 256 * 1024, connection: 256 * 1024 * MAX_STREAMS as u32 };
    /// For one short response.
    pub(super) const SMALL: Self = Self { stream: 64 * 1024, connection: 64 * 1024 };
}

/// A shared connection. It closes once neither it nor a stream of it is in use.
#[derive(Clone)]
pub(super) struct Http2Connection {
    requests: SendRequest<Bytes>,
    /// One permit for each stream.
    stream_permits: Arc<Semaphore>,
    pulse: Arc<Pulse>,
    /// The window of each stream while a long body is read, and there are few.
    wide_window: u32,
    /// The window that each stream is to have.
    window: Arc<watch::Sender<u32>>,
    _open: Arc<DropGuard>,
}

/// The signs of life of a connection's origin. Routers and load balancers forget connections without closing them.
struct Pulse {
    /// The last time at which the origin sent something.
    heard_at: Mutex<Instant>,
    is_lost: AtomicBool,
    pings: tokio::sync::Mutex<PingPong>,
}

impl Pulse {
    fn heard_at(&self) -> Instant {
        *self.heard_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hear(&self) {
        *self.heard_at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

impl Http2Connection {
    /// Opens HTTP/2 on `stream`. Heads and trailers are limited as in HTTP/1, since HPACK turns kilobytes into
    /// megabytes.
    pub(super) async fn open(stream: BoxedStream, window: FlowWindow) -> Result<Self, h2::Error> {
        let narrow_window = window.stream.min(NARROW_WINDOW_BYTES);
        let (requests, mut connection) = h2::client::Builder::new()
            // A pushed response would belong to no request of a client.
            .enable_push(false)
            // Until the origin's SETTINGS arrive: it would refuse all above its limit.
            .initial_max_send_streams(1)
            // This limits streams that the origin opens, and push is off.
            .max_concurrent_streams(1)
            .max_frame_size(MAX_FRAME_BYTES)
            .max_header_list_size(MAX_RESPONSE_HEAD_BYTES as u32)
            .initial_window_size(narrow_window)
            .initial_connection_window_size(window.connection)
            .handshake(stream)
            .await?;
        let pings = connection.ping_pong().expect("it is taken once");
        let pulse = Arc::new(Pulse {
            heard_at: Mutex::new(Instant::now()),
            is_lost: AtomicBool::new(false),
            pings: tokio::sync::Mutex::new(pings),
        });
        let is_unused = CancellationToken::new();
        let open = Arc::new(is_unused.clone().drop_guard());
        let (window_sender, window_changes) = watch::channel(narrow_window);
        tokio::spawn(async move {
            let close_timed_out = async {
                is_unused.cancelled().await;
                tokio::time::sleep(CLOSE_TIMEOUT).await;
            };
            tokio::select! {
                // Errors of the connection are reported to its streams.
                () = drive(connection, window_changes) => {}
                () = close_timed_out => {}
            }
        });
        let stream_permits = Arc::new(Semaphore::new(MAX_STREAMS));
        Ok(Self {
            requests,
            stream_permits,
            pulse,
            wide_window: window.stream,
            window: Arc::new(window_sender),
            _open: open,
        })
    }

    /// Makes the windows wide for a long body, if there are few streams.
    fn widen_windows(&self) {
        if self.active_streams() <= FEW_STREAMS / 2 {
            self.set_window(self.wide_window);
        }
    }

    /// Makes the windows narrow if many streams are open, which fill the memory if their clients read nothing, or if the last one
    /// ends.
    fn narrow_windows(&self) {
        if !(2..=FEW_STREAMS).contains(&self.active_streams()) {
            self.set_window(self.wide_window.min(NARROW_WINDOW_BYTES));
        }
    }

    fn set_window(&self, bytes: u32) {
        self.window.send_if_modified(|window| std::mem::replace(window, bytes) != bytes);
    }

    /// Opens a stream, unless the connection is closed or has as many as it may.
    pub(super) fn open_stream(&self) -> Option<Http2Stream> {
        // h2 would hold the request back until another stream ends.
        if self.active_streams() >= self.requests.current_max_send_streams() || self.is_closed() {
            return None;
        }
        let permit = Arc::clone(&self.stream_permits).try_acquire_owned().ok()?;
        self.narrow_windows();
        Some(Http2Stream {
            response: None,
            body: None,
            body_bytes: 0,
            oddities: Oddities::default(),
            opened_at: Instant::now(),
            connection: self.clone(),
            _permit: permit,
        })
    }

    /// Returns whether the connection accepts no more streams: the origin closed it or sent GOAWAY, or fell silent.
    pub(super) fn is_closed(&self) -> bool {
        if self.pulse.is_lost.load(Ordering::Relaxed) {
            return true;
        }
        let ready = self.requests.clone().ready().now_or_never();
        matches!(ready, Some(Err(_)))
    }

    /// Returns the number of streams that the origin permits.
    #[cfg(test)]
    pub(super) fn max_streams(&self) -> usize {
        self.requests.current_max_send_streams()
    }

    /// Returns the number of open streams.
    pub(super) fn active_streams(&self) -> usize {
        MAX_STREAMS - self.stream_permits.available_permits()
    }
}

/// Runs a connection to its end, and tells its origin each change of the windows.
async fn drive(
    mut connection: h2::client::Connection<BoxedStream>,
    mut window_changes: watch::Receiver<u32>,
) {
    loop {
        tokio::select! {
            _ = &mut connection => return,
            Ok(()) = window_changes.changed() => {}
        }
        while connection.set_initial_window_size(*window_changes.borrow_and_update()).is_err() {
            tokio::select! {
                _ = &mut connection => return,
                () = tokio::time::sleep(WINDOW_RETRY_INTERVAL) => {}
            }
        }
    }
}

impl fmt::Debug for Http2Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http2Connection")
            .field("streams", &self.active_streams())
            .finish_non_exhaustive()
    }
}

/// A stream. Dropping it frees its permit, however the exchange ended.
pub struct Http2Stream {
    /// Present from the request to the final head.
    response: Option<ResponseFuture>,
    /// Present from the final head on.
    body: Option<RecvStream>,
    /// The bytes of the body that were read.
    body_bytes: u64,
    oddities: Oddities,
    opened_at: Instant,
    connection: Http2Connection,
    // Dropped last: the stream has ended before another can use its permit.
    _permit: OwnedSemaphorePermit,
}

/// A response's head over HTTP/2, with the length that its fields agree on.
#[derive(Debug)]
pub struct Http2Head {
    pub status: u16,
    pub fields: HeaderMap,
    pub length: Option<u64>,
}

impl Drop for Http2Stream {
    fn drop(&mut self) {
        self.connection.narrow_windows();
    }
}

impl Http2Stream {
    /// Returns the connection of this stream.
    pub(super) fn connection(&self) -> Http2Connection {
        self.connection.clone()
    }

    /// Returns whether the origin was silent for so long before this stream was opened that [`Self::is_alive`] has to be asked.
    pub(super) fn is_doubtful(&self) -> bool {
        self.opened_at.saturating_duration_since(self.connection.pulse.heard_at()) >= SILENCE
    }

    /// Sends a PING, and returns whether the origin answers it. If not, the connection serves no other request.
    pub(super) async fn is_alive(&self) -> bool {
        let pulse = &self.connection.pulse;
        let mut pings = pulse.pings.lock().await;
        // Another request may have asked meanwhile.
        if !self.is_doubtful() || self.connection.is_closed() {
            return !self.connection.is_closed();
        }
        let pong = tokio::time::timeout(PING_TIMEOUT, pings.ping(Ping::opaque())).await;
        let is_alive = matches!(pong, Ok(Ok(_)));
        if is_alive {
            pulse.hear();
        } else {
            pulse.is_lost.store(true, Ordering::Relaxed);
        }
        is_alive
    }

    /// Takes the connection out of use if the origin has sent nothing since this stream was opened.
    pub(super) fn give_up_if_silent(&self) {
        let pulse = &self.connection.pulse;
        if pulse.heard_at() <= self.opened_at {
            pulse.is_lost.store(true, Ordering::Relaxed);
        }
    }

    /// Sends a request's head. With `ends` nothing follows it.
    pub(super) async fn send_head(
        &mut self,
        head: Request<()>,
        ends: bool,
    ) -> Result<SendStream<Bytes>, UpstreamError> {
        let ready = self.connection.requests.clone().ready().await;
        let (response, writer) = ready
            .and_then(|mut requests| requests.send_request(head, ends))
            .map_err(|error| unsent_error(&error))?;
        self.response = Some(response);
        Ok(writer)
    }

    /// Returns the next head: an interim one, or the final one. A read that is cancelled loses nothing.
    pub(super) async fn next_head(&mut self) -> Result<Http2Head, UpstreamError> {
        let answer = self.response.as_mut().expect("the final head is read once");
        let (mut head, body) = match poll_fn(|cx| answer.poll_informational(cx)).await {
            Some(interim) => (interim.map_err(|error| stream_error(&error))?.into_parts().0, None),
            None => {
                let (head, body) = answer.await.map_err(|error| stream_error(&error))?.into_parts();
                (head, Some(body))
            }
        };
        self.connection.pulse.hear();
        // h2 limits the size of a head, but not its number of fields.
        if head.headers.len() > MAX_FIELDS {
            return Err(head_too_large());
        }
        let (length, mut oddities) = content_length(&head.headers)?;
        // Treated as 5xx (RFC 9110 section 15), and counted.
        if head.status.as_u16() >= 600 {
            oddities.insert(Oddity::StatusOutOfRange);
        }
        if trim_values(&mut head.headers) {
            oddities.insert(Oddity::PaddedValue);
        }
        self.oddities = self.oddities.union(oddities);
        if body.is_some() {
            self.body = body;
            self.response = None;
        }
        Ok(Http2Head { status: head.status.as_u16(), fields: head.headers, length })
    }

    /// Returns the next chunk of the body; `None` at its end.
    pub(super) async fn next_chunk(&mut self) -> Result<Option<Bytes>, UpstreamError> {
        let Some(body) = &mut self.body else {
            return Ok(None);
        };
        loop {
            let Some(received) = body.data().await else {
                return Ok(None);
            };
            let chunk = received.map_err(|error| stream_error(&error))?;
            self.connection.pulse.hear();
            // This fails for a stream that ended, which needs no window.
            let _ = body.flow_control().release_capacity(chunk.len());
            self.body_bytes += chunk.len() as u64;
            if self.body_bytes > u64::from(NARROW_WINDOW_BYTES) {
                self.connection.widen_windows();
            }
            // DATA may be empty, and an empty chunk would look like the end.
            if !chunk.is_empty() {
                return Ok(Some(chunk));
            }
        }
    }

    /// Returns whether the response is known to have ended.
    pub(super) fn has_ended(&self) -> bool {
        self.body.as_ref().is_some_and(RecvStream::is_end_stream)
    }

    /// Returns the trailers.
    pub(super) async fn trailers(&mut self) -> Result<Option<HeaderMap>, UpstreamError> {
        let Some(body) = &mut self.body else {
            return Ok(None);
        };
        match read_trailers(body).await {
            Ok(Some(trailers)) if trailers.len() > MAX_HTTP2_TRAILERS => Err(head_too_large()),
            Ok(mut trailers) => {
                if trailers.as_mut().is_some_and(trim_values) {
                    self.oddities.insert(Oddity::PaddedValue);
                }
                Ok(trailers)
            }
            // The response is complete, and its origin wants no more of the request (RFC 9113 section 8.1).
            Err(error) if error.is_remote() && error.reason() == Some(h2::Reason::NO_ERROR) => {
                Ok(None)
            }
            Err(error) => Err(stream_error(&error)),
        }
    }

    /// Returns the repairs so far.
    pub(super) fn oddities(&self) -> Oddities {
        self.oddities
    }
}

/// Returns the trailers. h2 yields them only after all DATA was read, even without content: an empty frame may end it
/// (RFC 9113 section 8.1). Content that the head excluded is dropped, with anything after it.
async fn read_trailers(body: &mut RecvStream) -> Result<Option<HeaderMap>, h2::Error> {
    while let Some(chunk) = body.data().await {
        if !chunk?.is_empty() {
            return Ok(None);
        }
    }
    body.trailers().await
}

/// Removes whitespace around values, which is malformed in HTTP/2 (RFC 9113 section 8.2.1): strict clients would refuse
/// the response. Returns whether there was any.
fn trim_values(fields: &mut HeaderMap) -> bool {
    let mut is_trimmed = false;
    for value in fields.values_mut() {
        let trimmed = value.as_bytes().trim_ascii();
        if trimmed.len() < value.len()
            && let Ok(trimmed) = http::HeaderValue::from_bytes(trimmed)
        {
            *value = trimmed;
            is_trimmed = true;
        }
    }
    is_trimmed
}

fn content_length(fields: &HeaderMap) -> Result<(Option<u64>, Oddities), UpstreamError> {
    let values = fields.get_all(http::header::CONTENT_LENGTH).iter();
    agreed_content_length(values.map(http::HeaderValue::as_bytes)).map_err(|details| {
        UpstreamError::new(Reason::HttpProtocolError, format!("the response: {details}"))
    })
}

fn head_too_large() -> UpstreamError {
    let details =
        "the response: more than 256 KiB or 1,000 fields in its head, or 100 in its trailers";
    UpstreamError::new(Reason::HttpResponseHeaderSectionSize, details.to_owned())
}

/// Converts the error of a request of which nothing was sent.
fn unsent_error(error: &h2::Error) -> UpstreamError {
    let failed = stream_error(error);
    let is_connection_gone = error.is_io() || error.is_go_away();
    let unsent = is_connection_gone.then_some(Unprocessed::OnAnotherConnection);
    UpstreamError { unprocessed: failed.unprocessed.or(unsent), ..failed }
}

/// Converts an error of a stream or its connection. A stream that the origin did not begin to serve may be retried
/// (RFC 9113 section 8.7), and so may one on a kept connection that turns out to be dead.
pub(super) fn stream_error(error: &h2::Error) -> UpstreamError {
    if error.is_library() && is_header_list_too_large(error) {
        return head_too_large();
    }
    let details = describe::http2(error);
    if error.is_io() {
        return UpstreamError::stale(Reason::ConnectionTerminated, details);
    }
    match error.reason() {
        Some(h2::Reason::HTTP_1_1_REQUIRED) if error.is_remote() => {
            UpstreamError::unprocessed(Unprocessed::OverHttp1, details)
        }
        // h2 reports GOAWAY, whatever its code, only to the streams above the last that the origin may have served.
        reason
            if error.is_remote()
                && (error.is_go_away() || reason == Some(h2::Reason::REFUSED_STREAM)) =>
        {
            UpstreamError::unprocessed(Unprocessed::OnAnotherConnection, details)
        }
        _ => UpstreamError::new(Reason::HttpProtocolError, details),
    }
}

/// Returns whether the head was too large. h2 resets a stream whose head exceeds the limit, and closes a connection
/// at four times that, which only its message says.
fn is_header_list_too_large(error: &h2::Error) -> bool {
    error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM)
        || error.is_go_away() && error.to_string().contains("header_list_way_too_large")
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use http::{Request, Response};

    use super::*;

    /// Returns the bytes that an origin may send on each of so many streams that nobody reads, after one of its responses was
    /// read as far as these bytes.
    async fn windows_of(streams: usize, read_bytes: usize) -> Vec<usize> {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let (read_sender, was_read) = tokio::sync::oneshot::channel();
        let origin = tokio::spawn(async move {
            let mut http2 = h2::server::handshake(far).await.expect("a handshake");
            let mut bodies = Vec::new();
            while bodies.len() < streams {
                let (_, mut respond) = http2.accept().await.expect("a stream").expect("a request");
                let body = respond.send_response(Response::new(()), false).expect("a head");
                bodies.push(body);
            }
            let mut long = bodies.pop().expect("a stream");
            long.send_data(vec![0; read_bytes].into(), false).expect("a body");
            bodies.iter_mut().for_each(|body| body.reserve_capacity(1024 * 1024));
            // All settings have been applied by the time a later PING is answered.
            let mut pings = http2.ping_pong().expect("it is taken once");
            let pong = async {
                was_read.await.expect("it is read");
                pings.ping(Ping::opaque()).await.expect("a PONG")
            };
            tokio::select! {
                _ = pong => {}
                more = poll_fn(|cx| http2.poll_accept(cx)) => panic!("{more:?}"),
            }
            bodies.iter().map(SendStream::<Bytes>::capacity).collect()
        });
        let opening = Http2Connection::open(Box::new(near), FlowWindow::SHARED).await;
        let connection = opening.expect("a connection");
        let mut opened = Vec::new();
        for _ in 0..streams {
            let mut stream = loop {
                match connection.open_stream() {
                    Some(stream) => break stream,
                    // The origin's SETTINGS are on their way.
                    None => tokio::task::yield_now().await,
                }
            };
            let request = Request::get("https://a.example/").body(()).expect("a request");
            drop(stream.send_head(request, true).await.expect("it is sent"));
            opened.push(stream);
        }
        let long = opened.last_mut().expect("a stream");
        long.next_head().await.expect("a head");
        let mut left = read_bytes;
        while left > 0 {
            left -= long.next_chunk().await.expect("a body").expect("a chunk").len();
        }
        read_sender.send(()).expect("the origin waits for it");
        origin.await.expect("its windows")
    }

    #[tokio::test]
    async fn a_long_body_widens_windows_while_there_are_few_streams() {
        let narrow = 32 * 1024;
        let wide = 256 * 1024;
        assert_eq!(windows_of(4, 0).await, [narrow; 3], "a burst may follow");
        assert_eq!(windows_of(4, 48 * 1024).await, [wide; 3]);
        assert_eq!(windows_of(5, 48 * 1024).await, [narrow; 4]);
    }

    #[tokio::test]
    async fn windows_narrow_when_many_streams_follow_a_long_body() {
        let (near, _far) = tokio::io::duplex(1024);
        let connection = Http2Connection::open(Box::new(near), FlowWindow::SHARED).await;
        let connection = connection.expect("a connection");
        let permits = &connection.stream_permits;
        let mut open = vec![permits.try_acquire().expect("a stream")];
        connection.widen_windows();
        for (streams, window) in [(1, 256 * 1024), (8, 256 * 1024), (9, 32 * 1024)] {
            while open.len() < streams {
                open.push(permits.try_acquire().expect("a stream"));
            }
            if streams > 1 {
                connection.narrow_windows();
            }
            assert_eq!(*connection.window.borrow(), window, "{streams}");
        }
        open.truncate(1);
        connection.widen_windows();
        connection.narrow_windows();
        assert_eq!(*connection.window.borrow(), 32 * 1024, "the last one ends");
    }
}
