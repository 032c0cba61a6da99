//! A signal for the moment when everything written to a connection has been handed to its socket.

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

/// A count of the times that a connection had nothing left to write.
#[derive(Default)]
pub struct FlushSignal {
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

    /// Reports a completed flush.
    pub(super) fn record(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        // Flushes are frequent and waiting tasks rare, so the lock inside `notify_waiters` is avoided.
        if self.is_awaited.swap(false, Ordering::SeqCst) {
            self.changed.notify_waiters();
        }
    }
}

impl fmt::Debug for FlushSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlushSignal").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt;
    use tokio::io::AsyncWriteExt;

    use super::*;
    use crate::http::transport::Transport;

    #[tokio::test]
    async fn waiting_ends_at_the_next_flush() {
        let (near, _far) = tokio::io::duplex(64);
        let flushes = Arc::<FlushSignal>::default();
        let mut stream = Transport::new(near).with_flush_signal(Arc::clone(&flushes));
        stream.flush().await.unwrap();
        let mut next = Box::pin(flushes.wait_for_next());
        assert!((&mut next).now_or_never().is_none());
        stream.write_all(b"a").await.unwrap();
        assert!((&mut next).now_or_never().is_none());
        stream.flush().await.unwrap();
        next.await;
    }
}
