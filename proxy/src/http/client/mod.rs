//! The downstream side of one request. Reading and writing are independent, so that both can be in progress at the
//! same time.

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

/// A client that waits for the response to its request.
pub(crate) struct Client {
    pub(crate) body: ClientBody,
    pub(crate) answer: Responder,
    half_closed: HalfClosed,
}

impl Client {
    /// Takes over an HTTP/1 connection after the head of a request was read.
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

    /// Takes over an HTTP/2 stream.
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

    /// Sets what is assumed of the client once it closes its sending side.
    pub(crate) fn taken_for(self, half_closed: HalfClosed) -> Self {
        Self {
            half_closed,
            ..self
        }
    }

    /// Returns the result of `work`, or `None` if the client leaves first. The caller pins `work`: passed by value it
    /// would take its size twice in this future, and so in that of every exchange.
    pub(crate) async fn while_there<T>(
        &mut self,
        work: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        self.while_not_gone(self.half_closed, work).await
    }

    /// Like [`Self::while_there`], but a client that only closed its sending side still counts as present.
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
                // Closed or broken, nobody waits for the response any more.
                HalfClosed::IsGone => drop(self.body.ended().await),
            }
        };
        tokio::select! {
            // Finished work counts even if the client leaves at the same moment.
            biased;
            done = work => Some(done),
            () = self.answer.given_up() => None,
            () = leaving => None,
        }
    }

    /// Returns whether another request may follow on the connection.
    pub(crate) fn may_go_on(&self) -> bool {
        matches!(&self.answer, Responder::Http1(answer) if answer.keeps_alive)
            && self.body.is_done()
    }

    /// Returns the HTTP/1 connection for its next request.
    pub(crate) fn into_next(self) -> Option<Incoming> {
        match (self.body, self.answer) {
            (ClientBody::Http1 { stream, ahead, .. }, Responder::Http1(answer)) => {
                let stream = stream.unsplit(answer.stream);
                Some(Incoming { stream, ahead })
            }
            _ => None,
        }
    }

    /// Returns both halves of an HTTP/2 stream that was not answered yet.
    pub(crate) fn into_http2(self) -> Option<(RecvStream, SendResponse<Bytes>)> {
        match (self.body, self.answer) {
            (ClientBody::Http2 { stream, .. }, Responder::Http2 { respond, .. }) => {
                Some((stream, respond))
            }
            _ => None,
        }
    }

    /// Returns the HTTP/1 connection, to be closed gracefully.
    pub(crate) fn into_stream(self) -> Option<Stream> {
        self.into_next().map(|incoming| incoming.stream)
    }
}
