//! Parses documents from a fetch, the store or the fleet, away from the threads that serve requests.

use std::sync::Arc;
use std::time::SystemTime;

use wayleave_robots_txt::Kind;
use wayleave_robots_txt::lifecycle::{Entry, FetchOutcome, Learned, Lifetimes, Resource, Snapshot};

use super::snapshots::Published;
use crate::parsing::Parser;

/// Parses an entry of this kind.
pub(super) async fn of(parser: &Parser, kind: Kind, entry: Entry) -> Learned {
    let bytes = body_bytes(&entry);
    parser
        .parse(bytes, move || Learned::of(kind, entry, None))
        .await
}

/// Returns what is known after one more fetch, which ended at `now`; for `before` and `known` see [`Learned::after`].
pub(super) async fn after(
    parser: &Parser,
    kind: Kind,
    (before, known): (Entry, Option<Arc<Snapshot>>),
    outcome: FetchOutcome,
    now: SystemTime,
    lifetimes: Lifetimes,
) -> Learned {
    // A 304 may confirm the earlier body, which is parsed now if it was not before.
    let bytes = outcome.body().map_or(0, |body| body.bytes.len()) + body_bytes(&before);
    let learn = move || {
        let before = (&before, known.as_deref());
        Learned::after(kind, before, outcome, now, &lifetimes)
    };
    parser.parse(bytes, learn).await
}

/// Parses entries read from the store, except those whose body is published already.
pub(super) async fn all(
    parser: &Parser,
    loaded: Vec<(Resource, Option<Entry>)>,
    published: Arc<Published>,
) -> Vec<(Resource, Option<Learned>)> {
    let bytes = loaded.iter().filter_map(|(_, entry)| entry.as_ref());
    let bytes = bytes.map(body_bytes).sum();
    let learn = move |(resource, entry): (Resource, Option<Entry>)| {
        let known = published.snapshot(&resource);
        let kind = resource.kind();
        let learned = entry.map(|entry| Learned::of(kind, entry, known.as_deref()));
        (resource, learned)
    };
    parser
        .parse(bytes, move || loaded.into_iter().map(learn).collect())
        .await
}

/// Returns the length of the body of an entry's answer.
fn body_bytes(entry: &Entry) -> usize {
    let body = entry.answer.as_ref().and_then(|facts| facts.outcome.body());
    body.map_or(0, |body| body.bytes.len())
}
