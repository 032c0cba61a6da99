//! Parsing what a fetch, the store or the fleet brought, apart from the threads that serve requests.

use std::sync::Arc;
use std::time::SystemTime;

use wayleave_robots_txt::Kind;
use wayleave_robots_txt::lifecycle::{Entry, FetchOutcome, Learned, Lifetimes, Resource, Snapshot};

use super::snapshots::Published;
use crate::parsing::Parser;

/// Returns what an entry of such a file says.
pub(super) async fn of(parser: &Parser, kind: Kind, entry: Entry) -> Learned {
    let bytes = body_bytes(&entry);
    parser
        .parse(bytes, move || Learned::of(kind, entry, None))
        .await
}

/// Returns what is known after one more fetch, which ended at `now`; `before` and `known` as [`Learned::after`] has them.
pub(super) async fn after(
    parser: &Parser,
    kind: Kind,
    (before, known): (Entry, Option<Arc<Snapshot>>),
    outcome: FetchOutcome,
    now: SystemTime,
    lifetimes: Lifetimes,
) -> Learned {
    // It may have confirmed the body that was there, which is parsed if nobody has.
    let bytes = outcome.body().map_or(0, |body| body.bytes.len()) + body_bytes(&before);
    let learn = move || {
        let before = (&before, known.as_deref());
        Learned::after(kind, before, outcome, now, &lifetimes)
    };
    parser.parse(bytes, learn).await
}

/// Returns what the entries say that were read of the store, unless that is published.
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

/// Returns how long the body is that an entry's answer has.
fn body_bytes(entry: &Entry) -> usize {
    let body = entry.answer.as_ref().and_then(|facts| facts.outcome.body());
    body.map_or(0, |body| body.bytes.len())
}
