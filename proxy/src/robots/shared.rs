//! Entries that the nodes of a fleet share: their encoding, who fetches, and what a fetch brought.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use wayleave_robots_txt::lifecycle::{Cache, Entry, Learned, Lifetimes, Resource, Snapshot, Use};

use super::fetch::FetchAs;
use super::learning;
use super::record::EntryRecord;
use crate::clock::Clock;
use crate::fleet::engine::{Kind, Record, Settlement};
use crate::fleet::{Claimable, Fleet};
use crate::observe::digest::Digest;
use crate::parsing::Parser;

/// zstd's default compression level.
const LEVEL: i32 = 3;
/// The maximum length of a decoded entry, a little above the highest `robots.max_size`. A greater length is damage,
/// and no
/// memory is allocated for it.
const LONGEST: usize = 65 << 20;
/// The time that a lease outlives the fetch timeout: a node that still holds it then is gone.
const GRACE: Duration = Duration::from_secs(5);
/// The accuracy of times that passed from node to node.
const EXACT: Duration = Duration::from_millis(500);

/// An entry with its body. Its times are those of the writer's clock, and the reader shifts them.
#[derive(Serialize, Deserialize)]
struct Whole {
    entry: EntryRecord,
    body: Option<Vec<u8>>,
}

/// The purpose of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Requests wait for it.
    Wanted,
    /// The cached copy is about to expire, or could not be revalidated the last time.
    Ahead,
    /// An operator asked for a fetch.
    Forced,
}

/// The condition for adopting the fleet's entry instead of the local one.
#[derive(Clone, Copy, Debug)]
pub(super) enum Adopt {
    Newer,
    /// It was fetched by a node that claimed it after this node did with this token, even if its answer came earlier.
    After(u64),
}

/// The result of a claim.
pub(super) enum Claim {
    /// Use this entry, of this version. With a lease if it is this node's own entry, which it has to share with the
    /// fleet.
    Known(Learned, u64, Option<Lease>),
    /// Fetch the document.
    Fetch(Lease),
}

/// The duty to report to the fleet what was learned.
pub(super) struct Lease {
    pub(super) token: u64,
    /// The entry before the fetch.
    pub(super) before: Entry,
}

/// The entries shared by the fleet.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) fleet: Fleet,
    pub(super) clock: Clock,
    pub(super) parser: Parser,
}

impl Shared {
    /// Decides whether this node has to fetch, given its `own` stored entry.
    pub(super) async fn claim(
        &self,
        resource: &Resource,
        own: Entry,
        (purpose, fetch_as): (Purpose, &FetchAs),
        (lifetimes, timeout): (&Lifetimes, Duration),
    ) -> Claim {
        let text = resource.to_string();
        let mut newer_than = self.newer_than(&own, purpose);
        let usable = async |entry: &Entry| {
            let learned = learning::of(&self.parser, resource.kind(), entry.clone()).await;
            let snapshot = Cache::new(lifetimes.clone()).restored(resource, &learned);
            let snapshot = fetch_as.told(&Arc::new(snapshot));
            let is_usable = snapshot.usable(self.clock.now()) == Use::AtOnce;
            is_usable.then_some(learned)
        };
        loop {
            let claimed = self.fleet.claim(&text, newer_than, timeout + GRACE).await;
            match claimed {
                Claimable::Known(record) => {
                    let Some(entry) = self.read(resource, &record) else {
                        let token = 0;
                        return Claim::Fetch(Lease { token, before: own });
                    };
                    if let Some(learned) = usable(&entry).await {
                        return Claim::Known(learned, record.version, None);
                    }
                    // Nodes may be configured with different lifetimes: ask for something newer than the entry that
                    // is too old here.
                    newer_than =
                        Some(self.age(touched_at(&entry).unwrap_or(SystemTime::UNIX_EPOCH)));
                }
                Claimable::Fetch { token, older } => {
                    let older = older.and_then(|record| self.read(resource, &record));
                    let before = match older {
                        Some(older) if touched_at(&older) > touched_at(&own) => older,
                        _ => own,
                    };
                    let lease = Lease { token, before };
                    // A copy from this node's disk that is still fresh is shared instead of fetched again.
                    let may_serve = token != 0 && purpose == Purpose::Wanted;
                    if may_serve && let Some(learned) = usable(&lease.before).await {
                        return Claim::Known(learned, token, Some(lease));
                    }
                    return Claim::Fetch(lease);
                }
            }
        }
    }

    /// Returns the maximum age at which another node's entry is used instead of fetching; `None` means any age.
    fn newer_than(&self, own: &Entry, purpose: Purpose) -> Option<Duration> {
        let own_age = touched_at(own).map(|at| self.age(at));
        match purpose {
            // The entry on this node's disk may be newer than the one that the engine describes.
            Purpose::Wanted => {
                let answered = own.answer.as_ref();
                answered.map(|facts| self.age(facts.fetched_at) + 2 * EXACT)
            }
            Purpose::Ahead => own_age.map(|age| age.saturating_sub(2 * EXACT)),
            Purpose::Forced => Some(Duration::ZERO),
        }
    }

    /// Reports what was learned to the fleet, in a task of its own.
    pub(super) fn settle(
        &self,
        resource: &Resource,
        entry: &Entry,
        snapshot: &Snapshot,
        lease: Lease,
    ) {
        if !self.fleet.is_shared() {
            return;
        }
        let now = self.clock.now();
        let good_until = snapshot.fresh_until().max(snapshot.retry_at());
        let fresh_for = good_until.and_then(|until| until.duration_since(now).ok());
        let (shared, resource, entry) = (self.clone(), resource.clone(), entry.clone());
        tokio::spawn(async move {
            let Some(bytes) = write(&resource, &entry) else {
                return;
            };
            let age = touched_at(&entry).map(|at| shared.age(at));
            let is_same = says_the_same(&lease.before, &entry);
            let settlement = Settlement {
                origin: resource.to_string(),
                token: lease.token,
                kind: if is_same { Kind::Same } else { Kind::Changed },
                record: Record {
                    bytes,
                    age: age.unwrap_or_default(),
                    version: 0,
                },
                fresh_for: fresh_for.unwrap_or_default(),
                keep: shared.fleet.keep(),
            };
            shared.fleet.settle(settlement).await;
        });
    }

    /// Makes the whole fleet forget a document.
    pub(super) async fn forget(&self, resource: &Resource) {
        let settlement = Settlement {
            origin: resource.to_string(),
            token: 0,
            kind: Kind::Forgotten,
            record: Record {
                bytes: Vec::new(),
                age: Duration::ZERO,
                version: 0,
            },
            fresh_for: Duration::ZERO,
            keep: Duration::ZERO,
        };
        self.fleet.settle(settlement).await;
    }

    /// Returns the fleet's entry if it is to replace the `known` one.
    pub(super) async fn adoptable(
        &self,
        resource: &Resource,
        (known, version): (&Snapshot, u64),
        adopt: Adopt,
    ) -> Option<(Learned, u64)> {
        let record = self.fleet.record(&resource.to_string()).await?;
        if record.version < version {
            // An engine that lost data was restored from a backup: its older entry must not replace a newer one.
            self.fleet.note_corrupt(&resource.to_string());
            return None;
        }
        let entry = self.read(resource, &record)?;
        let is_adopted = match adopt {
            Adopt::After(token @ 1..) => record.version > token,
            Adopt::After(0) | Adopt::Newer => is_newer(&entry, known),
        };
        if !is_adopted {
            return None;
        }
        let learned = learning::of(&self.parser, resource.kind(), entry).await;
        Some((learned, record.version))
    }

    fn age(&self, at: SystemTime) -> Duration {
        self.clock.now().duration_since(at).unwrap_or_default()
    }

    /// Decodes a record, with its times relative to this node's clock.
    fn read(&self, resource: &Resource, record: &Record) -> Option<Entry> {
        let read = read(resource, record, self.clock.now());
        if read.is_none() {
            self.fleet.note_corrupt(&resource.to_string());
        }
        read
    }
}

/// Returns when the origin last answered or failed to.
fn touched_at(entry: &Entry) -> Option<SystemTime> {
    let answered_at = entry.answer.as_ref().map(|facts| facts.fetched_at);
    let failed_at = entry.failing.as_ref();
    answered_at.max(failed_at.map(|failing| failing.last.fetched_at))
}

/// Returns whether an entry is newer than the known one, or about as old and different.
fn is_newer(entry: &Entry, known: &Snapshot) -> bool {
    let Some(at) = touched_at(entry) else {
        return false;
    };
    // A failure on this node does not outweigh an answer that another node got.
    let failing_since = known
        .unreachable_since()
        .filter(|_| entry.failing.is_some());
    match known.fetched_at().max(failing_since) {
        None => true,
        Some(known_at) if at + EXACT < known_at => false,
        Some(known_at) => at >= known_at + EXACT || digest(entry) != known.digest().copied(),
    }
}

fn digest(entry: &Entry) -> Option<[u8; 32]> {
    let body = entry.answer.as_ref()?.outcome.body()?;
    body.digest.as_deref().copied()
}

/// Returns whether nodes with one entry can do without the other: it confirms the first, or reports that the origin
/// is
/// unreachable, which each node finds out by itself when its copy has expired.
fn says_the_same(before: &Entry, after: &Entry) -> bool {
    let said = |entry: &Entry| {
        let outcome = &entry.answer.as_ref()?.outcome;
        Some((
            outcome.status(),
            outcome.body().map(|body| body.bytes.clone()),
        ))
    };
    let is_same = said(before) == said(after);
    is_same && (after.failing.is_some() || before.failing.is_none())
}

fn write(resource: &Resource, entry: &Entry) -> Option<Vec<u8>> {
    let body = entry.answer.as_ref().and_then(|facts| facts.outcome.body());
    let entry = EntryRecord::new(resource, entry);
    let body = entry.body().and(body).map(|body| body.bytes.to_vec());
    let whole = postcard::to_stdvec(&Whole { entry, body }).ok()?;
    let mut written = u32::try_from(whole.len()).ok()?.to_be_bytes().to_vec();
    written.extend(zstd::bulk::compress(&whole, LEVEL).ok()?);
    Some(written)
}

fn read(resource: &Resource, record: &Record, now: SystemTime) -> Option<Entry> {
    let (length, packed) = record.bytes.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    if length > LONGEST {
        return None;
    }
    let whole = zstd::bulk::decompress(packed, length).ok()?;
    let Whole { mut entry, body } = postcard::from_bytes(&whole).ok()?;
    let found = body.as_ref().map(|body| Digest::of(body).0);
    if found != entry.body().map(|body| body.digest) {
        return None;
    }
    entry.move_to(now.checked_sub(record.age)?);
    Some(entry.entry(resource, body.map(Into::into)))
}

#[cfg(test)]
mod tests;
