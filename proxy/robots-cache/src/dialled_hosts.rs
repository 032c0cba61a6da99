//! The limit on concurrent requests of fetches to the host that is dialled, which a redirect may have named.

use futures_util::future::OptionFuture;
use wayleave_fairness::{KeyedPermit, KeyedSemaphores};

/// The places of hosts with requests in progress.
pub(super) struct DialledHosts {
    all: KeyedSemaphores<Box<str>>,
    /// All but one, so that redirects never keep a host's own robots.txt waiting for long.
    redirects: KeyedSemaphores<Box<str>>,
}

/// A place at a host, given back when dropped.
pub(super) struct HostPlace {
    _of_redirects: Option<KeyedPermit<Box<str>>>,
    _of_all: KeyedPermit<Box<str>>,
}

impl DialledHosts {
    /// Returns an empty collection, with this number of places for each host.
    pub(super) fn new(per_host: usize) -> Self {
        Self {
            all: KeyedSemaphores::new(per_host.max(1)),
            redirects: KeyedSemaphores::new(per_host.saturating_sub(1).max(1)),
        }
    }

    /// Waits for a place at `host`, in order of arrival.
    pub(super) async fn enter(&self, host: &str, is_redirected: bool) -> HostPlace {
        let redirected = is_redirected.then(|| self.redirects.acquire(host.into()));
        let of_redirects = OptionFuture::from(redirected).await;
        HostPlace { _of_redirects: of_redirects, _of_all: self.all.acquire(host.into()).await }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use futures_util::future::join_all;
    use tokio::time::{Instant, sleep, timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_host_has_four_places_and_redirects_leave_one() {
        let dialled = DialledHosts::new(4);
        let now = AtomicUsize::new(0);
        let most = AtomicUsize::new(0);
        let visit = async |is_redirected| {
            let _place = dialled.enter("victim.test", is_redirected).await;
            most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            sleep(Duration::from_secs(1)).await;
            now.fetch_sub(1, Ordering::Relaxed);
        };
        let started = Instant::now();
        let own = async {
            visit(false).await;
            started.elapsed()
        };
        let (_, took) = tokio::join!(join_all((0..30).map(|_| visit(true))), own);
        assert_eq!(most.load(Ordering::Relaxed), 4);
        assert_eq!(took, Duration::from_secs(1), "the host's own fetch does not queue behind");
        assert_eq!(started.elapsed(), Duration::from_secs(10));
        assert!(dialled.all.is_empty() && dialled.redirects.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiter_that_leaves_takes_no_place() {
        let dialled = DialledHosts::new(1);
        let first = dialled.enter("victim.test", true).await;
        let waiting = timeout(Duration::from_secs(1), dialled.enter("victim.test", true)).await;
        assert!(waiting.is_err());
        let _elsewhere = dialled.enter("other.test", true).await;
        drop(first);
        let second = timeout(Duration::from_secs(1), dialled.enter("victim.test", false)).await;
        drop(second.expect("it is free"));
        assert_eq!((dialled.all.len(), dialled.redirects.len()), (1, 1));
    }
}
