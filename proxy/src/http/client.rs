//! The client's side of one request. Receiving and answering are independent, so that
//! both can be under way at once.

use std::borrow::Cow;
use std::fmt::Write;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::{HeaderName, HeaderValue, Response};
use pingora_core::protocols::http::v2::write_body;
use pingora_timeout::timeout;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};

use super::field_pairs::{header_map, trailers_of};
use super::http1::{
    BodyError, BodyReader, BodyWriter, Framing, MAX_FIELDS, Trailers, write_fields,
};
use super::received::HalfClosed;
use super::transport::Stream;

/// Bytes of following requests that are read while one is served.
const MAX_PIPELINED: usize = 64 * 1024;

/// How long an upgraded connection may be silent.
const UPGRADED_PATIENCE: Duration = Duration::from_secs(60 * 60);

/// Name and value, of a field that may be ours.
pub(crate) type Field<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// A field of ours.
pub(crate) fn field<'a>(name: &'a str, value: impl Into<Cow<'a, str>>) -> Field<'a> {
    let value = match value.into() {
        Cow::Borrowed(value) => Cow::Borrowed(value.as_bytes()),
        Cow::Owned(value) => Cow::Owned(value.into_bytes()),
    };
    (Cow::Borrowed(name.as_bytes()), value)
}

/// A response as the client gets it.
#[derive(Debug)]
pub(crate) struct OnwardResponse<'a> {
    pub(crate) status: u16,
    pub(crate) reason: &'a [u8],
    pub(crate) framing: Framing,
    pub(crate) fields: Vec<Field<'a>>,
}

/// A client waiting for its answer.
pub(crate) struct Client {
    pub(crate) body: ClientBody,
    pub(crate) answer: Responder,
}

/// The request's body, and what the client sends behind it.
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

/// The way of the response.
pub(crate) enum Responder {
    Http1(Http1Responder),
    Http2 {
        respond: SendResponse<Bytes>,
        stream: Option<SendStream<Bytes>>,
        patience: Duration,
    },
}

pub(crate) struct Http1Responder {
    stream: WriteHalf<Stream>,
    body: BodyWriter,
    patience: Duration,
    keeps_alive: bool,
    has_unflushed: bool,
}

/// The client left, or takes nothing.
#[derive(Debug)]
pub(crate) struct ClientGone;

impl Client {
    /// A client of an HTTP/1 connection, whose request's head was read.
    pub(crate) fn http1(
        stream: Stream,
        ahead: BytesMut,
        framing: Framing,
        keeps_alive: bool,
        patience: Duration,
    ) -> Self {
        let (read, stream) = tokio::io::split(stream);
        let body = BodyReader::new(framing);
        Self {
            body: ClientBody::Http1 {
                stream: read,
                ahead,
                body,
                patience,
            },
            answer: Responder::Http1(Http1Responder {
                stream,
                body: BodyWriter::new(Framing::Length(0)),
                patience,
                keeps_alive,
                has_unflushed: false,
            }),
        }
    }

    /// A client of an HTTP/2 stream.
    pub(crate) fn http2(
        stream: RecvStream,
        respond: SendResponse<Bytes>,
        patience: Duration,
    ) -> Self {
        let answer = Responder::Http2 {
            respond,
            stream: None,
            patience,
        };
        Self {
            body: ClientBody::Http2 { stream, patience },
            answer,
        }
    }

    /// What `work` comes to, unless the client leaves before that. Pinned by the caller: taken by value it would stand in this
    /// future twice, and so in that of every exchange.
    pub(crate) async fn while_there<T>(
        &mut self,
        half_closed: HalfClosed,
        work: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        let leaving = async {
            match half_closed {
                HalfClosed::IsThere => self.body.gone().await,
                // Whether it ended its side or broke, nobody waits any more.
                HalfClosed::IsGone => drop(self.body.ended().await),
            }
        };
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.answer.given_up() => None,
            () = leaving => None,
        }
    }

    /// Whether another request may follow on the connection.
    pub(crate) fn may_go_on(&self) -> bool {
        matches!(&self.answer, Responder::Http1(answer) if answer.keeps_alive)
            && self.body.is_done()
    }

    /// The connection and the bytes read ahead.
    pub(crate) fn into_next(self) -> Option<(Stream, BytesMut)> {
        match (self.body, self.answer) {
            (ClientBody::Http1 { stream, ahead, .. }, Responder::Http1(answer)) => {
                Some((stream.unsplit(answer.stream), ahead))
            }
            _ => None,
        }
    }

    /// Both sides of an HTTP/2 stream that was not answered yet.
    pub(crate) fn into_http2(self) -> Option<(RecvStream, SendResponse<Bytes>)> {
        match (self.body, self.answer) {
            (ClientBody::Http2 { stream, .. }, Responder::Http2 { respond, .. }) => {
                Some((stream, respond))
            }
            _ => None,
        }
    }

    /// The connection, to end it with care.
    pub(crate) fn into_stream(self) -> Option<Stream> {
        self.into_next().map(|(stream, _)| stream)
    }
}

impl ClientBody {
    pub(crate) fn is_done(&self) -> bool {
        match self {
            Self::Http1 { body, .. } => body.is_done(),
            Self::Http2 { stream, .. } => stream.is_end_stream(),
        }
    }

    /// The next part of the body; `None` at its end. Giving a read up loses nothing.
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
                // What was read makes room for more; a stream that ended needs none.
                let _ = stream.flow_control().release_capacity(part.len());
                if !part.is_empty() {
                    return Ok(Some(part));
                }
            },
        }
    }

    /// From now on everything is passed on as it comes, for as long as it comes.
    pub(crate) fn becomes_raw(&mut self) {
        if let Self::Http1 { body, patience, .. } = self {
            *body = BodyReader::new(Framing::UntilClose);
            *patience = UPGRADED_PATIENCE;
        }
    }

    /// The fields behind the body, once it is done.
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

    /// Waits until the client's connection breaks. A client that ended its side still reads; requests
    /// that it sends ahead are kept for later.
    pub(crate) async fn gone(&mut self) {
        if self.ended().await.is_ok() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until the client ends its side.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection breaks.
    async fn ended(&mut self) -> io::Result<()> {
        if let Self::Http1 { stream, ahead, .. } = self {
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

impl Responder {
    /// Waits until the client gives an HTTP/2 exchange up. Over HTTP/1 that shows on the connection, which the body's side
    /// watches.
    pub(crate) async fn given_up(&mut self) {
        match self {
            Self::Http1(_) => std::future::pending().await,
            Self::Http2 {
                stream: Some(stream),
                ..
            } => {
                // Whichever code or error it ends with, nobody waits any more.
                let _ = poll_fn(|cx| stream.poll_reset(cx)).await;
            }
            Self::Http2 { respond, .. } => {
                let _ = poll_fn(|cx| respond.poll_reset(cx)).await;
            }
        }
    }

    /// Whether the connection ends with this answer.
    pub(crate) fn close_afterwards(&mut self) {
        if let Self::Http1(answer) = self {
            answer.keeps_alive = false;
        }
    }

    /// Sends an interim response.
    pub(crate) async fn interim(
        &mut self,
        response: &OnwardResponse<'_>,
    ) -> Result<(), ClientGone> {
        match self {
            Self::Http1(answer) => {
                let head = status_line(response);
                answer.send(&finished(head, &response.fields, &[])).await?;
                answer.flush().await
            }
            Self::Http2 { respond, .. } => {
                let sent = respond.send_informational(http2_head(response));
                sent.map_err(|_| ClientGone)
            }
        }
    }

    /// Sends the final response's head.
    pub(crate) async fn head(&mut self, response: &OnwardResponse<'_>) -> Result<(), ClientGone> {
        match self {
            Self::Http1(answer) => answer.head(response).await,
            Self::Http2 {
                respond, stream, ..
            } => {
                let ends = response.framing == Framing::Length(0);
                let sent = respond
                    .send_response(http2_head(response), ends)
                    .map_err(|_| ClientGone)?;
                *stream = (!ends).then_some(sent);
                Ok(())
            }
        }
    }

    /// Sends a part of the body, which is not empty. `is_last`: nothing follows, no trailers either.
    pub(crate) async fn part(&mut self, part: Bytes, is_last: bool) -> Result<(), ClientGone> {
        match self {
            Self::Http1(answer) => {
                let sending = answer.body.write(&mut answer.stream, &part);
                answer.has_unflushed = true;
                in_time(answer.patience, sending).await
            }
            Self::Http2 {
                stream, patience, ..
            } => {
                let sending = stream.as_mut().ok_or(ClientGone)?;
                // The end in the same frame spares both sides another one.
                let sent = write_body(sending, part, is_last, Some(*patience)).await;
                if is_last {
                    *stream = None;
                }
                sent.map_err(|_| ClientGone)
            }
        }
    }

    /// Whether anything waits to leave with what comes next.
    pub(crate) fn holds_back(&self) -> bool {
        matches!(self, Self::Http1(answer) if answer.has_unflushed)
    }

    pub(crate) async fn flush(&mut self) -> Result<(), ClientGone> {
        match self {
            Self::Http1(answer) => answer.flush().await,
            Self::Http2 { .. } => Ok(()),
        }
    }

    /// Ends the body.
    pub(crate) async fn finish(&mut self, trailers: &Trailers) -> Result<(), ClientGone> {
        match self {
            Self::Http1(answer) => {
                answer.has_unflushed = false;
                in_time(
                    answer.patience,
                    answer.body.finish(&mut answer.stream, trailers),
                )
                .await
            }
            Self::Http2 {
                stream: Some(stream),
                ..
            } if !trailers.is_empty() => stream
                .send_trailers(header_map(trailers))
                .map_err(|_| ClientGone),
            Self::Http2 {
                stream: Some(stream),
                ..
            } => stream.send_data(Bytes::new(), true).map_err(|_| ClientGone),
            Self::Http2 { stream: None, .. } => Ok(()),
        }
    }
}

impl Http1Responder {
    async fn head(&mut self, response: &OnwardResponse<'_>) -> Result<(), ClientGone> {
        self.body = BodyWriter::new(response.framing);
        let is_upgrade = response.status == 101;
        self.keeps_alive &= response.framing != Framing::UntilClose;
        let mut ours: Vec<&[u8]> = Vec::new();
        if response.framing == Framing::Chunked {
            ours.push(b"Transfer-Encoding: chunked\r\n");
        }
        if is_upgrade {
            ours.push(b"Connection: Upgrade\r\nUpgrade: websocket\r\n");
        } else if !self.keeps_alive {
            ours.push(b"Connection: close\r\n");
        }
        let head = finished(status_line(response), &response.fields, &ours);
        self.send(&head).await
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), ClientGone> {
        self.has_unflushed = true;
        in_time(self.patience, self.stream.write_all(bytes)).await
    }

    async fn flush(&mut self) -> Result<(), ClientGone> {
        self.has_unflushed = false;
        in_time(self.patience, self.stream.flush()).await
    }
}

async fn in_time(
    patience: Duration,
    sending: impl Future<Output = io::Result<()>>,
) -> Result<(), ClientGone> {
    match timeout(patience, sending).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(ClientGone),
    }
}

fn status_line(response: &OnwardResponse<'_>) -> BytesMut {
    let mut head = BytesMut::with_capacity(1024);
    write!(head, "HTTP/1.1 {} ", response.status).expect("writing to a String cannot fail");
    head.extend_from_slice(response.reason);
    head.extend_from_slice(b"\r\n");
    head
}

fn finished(mut head: BytesMut, fields: &[Field<'_>], ours: &[&[u8]]) -> BytesMut {
    write_fields(
        &mut head,
        fields.iter().map(|(field, value)| (&**field, &**value)),
    );
    for line in ours {
        head.extend_from_slice(line);
    }
    head.extend_from_slice(b"\r\n");
    head
}

fn http2_head(response: &OnwardResponse<'_>) -> Response<()> {
    let mut head = Response::new(());
    *head.status_mut() = http::StatusCode::from_u16(response.status).unwrap_or_default();
    for (field, value) in &response.fields {
        // HTTP/1 was parsed more strictly than these types are.
        if let (Ok(field), Ok(value)) = (
            HeaderName::from_bytes(field),
            HeaderValue::from_bytes(value),
        ) {
            head.headers_mut().append(field, value);
        }
    }
    head
}
