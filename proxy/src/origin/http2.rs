//! HTTP/2 with an origin: connections, and their streams.
//!
//! The messages are read and written with h2 itself, because pingora's session takes heads of 16 MiB and drops interim
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

/// Streams that one connection carries at a time.
const STREAMS_PER_CONNECTION: usize = 100;
/// The longest frame that an origin may send: what bodies come in fewer of.
const MAX_FRAME: u32 = 64 * 1024;
/// How long a connection that nobody holds any more may take to say so: its origin may read nothing.
const LEAVING: Duration = Duration::from_secs(1);

/// What an origin may send ahead of who reads it, in bytes. It is held in memory for as long as nobody does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    stream: u32,
    connection: u32,
}

impl Window {
    /// For pages of several clients: 2.5 MB/s each at a round trip of 100 ms. The connection's is as large as those of all
    /// its streams, so that clients that read nothing hold up nobody else.
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

/// A connection, to be shared. It closes when nobody holds it, or a stream of it, any more.
#[derive(Clone)]
pub(super) struct Http2Connection {
    requests: SendRequest<Bytes>,
    /// Those of streams.
    places: Arc<Semaphore>,
    _open: Arc<DropGuard>,
}

impl Http2Connection {
    /// Opens HTTP/2 on `stream`. Heads and trailers are as long as in HTTP/1 at most: HPACK makes megabytes of kilobytes.
    pub(super) async fn open(stream: Stream, window: Window) -> Result<Self, h2::Error> {
        let (requests, connection) = h2::client::Builder::new()
            .enable_push(false)
            .initial_max_send_streams(STREAMS_PER_CONNECTION)
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
                // What goes wrong on the connection is told to its streams.
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

    /// A stream, if the connection is open and has a place for one.
    pub(super) fn stream(&self) -> Option<Http2Stream> {
        let allowed = self.requests.current_max_send_streams();
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

    /// Whether the origin closed it, or is about to: then it takes no more streams.
    pub(super) fn is_closed(&self) -> bool {
        let ready = self.requests.clone().ready().now_or_never();
        matches!(ready, Some(Err(_)))
    }

    /// The streams there are.
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

/// A stream. Dropped, however the exchange ended, it gives its place back.
pub(crate) struct Http2Stream {
    /// From the request to the final head.
    answer: Option<ResponseFuture>,
    /// From the final head on.
    body: Option<RecvStream>,
    oddities: Oddities,
    connection: Http2Connection,
    // Dropped last: the stream has ended before its place is free for another.
    _place: OwnedSemaphorePermit,
}

/// A response's head by HTTP/2, its length agreed upon.
#[derive(Debug)]
pub(crate) struct Http2Head {
    pub(crate) status: u16,
    pub(crate) fields: HeaderMap,
    pub(crate) length: Option<u64>,
}

impl Http2Stream {
    /// What it is a stream of.
    pub(super) fn connection(&self) -> Http2Connection {
        self.connection.clone()
    }

    /// Sends a request's head; `ends`: nothing follows it.
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

    /// The next head: an interim one, or the final one. Giving a read up loses nothing.
    pub(super) async fn head(&mut self) -> Result<Http2Head, Fault> {
        let answer = self.answer.as_mut().expect("the final head is read once");
        let (head, body) = match poll_fn(|cx| answer.poll_informational(cx)).await {
            Some(interim) => (interim.map_err(|error| fault(&error))?.into_parts().0, None),
            None => {
                let (head, body) = answer.await.map_err(|error| fault(&error))?.into_parts();
                (head, Some(body))
            }
        };
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

    /// The next part of the body; `None` at its end.
    pub(super) async fn part(&mut self) -> Result<Option<Bytes>, Fault> {
        let Some(body) = &mut self.body else {
            return Ok(None);
        };
        loop {
            let Some(part) = body.data().await else {
                return Ok(None);
            };
            let part = part.map_err(|error| fault(&error))?;
            // What was read makes room for more; a stream that ended needs none.
            let _ = body.flow_control().release_capacity(part.len());
            if !part.is_empty() {
                return Ok(Some(part));
            }
        }
    }

    /// Whether the response is known to have ended.
    pub(super) fn has_ended(&self) -> bool {
        self.body.as_ref().is_some_and(RecvStream::is_end_stream)
    }

    /// The fields behind the body.
    pub(super) async fn trailers(&mut self) -> Result<Option<HeaderMap>, Fault> {
        let Some(body) = &mut self.body else {
            return Ok(None);
        };
        match behind_data(body).await {
            Ok(Some(trailers)) if trailers.len() > MAX_FIELDS => Err(too_large()),
            Ok(trailers) => Ok(trailers),
            // The response is there, and its origin wants no more of the request (RFC 9113 section 8.1).
            Err(error) if error.is_remote() && error.reason() == Some(Reason::NO_ERROR) => Ok(None),
            Err(error) => Err(fault(&error)),
        }
    }

    /// What had to be mended so far.
    pub(super) fn oddities(&self) -> Oddities {
        self.oddities
    }
}

/// The trailers, which h2 has only for who read all DATA, also where there is no content: a frame without an octet may end it
/// (RFC 9113 section 8.1). Content that the head ruled out is nobody's, and neither is what follows it.
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

/// What broke a stream or its connection. One that the origin did not begin to serve may be tried anew (RFC 9113 section 8.7),
/// and so may one whose connection was kept and turns out to be dead.
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

/// h2 resets a stream whose head is over the limit, and ends a connection at four times that, saying so in words only.
fn is_about_size(error: &h2::Error) -> bool {
    error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM)
        || error.is_go_away() && error.to_string().contains("header_list_way_too_large")
}
