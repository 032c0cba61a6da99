//! Entries that nodes of a fleet share: how they are written, who fetches, and what came of it.

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

/// zstd's own default.
const LEVEL: i32 = 3;
/// More than the most that `robots.max_size` can be. A length beyond it is not one, and no memory is taken for it.
const LONGEST: usize = 65 << 20;
/// A lease lasts for so much longer than a fetch may take: then whoever has it is gone.
const GRACE: Duration = Duration::from_secs(5);
/// Times that went from node to node are right to within this.
const EXACT: Duration = Duration::from_millis(500);

/// An entry with its body. The times in it are its writer's, and moved by its reader.
#[derive(Serialize, Deserialize)]
struct Whole {
    entry: EntryRecord,
    body: Option<Vec<u8>>,
}

/// What an entry is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Requests wait for it.
    Wanted,
    /// What is known will soon be too old, or could not be confirmed the last time.
    Ahead,
    /// An operator wants it fetched anew.
    Forced,
}

/// What of the fleet's knowledge a node goes by instead of its own.
#[derive(Clone, Copy, Debug)]
pub(super) enum Adopt {
    Newer,
    /// What was asked for after this node asked with this token, though it may have been answered before.
    After(u64),
}

/// What to do about an origin.
pub(super) enum Claim {
    /// Go by this, which is of this version. With a lease if it is this node's own, which the fleet is told of.
    Known(Learned, u64, Option<Lease>),
    /// Fetch.
    Fetch(Lease),
}

/// This node is to tell the fleet what it learned.
pub(super) struct Lease {
    pub(super) token: u64,
    /// What is known so far.
    pub(super) before: Entry,
}

/// The fleet, as far as entries go.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) fleet: Fleet,
    pub(super) clock: Clock,
    pub(super) parser: Parser,
}

impl Shared {
    /// Whether to fetch, where this node has kept `own`.
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
                    // Other nodes may let answers serve for longer.
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
                    let may_serve = token != 0 && purpose == Purpose::Wanted;
                    if may_serve && let Some(learned) = usable(&lease.before).await {
                        return Claim::Known(learned, token, Some(lease));
                    }
                    return Claim::Fetch(lease);
                }
            }
        }
    }

    /// How long ago at most others must have learned what this node is to go by instead of fetching; `None`: whenever that was.
    fn newer_than(&self, own: &Entry, purpose: Purpose) -> Option<Duration> {
        let own_age = touched_at(own).map(|at| self.age(at));
        match purpose {
            // What this node has on disk may be newer than what the engine says that it has.
            Purpose::Wanted => {
                let answered = own.answer.as_ref();
                answered.map(|facts| self.age(facts.fetched_at) + 2 * EXACT)
            }
            Purpose::Ahead => own_age.map(|age| age.saturating_sub(2 * EXACT)),
            Purpose::Forced => Some(Duration::ZERO),
        }
    }

    /// Tells the fleet what was learned, beside.
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

    /// Has the whole fleet forget an origin.
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

    /// What the fleet knows, if it is to be gone by instead of what is `known`.
    pub(super) async fn adoptable(
        &self,
        resource: &Resource,
        (known, version): (&Snapshot, u64),
        adopt: Adopt,
    ) -> Option<(Learned, u64)> {
        let record = self.fleet.record(&resource.to_string()).await?;
        if record.version < version {
            // Somebody put it back.
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

    /// A record, its times as if this node had learned it so long ago.
    fn read(&self, resource: &Resource, record: &Record) -> Option<Entry> {
        let read = read(resource, record, self.clock.now());
        if read.is_none() {
            self.fleet.note_corrupt(&resource.to_string());
        }
        read
    }
}

/// When an origin was last heard of.
fn touched_at(entry: &Entry) -> Option<SystemTime> {
    let answered_at = entry.answer.as_ref().map(|facts| facts.fetched_at);
    let failed_at = entry.failing.as_ref();
    answered_at.max(failed_at.map(|failing| failing.last.fetched_at))
}

/// Whether an entry was learned after what is known, or at about the same time and says something else.
fn is_newer(entry: &Entry, known: &Snapshot) -> bool {
    let Some(at) = touched_at(entry) else {
        return false;
    };
    // That this node could not reach the origin is no reason against what another one was answered.
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

/// Whether nodes that go by one entry need not hear of the other: it confirms it, or says that the origin cannot be reached,
/// which each finds out when its copy is too old.
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
