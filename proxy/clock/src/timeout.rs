//! Timeouts of work that seldom has to wait.

use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use pingora_timeout::Elapsed;

/// Awaits `work` for at most `limit`. The caller pins it: passed by value it would take its size twice in the caller's future.
///
/// pingora's timers are shared between waiters; each of tokio's takes a lock.
///
/// # Errors
///
/// Returns an error if the work is not done in time.
pub async fn timeout<T>(
    limit: Duration,
    mut work: Pin<&mut impl Future<Output = T>>,
) -> Result<T, Elapsed> {
    let mut timer = None;
    poll_fn(|context| {
        if let Poll::Ready(done) = work.as_mut().poll(context) {
            return Poll::Ready(Ok(done));
        }
        // Only now: to make one of pingora's timeouts reads the clock, and nearly all writes are done at once.
        let timer = timer.get_or_insert_with(|| pingora_timeout::timeout(limit, pending()));
        Pin::new(timer).poll(context)
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::pin::pin;

    use super::*;

    #[tokio::test]
    async fn only_work_that_waits_can_be_late() {
        let done = timeout(Duration::ZERO, pin!(ready("done"))).await;
        assert_eq!(done.ok(), Some("done"));
        assert!(timeout(Duration::from_millis(1), pin!(pending::<()>())).await.is_err());
    }
}
