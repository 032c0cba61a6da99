//! The limit on concurrent requests of fetches to the host that is dialled, which a redirect may have named.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The hosts with requests in progress.
#[derive(Default)]
pub(super) struct DialledHosts {
    hosts: Mutex<HashMap<Box<str>, Arc<HostPlaces>>>,
    per_host: usize,
}

/// The places of one host.
struct HostPlaces {
    all: Arc<Semaphore>,
    /// All but one, so that redirects never keep a host's own robots.txt waiting for long.
    redirects: Arc<Semaphore>,
}

/// A place at a host, given back when dropped.
pub(super) struct HostPlace<'a> {
    dialled: &'a DialledHosts,
    host: Box<str>,
    /// Both before the places that they belong to.
    permits: Option<(OwnedSemaphorePermit, Option<OwnedSemaphorePermit>)>,
}

impl DialledHosts {
    /// Returns an empty collection, with this number of places for each host.
    pub(super) fn new(per_host: usize) -> Self {
        Self { hosts: Mutex::default(), per_host: per_host.max(1) }
    }

    /// Waits for a place at `host`, in order of arrival.
    pub(super) async fn enter(&self, host: &str, is_redirected: bool) -> HostPlace<'_> {
        let places = Arc::clone(self.lock().entry(host.into()).or_insert_with(|| {
            let redirects = self.per_host.saturating_sub(1).max(1);
            Arc::new(HostPlaces {
                all: Arc::new(Semaphore::new(self.per_host)),
                redirects: Arc::new(Semaphore::new(redirects)),
            })
        }));
        // Before the wait, so that a waiter that leaves tidies up as well.
        let mut place = HostPlace { dialled: self, host: host.into(), permits: None };
        // The semaphores are never closed, which is the only error.
        let redirect = match is_redirected {
            true => Arc::clone(&places.redirects).acquire_owned().await.ok(),
            false => None,
        };
        let permit = Arc::clone(&places.all).acquire_owned().await.ok();
        drop(places);
        place.permits = permit.map(|permit| (permit, redirect));
        place
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<HostPlaces>>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HostPlace<'_> {
    fn drop(&mut self) {
        let mut hosts = self.dialled.lock();
        self.permits = None;
        // A waiter holds the places, and a permit its semaphore.
        let is_unused = hosts.get(&self.host).is_some_and(|places| {
            Arc::strong_count(places) == 1 && Arc::strong_count(&places.all) == 1
        });
        if is_unused {
            hosts.remove(&self.host);
        }
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
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
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
        assert!(dialled.lock().is_empty());
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
        assert_eq!(dialled.lock().len(), 1);
    }
}
