//! Whose turn it is to have a name looked up: a client that asks for many waits for itself, and for nobody else.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use crate::identity::per_client::holder;

/// Names that are looked up at a time for one client. Even where each takes 20 ms, these are 1,600 a second.
pub(super) const MAX_PER_CLIENT: usize = 32;

/// The lookups under way and waiting, by client.
#[derive(Debug, Default)]
pub(super) struct Lookups(Mutex<HashMap<IpAddr, Arc<Semaphore>>>);

/// One lookup's place, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    lookups: &'a Lookups,
    client: IpAddr,
    places: Option<Arc<Semaphore>>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Lookups {
    /// Waits until `client` may have one more name looked up.
    pub(super) async fn turn(&self, client: IpAddr) -> Result<Turn<'_>, AcquireError> {
        let client = holder(client);
        let places = self.places(client);
        // Made before the wait, so that whoever gives it up leaves nothing behind.
        let mut turn = Turn {
            lookups: self,
            client,
            places: Some(Arc::clone(&places)),
            permit: None,
        };
        turn.permit = Some(places.acquire_owned().await?);
        Ok(turn)
    }

    fn places(&self, client: IpAddr) -> Arc<Semaphore> {
        let mut all = self.lock();
        let places = all.entry(client);
        Arc::clone(places.or_insert_with(|| Arc::new(Semaphore::new(MAX_PER_CLIENT))))
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, Arc<Semaphore>>> {
        // Nothing that may panic leaves it half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut all = self.lookups.lock();
        drop((self.permit.take(), self.places.take()));
        if all
            .get(&self.client)
            .is_some_and(|places| Arc::strong_count(places) == 1)
        {
            all.remove(&self.client);
        }
    }
}
