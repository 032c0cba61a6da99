//! The writing half of a downstream exchange: interim responses, the final head, its body and trailers.

use std::borrow::Cow;
use std::fmt::Write;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::SendStream;
use h2::server::SendResponse;
use http::{HeaderName, HeaderValue, Response};
use pingora_core::protocols::http::v2::write_body;
use pingora_error::ErrorType;
use tokio::io::{AsyncWriteExt, WriteHalf};
use wayleave_clock::timeout;
use wayleave_http_wire::field_pairs::to_header_map;
use wayleave_http_wire::http1::{
    BodyFraming, BodyWriter, SWITCHING_PROTOCOLS, Trailers, write_fields,
};

use super::response_share::ResponseShare;
use crate::http::flush_signal::FlushSignal;
use crate::http::transport::BoxedStream;

/// The bytes of a head beyond which it is compressed in turn.
const LONG_HEAD_BYTES: usize = 8 * 1024;

/// The name and value of a response field, borrowed from the origin or made by us.
pub type ResponseField<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// Creates a field of our own.
pub fn response_field<'a>(name: &'a str, value: impl Into<Cow<'a, str>>) -> ResponseField<'a> {
    let value = match value.into() {
        Cow::Borrowed(value) => Cow::Borrowed(value.as_bytes()),
        Cow::Owned(value) => Cow::Owned(value.into_bytes()),
    };
    (Cow::Borrowed(name.as_bytes()), value)
}

/// A response head as the client gets it.
#[derive(Debug)]
pub struct DownstreamResponse<'a> {
    pub status: u16,
    pub reason: &'a [u8],
    pub framing: BodyFraming,
    pub fields: Vec<ResponseField<'a>>,
}

/// The error for a client that gets no more of the response.
#[derive(Clone, Copy, Debug)]
pub enum ClientGone {
    Left,
    /// It is still connected, but took nothing for the time of `proxy.idle_timeout`.
    StoppedReading,
    /// It is still connected, but read slowly while others waited for its slot.
    ReadSlowly,
}

/// A writer of the response, by HTTP version.
pub enum DownstreamWriter {
    Http1(Http1Writer),
    Http2 {
        respond: SendResponse<Bytes>,
        stream: Option<SendStream<Bytes>>,
        write_timeout: Duration,
        /// Shared by all streams of the connection.
        flushes: Arc<FlushSignal>,
        /// Present once the response counts.
        share: Option<ResponseShare>,
    },
}

pub struct Http1Writer {
    pub(super) stream: WriteHalf<BoxedStream>,
    pub(super) body: BodyWriter,
    pub(super) timeout: Duration,
    pub(super) keeps_alive: bool,
    pub(super) has_unflushed: bool,
}

impl DownstreamWriter {
    /// Waits until the client resets an HTTP/2 stream. Over HTTP/1 the reading half notices that a client leaves.
    pub async fn wait_until_reset(&mut self) {
        match self {
            Self::Http1(_) => std::future::pending().await,
            Self::Http2 { stream: Some(stream), .. } => {
                // With any code or error, nobody waits for the response any more.
                let _ = poll_fn(|cx| stream.poll_reset(cx)).await;
            }
            Self::Http2 { respond, .. } => {
                let _ = poll_fn(|cx| respond.poll_reset(cx)).await;
            }
        }
    }

    pub(super) fn share(&mut self) -> Option<&mut ResponseShare> {
        match self {
            Self::Http1(_) => None,
            Self::Http2 { share, .. } => share.as_mut(),
        }
    }

    /// Closes the connection after this response.
    pub fn close_after_response(&mut self) {
        if let Self::Http1(writer) = self {
            writer.keeps_alive = false;
        }
    }

    /// Sends an interim response, and waits until it was flushed. Over HTTP/2 it leaves even if nobody waits.
    pub async fn send_interim(
        &mut self,
        response: &DownstreamResponse<'_>,
    ) -> Result<(), ClientGone> {
        match self {
            Self::Http1(writer) => {
                let head = status_line(response);
                writer.write(&finish_head(head, &response.fields, &[])).await?;
                writer.flush().await
            }
            Self::Http2 { respond, flushes, .. } => {
                respond.send_informational(http2_head(response)).map_err(|_| ClientGone::Left)?;
                tokio::select! {
                    () = flushes.wait_for_next() => Ok(()),
                    // A connection that breaks is never flushed again.
                    _ = poll_fn(|cx| respond.poll_reset(cx)) => Err(ClientGone::Left),
                }
            }
        }
    }

    /// Sends the final response's head.
    pub async fn send_head(&mut self, response: &DownstreamResponse<'_>) -> Result<(), ClientGone> {
        match self {
            Self::Http1(writer) => writer.send_head(response).await,
            Self::Http2 { respond, stream, share, .. } => {
                // END_STREAM in the head saves an empty DATA frame.
                let is_last = response.framing == BodyFraming::Length(0);
                let turn = match share {
                    // Boxed because it is rare.
                    Some(share) if is_long(response) => {
                        Some(Box::pin(share.admit_long_head()).await)
                    }
                    _ => None,
                };
                let body = respond
                    .send_response(http2_head(response), is_last)
                    .map_err(|_| ClientGone::Left)?;
                *stream = (!is_last).then_some(body);
                if turn.is_some() {
                    // The task of the connection compresses it meanwhile.
                    tokio::task::yield_now().await;
                }
                Ok(())
            }
        }
    }

    /// Sends a chunk of the body, which is not empty. With `is_last` neither chunks nor trailers follow.
    pub async fn send_chunk(&mut self, chunk: Bytes, is_last: bool) -> Result<(), ClientGone> {
        match self {
            Self::Http1(writer) => {
                let sending = writer.body.write(&mut writer.stream, &chunk);
                writer.has_unflushed = true;
                within(writer.timeout, pin!(sending)).await
            }
            Self::Http2 { stream, write_timeout, .. } => {
                let sending = stream.as_mut().ok_or(ClientGone::Left)?;
                // END_STREAM in the same frame saves both sides another frame.
                let sent = write_body(sending, chunk, is_last, Some(*write_timeout)).await;
                if is_last {
                    *stream = None;
                }
                sent.map_err(|error| match error.etype() {
                    ErrorType::WriteTimedout => ClientGone::StoppedReading,
                    _ => ClientGone::Left,
                })
            }
        }
    }

    /// Returns whether bytes wait to leave together with the next ones.
    pub fn has_unflushed(&self) -> bool {
        matches!(self, Self::Http1(writer) if writer.has_unflushed)
    }

    pub async fn flush(&mut self) -> Result<(), ClientGone> {
        match self {
            Self::Http1(writer) => writer.flush().await,
            Self::Http2 { .. } => Ok(()),
        }
    }

    /// Ends the body.
    pub async fn finish(&mut self, trailers: &Trailers) -> Result<(), ClientGone> {
        match self {
            Self::Http1(writer) => {
                writer.has_unflushed = false;
                within(writer.timeout, pin!(writer.body.finish(&mut writer.stream, trailers))).await
            }
            Self::Http2 { stream: Some(stream), .. } if !trailers.is_empty() => {
                stream.send_trailers(to_header_map(trailers)).map_err(|_| ClientGone::Left)
            }
            Self::Http2 { stream: Some(stream), .. } => {
                stream.send_data(Bytes::new(), true).map_err(|_| ClientGone::Left)
            }
            Self::Http2 { stream: None, .. } => Ok(()),
        }
    }
}

impl Http1Writer {
    async fn send_head(&mut self, response: &DownstreamResponse<'_>) -> Result<(), ClientGone> {
        self.body = BodyWriter::new(response.framing);
        let is_upgrade = response.status == SWITCHING_PROTOCOLS;
        // The end of the connection is the end of this body.
        self.keeps_alive &= response.framing != BodyFraming::UntilClose;
        let mut ours: Vec<&[u8]> = Vec::new();
        if response.framing == BodyFraming::Chunked {
            ours.push(b"Transfer-Encoding: chunked\r\n");
        }
        if is_upgrade {
            ours.push(b"Connection: Upgrade\r\nUpgrade: websocket\r\n");
        } else if !self.keeps_alive {
            ours.push(b"Connection: close\r\n");
        }
        let head = finish_head(status_line(response), &response.fields, &ours);
        self.write(&head).await
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), ClientGone> {
        self.has_unflushed = true;
        within(self.timeout, pin!(self.stream.write_all(bytes))).await
    }

    async fn flush(&mut self) -> Result<(), ClientGone> {
        self.has_unflushed = false;
        within(self.timeout, pin!(self.stream.flush())).await
    }
}

async fn within(
    write_timeout: Duration,
    sending: Pin<&mut impl Future<Output = io::Result<()>>>,
) -> Result<(), ClientGone> {
    match timeout(write_timeout, sending).await {
        Ok(sent) => sent.map_err(|_| ClientGone::Left),
        Err(_) => Err(ClientGone::StoppedReading),
    }
}

fn status_line(response: &DownstreamResponse<'_>) -> BytesMut {
    let mut head = BytesMut::with_capacity(1024);
    write!(head, "HTTP/1.1 {} ", response.status).expect("writing to a String cannot fail");
    head.extend_from_slice(response.reason);
    head.extend_from_slice(b"\r\n");
    head
}

fn finish_head(mut head: BytesMut, fields: &[ResponseField<'_>], ours: &[&[u8]]) -> BytesMut {
    write_fields(&mut head, fields.iter().map(|(field, value)| (&**field, &**value)));
    for line in ours {
        head.extend_from_slice(line);
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// Returns whether compressing the head for HTTP/2 takes as long as many short exchanges.
fn is_long(response: &DownstreamResponse<'_>) -> bool {
    let bytes = response.fields.iter().map(|(field, value)| field.len() + value.len());
    bytes.sum::<usize>() > LONG_HEAD_BYTES
}

fn http2_head(response: &DownstreamResponse<'_>) -> Response<()> {
    let mut head = Response::new(());
    *head.status_mut() = http::StatusCode::from_u16(response.status).unwrap_or_default();
    for (field, value) in &response.fields {
        // HTTP/1 heads were parsed more strictly than these types do, so nothing valid is lost.
        if let (Ok(field), Ok(value)) =
            (HeaderName::from_bytes(field), HeaderValue::from_bytes(value))
        {
            head.headers_mut().append(field, value);
        }
    }
    head
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use wayleave_fairness::Holder;

    use super::*;
    use crate::http::downstream::{ClientResponses, Downstream, ResponseShares};

    /// A response with a field of this length.
    fn response(bytes: usize) -> DownstreamResponse<'static> {
        let fields = vec![response_field("x", "a".repeat(bytes))];
        DownstreamResponse { status: 200, reason: b"", framing: BodyFraming::Chunked, fields }
    }

    /// Returns a stream whose response counts for `client`, and its connection.
    async fn stream(client: &ClientResponses) -> (Downstream, impl Sized) {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let (opened, accepted) =
            tokio::join!(h2::client::handshake(near), h2::server::handshake(far));
        let ((mut requests, connection), mut streams) = (opened.unwrap(), accepted.unwrap());
        let connection = tokio::spawn(connection);
        let requested = requests.send_request(http::Request::default(), true).unwrap();
        let (request, respond) = streams.accept().await.unwrap().unwrap();
        let body = request.into_body();
        let mut downstream = Downstream::http2(body, respond, Arc::default(), Duration::MAX);
        downstream.take_share(client.begin()).await.unwrap();
        (downstream, (requests, requested, connection, streams))
    }

    #[tokio::test]
    async fn long_heads_of_a_client_are_sent_in_turn() {
        let client = ResponseShares::default().of(Holder::OWN);
        let (mut short, _short_connection) = stream(&client).await;
        let (mut long, _long_connection) = stream(&client).await;
        let response_in_progress = client.begin();
        let mut others = Vec::new();
        for _ in 0..4 {
            others.push(response_in_progress.admit_long_head().await);
        }
        let sent = short.writer.send_head(&response(LONG_HEAD_BYTES - 1)).now_or_never();
        assert!(sent.is_some_and(|sent| sent.is_ok()), "it does not wait");
        assert!(long.writer.send_head(&response(LONG_HEAD_BYTES)).now_or_never().is_none());
        others.pop();
        long.writer.send_head(&response(LONG_HEAD_BYTES)).await.expect("it is its turn");
    }
}
