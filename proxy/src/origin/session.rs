//! One request on a connection to an origin. Writing and reading are independent, so that both can be in progress at
//! the same time.

use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::SendStream;
use http::Request;
use pingora_core::protocols::http::v2::write_body;
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};

use super::http2::{self, Http2Head, Http2Stream};
use crate::http::field_pairs::{header_map, pairs, trailers_of};
use crate::http::http1::oddities::Oddities;
use crate::http::http1::{BodyReader, BodyWriter, Framing, HeadError, ResponseHead, Trailers};
use crate::http::proxy_status::ErrorType;
use crate::http::transport::Stream;
use crate::origin::cause;
use crate::origin::error::{Fault, STOPPED_READING};

/// The most interim responses before the final one. Each of them restarts the timeout.
pub(crate) const MAX_INTERIM: usize = 100;

/// The writing half of an exchange with an origin.
pub(crate) enum OriginWriter {
    Http1 {
        stream: WriteHalf<Stream>,
        body: BodyWriter,
    },
    Http2(SendStream<Bytes>),
}

impl OriginWriter {
    /// Sends a chunk of the body, which is not empty.
    pub(crate) async fn part(&mut self, part: Bytes, patience: Duration) -> Result<(), Fault> {
        match self {
            Self::Http1 { stream, body } => {
                let sending = async {
                    // Flushed at once: the client may wait for the origin to react to this chunk.
                    body.write(stream, &part).await?;
                    stream.flush().await
                };
                in_time(patience, sending).await
            }
            Self::Http2(stream) => Ok(write_body(stream, part, false, Some(patience)).await?),
        }
    }

    /// Ends the body.
    pub(crate) async fn finish(
        &mut self,
        trailers: &Trailers,
        patience: Duration,
    ) -> Result<(), Fault> {
        match self {
            Self::Http1 { stream, body } => in_time(patience, body.finish(stream, trailers)).await,
            Self::Http2(stream) if trailers.is_empty() => {
                Ok(write_body(stream, Bytes::new(), true, Some(patience)).await?)
            }
            Self::Http2(stream) => {
                let sent = stream.send_trailers(header_map(trailers));
                sent.map_err(|error| http2::fault(&error))
            }
        }
    }

    /// Passes all further bytes through unchanged, as after a 101.
    pub(crate) fn becomes_raw(&mut self) {
        if let Self::Http1 { body, .. } = self {
            *body = BodyWriter::new(Framing::UntilClose);
        }
    }

    /// Closes the sending side of a connection that changed its protocol.
    pub(crate) async fn close(&mut self) {
        if let Self::Http1 { stream, .. } = self {
            // The origin may have closed already.
            let _ = stream.shutdown().await;
        }
    }
}

/// The reading half of an exchange with an origin.
pub(crate) enum OriginReader {
    Http1 {
        stream: ReadHalf<Stream>,
        ahead: BytesMut,
        body: BodyReader,
        keeps_alive: bool,
        /// Repairs of heads.
        oddities: Oddities,
    },
    Http2(Box<Http2Stream>),
}

/// A response's head, in the form of its HTTP version.
#[derive(Debug)]
pub(crate) enum OriginHead {
    Http1(ResponseHead),
    Http2(Box<Http2Head>),
}

impl OriginHead {
    pub(crate) fn status(&self) -> u16 {
        match self {
            Self::Http1(head) => head.status(),
            Self::Http2(head) => head.status,
        }
    }

    pub(crate) fn reason(&self) -> &[u8] {
        match self {
            Self::Http1(head) => head.reason(),
            Self::Http2(_) => b"",
        }
    }

    /// Returns the length of the body, if the head states it.
    pub(crate) fn length(&self) -> Option<u64> {
        match self {
            Self::Http1(head) => head.length(),
            Self::Http2(head) => head.length,
        }
    }

    /// Returns the name and value of every field.
    pub(crate) fn fields(&self) -> Vec<(&[u8], &[u8])> {
        match self {
            Self::Http1(head) => head.fields().iter().collect(),
            Self::Http2(head) => pairs(&head.fields),
        }
    }
}

impl OriginReader {
    /// Returns the next head: an interim one, or the final one. A read that is cancelled loses nothing.
    pub(crate) async fn head(&mut self, method: &str) -> Result<OriginHead, Fault> {
        match self {
            Self::Http1 {
                stream,
                ahead,
                body,
                keeps_alive,
                oddities,
            } => {
                let head = ResponseHead::read(stream, ahead)
                    .await
                    .map_err(head_fault)?;
                let is_upgrade = head.status() == 101;
                let framing = if is_upgrade {
                    Framing::UntilClose
                } else {
                    head.framing(method)
                };
                *oddities = oddities.and(head.oddities());
                *keeps_alive = head.keeps_alive(method) && framing != Framing::UntilClose;
                *body = if is_upgrade {
                    // No longer HTTP, so nothing in it is repaired.
                    BodyReader::new(framing)
                } else {
                    BodyReader::of_origin(framing)
                };
                Ok(OriginHead::Http1(head))
            }
            Self::Http2(stream) => Ok(OriginHead::Http2(Box::new(stream.head().await?))),
        }
    }

    /// Returns the final head, and skips interim ones before it.
    pub(crate) async fn final_head(&mut self, method: &str) -> Result<OriginHead, Fault> {
        for _ in 0..MAX_INTERIM {
            let head = self.head(method).await?;
            match head.status() {
                101 => {
                    // The caller sent no Upgrade, so bytes after this 101 belong to no protocol.
                    let details = "the origin changed the protocol unasked".to_owned();
                    return Err(Fault::new(ErrorType::HttpProtocolError, details));
                }
                100..=199 => {}
                _ => return Ok(head),
            }
        }
        Err(only_interim())
    }

    /// Returns the next chunk of the body; `None` at its end.
    pub(crate) async fn part(&mut self) -> Result<Option<Bytes>, Fault> {
        match self {
            Self::Http1 {
                stream,
                ahead,
                body,
                ..
            } => Ok(body.next(stream, ahead).await?),
            Self::Http2(stream) => stream.part().await,
        }
    }

    /// Returns whether the response is known to have ended: no chunk and no trailers follow.
    pub(crate) fn has_ended(&self) -> bool {
        match self {
            Self::Http1 { body, .. } => body.is_done() && !body.has_trailers(),
            Self::Http2(stream) => stream.has_ended(),
        }
    }

    /// Returns what was repaired so far.
    pub(crate) fn oddities(&self) -> Oddities {
        match self {
            Self::Http1 { body, oddities, .. } => oddities.and(body.oddities()),
            Self::Http2(stream) => stream.oddities(),
        }
    }

    /// Returns the trailers.
    pub(crate) async fn trailers(&mut self) -> Result<Trailers, Fault> {
        match self {
            Self::Http1 { body, .. } => Ok(body.take_trailers()),
            Self::Http2(stream) => {
                let trailers = stream.trailers().await?;
                Ok(trailers.map_or_else(Vec::new, |trailers| trailers_of(&trailers)))
            }
        }
    }
}

/// Sends a request's head over HTTP/1 and splits the connection.
pub(crate) async fn start_http1(
    mut stream: Stream,
    head: &[u8],
    framing: Framing,
    patience: Duration,
) -> Result<(OriginWriter, OriginReader), Fault> {
    let sending = async {
        stream.write_all(head).await?;
        stream.flush().await
    };
    in_time(patience, sending).await?;
    let (stream, writer) = tokio::io::split(stream);
    let writer = OriginWriter::Http1 {
        stream: writer,
        body: BodyWriter::new(framing),
    };
    let body = BodyReader::new(Framing::Length(0));
    let reader = OriginReader::Http1 {
        stream,
        ahead: BytesMut::new(),
        body,
        keeps_alive: false,
        oddities: Oddities::default(),
    };
    Ok((writer, reader))
}

/// Sends a request's head over HTTP/2 and splits the stream.
pub(crate) async fn start_http2(
    mut stream: Box<Http2Stream>,
    head: Request<()>,
    framing: Framing,
    patience: Duration,
) -> Result<(OriginWriter, OriginReader), Fault> {
    let starting = stream.start(head, framing == Framing::Length(0));
    let started = pingora_timeout::timeout(patience, starting).await;
    let writer = started.unwrap_or_else(|_| Err(takes_nothing()))?;
    Ok((OriginWriter::Http2(writer), OriginReader::Http2(stream)))
}

async fn in_time(
    patience: Duration,
    sending: impl Future<Output = io::Result<()>>,
) -> Result<(), Fault> {
    match pingora_timeout::timeout(patience, sending).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Fault::stale(
            ErrorType::ConnectionTerminated,
            format!("sending the request: {}", cause::broken(&error)),
        )),
        Err(_) => Err(takes_nothing()),
    }
}

/// Makes the error for [`MAX_INTERIM`] interim responses without a final one.
pub(crate) fn only_interim() -> Fault {
    let details = "the origin keeps sending interim responses";
    Fault::new(ErrorType::HttpProtocolError, details.to_owned())
}

fn takes_nothing() -> Fault {
    Fault::new(
        ErrorType::ConnectionWriteTimeout,
        STOPPED_READING.to_owned(),
    )
}

fn head_fault(error: HeadError) -> Fault {
    let (kind, details) = match error {
        HeadError::Closed => {
            let details = "the origin closed the connection before it answered";
            return Fault::stale(ErrorType::ConnectionTerminated, details.to_owned());
        }
        HeadError::Broken(error) => (
            ErrorType::HttpResponseIncomplete,
            format!("the response's head: {}", cause::broken(&error)),
        ),
        HeadError::Malformed(details) => (
            ErrorType::HttpProtocolError,
            format!("the response: {details}"),
        ),
        HeadError::TooLarge(details) => (
            ErrorType::HttpResponseHeaderSectionSize,
            format!("the response: {details}"),
        ),
        HeadError::Version => (
            ErrorType::HttpProtocolError,
            "the response is not HTTP".to_owned(),
        ),
    };
    Fault::new(kind, details)
}
