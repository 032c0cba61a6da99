//! The client's side of one request. Receiving and answering are independent, so that
//! both can be under way at once.

mod body;
mod responder;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;

pub(crate) use self::body::ClientBody;
use self::responder::Http1Responder;
pub(crate) use self::responder::{ClientGone, Field, OnwardResponse, Responder, field};
use super::flushes::Flushes;
use super::http1::{BodyReader, BodyWriter, Framing};
use super::received::HalfClosed;
use super::transport::{Incoming, Stream};

/// A client waiting for its answer.
pub(crate) struct Client {
    pub(crate) body: ClientBody,
    pub(crate) answer: Responder,
    half_closed: HalfClosed,
}

impl Client {
    /// A client of an HTTP/1 connection, whose request's head was read.
    pub(crate) fn http1(
        incoming: Incoming,
        framing: Framing,
        keeps_alive: bool,
        patience: Duration,
    ) -> Self {
        let Incoming { stream, ahead } = incoming;
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
            half_closed: HalfClosed::IsGone,
        }
    }

    /// A client of an HTTP/2 stream.
    pub(crate) fn http2(
        stream: RecvStream,
        respond: SendResponse<Bytes>,
        flushes: Arc<Flushes>,
        patience: Duration,
    ) -> Self {
        let answer = Responder::Http2 {
            respond,
            stream: None,
            patience,
            flushes,
        };
        Self {
            body: ClientBody::Http2 { stream, patience },
            answer,
            half_closed: HalfClosed::IsGone,
        }
    }

    /// The same, taken for this once it ends its side.
    pub(crate) fn taken_for(self, half_closed: HalfClosed) -> Self {
        Self {
            half_closed,
            ..self
        }
    }

    /// What `work` comes to, unless the client leaves before that. Pinned by the caller: taken by value it would stand in this
    /// future twice, and so in that of every exchange.
    pub(crate) async fn while_there<T>(
        &mut self,
        work: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        self.while_not_gone(self.half_closed, work).await
    }

    /// The same, but a client that only ended its side is there.
    pub(crate) async fn while_connected<T>(
        &mut self,
        work: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        self.while_not_gone(HalfClosed::IsThere, work).await
    }

    async fn while_not_gone<T>(
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

    /// The connection, for what comes next on it.
    pub(crate) fn into_next(self) -> Option<Incoming> {
        match (self.body, self.answer) {
            (ClientBody::Http1 { stream, ahead, .. }, Responder::Http1(answer)) => {
                let stream = stream.unsplit(answer.stream);
                Some(Incoming { stream, ahead })
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
        self.into_next().map(|incoming| incoming.stream)
    }
}
