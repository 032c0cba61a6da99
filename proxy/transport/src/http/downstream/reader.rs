//! The reading half of a downstream exchange: the request's body, and pipelined bytes after it.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use tokio::io::ReadHalf;
use wayleave_clock::timeout;
use wayleave_http_wire::field_pairs::to_trailers;
use wayleave_http_wire::http1::{BodyError, BodyFraming, BodyReader, MAX_HTTP2_TRAILERS, Trailers};

use crate::http::transport::{BoxedStream, poll_append};

/// The most bytes of following requests that are read while one is served.
const MAX_PIPELINED_BYTES: usize = 64 * 1024;

/// The longest silence on an upgraded connection.
const UPGRADED_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// The request's body, and anything that the client sends after it.
pub enum DownstreamReader {
    Http1 {
        stream: ReadHalf<BoxedStream>,
        buffered: BytesMut,
        body: BodyReader,
        read_timeout: Duration,
    },
    Http2 {
        stream: RecvStream,
        read_timeout: Duration,
    },
}

impl DownstreamReader {
    pub fn is_http2(&self) -> bool {
        matches!(self, Self::Http2 { .. })
    }

    pub fn is_done(&self) -> bool {
        match self {
            Self::Http1 { body, .. } => body.is_done(),
            Self::Http2 { stream, .. } => stream.is_end_stream(),
        }
    }

    /// Returns the next chunk of the body; `None` at its end. A read that is cancelled loses nothing.
    pub async fn next_chunk(&mut self) -> Result<Option<Bytes>, BodyError> {
        match self {
            Self::Http1 { stream, buffered, body, read_timeout } => {
                match timeout(*read_timeout, pin!(body.next_chunk(stream, buffered))).await {
                    Ok(chunk) => chunk,
                    Err(_) => Err(BodyError::Timeout),
                }
            }
            Self::Http2 { stream, read_timeout } => loop {
                let received = timeout(*read_timeout, pin!(stream.data())).await;
                let Some(data) = received.map_err(|_| BodyError::Timeout)? else {
                    return Ok(None);
                };
                let chunk = data.map_err(io::Error::other)?;
                // This fails for a stream that ended, which needs no window.
                let _ = stream.flow_control().release_capacity(chunk.len());
                if !chunk.is_empty() {
                    return Ok(Some(chunk));
                }
            },
        }
    }

    /// Passes all further bytes through unchanged, as after a 101.
    pub fn switch_to_raw(&mut self) {
        if let Self::Http1 { body, read_timeout, .. } = self {
            *body = BodyReader::strict(BodyFraming::UntilClose);
            *read_timeout = UPGRADED_TIMEOUT;
        }
    }

    /// Returns the trailers; valid once the body is done.
    pub async fn trailers(&mut self) -> Result<Trailers, BodyError> {
        match self {
            Self::Http1 { body, .. } => Ok(body.take_trailers()),
            Self::Http2 { stream, read_timeout } => {
                let received = timeout(*read_timeout, pin!(stream.trailers()))
                    .await
                    .map_err(|_| BodyError::Timeout)?;
                match received.map_err(io::Error::other)? {
                    Some(trailers) if trailers.len() > MAX_HTTP2_TRAILERS => {
                        Err(BodyError::Malformed("more than 100 trailers"))
                    }
                    trailers => Ok(trailers.as_ref().map_or_else(Vec::new, to_trailers)),
                }
            }
        }
    }

    /// Waits until the client's connection breaks. A client that closed its sending side may still read. Pipelined
    /// requests are kept for later.
    pub async fn wait_until_broken(&mut self) {
        if self.wait_until_closed().await.is_ok() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until the client closes its sending side.
    ///
    /// # Errors
    ///
    /// If the connection breaks.
    pub(super) async fn wait_until_closed(&mut self) -> io::Result<()> {
        if let Self::Http1 { stream, buffered, .. } = self {
            // The read that notices the end also receives pipelined requests. Past the limit it stops, and
            // backpressure stops the client.
            while buffered.len() < MAX_PIPELINED_BYTES {
                let before = buffered.len();
                poll_fn(|context| poll_append(stream, buffered, context)).await?;
                if buffered.len() == before {
                    return Ok(());
                }
            }
        }
        std::future::pending().await
    }
}
