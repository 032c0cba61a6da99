//! The byte stream under every HTTP connection, downstream and upstream.

use std::any::Any;
use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::flush_signal::FlushSignal;

/// A stream of bytes in both directions. `Any`, because TLS inside a tunnel needs the concrete type of the stream below it.
pub trait ByteStream: Any + AsyncRead + AsyncWrite + fmt::Debug + Send + Sync + Unpin {}

impl<S> ByteStream for S where S: Any + AsyncRead + AsyncWrite + fmt::Debug + Send + Sync + Unpin {}

/// A stream over any layers: TCP, TLS, a tunnel inside another connection.
pub type BoxedStream = Box<dyn ByteStream>;

/// A client's stream, with the bytes that were read ahead from it.
#[derive(Debug)]
pub struct BufferedStream {
    pub stream: BoxedStream,
    pub buffered: BytesMut,
}

impl From<BoxedStream> for BufferedStream {
    fn from(stream: BoxedStream) -> Self {
        Self { stream, buffered: BytesMut::new() }
    }
}

/// The size of a read into the stack; most heads of requests are shorter.
const STACK_READ_BYTES: usize = 4096;

/// Appends the next bytes of `stream` to `buffered`, or none at its end. While nothing has arrived, there is no buffer: bytes are
/// read into the stack, and memory is allocated only for those that came.
pub fn poll_append(
    stream: &mut (impl AsyncRead + Unpin),
    buffered: &mut BytesMut,
    context: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    let mut bytes = [MaybeUninit::uninit(); STACK_READ_BYTES];
    let mut read = ReadBuf::uninit(&mut bytes);
    let polled = Pin::new(stream).poll_read(context, &mut read)?;
    if polled.is_pending() && buffered.is_empty() {
        // Frees what was read before, such as the head of the last request.
        *buffered = BytesMut::new();
    }
    ready!(polled);
    buffered.extend_from_slice(read.filled());
    Poll::Ready(Ok(()))
}

/// The most bytes that are held back to be sent in one write: as many as a TLS record holds.
const MAX_GATHERED_BYTES: usize = 16 * 1024;

/// The room for a body after a head, so that a short body does not make the buffer grow.
const SHORT_BODY_BYTES: usize = 2048;

/// The time after which a connection breaks if its peer acknowledges nothing. The timeouts of an exchange do not cover
/// everything: HTTP/2 acknowledges pings, for example, outside any request.
pub const UNACKNOWLEDGED_TIMEOUT: Duration = Duration::from_secs(60);

/// The time without traffic after which the peer's machine is asked for a sign of life, and the time between two questions.
/// Routers forget most connections after minutes, so this also keeps those that are in use, such as a silent WebSocket.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// Sets the options of every socket that may live long: TCP_NODELAY, keepalive, and TCP_USER_TIMEOUT (RFC 5482 section
/// 3.3), after which a connection breaks that acknowledges neither data nor keepalive probes.
pub fn set_tcp_options(tcp: &TcpStream, user_timeout: Duration) -> io::Result<()> {
    tcp.set_nodelay(true)?;
    let socket = SockRef::from(tcp);
    socket.set_tcp_keepalive(&keepalive())?;
    socket.set_tcp_user_timeout(Some(user_timeout))
}

/// Returns the keepalive of all sockets, for libraries that open theirs themselves.
pub fn keepalive() -> TcpKeepalive {
    TcpKeepalive::new().with_time(KEEPALIVE_AFTER).with_interval(KEEPALIVE_INTERVAL)
}

/// A byte stream to one peer. It holds the first small write after a flush, which is a head, until the next write, so
/// that head and body leave in one system call (and, inside TLS, in one record). Later writes pass at once, so that
/// slow bodies stream. Bytes that were read ahead can be put back.
///
/// Idle streams have no buffer, so thousands of them cost only their sockets.
pub struct Transport<S> {
    inner: S,
    /// The bytes that were put back, which are read first.
    buffered: Bytes,
    /// The bytes that are held back for the next write.
    gathered: BytesMut,
    /// Whether the first write after a flush is held back.
    gathers: bool,
    /// Whether the next write is the first after a flush.
    is_next_write_first: bool,
    flush_signal: Option<Arc<FlushSignal>>,
}

impl<S> Transport<S> {
    /// Wraps `inner`.
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            buffered: Bytes::new(),
            gathered: BytesMut::new(),
            gathers: true,
            is_next_write_first: true,
            flush_signal: None,
        }
    }

    /// Returns the wrapped stream.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// Returns the wrapped stream, to be replaced.
    pub fn inner_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Puts `bytes` back, to be read before anything that the peer sends next.
    pub fn with_buffered(mut self, bytes: Bytes) -> Self {
        debug_assert!(self.buffered.is_empty(), "bytes put back twice");
        self.buffered = bytes;
        self
    }

    /// Turns gathering off: for the layer under TLS, since the one above gathers, for connections to origins, whose heads are
    /// flushed at once, and for HTTP/2, which buffers its frames by itself.
    pub fn without_gathering(mut self) -> Self {
        self.gathers = false;
        self
    }

    /// Reports each completed flush to `flush_signal`.
    pub fn with_flush_signal(mut self, flush_signal: Arc<FlushSignal>) -> Self {
        self.flush_signal = Some(flush_signal);
        self
    }
}

impl<S: AsyncWrite + Unpin> Transport<S> {
    fn poll_write_gathered(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.gathered.is_empty() {
            let written = ready!(Pin::new(&mut self.inner).poll_write(cx, &self.gathered))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.gathered.advance(written);
        }
        // Frees the allocation: an idle stream has none.
        self.gathered = BytesMut::new();
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Transport<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.buffered.is_empty() {
            let taken = self.buffered.len().min(buf.remaining());
            buf.put_slice(&self.buffered.split_to(taken));
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Transport<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let is_first_write = std::mem::replace(&mut self.is_next_write_first, false);
        // Most likely a head, followed by its body or by a flush.
        if self.gathers && is_first_write && bytes.len() < MAX_GATHERED_BYTES {
            self.gathered.reserve(bytes.len() + SHORT_BODY_BYTES);
            self.gathered.extend_from_slice(bytes);
            return Poll::Ready(Ok(bytes.len()));
        }
        if !self.gathered.is_empty() && self.gathered.len() + bytes.len() <= MAX_GATHERED_BYTES {
            self.gathered.extend_from_slice(bytes);
            // If the socket is full, the next write or flush continues.
            if let Poll::Ready(Err(error)) = self.poll_write_gathered(cx) {
                return Poll::Ready(Err(error));
            }
            return Poll::Ready(Ok(bytes.len()));
        }
        ready!(self.poll_write_gathered(cx))?;
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if !self.gathers {
            return Pin::new(&mut self.inner).poll_write_vectored(cx, slices);
        }
        // Gathering copies, so nothing is gained from several slices. The caller writes the others next.
        let first = slices.iter().find(|slice| !slice.is_empty());
        self.poll_write(cx, first.map_or(&[], |slice| slice))
    }

    fn is_write_vectored(&self) -> bool {
        !self.gathers && self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_write_gathered(cx))?;
        self.is_next_write_first = true;
        ready!(Pin::new(&mut self.inner).poll_flush(cx))?;
        if let Some(flush_signal) = &self.flush_signal {
            flush_signal.record();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_write_gathered(cx))?;
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

impl<S> fmt::Debug for Transport<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn head_leaves_with_the_start_of_its_body() {
        let (near, mut far) = tokio::io::duplex(64);
        let mut stream = Transport::new(near);
        let mut seen = [0; 16];
        stream.write_all(b"head ").await.unwrap();
        assert!(futures_util::poll!(Box::pin(far.read(&mut seen))).is_pending());
        stream.write_all(b"body").await.unwrap();
        let count = far.read(&mut seen).await.unwrap();
        assert_eq!(&seen[..count], b"head body");
        stream.write_all(b"more").await.unwrap();
        let count = far.read(&mut seen).await.unwrap();
        assert_eq!(&seen[..count], b"more");
        stream.flush().await.unwrap();
        stream.write_all(b"next head").await.unwrap();
        assert!(futures_util::poll!(Box::pin(far.read(&mut seen))).is_pending());
        stream.flush().await.unwrap();
        let count = far.read(&mut seen).await.unwrap();
        assert_eq!(&seen[..count], b"next head");
    }

    #[tokio::test]
    async fn ungathered_writes_pass_at_once() {
        let (near, mut far) = tokio::io::duplex(64);
        let mut stream = Transport::new(near).without_gathering();
        stream.write_all(b"now").await.unwrap();
        let mut seen = [0; 16];
        let count = far.read(&mut seen).await.unwrap();
        assert_eq!(&seen[..count], b"now");
    }

    #[tokio::test]
    async fn put_back_bytes_are_read_first() {
        let (near, mut far) = tokio::io::duplex(64);
        far.write_all(b"second").await.unwrap();
        let mut stream = Transport::new(near).with_buffered(Bytes::from_static(b"first "));
        let mut seen = [0; 12];
        stream.read_exact(&mut seen).await.unwrap();
        assert_eq!(&seen, b"first second");
    }

    #[tokio::test]
    async fn who_waits_for_bytes_holds_no_buffer() {
        let (mut near, mut far) = tokio::io::duplex(64);
        let mut buffered = BytesMut::with_capacity(1024);
        let waiting = futures_util::poll!(poll_fn(|context| {
            poll_append(&mut near, &mut buffered, context)
        }));
        assert!(waiting.is_pending());
        assert_eq!(buffered.capacity(), 0);
        far.write_all(b"head").await.unwrap();
        let waiting = poll_fn(|context| poll_append(&mut near, &mut buffered, context));
        waiting.await.unwrap();
        let waiting = futures_util::poll!(poll_fn(|context| {
            poll_append(&mut near, &mut buffered, context)
        }));
        assert!(waiting.is_pending());
        assert_eq!(buffered, "head");
    }

    #[tokio::test]
    async fn large_write_follows_gathered_bytes() {
        let (near, mut far) = tokio::io::duplex(4 * MAX_GATHERED_BYTES);
        let mut stream = Transport::new(near);
        let large = vec![b'x'; MAX_GATHERED_BYTES];
        stream.write_all(b"small").await.unwrap();
        stream.write_all(&large).await.unwrap();
        stream.flush().await.unwrap();
        let mut seen = vec![0; 5 + MAX_GATHERED_BYTES];
        far.read_exact(&mut seen).await.unwrap();
        assert!(seen.starts_with(b"smallx"));
    }
}
