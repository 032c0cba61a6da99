//! The downstream side of one request. Reading and writing are independent, so that both can be in progress at the
//! same time.

mod reader;
mod response_share;
mod sent_body;
mod writer;

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use wayleave_http_wire::http1::{BodyFraming, BodyReader, BodyWriter};
use wayleave_http_wire::received::HalfClosePolicy;

pub use self::reader::DownstreamReader;
pub use self::response_share::{ClientResponses, ResponseShare, ResponseShares};
pub use self::sent_body::SentBody;
use self::writer::Http1Writer;
pub use self::writer::{
    ClientGone, DownstreamResponse, DownstreamWriter, ResponseField, response_field,
};
use super::flush_signal::FlushSignal;
use super::transport::{BoxedStream, BufferedStream};

/// A client that waits for the response to its request.
pub struct Downstream {
    pub reader: DownstreamReader,
    pub writer: DownstreamWriter,
    /// The part of the request's body that was read.
    pub sent_body: SentBody,
    half_close_policy: HalfClosePolicy,
}

impl Downstream {
    /// Takes over an HTTP/1 connection after the head of a request was read.
    pub fn http1(
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
    pub fn http2(
        stream: RecvStream,
        respond: SendResponse<Bytes>,
        flushes: Arc<FlushSignal>,
        timeout: Duration,
    ) -> Self {
        Self {
            reader: DownstreamReader::Http2 { stream, read_timeout: timeout },
            writer: DownstreamWriter::Http2 {
                respond,
                stream: None,
                write_timeout: timeout,
                flushes,
                share: None,
            },
            sent_body: SentBody::default(),
            half_close_policy: HalfClosePolicy::Gone,
        }
    }

    /// Sets the assumption about a client that closes its sending side.
    pub fn with_half_close_policy(self, half_close_policy: HalfClosePolicy) -> Self {
        Self { half_close_policy, ..self }
    }

    /// Waits until the client may have one more response in progress, as long as it does not leave.
    pub async fn take_share(&mut self, mut share: ResponseShare) -> Option<()> {
        self.run_unless_gone(pin!(share.take())).await?;
        if let DownstreamWriter::Http2 { share: taken, .. } = &mut self.writer {
            *taken = Some(share);
        }
        Some(())
    }

    /// Lets others of the client's requests be sent while this one waits.
    pub fn give_share_back(&mut self) {
        if let Some(share) = self.writer.share() {
            share.give_back();
        }
    }

    /// Ends that.
    pub fn take_share_again(&mut self) {
        if let Some(share) = self.writer.share() {
            share.take_again();
        }
    }

    /// Returns the result of `work`, or `None` if the client leaves first. The caller pins `work`: passed by value it
    /// would take its size twice in this future, and so in that of every exchange.
    pub async fn run_unless_gone<T>(
        &mut self,
        work: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        tokio::select! {
            // Finished work counts even if the client leaves at the same moment.
            biased;
            done = work => Some(done),
            () = self.wait_until_left(self.half_close_policy) => None,
        }
    }

    /// Returns the assumption about a client that closes its sending side.
    pub fn half_close_policy(&self) -> HalfClosePolicy {
        self.half_close_policy
    }

    /// Waits until nobody waits for the response any more.
    pub async fn wait_until_left(&mut self, half_close_policy: HalfClosePolicy) {
        let leaving = async {
            match half_close_policy {
                HalfClosePolicy::StillWaiting => self.reader.wait_until_broken().await,
                // Closed or broken, nobody waits for the response any more.
                HalfClosePolicy::Gone => drop(self.reader.wait_until_closed().await),
            }
        };
        tokio::select! {
            biased;
            () = self.writer.wait_until_reset() => {}
            () = leaving => {}
        }
    }

    /// Returns whether another request may follow on the connection.
    pub fn is_reusable(&self) -> bool {
        matches!(&self.writer, DownstreamWriter::Http1(writer) if writer.keeps_alive)
            && self.reader.is_done()
    }

    /// Returns the HTTP/1 connection for its next request.
    pub fn into_connection(self) -> Option<BufferedStream> {
        match (self.reader, self.writer) {
            (DownstreamReader::Http1 { stream, buffered, .. }, DownstreamWriter::Http1(writer)) => {
                Some(BufferedStream { stream: stream.unsplit(writer.stream), buffered })
            }
            _ => None,
        }
    }

    /// Returns both halves of an HTTP/2 stream that has no response yet.
    pub fn into_http2_halves(self) -> Option<(RecvStream, SendResponse<Bytes>)> {
        match (self.reader, self.writer) {
            (DownstreamReader::Http2 { stream, .. }, DownstreamWriter::Http2 { respond, .. }) => {
                Some((stream, respond))
            }
            _ => None,
        }
    }

    /// Returns the HTTP/1 connection, to be closed gracefully.
    pub fn into_stream(self) -> Option<BoxedStream> {
        self.into_connection().map(|incoming| incoming.stream)
    }
}
