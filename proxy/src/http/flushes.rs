//! A signal for the moment when everything written to a connection has been handed to its socket.

use std::fmt;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

/// A count of the times that a connection had nothing left to write.
#[derive(Default)]
pub(crate) struct FlushSignal {
    count: AtomicU64,
    /// Whether a task waits for the next flush.
    is_awaited: AtomicBool,
    changed: Notify,
}

impl FlushSignal {
    /// Waits until everything written to the connection so far has been flushed.
    pub(crate) async fn wait_for_next(&self) {
        let before = self.count.load(Ordering::SeqCst);
        loop {
            // Registered before the count is read, or a flush in between would be missed.
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            self.is_awaited.store(true, Ordering::SeqCst);
            if self.count.load(Ordering::SeqCst) != before {
                return;
            }
            changed.await;
        }
    }

    fn record(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        // Flushes are frequent and waiting tasks rare, so the lock inside `notify_waiters` is avoided.
        if self.is_awaited.swap(false, Ordering::SeqCst) {
            self.changed.notify_waiters();
        }
    }
}

impl fmt::Debug for FlushSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flushes").finish_non_exhaustive()
    }
}

/// A connection whose flushes are counted.
pub(crate) struct FlushTracking<S> {
    inner: S,
    flushes: Arc<FlushSignal>,
}

impl<S> FlushTracking<S> {
    pub(crate) fn new(inner: S) -> (Self, Arc<FlushSignal>) {
        let flushes = Arc::<FlushSignal>::default();
        let counted = Self {
            inner,
            flushes: Arc::clone(&flushes),
        };
        (counted, flushes)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FlushTracking<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FlushTracking<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.inner).poll_flush(cx))?;
        self.flushes.record();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test]
    async fn waiting_ends_at_the_next_flush() {
        let (near, _far) = tokio::io::duplex(64);
        let (mut counted, flushes) = FlushTracking::new(near);
        counted.flush().await.unwrap();
        let mut next = Box::pin(flushes.wait_for_next());
        assert!((&mut next).now_or_never().is_none());
        counted.write_all(b"a").await.unwrap();
        assert!((&mut next).now_or_never().is_none());
        counted.flush().await.unwrap();
        next.await;
    }
}
