//! The stored copies of robots.txt files, as clients get them that request the file itself.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::SystemTime;

use tokio::sync::Mutex;
use wayleave_lifecycle::{FinishedFetch, Resource};

use super::store::RobotsStore;

/// The bytes of copies that are being sent beyond which no further one is read. Clients that read slowly hold them.
const MAX_SENT_BYTES: usize = 32 << 20;

/// The copies that are being sent to clients. All clients of an origin share one.
#[derive(Default)]
pub(super) struct StoredCopies {
    sent: Mutex<HashMap<Resource, Weak<FinishedFetch>>>,
}

impl StoredCopies {
    /// Returns the answer for `resource` in `store` with the body of this SHA-256 that was received or confirmed at `fetched_at`, or later. `None`
    /// if the store has another answer or has failed, or if too much is being sent already.
    pub(super) async fn find(
        &self,
        store: &RobotsStore,
        resource: Resource,
        sha256: &[u8; 32],
        fetched_at: SystemTime,
    ) -> Option<Arc<FinishedFetch>> {
        let is_wanted = |fetch: &Arc<FinishedFetch>| {
            let body = fetch.outcome.body();
            fetch.fetched_at >= fetched_at
                && body.and_then(|body| body.digest.as_deref()) == Some(sha256)
        };
        // Held while the store is read: of a thousand clients that ask at once, one reads the copy for all.
        let mut sent = self.sent.lock().await;
        let shared = sent.get(&resource).and_then(Weak::upgrade);
        if let Some(shared) = shared.filter(is_wanted) {
            return Some(shared);
        }
        sent.retain(|_, copy| copy.strong_count() > 0);
        let bytes: usize = sent.values().filter_map(Weak::upgrade).map(|it| body_bytes(&it)).sum();
        if bytes > MAX_SENT_BYTES {
            return None;
        }
        let entry = store.load(resource.clone()).await?;
        let stored = entry.answer.filter(is_wanted)?;
        // Only clients hold this one: the store may hold its own for longer. They have the same bytes.
        let copy = Arc::new(FinishedFetch::clone(&stored));
        sent.insert(resource, Arc::downgrade(&copy));
        Some(copy)
    }
}

fn body_bytes(answer: &FinishedFetch) -> usize {
    answer.outcome.body().map_or(0, |body| body.bytes.len())
}
