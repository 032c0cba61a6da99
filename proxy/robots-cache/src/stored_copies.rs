//! The stored copies of robots.txt files, as clients get them that request the file itself.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::SystemTime;

use quick_cache::Weighter;
use quick_cache::unsync::Cache;
use wayleave_lifecycle::{FetchEnding, FinishedFetch, Resource};

use super::store::RobotsStore;

/// The bytes of copies that are being sent beyond which no further one is read. Clients that read slowly hold them.
const MAX_SENT_BYTES: usize = 32 << 20;
/// The most bytes of copies that are kept after they were sent: unpacking one takes longer than sending it.
const MAX_RECENT_BYTES: u64 = 8 << 20;
/// The most heads that are remembered, and the longest validators: those of real files are shorter.
const MAX_HEADS: usize = 4096;
const MAX_VALIDATOR_BYTES: usize = 512;

/// The copies that are being sent to clients. All clients of an origin share one.
pub(super) struct StoredCopies {
    sent: Mutex<HashMap<Resource, Arc<SentCopy>>>,
    recent: Mutex<Cache<Resource, Arc<FinishedFetch>, CopyBytes>>,
    /// The heads of the copies that were read last.
    heads: Mutex<Cache<Resource, Arc<CopyHead>>>,
}

/// The copy of one origin.
#[derive(Default)]
struct SentCopy {
    /// Held while the store is read: of a thousand clients that ask at once, one reads the copy for all.
    reading: Arc<tokio::sync::Mutex<()>>,
    copy: Mutex<Weak<FinishedFetch>>,
}

/// Weighs a copy by the bytes of its body.
#[derive(Clone)]
struct CopyBytes;

impl Weighter<Resource, Arc<FinishedFetch>> for CopyBytes {
    fn weight(&self, _: &Resource, copy: &Arc<FinishedFetch>) -> u64 {
        body_bytes(copy) as u64
    }
}

/// The head of a copy, which is enough for a client that wants no content.
#[derive(Debug)]
pub struct CopyHead {
    /// The copy without the bytes of its body.
    pub fetch: FinishedFetch,
    pub body_bytes: usize,
    /// Whether it is a text that the configuration states, which no origin served.
    pub is_pinned: bool,
}

impl CopyHead {
    pub fn of(copy: &FinishedFetch) -> Self {
        let mut fetch = copy.clone();
        if let FetchEnding::Response(response) = &mut fetch.outcome.ending {
            response.body.bytes = Arc::default();
        }
        Self { fetch, body_bytes: body_bytes(copy), is_pinned: false }
    }

    fn is_short(&self) -> bool {
        self.fetch.outcome.fields().is_none_or(|fields| {
            let texts = [&fields.etag, &fields.last_modified, &fields.cache_control];
            texts.into_iter().flatten().all(|text| text.len() <= MAX_VALIDATOR_BYTES)
        })
    }
}

impl Default for StoredCopies {
    fn default() -> Self {
        Self {
            sent: Mutex::default(),
            recent: Mutex::new(Cache::with_weighter(64, MAX_RECENT_BYTES, CopyBytes)),
            heads: Mutex::new(Cache::new(MAX_HEADS)),
        }
    }
}

impl fmt::Debug for StoredCopies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredCopies").finish_non_exhaustive()
    }
}

impl StoredCopies {
    /// Returns the answer for `resource` in `store` with the body of this SHA-256 that was received or confirmed at
    /// `fetched_at`, or later. `None` if the store has another answer or has failed, or if too much is being sent already.
    pub(super) async fn find(
        &self,
        store: &RobotsStore,
        resource: Resource,
        sha256: &[u8; 32],
        fetched_at: SystemTime,
    ) -> Option<Arc<FinishedFetch>> {
        let place = self.place_of(&resource);
        let _reading = place.reading.lock().await;
        let shared = lock(&place.copy).upgrade();
        if let Some(shared) = shared.filter(|copy| is_wanted(copy, sha256, fetched_at)) {
            // It counts as used, so others are evicted before it.
            let _ = lock(&self.recent).get(&resource);
            return Some(shared);
        }
        if self.sent_bytes() > MAX_SENT_BYTES {
            return None;
        }
        let entry = store.load(resource.clone()).await?;
        let stored = entry.answer.filter(|answer| is_wanted(answer, sha256, fetched_at))?;
        // Only clients hold this one: the store may hold its own for longer. They have the same bytes.
        let copy = Arc::new(FinishedFetch::clone(&stored));
        *lock(&place.copy) = Arc::downgrade(&copy);
        lock(&self.recent).insert(resource.clone(), Arc::clone(&copy));
        let head = CopyHead::of(&copy);
        if head.is_short() {
            lock(&self.heads).insert(resource, Arc::new(head));
        }
        Some(copy)
    }

    /// Returns the head of that answer, if it is remembered.
    pub(super) fn head(
        &self,
        resource: &Resource,
        sha256: &[u8; 32],
        fetched_at: SystemTime,
    ) -> Option<Arc<CopyHead>> {
        let head = lock(&self.heads).get(resource).cloned();
        head.filter(|head| is_wanted(&head.fetch, sha256, fetched_at))
    }

    fn place_of(&self, resource: &Resource) -> Arc<SentCopy> {
        let mut sent = lock(&self.sent);
        if let Some(place) = sent.get(resource) {
            return Arc::clone(place);
        }
        sent.retain(|_, place| {
            Arc::strong_count(place) > 1 || lock(&place.copy).strong_count() > 0
        });
        Arc::clone(sent.entry(resource.clone()).or_default())
    }

    /// Holds an origin's place as the client does that reads its copy.
    #[cfg(test)]
    pub(super) async fn hold_reading(&self, resource: &Resource) -> impl Sized + use<> {
        let place = self.place_of(resource);
        let reading = Arc::clone(&place.reading).lock_owned().await;
        (place, reading)
    }

    fn sent_bytes(&self) -> usize {
        let sent = lock(&self.sent);
        sent.values()
            .filter_map(|place| lock(&place.copy).upgrade())
            .map(|body| body_bytes(&body))
            .sum()
    }
}

/// Returns whether an answer has the body of this SHA-256, and was received or confirmed at `fetched_at` or later.
fn is_wanted(answer: &FinishedFetch, sha256: &[u8; 32], fetched_at: SystemTime) -> bool {
    let body = answer.outcome.body();
    answer.fetched_at >= fetched_at && body.and_then(|body| body.digest.as_deref()) == Some(sha256)
}

fn body_bytes(answer: &FinishedFetch) -> usize {
    answer.outcome.body().map_or(0, |body| body.bytes.len())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
