//! A limit on concurrent DNS lookups for each client, so that a client with many lookups delays only itself.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use wayleave_fairness::Holder;

/// The most concurrent lookups for one client. Even if each takes 20 ms, this allows 1,600 a second.
pub(super) const MAX_LOOKUPS_PER_CLIENT: usize = 32;

/// The lookups in progress and waiting, by client.
#[derive(Debug, Default)]
pub(super) struct LookupLimiter(Mutex<HashMap<Holder, Arc<Semaphore>>>);

/// A permit for one lookup, until it is dropped.
#[derive(Debug)]
pub(super) struct LookupPermit<'a> {
    limiter: &'a LookupLimiter,
    client: Holder,
    semaphore: Option<Arc<Semaphore>>,
    permit: Option<OwnedSemaphorePermit>,
}

impl LookupLimiter {
    /// Waits until `client` may start another lookup.
    pub(super) async fn acquire(&self, client: IpAddr) -> Result<LookupPermit<'_>, AcquireError> {
        let client = Holder::of_client(client);
        let new = || Arc::new(Semaphore::new(MAX_LOOKUPS_PER_CLIENT));
        let semaphore = Arc::clone(self.lock().entry(client).or_insert_with(new));
        // Made before the wait, so that a cancelled wait removes its entry, too.
        let mut lookup = LookupPermit {
            limiter: self,
            client,
            semaphore: Some(Arc::clone(&semaphore)),
            permit: None,
        };
        lookup.permit = Some(semaphore.acquire_owned().await?);
        Ok(lookup)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Holder, Arc<Semaphore>>> {
        // No code that may panic leaves the map inconsistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LookupPermit<'_> {
    fn drop(&mut self) {
        // Locked first, so that nobody takes the semaphore while its references are counted.
        let mut all = self.limiter.lock();
        drop((self.permit.take(), self.semaphore.take()));
        if all.get(&self.client).is_some_and(|semaphore| Arc::strong_count(semaphore) == 1) {
            all.remove(&self.client);
        }
    }
}
