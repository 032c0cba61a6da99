//! A semaphore for each key, such as a client or a host.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A semaphore for each key, with the same number of permits. Keys that are not in use take no memory.
#[derive(Clone, Debug)]
pub struct KeyedSemaphores<K> {
    permits: usize,
    in_use: Arc<Mutex<HashMap<K, Arc<Semaphore>>>>,
}

/// The semaphore of one key, which is in use until it is dropped.
#[derive(Debug)]
pub struct KeyedSemaphore<K: Eq + Hash> {
    all: KeyedSemaphores<K>,
    key: K,
    semaphore: Option<Arc<Semaphore>>,
}

/// A permit of one key, given back when dropped.
#[derive(Debug)]
pub struct KeyedPermit<K: Eq + Hash> {
    // Dropped before the semaphore, which is then free of it.
    _permit: OwnedSemaphorePermit,
    _semaphore: KeyedSemaphore<K>,
}

impl<K: Clone + Eq + Hash> KeyedSemaphores<K> {
    /// Creates semaphores with this number of permits for each key.
    #[must_use]
    pub fn new(permits: usize) -> Self {
        Self { permits, in_use: Arc::default() }
    }

    /// Returns the semaphore of `key`.
    #[must_use]
    pub fn of(&self, key: K) -> KeyedSemaphore<K> {
        let new = || Arc::new(Semaphore::new(self.permits));
        let semaphore = Arc::clone(self.lock().entry(key.clone()).or_insert_with(new));
        KeyedSemaphore { all: self.clone(), key, semaphore: Some(semaphore) }
    }

    /// Waits for a permit of `key`, in order of arrival.
    pub async fn acquire(&self, key: K) -> KeyedPermit<K> {
        let semaphore = self.of(key);
        KeyedPermit { _permit: semaphore.acquire().await, _semaphore: semaphore }
    }

    /// Returns a permit of `key` if one is free.
    #[must_use]
    pub fn try_acquire(&self, key: K) -> Option<KeyedPermit<K>> {
        let semaphore = self.of(key);
        Some(KeyedPermit { _permit: semaphore.try_acquire()?, _semaphore: semaphore })
    }
}

impl<K: Eq + Hash> KeyedSemaphore<K> {
    /// Waits for a permit, in order of arrival.
    pub async fn acquire(&self) -> OwnedSemaphorePermit {
        self.semaphore().acquire_owned().await.expect("none is ever closed")
    }

    /// Returns a permit if one is free.
    #[must_use]
    pub fn try_acquire(&self) -> Option<OwnedSemaphorePermit> {
        self.semaphore().try_acquire_owned().ok()
    }

    fn semaphore(&self) -> Arc<Semaphore> {
        Arc::clone(self.semaphore.as_ref().expect("it is there until this is dropped"))
    }
}

impl<K> KeyedSemaphores<K> {
    /// Returns the number of keys in use.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Returns whether no key is in use.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, Arc<Semaphore>>> {
        // No code that may panic leaves the map inconsistent.
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash> Drop for KeyedSemaphore<K> {
    fn drop(&mut self) {
        // Locked first, so that nobody takes the semaphore while its references are counted.
        let mut in_use = self.all.lock();
        self.semaphore = None;
        if in_use.get(&self.key).is_some_and(|semaphore| Arc::strong_count(semaphore) == 1) {
            in_use.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    #[tokio::test]
    async fn each_key_has_its_permits_and_a_cancelled_wait_leaves_nothing() {
        let semaphores = KeyedSemaphores::new(1);
        let held = semaphores.acquire('a').await;
        let other = semaphores.acquire('b').await;
        let mut context = Context::from_waker(Waker::noop());
        let mut waiting = Box::pin(semaphores.acquire('a'));
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        drop(held);
        // It is passed the permit, and leaves before it notices.
        drop(waiting);
        assert_eq!(semaphores.len(), 1);
        drop(other);
        assert!(semaphores.is_empty());
    }

    #[test]
    fn a_permit_is_taken_if_one_is_free() {
        let semaphores = KeyedSemaphores::new(2);
        let held = [semaphores.try_acquire('a'), semaphores.try_acquire('a')];
        assert!(held.iter().all(Option::is_some));
        assert!(semaphores.try_acquire('a').is_none() && semaphores.try_acquire('b').is_some());
        drop(held);
        assert!(semaphores.is_empty());
    }
}
