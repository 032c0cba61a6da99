//! HTTP/2 with an origin: connections and their streams.
//!
//! Messages are read and written with h2 itself, because pingora's session accepts heads of 16 MiB and drops interim
//! responses.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::http::http1::oddities::{Oddities, Oddity};
use crate::http::http1::{MAX_FIELDS, MAX_HEAD_BYTES, agreed_length};
use crate::http::proxy_status::ErrorType;
use crate::http::transport::Stream;
use crate::origin::cause;
use crate::origin::error::Fault;

/// The most streams that one connection carries at a time.
const STREAMS_PER_CONNECTION: usize = 100;
/// The longest frame that an origin may send, in bytes: bodies then arrive in fewer of them.
const MAX_FRAME: u32 = 64 * 1024;
/// The time that an unused connection has to send GOAWAY: its origin may read nothing.
const LEAVING: Duration = Duration::from_secs(1);

/// The bytes that an origin may send before they are read. They occupy memory until then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    stream: u32,
    connection: u32,
}

impl Window {
    /// For pages of several clients: 2.5 MB/s each at a round trip of 100 ms. The connection's window is the sum of
    /// those of its streams, so that clients that do not read delay no others.
    pub(super) const SHARED: Self = Self::of_streams(256 * 1024);
    const fn of_streams(stream: u32) -> Self {
        Self {
            stream,
            connection: stream * STREAMS_PER_CONNECTION as u32,
        }
    }

    /// For one short response.
    pub(super) const SMALL: Self = Self {
        stream: 64 * 1024,
        connection: 64 * 1024,
    };
}

/// A shared connection. It closes once neither it nor a stream of it is in use.
#[derive(Clone)]
pub(super) struct Http2Connection {
    requests: SendRequest<Bytes>,
    /// One permit for each stream.
    places: Arc<Semaphore>,
    _open: Arc<DropGuard>,
}

impl Http2Connection {
    /// Opens HTTP/2 on `stream`. Heads and trailers are limited as in HTTP/1, since HPACK turns kilobytes into
    /// megabytes.
    pub(super) async fn open(stream: Stream, window: Window) -> Result<Self, h2::Error> {
        let (requests, connection) = h2::client::Builder::new()
            .enable_push(false)
            .initial_max_send_streams(STREAMS_PER_CONNECTION)
            // This limits streams that the origin opens, and push is off.
            .max_concurrent_streams(1)
            .max_frame_size(MAX_FRAME)
            .max_header_list_size(MAX_HEAD_BYTES as u32)
            .initial_window_size(window.stream)
            .initial_connection_window_size(window.connection)
            .handshake(stream)
            .await?;
        let is_left = CancellationToken::new();
        let open = Arc::new(is_left.clone().drop_guard());
        tokio::spawn(async move {
            let left = async {
                is_left.cancelled().await;
                tokio::time::sleep(LEAVING).await;
            };
            tokio::select! {
                // Errors of the connection are reported to its streams.
                _ = connection => {}
                () = left => {}
            }
        });
        Ok(Self {
            requests,
            places: Arc::new(Semaphore::new(STREAMS_PER_CONNECTION)),
            _open: open,
        })
    }

    /// Opens a stream, unless the connection is closed or has as many as it may.
    pub(super) fn stream(&self) -> Option<Http2Stream> {
        let allowed = self.requests.current_max_send_streams();
        // h2 would hold the request back until another stream ends.
        if self.streams() >= allowed || self.is_closed() {
            return None;
        }
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        Some(Http2Stream {
            answer: None,
            body: None,
            oddities: Oddities::default(),
            connection: self.clone(),
            _place: place,
        })
    }

    /// Returns whether the origin closed the connection or sent GOAWAY: then it accepts no more streams.
    pub(super) fn is_closed(&self) -> bool {
        let ready = self.requests.clone().ready().now_or_never();
        matches!(ready, Some(Err(_)))
    }

    /// Returns the number of open streams.
    pub(super) fn streams(&self) -> usize {
        STREAMS_PER_CONNECTION - self.places.available_permits()
    }
}

impl fmt::Debug for Http2Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http2Connection")
            .field("streams", &self.streams())
            .finish_non_exhaustive()
    }
}

/// A stream. Dropping it frees its permit, however the exchange ended.
pub(crate) struct Http2Stream {
    /// Present from the request to the final head.
    answer: Option<ResponseFuture>,
    /// Present from the final head on.
    body: Option<RecvStream>,
    oddities: Oddities,
    connection: Http2Connection,
    // Dropped last: the stream has ended before another can use its permit.
    _place: OwnedSemaphorePermit,
}

/// A response's head over HTTP/2, with the length that its fields agree on.
#[derive(Debug)]
pub(crate) struct Http2Head {
    pub(crate) status: u16,
    pub(crate) fields: HeaderMap,
    pub(crate) length: Option<u64>,
}

impl Http2Stream {
    /// Returns the connection of this stream.
    pub(super) fn connection(&self) -> Http2Connection {
        self.connection.clone()
    }

    /// Sends a request's head. With `ends` nothing follows it.
    pub(super) async fn start(
        &mut self,
        head: Request<()>,
        ends: bool,
    ) -> Result<SendStream<Bytes>, Fault> {
        let requests = self.connection.requests.clone();
        let mut requests = requests.ready().await.map_err(|error| fault(&error))?;
        let sent = requests.send_request(head, ends);
        let (answer, writer) = sent.map_err(|error| fault(&error))?;
        self.answer = Some(answer);
        Ok(writer)
    }

    /// Returns the next head: an interim one, or the final one. A read that is cancelled loses nothing.
    pub(super) async fn head(&mut self) -> Result<Http2Head, Fault> {
        let answer = self.answer.as_mut().expect("the final head is read once");
        let (head, body) = match poll_fn(|cx| answer.poll_informational(cx)).await {
            Some(interim) => (interim.map_err(|error| fault(&error))?.into_parts().0, None),
            None => {
                let (head, body) = answer.await.map_err(|error| fault(&error))?.into_parts();
                (head, Some(body))
            }
        };
        // h2 limits the size of a head, but not its number of fields.
        if head.headers.len() > MAX_FIELDS {
            return Err(too_large());
        }
        let (length, mut oddities) = length(&head.headers)?;
        if head.status.as_u16() >= 600 {
            oddities.insert(Oddity::StatusOutOfRange);
        }
        self.oddities = self.oddities.and(oddities);
        if body.is_some() {
            self.body = body;
            self.answer = None;
        }
        Ok(Http2Head {
            status: head.status.as_u16(),
            fields: head.headers,
            length,
        })
    }

    /// Returns the next chunk of the body; `None` at its end.
    pub(super) async fn part(&mut self) -> Result<Option<Bytes>, Fault> {
        let Some(body) = &mut self.body else {
            return Ok(None);
        };
        loop {
            let Some(part) = body.data().await else {
                return Ok(None);
            };
            let part = part.map_err(|error| fault(&error))?;
            // This fails for a stream that ended, which needs no window.
            let _ = body.flow_control().release_capacity(part.len());
            if !part.is_empty() {
                return Ok(Some(part));
            }
        }
    }

    /// Returns whether the response is known to have ended.
    pub(super) fn has_ended(&self) -> bool {
        self.body.as_ref().is_some_and(RecvStream::is_end_stream)
    }

    /// Returns the trailers.
    pub(super) async fn trailers(&mut self) -> Result<Option<HeaderMap>, Fault> {
        let Some(body) = &mut self.body else {
            return Ok(None);
        };
        match behind_data(body).await {
            Ok(Some(trailers)) if trailers.len() > MAX_FIELDS => Err(too_large()),
            Ok(trailers) => Ok(trailers),
            // The response is complete, and its origin wants no more of the request (RFC 9113 section 8.1).
            Err(error) if error.is_remote() && error.reason() == Some(Reason::NO_ERROR) => Ok(None),
            Err(error) => Err(fault(&error)),
        }
    }

    /// Returns what was repaired so far.
    pub(super) fn oddities(&self) -> Oddities {
        self.oddities
    }
}

/// Returns the trailers. h2 yields them only after all DATA was read, even without content: an empty frame may end it
/// (RFC 9113 section 8.1). Content that the head excluded is dropped, with anything after it.
async fn behind_data(body: &mut RecvStream) -> Result<Option<HeaderMap>, h2::Error> {
    while let Some(part) = body.data().await {
        if !part?.is_empty() {
            return Ok(None);
        }
    }
    body.trailers().await
}

fn length(fields: &HeaderMap) -> Result<(Option<u64>, Oddities), Fault> {
    let values = fields.get_all(http::header::CONTENT_LENGTH).iter();
    agreed_length(values.map(http::HeaderValue::as_bytes)).map_err(|details| {
        Fault::new(
            ErrorType::HttpProtocolError,
            format!("the response: {details}"),
        )
    })
}

fn too_large() -> Fault {
    let details = "the response: more than 64 KiB or 100 fields in its head or trailers";
    Fault::new(ErrorType::HttpResponseHeaderSectionSize, details.to_owned())
}

/// Converts an error of a stream or its connection. A stream that the origin did not begin to serve may be retried
/// (RFC 9113 section 8.7), and so may one on a kept connection that turns out to be dead.
pub(super) fn fault(error: &h2::Error) -> Fault {
    if error.is_library() && is_about_size(error) {
        return too_large();
    }
    let details = cause::http2(error);
    let is_refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM)
        || error.is_go_away() && error.reason() == Some(Reason::NO_ERROR);
    if error.is_io() {
        Fault::stale(ErrorType::ConnectionTerminated, details)
    } else if error.is_remote() && is_refused {
        Fault::stale(ErrorType::HttpProtocolError, details)
    } else {
        Fault::new(ErrorType::HttpProtocolError, details)
    }
}

/// Returns whether the head was too large. h2 resets a stream whose head exceeds the limit, and closes a connection
/// at four times that, which only its message says.
fn is_about_size(error: &h2::Error) -> bool {
    error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM)
        || error.is_go_away() && error.to_string().contains("header_list_way_too_large")
}
