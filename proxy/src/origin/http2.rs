//! HTTP/2 with an origin: connections, their streams, and their place in pingora's pool.
//!
//! pingora keeps count of streams and connections; the messages are read and written with h2 itself, because pingora's session
//! takes heads of 16 MiB and drops interim responses.

use std::fmt;
use std::future::poll_fn;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request, StatusCode};
use pingora_core::connectors::http::v2::{self, ConnectionRef};
use pingora_core::protocols::Digest;
use pingora_core::protocols::http::v2::client::Http2Session;
use pingora_core::protocols::l4::socket::SocketAddr as PeerAddress;
use pingora_core::protocols::raw_connect::ProxyDigest;
use pingora_core::upstreams::peer::Peer;
use pingora_http::ResponseHeader;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::http::http1::oddities::{Oddities, Oddity};
use crate::http::http1::{MAX_FIELDS, MAX_HEAD_BYTES, agreed_length};
use crate::http::proxy_status::ErrorType;
use crate::http::transport::Stream;
use crate::origin::error::Fault;

/// How long an unused connection is kept. Most servers close theirs after 60 to 75 seconds; being
/// first avoids the race of sending into a closing connection.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(55);

/// Streams that one connection carries at a time.
const STREAMS_PER_CONNECTION: usize = 100;
/// What an origin may send ahead of its client, in bytes: 5 MB/s at a round trip of 100 ms. It is held in memory
/// for as long as the client reads nothing; pingora's own 8 MiB would let few clients hold much.
const STREAM_WINDOW: u32 = 512 * 1024;
const CONNECTION_WINDOW: u32 = 2 * 1024 * 1024;
/// The longest frame that an origin may send: what bodies come in fewer of.
const MAX_FRAME: u32 = 64 * 1024;

/// Opens HTTP/2 on `stream`. Heads and trailers are as long as in HTTP/1 at most: HPACK makes megabytes of kilobytes.
pub(super) async fn handshake(stream: Stream) -> Result<ConnectionRef, h2::Error> {
    let id = stream.id();
    let (requests, connection) = h2::client::Builder::new()
        .enable_push(false)
        .initial_max_send_streams(STREAMS_PER_CONNECTION)
        .max_concurrent_streams(1)
        .max_frame_size(MAX_FRAME)
        .max_header_list_size(MAX_HEAD_BYTES as u32)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .handshake(stream)
        .await?;
    let streams = STREAMS_PER_CONNECTION.min(connection.max_concurrent_send_streams());
    let (closed, is_closed) = watch::channel(false);
    tokio::spawn(async move {
        // What goes wrong on the connection is told to its streams.
        let _ = connection.await;
        // Nobody may be left to hear it.
        let _ = closed.send(true);
    });
    let digest = carrying(requests.clone());
    Ok(ConnectionRef::new(
        requests,
        is_closed,
        Arc::default(),
        id,
        streams,
        digest,
    ))
}

/// pingora's pool hands out its own sessions only. What opens streams goes along in what it keeps of a connection for its
/// user.
fn carrying(requests: SendRequest<Bytes>) -> Digest {
    let head = ResponseHeader::build(StatusCode::OK, None).expect("200 is a status");
    let user_data: Box<dyn std::any::Any + Send + Sync> = Box::new(requests);
    Digest {
        proxy_digest: Some(Arc::new(ProxyDigest::new(Box::new(head), Some(user_data)))),
        ..Digest::default()
    }
}

fn carried(place: &Http2Session) -> Option<SendRequest<Bytes>> {
    let digest = place.digest()?.proxy_digest.as_ref()?;
    let requests = digest.user_data.as_ref()?.downcast_ref();
    requests.cloned()
}

/// A stream. Dropped, however the exchange ended, it gives its place back, and the connection is kept for others or
/// closed: one that is not given back stays open for as long as the origin likes.
pub(crate) struct Http2Stream {
    /// Its place on the connection; `None` once given back.
    place: Option<Http2Session>,
    pool: Arc<v2::Connector>,
    key: PoolKey,
    /// From the request to the final head.
    answer: Option<ResponseFuture>,
    /// From the final head on.
    body: Option<RecvStream>,
    oddities: Oddities,
}

/// A response's head by HTTP/2, its length agreed upon.
#[derive(Debug)]
pub(crate) struct Http2Head {
    pub(crate) status: u16,
    pub(crate) fields: HeaderMap,
    pub(crate) length: Option<u64>,
}

impl Http2Stream {
    pub(super) fn new(place: Http2Session, pool: &Arc<v2::Connector>, key: PoolKey) -> Self {
        Self {
            place: Some(place),
            pool: Arc::clone(pool),
            key,
            answer: None,
            body: None,
            oddities: Oddities::default(),
        }
    }

    /// Sends a request's head; `ends`: nothing follows it.
    pub(super) async fn start(
        &mut self,
        head: Request<()>,
        ends: bool,
    ) -> Result<SendStream<Bytes>, Fault> {
        let requests = self.place.as_ref().and_then(carried);
        let requests = requests.expect("every connection was opened here");
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
        match body.trailers().await {
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
    let details = format!("HTTP/2: {error}");
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

impl Drop for Http2Stream {
    fn drop(&mut self) {
        // Ended before the place is free for another.
        drop((self.answer.take(), self.body.take()));
        // The pool watches what it keeps by a task.
        if let Some(place) = self.place.take()
            && Handle::try_current().is_ok()
        {
            self.pool
                .release_http_session(place, &self.key, Some(IDLE_TIMEOUT));
        }
    }
}

/// What pingora's pools know a connection by.
#[derive(Clone, Debug)]
pub(super) struct PoolKey(pub(super) u64);

static NO_ADDRESS: LazyLock<PeerAddress> =
    LazyLock::new(|| PeerAddress::Inet((Ipv4Addr::UNSPECIFIED, 0).into()));

impl fmt::Display for PoolKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Peer for PoolKey {
    /// Never dialled: pingora only keeps what was dialled here.
    fn address(&self) -> &PeerAddress {
        &NO_ADDRESS
    }

    fn tls(&self) -> bool {
        false
    }

    fn sni(&self) -> &'static str {
        ""
    }

    fn reuse_hash(&self) -> u64 {
        self.0
    }

    /// The key names the origin; which of its addresses answered does not matter.
    fn matches_fd<V: AsRawFd>(&self, _descriptor: V) -> bool {
        true
    }
}
