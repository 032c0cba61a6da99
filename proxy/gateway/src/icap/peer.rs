//! The connection of a peer: bytes in both directions, each within its time.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::error::{IcapError, IcapStatus};
use super::head::{IcapHead, head_end};

/// The longest head of an ICAP message. Those inside it have limits of their own.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// The time for which a connection may be idle: longer than gateways keep theirs.
const IDLE_TIMEOUT: Duration = Duration::from_mins(5);
/// The time that a head may take, with those inside it, once it has begun.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest wait for a part of a body, and for a peer to read.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// The number of bytes read at a time.
const READ_BYTES: usize = 16 * 1024;
/// The most bytes that are read ahead while a peer waits for its answer.
const MAX_READ_AHEAD: usize = 64 * 1024;

/// A peer that is connected.
pub(super) struct IcapPeer<S> {
    stream: S,
    buffered: BytesMut,
    /// The moment by which the present head has to be here.
    head_until: Instant,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> IcapPeer<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, buffered: BytesMut::new(), head_until: Instant::now() }
    }

    /// Reads the next head; `None` if the peer, or this process, wants no more.
    pub(super) async fn next_head(
        &mut self,
        stopping: &CancellationToken,
    ) -> Result<Option<IcapHead>, IcapError> {
        if self.buffered.is_empty() {
            let idle_until = Instant::now() + IDLE_TIMEOUT;
            let read = stopping.run_until_cancelled(self.fill(idle_until)).await;
            // An idle connection ends without a word, however it ends.
            if !matches!(read, Some(Ok(()))) {
                return Ok(None);
            }
        }
        self.head_until = Instant::now() + HEAD_TIMEOUT;
        loop {
            let end = head_end(&self.buffered)?;
            if end.unwrap_or(self.buffered.len()) > MAX_HEAD_BYTES {
                return Err(IcapError::new(IcapStatus::TooLarge, "the head is longer than 16 KiB"));
            }
            if let Some(end) = end {
                return IcapHead::parse(&self.buffered.split_to(end)).map(Some);
            }
            self.fill(self.head_until).await?;
        }
    }

    /// Reads a part of the message inside that has this length.
    pub(super) async fn section(&mut self, length: usize) -> Result<Bytes, IcapError> {
        while self.buffered.len() < length {
            self.fill(self.head_until).await?;
        }
        Ok(self.buffered.split_to(length).freeze())
    }

    /// Returns the bytes that were read, to be taken from the front.
    pub(super) fn buffered(&mut self) -> &mut BytesMut {
        &mut self.buffered
    }

    /// Reads more of a body.
    pub(super) async fn fill_body(&mut self) -> Result<(), IcapError> {
        self.fill(Instant::now() + BODY_TIMEOUT).await
    }

    /// Reads more bytes, at least one.
    async fn fill(&mut self, until: Instant) -> Result<(), IcapError> {
        self.buffered.reserve(READ_BYTES);
        match timeout_at(until, self.stream.read_buf(&mut self.buffered)).await {
            Ok(Ok(0) | Err(_)) => Err(IcapError::Gone),
            Ok(Ok(_)) => Ok(()),
            Err(_) => {
                Err(IcapError::new(IcapStatus::Timeout, "the message did not arrive in time"))
            }
        }
    }

    /// Waits until the peer is gone. Bytes that arrive meanwhile are kept.
    pub(super) async fn wait_until_gone(&mut self) {
        while self.buffered.len() < MAX_READ_AHEAD {
            self.buffered.reserve(READ_BYTES);
            if !matches!(self.stream.read_buf(&mut self.buffered).await, Ok(1..)) {
                return;
            }
        }
        std::future::pending::<()>().await;
    }

    /// Sends bytes, all of which the peer has to take in time.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<(), IcapError> {
        let sending = async {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        };
        let sent = timeout_at(Instant::now() + BODY_TIMEOUT, sending).await;
        if matches!(sent, Ok(Ok(()))) { Ok(()) } else { Err(IcapError::Gone) }
    }

    /// Closes the connection after the peer had time to read its last answer: at once, unread bytes would reset it.
    pub(super) async fn close(mut self) {
        let until = Instant::now() + Duration::from_secs(2);
        let closing = async {
            self.stream.shutdown().await?;
            let mut rest = [0; 4096];
            while self.stream.read(&mut rest).await? > 0 {}
            std::io::Result::Ok(())
        };
        // However it ends, the connection closes now.
        let _ = timeout_at(until, closing).await;
    }
}
