//! A tunnel over one stream of an HTTP/2 connection, as a byte stream (RFC 9113 section 8.5).

use std::fmt;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h2::{Reason, RecvStream, SendStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The DATA of a stream in both directions: END_STREAM closes one direction, a reset breaks both. Dropped before it
/// was shut down, it resets the stream, like a TCP connection that breaks.
pub struct ConnectStream {
    received: RecvStream,
    sent: SendStream<Bytes>,
    /// The rest of the last DATA frame. Its flow-control window reopens only as it is read.
    unread: Bytes,
    is_shut_down: bool,
}

impl ConnectStream {
    pub fn new(received: RecvStream, sent: SendStream<Bytes>) -> Self {
        Self { received, sent, unread: Bytes::new(), is_shut_down: false }
    }
}

impl AsyncRead for ConnectStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.unread.is_empty() {
            match ready!(self.received.poll_data(cx)) {
                Some(chunk) => self.unread = chunk.map_err(connection_reset)?,
                None => return Poll::Ready(Ok(())),
            }
        }
        let taken = self.unread.len().min(buf.remaining());
        buf.put_slice(&self.unread[..taken]);
        self.unread.advance(taken);
        // This fails for a stream that ended, which needs no window.
        let _ = self.received.flow_control().release_capacity(taken);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ConnectStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.sent.reserve_capacity(bytes.len());
        // h2 does not announce capacity that is already available.
        let mut capacity = self.sent.capacity();
        while capacity == 0 {
            capacity = match ready!(self.sent.poll_capacity(cx)) {
                Some(capacity) => capacity.map_err(connection_reset)?,
                None => return Poll::Ready(Err(ErrorKind::BrokenPipe.into())),
            };
        }
        let written = capacity.min(bytes.len());
        let chunk = Bytes::copy_from_slice(&bytes[..written]);
        self.sent.send_data(chunk, false).map_err(connection_reset)?;
        Poll::Ready(Ok(written))
    }

    /// Reports a reset of the stream, and wakes the caller on a later one: after END_STREAM no read would report it.
    /// There is nothing to flush, since h2's connection task sends by itself.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.sent.poll_reset(cx) {
            Poll::Ready(reset) => {
                Poll::Ready(Err(connection_reset(reset.map_or_else(|lost| lost, h2::Error::from))))
            }
            Poll::Pending => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.is_shut_down = true;
        // The stream may have ended already.
        let _ = self.sent.send_data(Bytes::new(), true);
        Poll::Ready(Ok(()))
    }
}

impl Drop for ConnectStream {
    fn drop(&mut self) {
        if !self.is_shut_down {
            self.sent.send_reset(Reason::CONNECT_ERROR);
        }
    }
}

impl fmt::Debug for ConnectStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ConnectStream").field(&self.sent.stream_id()).finish()
    }
}

fn connection_reset(error: h2::Error) -> io::Error {
    io::Error::new(ErrorKind::ConnectionReset, error)
}
