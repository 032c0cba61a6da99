//! Parses documents from a fetch, the store or the fleet, away from the threads that serve requests.

use std::sync::Arc;

use wayleave_lifecycle::{
    CacheEntry, FinishedFetch, LifetimeSettings, ParsedEntry, Resource, Snapshot,
};
use wayleave_usage_preferences::DocumentKind;

use super::snapshots::SnapshotMap;
use crate::parser_pool::ParserPool;

/// Parses an entry of this kind.
pub(super) async fn parse_entry(
    parser: &ParserPool,
    kind: DocumentKind,
    entry: CacheEntry,
) -> ParsedEntry {
    let bytes = body_len(&entry);
    parser.parse(bytes, move || ParsedEntry::parse(kind, entry, None)).await
}

/// Returns the entry after one more fetch; for `before` and `known` see
/// [`ParsedEntry::after_fetch`].
pub(super) async fn parse_fetched(
    parser: &ParserPool,
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
    parser.parse(bytes, learn).await
}

/// Parses entries read from the store, except those whose body is published already.
pub(super) async fn parse_entries(
    parser: &ParserPool,
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
    parser.parse(bytes, move || loaded.into_iter().map(learn).collect()).await
}

/// Returns the length of the body of an entry's answer.
fn body_len(entry: &CacheEntry) -> usize {
    let body = entry.answer.as_ref().and_then(|answer| answer.outcome.body());
    body.map_or(0, |body| body.bytes.len())
}
