//! Parses documents from a fetch, the store or the fleet, away from the threads that serve requests.

use std::sync::Arc;

use wayleave_fairness::{Holder, WorkPool};
use wayleave_lifecycle::{
    CacheEntry, FinishedFetch, LifetimeSettings, ParsedEntry, Resource, Snapshot,
};
use wayleave_usage_preferences::DocumentKind;

use super::snapshots::SnapshotMap;

/// Parses an entry of this kind.
pub(super) async fn parse_entry(
    parser: &WorkPool,
    kind: DocumentKind,
    entry: CacheEntry,
) -> ParsedEntry {
    let bytes = body_len(&entry);
    parser
        .run(Holder::OWN, WorkPool::time_to_read(bytes), move || {
            ParsedEntry::parse(kind, entry, None)
        })
        .await
}

/// Returns the entry after one more fetch; for `before` and `known` see
/// [`ParsedEntry::after_fetch`].
pub(super) async fn parse_fetched(
    parser: &WorkPool,
    kind: DocumentKind,
    (before, known): (CacheEntry, Option<Arc<Snapshot>>),
    finished: FinishedFetch,
    lifetimes: LifetimeSettings,
) -> ParsedEntry {
    // A 304 may confirm the earlier body, which is parsed now if it was not before.
    let bytes = finished.outcome.body().map_or(0, |body| body.bytes.len()) + body_len(&before);
    let learn = move || {
        let before = (&before, known.as_deref());
        ParsedEntry::after_fetch(kind, before, finished, &lifetimes)
    };
    parser.run(Holder::OWN, WorkPool::time_to_read(bytes), learn).await
}

/// Parses entries read from the store, except those whose body is published already.
pub(super) async fn parse_entries(
    parser: &WorkPool,
    loaded: Vec<(Resource, Option<CacheEntry>)>,
    published: Arc<SnapshotMap>,
) -> Vec<(Resource, Option<ParsedEntry>)> {
    let bytes = loaded.iter().filter_map(|(_, entry)| entry.as_ref()).map(body_len).sum();
    let learn = move |(resource, entry): (Resource, Option<CacheEntry>)| {
        // A document that is refreshed is still in memory, so its body need not be parsed again.
        let known = published.snapshot(&resource);
        let kind = resource.kind();
        let learned = entry.map(|entry| ParsedEntry::parse(kind, entry, known.as_deref()));
        (resource, learned)
    };
    let all = move || loaded.into_iter().map(learn).collect();
    parser.run(Holder::OWN, WorkPool::time_to_read(bytes), all).await
}

/// Returns the length of the body of an entry's answer.
fn body_len(entry: &CacheEntry) -> usize {
    let body = entry.answer.as_ref().and_then(|answer| answer.outcome.body());
    body.map_or(0, |body| body.bytes.len())
}
