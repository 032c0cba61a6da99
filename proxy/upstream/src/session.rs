//! One request on a connection to an origin. Writing and reading are independent, so that both can be in progress at
//! the same time.

use std::io;
use std::pin::{Pin, pin};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::SendStream;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Request};
use pingora_core::protocols::http::v2::write_body;
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};
use wayleave_clock as clock;
use wayleave_decision::Reason;
use wayleave_http_wire::field_pairs::{to_header_map, to_pairs, to_trailers};
use wayleave_http_wire::http1::oddities::Oddities;
use wayleave_http_wire::http1::{
    BodyFraming, BodyReader, BodyWriter, HeadError, ResponseHead, SWITCHING_PROTOCOLS, Trailers,
};
use wayleave_transport::http::transport::BoxedStream;

use super::http2::{self, Http2Head, Http2Stream};
use crate::describe;
use crate::error::{STOPPED_READING, UpstreamError};

/// The most interim responses before the final one. Each of them restarts the timeout.
pub const MAX_INTERIM: usize = 100;

/// The writing half of an exchange with an origin.
pub enum UpstreamWriter {
    Http1 { stream: WriteHalf<BoxedStream>, body: BodyWriter },
    Http2(SendStream<Bytes>),
}

impl UpstreamWriter {
    /// Sends a chunk of the body, which is not empty.
    pub async fn send_chunk(
        &mut self,
        chunk: Bytes,
        timeout: Duration,
    ) -> Result<(), UpstreamError> {
        match self {
            Self::Http1 { stream, body } => {
                let sending = async {
                    // Flushed at once: the client may wait for the origin to react to this chunk.
                    body.write(stream, &chunk).await?;
                    stream.flush().await
                };
                within(timeout, pin!(sending)).await
            }
            Self::Http2(stream) => Ok(write_body(stream, chunk, false, Some(timeout)).await?),
        }
    }

    /// Ends the body.
    pub async fn finish(
        &mut self,
        trailers: &Trailers,
        timeout: Duration,
    ) -> Result<(), UpstreamError> {
        match self {
            Self::Http1 { stream, body } => {
                within(timeout, pin!(body.finish(stream, trailers))).await
            }
            Self::Http2(stream) if trailers.is_empty() => {
                Ok(write_body(stream, Bytes::new(), true, Some(timeout)).await?)
            }
            Self::Http2(stream) => stream
                .send_trailers(to_header_map(trailers))
                .map_err(|error| http2::stream_error(&error)),
        }
    }

    /// Passes all further bytes through unchanged, as after a 101.
    pub fn switch_to_raw(&mut self) {
        if let Self::Http1 { body, .. } = self {
            *body = BodyWriter::new(BodyFraming::UntilClose);
        }
    }

    /// Closes the sending side of a connection that changed its protocol.
    pub async fn close(&mut self) {
        if let Self::Http1 { stream, .. } = self {
            // The origin may have closed already.
            let _ = stream.shutdown().await;
        }
    }
}

/// The reading half of an exchange with an origin.
pub enum UpstreamReader {
    Http1 {
        stream: ReadHalf<BoxedStream>,
        buffered: BytesMut,
        body: BodyReader,
        keeps_alive: bool,
        /// Repairs of heads.
        oddities: Oddities,
    },
    Http2(Box<Http2Stream>),
}

/// A response's head, in the form of its HTTP version.
#[derive(Debug)]
pub enum UpstreamHead {
    Http1(ResponseHead),
    Http2(Box<Http2Head>),
}

impl UpstreamHead {
    /// Returns the head of a response that somebody else received.
    pub fn of_parts(status: u16, fields: HeaderMap) -> Self {
        let length =
            fields.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        Self::Http2(Box::new(Http2Head { status, fields, length }))
    }

    pub fn status(&self) -> u16 {
        match self {
            Self::Http1(head) => head.status(),
            Self::Http2(head) => head.status,
        }
    }

    pub fn reason(&self) -> &[u8] {
        match self {
            Self::Http1(head) => head.reason(),
            Self::Http2(_) => b"",
        }
    }

    /// Returns the length of the body, if the head states it.
    pub fn content_length(&self) -> Option<u64> {
        match self {
            Self::Http1(head) => head.content_length(),
            Self::Http2(head) => head.length,
        }
    }

    /// Returns the name and value of every field.
    pub fn fields(&self) -> Vec<(&[u8], &[u8])> {
        match self {
            Self::Http1(head) => head.fields().iter().collect(),
            Self::Http2(head) => to_pairs(&head.fields),
        }
    }
}

impl UpstreamReader {
    /// Returns the next head: an interim one, or the final one. A read that is cancelled loses nothing.
    pub async fn next_head(&mut self, method: &str) -> Result<UpstreamHead, UpstreamError> {
        match self {
            Self::Http1 { stream, buffered, body, keeps_alive, oddities } => {
                let head = ResponseHead::read(stream, buffered).await.map_err(head_error)?;
                let is_upgrade = head.status() == SWITCHING_PROTOCOLS;
                let framing =
                    if is_upgrade { BodyFraming::UntilClose } else { head.framing(method) };
                *oddities = oddities.union(head.oddities());
                // A body that ends with the connection leaves none to keep (RFC 9112 section 6.3).
                *keeps_alive = head.keeps_alive(method) && framing != BodyFraming::UntilClose;
                *body = if is_upgrade {
                    // No longer HTTP, so nothing in it is repaired.
                    BodyReader::strict(framing)
                } else {
                    BodyReader::repairing(framing)
                };
                Ok(UpstreamHead::Http1(head))
            }
            Self::Http2(stream) => Ok(UpstreamHead::Http2(Box::new(stream.next_head().await?))),
        }
    }

    /// Returns the final head, and skips interim ones before it.
    pub async fn final_head(&mut self, method: &str) -> Result<UpstreamHead, UpstreamError> {
        for _ in 0..MAX_INTERIM {
            let head = self.next_head(method).await?;
            match head.status() {
                SWITCHING_PROTOCOLS => {
                    // The caller sent no Upgrade, so bytes after this head belong to no protocol.
                    let details = "the origin switched protocols without being asked".to_owned();
                    return Err(UpstreamError::new(Reason::HttpProtocolError, details));
                }
                100..=199 => {}
                _ => return Ok(head),
            }
        }
        Err(endless_interim_responses())
    }

    /// Returns the next chunk of the body; `None` at its end.
    pub async fn next_chunk(&mut self) -> Result<Option<Bytes>, UpstreamError> {
        match self {
            Self::Http1 { stream, buffered, body, .. } => {
                Ok(body.next_chunk(stream, buffered).await?)
            }
            Self::Http2(stream) => stream.next_chunk().await,
        }
    }

    /// Returns whether the response is known to have ended: no chunk and no trailers follow.
    pub fn has_ended(&self) -> bool {
        match self {
            Self::Http1 { body, .. } => body.is_done() && !body.has_trailers(),
            Self::Http2(stream) => stream.has_ended(),
        }
    }

    /// Takes an HTTP/2 connection out of use on which a request has timed out and nothing at all arrived meanwhile.
    pub fn give_up_if_silent(&self) {
        if let Self::Http2(stream) = self {
            stream.give_up_if_silent();
        }
    }

    /// Returns the repairs so far.
    pub fn oddities(&self) -> Oddities {
        match self {
            Self::Http1 { body, oddities, .. } => oddities.union(body.oddities()),
            Self::Http2(stream) => stream.oddities(),
        }
    }

    /// Returns the trailers.
    pub async fn trailers(&mut self) -> Result<Trailers, UpstreamError> {
        match self {
            Self::Http1 { body, .. } => Ok(body.take_trailers()),
            Self::Http2(stream) => {
                let trailers = stream.trailers().await?;
                Ok(trailers.map_or_else(Vec::new, |trailers| to_trailers(&trailers)))
            }
        }
    }
}

/// Sends a request's head over HTTP/1 and splits the connection.
pub async fn start_http1(
    mut stream: BoxedStream,
    head: &[u8],
    framing: BodyFraming,
    timeout: Duration,
) -> Result<(UpstreamWriter, UpstreamReader), UpstreamError> {
    let sending = async {
        stream.write_all(head).await?;
        stream.flush().await
    };
    within(timeout, pin!(sending)).await?;
    let (read_half, write_half) = tokio::io::split(stream);
    let writer = UpstreamWriter::Http1 { stream: write_half, body: BodyWriter::new(framing) };
    let reader = UpstreamReader::Http1 {
        stream: read_half,
        buffered: BytesMut::new(),
        // There is no body before a head has been read.
        body: BodyReader::strict(BodyFraming::Length(0)),
        keeps_alive: false,
        oddities: Oddities::default(),
    };
    Ok((writer, reader))
}

/// Sends a request's head over HTTP/2 and splits the stream.
pub async fn start_http2(
    mut stream: Box<Http2Stream>,
    head: Request<()>,
    framing: BodyFraming,
    timeout: Duration,
) -> Result<(UpstreamWriter, UpstreamReader), UpstreamError> {
    let sending = stream.send_head(head, framing == BodyFraming::Length(0));
    let writer =
        clock::timeout(timeout, pin!(sending)).await.unwrap_or_else(|_| Err(write_timed_out()))?;
    Ok((UpstreamWriter::Http2(writer), UpstreamReader::Http2(stream)))
}

async fn within(
    timeout: Duration,
    sending: Pin<&mut impl Future<Output = io::Result<()>>>,
) -> Result<(), UpstreamError> {
    match clock::timeout(timeout, sending).await {
        Ok(Ok(())) => Ok(()),
        // A kept connection may have been closed by its origin meanwhile.
        Ok(Err(error)) => Err(UpstreamError::stale(
            Reason::ConnectionTerminated,
            format!("sending the request: {}", describe::broken_connection(&error)),
        )),
        Err(_) => Err(write_timed_out()),
    }
}

/// Makes the error for [`MAX_INTERIM`] interim responses without a final one.
pub fn endless_interim_responses() -> UpstreamError {
    let details = "the origin keeps sending interim responses";
    UpstreamError::new(Reason::HttpProtocolError, details.to_owned())
}

fn write_timed_out() -> UpstreamError {
    UpstreamError::new(Reason::ConnectionWriteTimeout, STOPPED_READING.to_owned())
}

fn head_error(error: HeadError) -> UpstreamError {
    let (reason, details) = match error {
        HeadError::Closed => {
            let details = "the origin closed the connection before it answered";
            return UpstreamError::stale(Reason::ConnectionTerminated, details.to_owned());
        }
        HeadError::Broken(error) => (
            Reason::HttpResponseIncomplete,
            format!("the response's head: {}", describe::broken_connection(&error)),
        ),
        HeadError::Malformed(details) => {
            (Reason::HttpProtocolError, format!("the response: {details}"))
        }
        HeadError::TooLarge(details) => {
            (Reason::HttpResponseHeaderSectionSize, format!("the response: {details}"))
        }
        HeadError::UnsupportedVersion => {
            (Reason::HttpProtocolError, "the response is not HTTP".to_owned())
        }
    };
    UpstreamError::new(reason, details)
}
