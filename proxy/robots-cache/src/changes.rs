//! Changes of robots.txt files at their origins.

use std::sync::Arc;

use wayleave_lifecycle::{CacheEntry, FinishedFetch, Resource};
use wayleave_robots_txt::Origin;

/// The most changes that wait to be looked at. Each holds two files.
pub(super) const CHANGES_CAPACITY: usize = 64;

/// A robots.txt that an origin serves otherwise than before, or no longer, or again.
#[derive(Clone, Debug)]
pub struct RobotsChange {
    pub origin: Origin,
    pub before: Arc<FinishedFetch>,
    pub after: Arc<FinishedFetch>,
}

impl RobotsChange {
    /// Returns the change of a document between two entries; none if it is no shared robots.txt, or if one of them has no
    /// answer. A fetch that fails leaves the answer as it was.
    pub(super) fn between(
        resource: &Resource,
        before: &CacheEntry,
        after: &CacheEntry,
    ) -> Option<Self> {
        let before = before.answer.as_ref()?;
        let after = after.answer.as_ref()?;
        if !resource.is_shared_robots_txt() || is_same_version(before, after) {
            return None;
        }
        Some(Self {
            origin: resource.origin().clone(),
            before: Arc::clone(before),
            after: Arc::clone(after),
        })
    }
}

/// Returns whether two answers are one version: the status and, if there is one, the body.
fn is_same_version(before: &FinishedFetch, after: &FinishedFetch) -> bool {
    let version = |answer: &FinishedFetch| {
        let body = answer.outcome.body().map(|body| (Arc::clone(&body.bytes), body.is_cut));
        (answer.outcome.status(), body)
    };
    version(before) == version(after)
}
