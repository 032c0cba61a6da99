//! Timeouts of work that seldom has to wait.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Sleep;

/// Says that work was not done in time.
#[derive(Debug)]
pub struct TimedOut;

/// Awaits `work` for at most `limit`. The caller pins it: passed by value it would take its size twice in the caller's future.
///
/// pingora's timers are shared between waiters, but a thread turns them, a hundred times a second, whether anybody waits or not.
///
/// # Errors
///
/// Returns an error if the work is not done in time.
pub async fn timeout<T>(
    limit: Duration,
    mut work: Pin<&mut impl Future<Output = T>>,
) -> Result<T, TimedOut> {
    let mut timer: Option<Pin<Box<Sleep>>> = None;
    poll_fn(|context| {
        if let Poll::Ready(done) = work.as_mut().poll(context) {
            return Poll::Ready(Ok(done));
        }
        // Only now: it takes a lock, and nearly all writes are done at once.
        let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        timer.as_mut().poll(context).map(|()| Err(TimedOut))
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::pin::pin;

    use super::*;

    #[tokio::test]
    async fn only_work_that_waits_can_be_late() {
        let done = timeout(Duration::ZERO, pin!(ready("done"))).await;
        assert_eq!(done.ok(), Some("done"));
        assert!(timeout(Duration::from_millis(1), pin!(pending::<()>())).await.is_err());
    }
}
