//! The downstream side of one request. Reading and writing are independent, so that both can be in progress at the
//! same time.

mod reader;
mod writer;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;

pub(crate) use self::reader::DownstreamReader;
use self::writer::Http1Writer;
pub(crate) use self::writer::{
    ClientGone, DownstreamResponse, DownstreamWriter, ResponseField, response_field,
};
use super::flush_signal::FlushSignal;
use super::http1::{BodyFraming, BodyReader, BodyWriter};
use super::received::HalfClosePolicy;
use super::transport::{BoxedStream, BufferedStream};

/// A client that waits for the response to its request.
pub(crate) struct Downstream {
    pub(crate) reader: DownstreamReader,
    pub(crate) writer: DownstreamWriter,
    half_close_policy: HalfClosePolicy,
}

impl Downstream {
    /// Takes over an HTTP/1 connection after the head of a request was read.
    pub(crate) fn http1(
        incoming: BufferedStream,
        framing: BodyFraming,
        keeps_alive: bool,
        patience: Duration,
    ) -> Self {
        let BufferedStream { stream, buffered: ahead } = incoming;
        let (read, stream) = tokio::io::split(stream);
        let body = BodyReader::strict(framing);
        Self {
            reader: DownstreamReader::Http1 { stream: read, ahead, body, patience },
            writer: DownstreamWriter::Http1(Http1Writer {
                stream,
                body: BodyWriter::new(BodyFraming::Length(0)),
                timeout: patience,
                keeps_alive,
                has_unflushed: false,
            }),
            half_close_policy: HalfClosePolicy::Gone,
        }
    }

    /// Takes over an HTTP/2 stream.
    pub(crate) fn http2(
        stream: RecvStream,
        respond: SendResponse<Bytes>,
        flushes: Arc<FlushSignal>,
        patience: Duration,
    ) -> Self {
        let writer = DownstreamWriter::Http2 { respond, stream: None, patience, flushes };
        Self {
            reader: DownstreamReader::Http2 { stream, patience },
            writer,
            half_close_policy: HalfClosePolicy::Gone,
        }
    }

    /// Sets what is assumed of the client once it closes its sending side.
    pub(crate) fn with_half_close_policy(self, half_closed: HalfClosePolicy) -> Self {
        Self { half_close_policy: half_closed, ..self }
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
        half_closed: HalfClosePolicy,
        work: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        let leaving = async {
            match half_closed {
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
        matches!(&self.writer, DownstreamWriter::Http1(answer) if answer.keeps_alive)
            && self.reader.is_done()
    }

    /// Returns the HTTP/1 connection for its next request.
    pub(crate) fn into_connection(self) -> Option<BufferedStream> {
        match (self.reader, self.writer) {
            (DownstreamReader::Http1 { stream, ahead, .. }, DownstreamWriter::Http1(answer)) => {
                let stream = stream.unsplit(answer.stream);
                Some(BufferedStream { stream, buffered: ahead })
            }
            _ => None,
        }
    }

    /// Returns both halves of an HTTP/2 stream that was not answered yet.
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
