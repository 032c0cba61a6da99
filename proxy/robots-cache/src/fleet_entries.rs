//! Entries that the nodes of a fleet share: their encoding, who fetches, and the results of fetches.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use wayleave_clock::Clock;
use wayleave_evidence::Sha256Digest;
use wayleave_fairness::WorkPool;
use wayleave_fleet::engine::{RecordChange, Settlement, SharedRecord};
use wayleave_fleet::{ClaimOutcome, Fleet};
use wayleave_lifecycle::{
    CacheEntry, FetchIdentity, LifetimeSettings, ParsedEntry, RefreshScheduler, Resource, Snapshot,
    Usability,
};

use super::parsing;
use super::record::{EntryRecord, FetchesRecord, Provenance, Trailing};

/// zstd's default compression level.
const ZSTD_LEVEL: i32 = 3;
/// The maximum length of a decoded entry, a little above the highest `robots.max_size`. A greater length is damage, and
/// no memory is allocated for it.
const MAX_ENTRY_BYTES: usize = 65 << 20;
/// The time that a lease outlives the fetch timeout: a node that still holds it then is gone.
const LEASE_GRACE: Duration = Duration::from_secs(5);
/// The accuracy of times that passed from node to node.
const CLOCK_TOLERANCE: Duration = Duration::from_millis(500);

/// An entry with its body. Its times are those of the writer's clock, and the reader shifts them.
#[derive(Serialize, Deserialize)]
struct SharedEntry {
    fetches: FetchesRecord,
    body: Option<Vec<u8>>,
    provenance: Trailing<Provenance>,
}

/// The purpose of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FetchPurpose {
    /// Requests wait for it.
    Requested,
    /// The cached copy is about to expire, or could not be revalidated the last time.
    RefreshAhead,
    /// An operator asked for a fetch.
    Forced,
}

/// The condition for adopting the fleet's entry instead of the local one.
#[derive(Clone, Copy, Debug)]
pub(super) enum AdoptionRule {
    Newer,
    /// It was fetched by a node that claimed it after this node did with this token, even if its answer came earlier.
    After(u64),
}

/// The result of a claim.
pub(super) enum ClaimDecision {
    /// Use this entry, of this version. With a lease if it is this node's own entry, which it has to share with the
    /// fleet.
    Known(ParsedEntry, u64, Option<FetchLease>),
    /// Fetch the document.
    Fetch(FetchLease),
}

/// The duty to report the result of a fetch to the fleet.
pub(super) struct FetchLease {
    pub(super) token: u64,
    /// The entry before the fetch.
    pub(super) before: CacheEntry,
}

/// The entries shared by the fleet.
#[derive(Clone)]
pub(super) struct FleetEntries {
    pub(super) fleet: Fleet,
    pub(super) clock: Clock,
    pub(super) parser: WorkPool,
}

impl FleetEntries {
    /// Decides whether this node has to fetch, given its `own` stored entry.
    pub(super) async fn claim(
        &self,
        resource: &Resource,
        own: CacheEntry,
        (purpose, requested_as): (FetchPurpose, Option<&Arc<FetchIdentity>>),
        (lifetimes, timeout): (&LifetimeSettings, Duration),
    ) -> ClaimDecision {
        let text = resource.to_string();
        let mut newer_than = self.max_adoptable_age(&own, purpose);
        let usable = async |entry: &CacheEntry| {
            let learned = parsing::parse_entry(&self.parser, resource.kind(), entry.clone()).await;
            let snapshot = RefreshScheduler::new(lifetimes.clone()).restore(resource, &learned);
            let is_usable = snapshot.usability(self.clock.now()) == Usability::Immediate
                && requested_as.is_none_or(|identity| snapshot.may_be_kept_as(resource, identity));
            is_usable.then_some(learned)
        };
        loop {
            match self.fleet.claim(&text, newer_than, timeout + LEASE_GRACE).await {
                ClaimOutcome::Known(record) => {
                    let Some(entry) = self.decode(resource, &record) else {
                        // Without a lease: claiming again would return the same record.
                        return ClaimDecision::Fetch(FetchLease { token: 0, before: own });
                    };
                    if let Some(learned) = usable(&entry).await {
                        return ClaimDecision::Known(learned, record.version, None);
                    }
                    // Nodes may be configured with different lifetimes: ask for something newer than the entry that is
                    // too old here.
                    newer_than =
                        Some(self.age(last_contact_at(&entry).unwrap_or(SystemTime::UNIX_EPOCH)));
                }
                ClaimOutcome::Fetch { token, older } => {
                    // Validators and the run of failures continue from the newest entry of any node.
                    let before = match older.and_then(|record| self.decode(resource, &record)) {
                        Some(older) if last_contact_at(&older) > last_contact_at(&own) => older,
                        _ => own,
                    };
                    let lease = FetchLease { token, before };
                    // A copy from this node's disk that is still fresh is shared instead of fetched again.
                    let may_serve = token != 0 && purpose == FetchPurpose::Requested;
                    if may_serve && let Some(learned) = usable(&lease.before).await {
                        return ClaimDecision::Known(learned, token, Some(lease));
                    }
                    return ClaimDecision::Fetch(lease);
                }
            }
        }
    }

    /// Returns the maximum age at which another node's entry is used instead of fetching; `None` means any age.
    fn max_adoptable_age(&self, own: &CacheEntry, purpose: FetchPurpose) -> Option<Duration> {
        match purpose {
            // The entry on this node's disk may be newer than the one that the engine describes.
            FetchPurpose::Requested => {
                own.answer.as_ref().map(|answer| self.age(answer.fetched_at) + 2 * CLOCK_TOLERANCE)
            }
            // An entry as old as this node's own would not refresh it.
            FetchPurpose::RefreshAhead => {
                last_contact_at(own).map(|at| self.age(at).saturating_sub(2 * CLOCK_TOLERANCE))
            }
            FetchPurpose::Forced => Some(Duration::ZERO),
        }
    }

    /// Reports a result to the fleet, in a task of its own.
    pub(super) fn report(
        &self,
        resource: &Resource,
        entry: &CacheEntry,
        snapshot: &Snapshot,
        lease: FetchLease,
    ) {
        if !self.fleet.is_shared() {
            return;
        }
        let now = self.clock.now();
        // Without a failure in the entry, this node postponed its attempt: other nodes need not.
        let backed_off_until = entry.failures.as_ref().and(snapshot.retry_at());
        let fresh_for = snapshot
            .fresh_until()
            .max(backed_off_until)
            .and_then(|until| until.duration_since(now).ok());
        let shared = self.clone();
        let resource = resource.clone();
        let entry = entry.clone();
        // The refresh task serves every origin, so it must not wait for the engine.
        tokio::spawn(async move {
            let Some(bytes) = encode(&resource, &entry) else {
                return;
            };
            let age = last_contact_at(&entry).map(|at| shared.age(at));
            let is_same = is_unchanged(&lease.before, &entry);
            let settlement = Settlement {
                origin: resource.to_string(),
                token: lease.token,
                change: if is_same { RecordChange::Same } else { RecordChange::Changed },
                record: SharedRecord { bytes, age: age.unwrap_or_default(), version: 0 },
                fresh_for: fresh_for.unwrap_or_default(),
                retention: shared.fleet.retention(),
            };
            shared.fleet.settle(settlement).await;
        });
    }

    /// Makes the whole fleet forget a document.
    pub(super) async fn forget(&self, resource: &Resource) {
        let settlement = Settlement {
            origin: resource.to_string(),
            token: 0,
            change: RecordChange::Forgotten,
            record: SharedRecord { bytes: Vec::new(), age: Duration::ZERO, version: 0 },
            fresh_for: Duration::ZERO,
            retention: Duration::ZERO,
        };
        self.fleet.settle(settlement).await;
    }

    /// Returns the fleet's entry if it is to replace the `known` one.
    pub(super) async fn find_adoptable(
        &self,
        resource: &Resource,
        (known, version): (&Snapshot, u64),
        rule: AdoptionRule,
    ) -> Option<(ParsedEntry, u64)> {
        let record = self.fleet.record(&resource.to_string()).await?;
        if record.version < version {
            // An engine that lost data was restored from a backup: its older entry must not replace a newer one.
            self.fleet.note_corrupt(&resource.to_string());
            return None;
        }
        let entry = self.decode(resource, &record)?;
        // A node that postponed the first fetch learned nothing.
        last_contact_at(&entry)?;
        let is_adopted = match rule {
            AdoptionRule::After(token @ 1..) => record.version > token,
            AdoptionRule::After(0) | AdoptionRule::Newer => is_newer(&entry, known),
        };
        if !is_adopted {
            return None;
        }
        let learned = parsing::parse_entry(&self.parser, resource.kind(), entry).await;
        Some((learned, record.version))
    }

    fn age(&self, at: SystemTime) -> Duration {
        self.clock.now().duration_since(at).unwrap_or_default()
    }

    /// Decodes a record, with its times relative to this node's clock.
    fn decode(&self, resource: &Resource, record: &SharedRecord) -> Option<CacheEntry> {
        let read = decode(resource, record, self.clock.now());
        if read.is_none() {
            self.fleet.note_corrupt(&resource.to_string());
        }
        read
    }
}

/// Returns when the origin last answered or failed to.
fn last_contact_at(entry: &CacheEntry) -> Option<SystemTime> {
    let answered_at = entry.answer.as_ref().map(|answer| answer.fetched_at);
    answered_at.max(entry.failures.as_ref().map(|failing| failing.last.fetched_at))
}

/// Returns whether an entry is newer than the known one, or about as old and different.
fn is_newer(entry: &CacheEntry, known: &Snapshot) -> bool {
    let Some(at) = last_contact_at(entry) else {
        return false;
    };
    // A failure on this node does not outweigh an answer that another node got.
    let failing_since = known.unreachable_since().filter(|_| entry.failures.is_some());
    match known.fetched_at().max(failing_since) {
        None => true,
        Some(known_at) if at + CLOCK_TOLERANCE < known_at => false,
        Some(known_at) => {
            at >= known_at + CLOCK_TOLERANCE || digest(entry) != known.digest().copied()
        }
    }
}

fn digest(entry: &CacheEntry) -> Option<[u8; 32]> {
    let body = entry.answer.as_ref()?.outcome.body()?;
    body.digest.as_deref().copied()
}

/// Returns whether nodes with one entry can do without the other: it confirms the first, or reports that the origin is
/// unreachable, which each node finds out by itself when its copy has expired.
fn is_unchanged(before: &CacheEntry, after: &CacheEntry) -> bool {
    let content = |entry: &CacheEntry| {
        let outcome = &entry.answer.as_ref()?.outcome;
        Some((outcome.status(), outcome.body().map(|body| body.bytes.clone())))
    };
    content(before) == content(after) && (after.failures.is_some() || before.failures.is_none())
}

fn encode(resource: &Resource, entry: &CacheEntry) -> Option<Vec<u8>> {
    let record = EntryRecord::new(resource, entry);
    let body = entry.answer.as_ref().and_then(|answer| answer.outcome.body());
    // Only a body that the record refers to, or the reader would take the record for damaged.
    let body = record.body().and(body).map(|body| body.bytes.to_vec());
    let EntryRecord { fetches, provenance } = record;
    let whole = postcard::to_stdvec(&SharedEntry { fetches, body, provenance }).ok()?;
    let mut written = u32::try_from(whole.len()).ok()?.to_be_bytes().to_vec();
    written.extend(zstd::bulk::compress(&whole, ZSTD_LEVEL).ok()?);
    Some(written)
}

fn decode(resource: &Resource, record: &SharedRecord, now: SystemTime) -> Option<CacheEntry> {
    let (length, packed) = record.bytes.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    if length > MAX_ENTRY_BYTES {
        return None;
    }
    let whole = zstd::bulk::decompress(packed, length).ok()?;
    let SharedEntry { fetches, body, provenance } = postcard::from_bytes(&whole).ok()?;
    let mut entry = EntryRecord { fetches, provenance };
    let found = body.as_ref().map(|body| Sha256Digest::of(body).0);
    if found != entry.body().map(|body| body.digest) {
        return None;
    }
    entry.shift_to(now.checked_sub(record.age)?);
    Some(entry.into_entry(resource, body.map(Into::into)))
}

#[cfg(test)]
mod tests;
