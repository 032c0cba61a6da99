//! The reading half of a downstream exchange: the request's body, and pipelined bytes after it.

use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use pingora_timeout::timeout;
use tokio::io::{AsyncReadExt, ReadHalf};

use crate::http::field_pairs::trailers_of;
use crate::http::http1::{BodyError, BodyReader, Framing, MAX_FIELDS, Trailers};
use crate::http::transport::Stream;

/// The most bytes of following requests that are read while one is served.
const MAX_PIPELINED: usize = 64 * 1024;

/// The longest silence on an upgraded connection.
const UPGRADED_PATIENCE: Duration = Duration::from_secs(60 * 60);

/// The request's body, and anything that the client sends after it.
pub(crate) enum ClientBody {
    Http1 {
        stream: ReadHalf<Stream>,
        ahead: BytesMut,
        body: BodyReader,
        patience: Duration,
    },
    Http2 {
        stream: RecvStream,
        patience: Duration,
    },
}

impl ClientBody {
    pub(crate) fn is_done(&self) -> bool {
        match self {
            Self::Http1 { body, .. } => body.is_done(),
            Self::Http2 { stream, .. } => stream.is_end_stream(),
        }
    }

    /// Returns the next chunk of the body; `None` at its end. A read that is cancelled loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        match self {
            Self::Http1 {
                stream,
                ahead,
                body,
                patience,
            } => match timeout(*patience, body.next(stream, ahead)).await {
                Ok(part) => part,
                Err(_) => Err(BodyError::Late),
            },
            Self::Http2 { stream, patience } => loop {
                let part = timeout(*patience, stream.data()).await;
                let Some(part) = part.map_err(|_| BodyError::Late)? else {
                    return Ok(None);
                };
                let part = part.map_err(io::Error::other)?;
                // This fails for a stream that ended, which needs no window.
                let _ = stream.flow_control().release_capacity(part.len());
                if !part.is_empty() {
                    return Ok(Some(part));
                }
            },
        }
    }

    /// Passes all further bytes through unchanged, as after a 101.
    pub(crate) fn becomes_raw(&mut self) {
        if let Self::Http1 { body, patience, .. } = self {
            *body = BodyReader::new(Framing::UntilClose);
            *patience = UPGRADED_PATIENCE;
        }
    }

    /// Returns the trailers; valid once the body is done.
    pub(crate) async fn trailers(&mut self) -> Result<Trailers, BodyError> {
        match self {
            Self::Http1 { body, .. } => Ok(body.take_trailers()),
            Self::Http2 { stream, patience } => {
                let trailers = timeout(*patience, stream.trailers()).await;
                let trailers = trailers.map_err(|_| BodyError::Late)?;
                match trailers.map_err(io::Error::other)? {
                    Some(trailers) if trailers.len() > MAX_FIELDS => {
                        Err(BodyError::Malformed("more than 100 trailers"))
                    }
                    trailers => Ok(trailers.as_ref().map_or_else(Vec::new, trailers_of)),
                }
            }
        }
    }

    /// Waits until the client's connection breaks. A client that closed its sending side may still read. Pipelined
    /// requests are kept for later.
    pub(crate) async fn gone(&mut self) {
        if self.ended().await.is_ok() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until the client closes its sending side.
    ///
    /// # Errors
    ///
    /// If the connection breaks.
    pub(super) async fn ended(&mut self) -> io::Result<()> {
        if let Self::Http1 { stream, ahead, .. } = self {
            // The read that notices the end also receives pipelined requests. Past the limit it stops, and
            // backpressure stops the client.
            while ahead.len() < MAX_PIPELINED {
                ahead.reserve(1024);
                if stream.read_buf(ahead).await? == 0 {
                    return Ok(());
                }
            }
        }
        std::future::pending().await
    }
}
