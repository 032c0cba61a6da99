//! The downstream side of one request. Reading and writing are independent, so that both can be in progress at the
//! same time.

mod reader;
mod sent_body;
mod unread;
mod writer;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use wayleave_http_wire::http1::{BodyFraming, BodyReader, BodyWriter};
use wayleave_http_wire::received::HalfClosePolicy;

pub(crate) use self::reader::DownstreamReader;
pub(crate) use self::sent_body::SentBody;
pub(crate) use self::unread::{UnreadResponses, UnreadShare};
use self::writer::Http1Writer;
pub(crate) use self::writer::{
    ClientGone, DownstreamResponse, DownstreamWriter, ResponseField, response_field,
};
use super::flush_signal::FlushSignal;
use super::transport::{BoxedStream, BufferedStream};

/// A client that waits for the response to its request.
pub(crate) struct Downstream {
    pub(crate) reader: DownstreamReader,
    pub(crate) writer: DownstreamWriter,
    /// What was read of the request's body.
    pub(crate) sent_body: SentBody,
    half_close_policy: HalfClosePolicy,
}

impl Downstream {
    /// Takes over an HTTP/1 connection after the head of a request was read.
    pub(crate) fn http1(
        incoming: BufferedStream,
        framing: BodyFraming,
        keeps_alive: bool,
        timeout: Duration,
    ) -> Self {
        let BufferedStream { stream, buffered } = incoming;
        let (read_half, write_half) = tokio::io::split(stream);
        Self {
            reader: DownstreamReader::Http1 {
                stream: read_half,
                buffered,
                body: BodyReader::strict(framing),
                read_timeout: timeout,
            },
            writer: DownstreamWriter::Http1(Http1Writer {
                stream: write_half,
                // Replaced when the head of the response is sent.
                body: BodyWriter::new(BodyFraming::Length(0)),
                timeout,
                keeps_alive,
                has_unflushed: false,
            }),
            sent_body: SentBody::default(),
            half_close_policy: HalfClosePolicy::Gone,
        }
    }

    /// Takes over an HTTP/2 stream.
    pub(crate) fn http2(
        stream: RecvStream,
        respond: SendResponse<Bytes>,
        flushes: Arc<FlushSignal>,
        unread: UnreadShare,
        timeout: Duration,
    ) -> Self {
        Self {
            reader: DownstreamReader::Http2 { stream, read_timeout: timeout },
            writer: DownstreamWriter::Http2 {
                respond,
                stream: None,
                write_timeout: timeout,
                flushes,
                unread,
            },
            sent_body: SentBody::default(),
            half_close_policy: HalfClosePolicy::Gone,
        }
    }

    /// Sets the assumption about a client that closes its sending side.
    pub(crate) fn with_half_close_policy(self, half_close_policy: HalfClosePolicy) -> Self {
        Self { half_close_policy, ..self }
    }

    /// Returns the result of `work`, or `None` if the client leaves first. The caller pins `work`: passed by value it
    /// would take its size twice in this future, and so in that of every exchange.
    pub(crate) async fn run_unless_gone<T>(
        &mut self,
        work: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        self.run_while(self.half_close_policy, work).await
    }

    /// Like [`Self::run_unless_gone`], but a client that only closed its sending side still counts as present.
    pub(crate) async fn run_while_connected<T>(
        &mut self,
        work: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        self.run_while(HalfClosePolicy::StillWaiting, work).await
    }

    async fn run_while<T>(
        &mut self,
        half_close_policy: HalfClosePolicy,
        work: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        let leaving = async {
            match half_close_policy {
                HalfClosePolicy::StillWaiting => self.reader.wait_until_broken().await,
                // Closed or broken, nobody waits for the response any more.
                HalfClosePolicy::Gone => drop(self.reader.wait_until_closed().await),
            }
        };
        tokio::select! {
            // Finished work counts even if the client leaves at the same moment.
            biased;
            done = work => Some(done),
            () = self.writer.wait_until_reset() => None,
            () = leaving => None,
        }
    }

    /// Returns whether another request may follow on the connection.
    pub(crate) fn is_reusable(&self) -> bool {
        matches!(&self.writer, DownstreamWriter::Http1(writer) if writer.keeps_alive)
            && self.reader.is_done()
    }

    /// Returns the HTTP/1 connection for its next request.
    pub(crate) fn into_connection(self) -> Option<BufferedStream> {
        match (self.reader, self.writer) {
            (DownstreamReader::Http1 { stream, buffered, .. }, DownstreamWriter::Http1(writer)) => {
                Some(BufferedStream { stream: stream.unsplit(writer.stream), buffered })
            }
            _ => None,
        }
    }

    /// Returns both halves of an HTTP/2 stream that has no response yet.
    pub(crate) fn into_http2_halves(self) -> Option<(RecvStream, SendResponse<Bytes>)> {
        match (self.reader, self.writer) {
            (DownstreamReader::Http2 { stream, .. }, DownstreamWriter::Http2 { respond, .. }) => {
                Some((stream, respond))
            }
            _ => None,
        }
    }

    /// Returns the HTTP/1 connection, to be closed gracefully.
    pub(crate) fn into_stream(self) -> Option<BoxedStream> {
        self.into_connection().map(|incoming| incoming.stream)
    }
}
