//! One transaction that writes: what origins said, in which order it goes when there is too much of it, and what it costs.
//!
//! What is kept is counted twice, in two *scopes*: for all origins together, and for each registered domain, whose
//! sub-domains anybody can make up by the million. In both, the versions that origins no longer hold to go first, the
//! longest unseen before the others, and then whole origins, the longest unheard of before the others.

use std::collections::HashMap;
use std::net::IpAddr;

use redb::{ReadableTable, Table, TableError, WriteTransaction};
use wayleave_policy::lifecycle::Resource;

use super::failure::Failure;
use super::sealed::{pack, unpack};
use super::tables::{
    BODIES, Digest, ENTRIES, Keep, ORDER, Place, REFERENCES, SPENT, VERSIONS, of, read, written,
};
use super::waiting::Change;
use crate::observe::digest::Digest as Sha256;
use crate::robots::record::{BodyRecord, EntryRecord, VersionRecord};

/// What is too old goes so many at a time, beside what is written.
const SWEPT: usize = 64;
/// The scope of all origins.
const ALL: &str = "";
/// The ranks of what is kept: what an origin said before, and the origin.
const PAST: u8 = 0;
const WHOLE: u8 = 1;
/// Bodies above this have pages of their own, of which redb makes a power of two.
const INLINE_BYTES: usize = 1024;
const PAGE_BYTES: usize = 4096;
/// More than a version takes.
const VERSION_BYTES: usize = 80;

pub(super) struct Batch<'txn> {
    entries: Table<'txn, &'static str, &'static [u8]>,
    bodies: Table<'txn, &'static Digest, &'static [u8]>,
    references: Table<'txn, (&'static Digest, &'static str), u64>,
    versions: Table<'txn, (&'static str, u64), &'static [u8]>,
    order: Table<'txn, Place<'static>, ()>,
    spent: Table<'txn, &'static str, u64>,
    /// Scopes whose costs changed, and what they are now.
    costs: HashMap<String, u64>,
    keep: Keep,
    /// Records that were changed on disk.
    damaged: usize,
}

/// Something that can go.
struct Item {
    rank: u8,
    at: u64,
    key: String,
    first_seen_at: u64,
}

impl<'txn> Batch<'txn> {
    pub(super) fn open(write: &'txn WriteTransaction, keep: Keep) -> Result<Self, TableError> {
        Ok(Self {
            entries: write.open_table(ENTRIES)?,
            bodies: write.open_table(BODIES)?,
            references: write.open_table(REFERENCES)?,
            versions: write.open_table(VERSIONS)?,
            order: write.open_table(ORDER)?,
            spent: write.open_table(SPENT)?,
            costs: HashMap::new(),
            keep,
            damaged: 0,
        })
    }

    /// Notes what everything costs now; how many records were found damaged.
    pub(super) fn close(mut self) -> Result<usize, Failure> {
        for (scope, cost) in &self.costs {
            match cost {
                0 => drop(self.spent.remove(scope.as_str())?),
                _ => drop(self.spent.insert(scope.as_str(), cost)?),
            }
        }
        Ok(self.damaged)
    }

    pub(super) fn apply(&mut self, resource: &Resource, change: &Change) -> Result<(), Failure> {
        let key = resource.to_string();
        match change {
            Change::Forget => {
                self.drop_entry(&key)?;
                if let Some((first_seen_at, newest)) = self.newest(&key)? {
                    self.list_past(&key, first_seen_at, newest.last_seen_at)?;
                }
            }
            Change::Save(entry) => {
                let record = EntryRecord::new(resource, entry);
                if let Some((seen_at, version)) = record.version() {
                    let body = entry.answer.as_ref().and_then(|facts| facts.outcome.body());
                    let bytes = body.map(|body| &*body.bytes).unwrap_or_default();
                    self.note_version(&key, seen_at, &version, bytes)?;
                }
                self.put_entry(&key, &record)?;
            }
        }
        self.bound(domain(&key), self.keep.domain_bytes)?;
        self.bound(ALL, self.keep.bytes)
    }

    /// Keeps an entry in the place of what was there.
    pub(super) fn put_entry(&mut self, key: &str, record: &EntryRecord) -> Result<(), Failure> {
        self.drop_entry(key)?;
        let sealed = written(key, record)?;
        self.entries.insert(key, sealed.as_slice())?;
        for scope in scopes(key) {
            let place = (scope, WHOLE, record.touched_at(), key, 0);
            self.order.insert(place, ())?;
            self.charge(scope, entry_cost(key, sealed.len()))?;
        }
        Ok(())
    }

    fn drop_entry(&mut self, key: &str) -> Result<(), Failure> {
        let Some(sealed) = self.entries.remove(key)?.map(|row| row.value().to_vec()) else {
            return Ok(());
        };
        let record: Option<EntryRecord> = read(key, &sealed);
        // Where a damaged one stands in the order is found out when its turn comes.
        self.damaged += usize::from(record.is_none());
        for scope in scopes(key) {
            if let Some(record) = &record {
                let place = (scope, WHOLE, record.touched_at(), key, 0);
                self.order.remove(place)?;
            }
            self.refund(scope, entry_cost(key, sealed.len()))?;
        }
        Ok(())
    }

    /// Lengthens the newest version if it is the same, or begins a new one.
    fn note_version(
        &mut self,
        key: &str,
        seen_at: u64,
        version: &VersionRecord,
        bytes: &[u8],
    ) -> Result<(), Failure> {
        match self.newest(key)? {
            Some((first_seen_at, newest))
                if newest.status == version.status && newest.body == version.body =>
            {
                // After it was forgotten it stands among what was said before.
                self.unlist_past(key, first_seen_at, newest.last_seen_at)?;
                let sealed = written(key, version)?;
                self.versions
                    .insert((key, first_seen_at), sealed.as_slice())?;
                match &version.body {
                    Some(body) => self.mend(&body.digest, bytes),
                    None => Ok(()),
                }
            }
            Some((first_seen_at, newest)) => {
                self.list_past(key, first_seen_at, newest.last_seen_at)?;
                // Two versions in one millisecond, or a clock set back: the order they came in is kept.
                let first_seen_at = seen_at.max(first_seen_at + 1);
                self.put_version(key, first_seen_at, version, Some(bytes))?;
                self.drop_too_many(key)
            }
            None => self.put_version(key, seen_at, version, Some(bytes)),
        }
    }

    /// Keeps a version that was not kept yet; before it, whatever was the newest is one that was said before. A body that is
    /// not `bytes` is not kept.
    pub(super) fn put_version(
        &mut self,
        key: &str,
        first_seen_at: u64,
        version: &VersionRecord,
        bytes: Option<&[u8]>,
    ) -> Result<(), Failure> {
        if let Some((before, newest)) = self.newest(key)? {
            self.list_past(key, before, newest.last_seen_at)?;
        }
        let sealed = written(key, version)?;
        self.versions
            .insert((key, first_seen_at), sealed.as_slice())?;
        for scope in scopes(key) {
            self.charge(scope, version_cost(key))?;
        }
        match &version.body {
            Some(body) => self.refer(key, body, bytes),
            None => Ok(()),
        }
    }

    fn newest(&mut self, key: &str) -> Result<Option<(u64, VersionRecord)>, Failure> {
        loop {
            let Some(row) = self.versions.range(of(key))?.next_back() else {
                return Ok(None);
            };
            let (row_key, sealed) = row?;
            let first_seen_at = row_key.value().1;
            let record = read(key, sealed.value());
            drop((row_key, sealed));
            match record {
                Some(record) => return Ok(Some((first_seen_at, record))),
                None => self.drop_version(key, first_seen_at)?,
            }
        }
    }

    fn list_past(&mut self, key: &str, first_seen_at: u64, at: u64) -> Result<(), Failure> {
        for scope in scopes(key) {
            let place = (scope, PAST, at, key, first_seen_at);
            self.order.insert(place, ())?;
        }
        Ok(())
    }

    fn unlist_past(&mut self, key: &str, first_seen_at: u64, at: u64) -> Result<(), Failure> {
        for scope in scopes(key) {
            let place = (scope, PAST, at, key, first_seen_at);
            self.order.remove(place)?;
        }
        Ok(())
    }

    /// Lets go of an origin's oldest versions if there are too many.
    fn drop_too_many(&mut self, key: &str) -> Result<(), Failure> {
        let mut kept = Vec::new();
        for row in self.versions.range(of(key))? {
            kept.push(row?.0.value().1);
        }
        let too_many = kept.len().saturating_sub(self.keep.versions.max(1));
        for first_seen_at in kept.into_iter().take(too_many) {
            self.drop_version(key, first_seen_at)?;
        }
        Ok(())
    }

    fn drop_version(&mut self, key: &str, first_seen_at: u64) -> Result<(), Failure> {
        let row = self.versions.remove((key, first_seen_at))?;
        let Some(sealed) = row.map(|row| row.value().to_vec()) else {
            return Ok(());
        };
        for scope in scopes(key) {
            self.refund(scope, version_cost(key))?;
        }
        let Some(record) = read::<VersionRecord>(key, &sealed) else {
            // Which body it had is not known any more, which therefore stays.
            self.damaged += 1;
            return Ok(());
        };
        self.unlist_past(key, first_seen_at, record.last_seen_at)?;
        match record.body {
            Some(body) => self.release(key, &body.digest),
            None => Ok(()),
        }
    }

    fn drop_versions(&mut self, key: &str) -> Result<(), Failure> {
        let mut kept = Vec::new();
        for row in self.versions.range(of(key))? {
            kept.push(row?.0.value().1);
        }
        kept.into_iter()
            .try_for_each(|first_seen_at| self.drop_version(key, first_seen_at))
    }

    fn refer(&mut self, key: &str, body: &BodyRecord, bytes: Option<&[u8]>) -> Result<(), Failure> {
        let digest = &body.digest;
        for scope in scopes(key) {
            let before = self.count(digest, scope)?;
            self.references.insert((digest, scope), before + 1)?;
            if before == 0 {
                let cost = self.body_cost(digest)?;
                self.charge(scope, cost)?;
            }
        }
        match bytes {
            Some(bytes) => self.mend(digest, bytes),
            None => Ok(()),
        }
    }

    /// Keeps a body that is referred to, if it is not there: it may be new, or have been dropped because it was damaged.
    fn mend(&mut self, digest: &Digest, bytes: &[u8]) -> Result<(), Failure> {
        if self.bodies.get(digest)?.is_some() {
            return Ok(());
        }
        if Sha256::of(bytes).0 != *digest {
            self.damaged += 1;
            return Ok(());
        }
        let packed = pack(bytes).map_err(Failure::Pack)?;
        self.bodies.insert(digest, packed.as_slice())?;
        for scope in self.holders(digest)? {
            self.charge(&scope, body_cost(packed.len()))?;
        }
        Ok(())
    }

    fn release(&mut self, key: &str, digest: &Digest) -> Result<(), Failure> {
        let cost = self.body_cost(digest)?;
        for scope in scopes(key) {
            match self.count(digest, scope)? {
                before @ 2.. => drop(self.references.insert((digest, scope), before - 1)?),
                _ => {
                    self.references.remove((digest, scope))?;
                    self.refund(scope, cost)?;
                    if scope == ALL {
                        self.bodies.remove(digest)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Drops a damaged body. Those who refer to it get it back when it is fetched again.
    pub(super) fn drop_body(&mut self, digest: &Digest) -> Result<(), Failure> {
        let Some(packed) = self.bodies.get(digest)?.map(|row| row.value().to_vec()) else {
            return Ok(());
        };
        if unpack(&packed, digest).is_some() {
            // It was fetched again meanwhile.
            return Ok(());
        }
        self.bodies.remove(digest)?;
        for scope in self.holders(digest)? {
            self.refund(&scope, body_cost(packed.len()))?;
        }
        Ok(())
    }

    fn count(&self, digest: &Digest, scope: &str) -> Result<u64, Failure> {
        let count = self.references.get((digest, scope))?;
        Ok(count.map_or(0, |count| count.value()))
    }

    /// The scopes in which the body counts.
    fn holders(&self, digest: &Digest) -> Result<Vec<String>, Failure> {
        let mut holders = Vec::new();
        for row in self.references.range((digest, "")..)? {
            let (key, _) = row?;
            let (found, scope) = key.value();
            if found != digest {
                break;
            }
            holders.push(scope.to_owned());
        }
        Ok(holders)
    }

    fn body_cost(&self, digest: &Digest) -> Result<u64, Failure> {
        let packed = self.bodies.get(digest)?;
        Ok(packed.map_or(0, |packed| body_cost(packed.value().len())))
    }

    fn spent(&self, scope: &str) -> Result<u64, Failure> {
        if let Some(cost) = self.costs.get(scope) {
            return Ok(*cost);
        }
        Ok(self.spent.get(scope)?.map_or(0, |cost| cost.value()))
    }

    fn charge(&mut self, scope: &str, cost: u64) -> Result<(), Failure> {
        let spent = self.spent(scope)?.saturating_add(cost);
        self.costs.insert(scope.to_owned(), spent);
        Ok(())
    }

    fn refund(&mut self, scope: &str, cost: u64) -> Result<(), Failure> {
        let spent = self.spent(scope)?.saturating_sub(cost);
        self.costs.insert(scope.to_owned(), spent);
        Ok(())
    }

    /// Lets go of what goes first until the scope costs no more than `bytes`.
    pub(super) fn bound(&mut self, scope: &str, bytes: u64) -> Result<(), Failure> {
        while self.spent(scope)? > bytes {
            match self.first(scope, PAST)? {
                Some(item) => self.evict(&item)?,
                None => break,
            }
        }
        Ok(())
    }

    /// Lets go of some of what is too old.
    pub(super) fn sweep(&mut self) -> Result<(), Failure> {
        let too_old = [
            (PAST, self.keep.versions_since),
            (WHOLE, self.keep.entries_since),
        ];
        for (rank, since) in too_old {
            for _ in 0..SWEPT {
                match self.first(ALL, rank)? {
                    Some(item) if item.rank == rank && item.at < since => self.evict(&item)?,
                    _ => break,
                }
            }
        }
        Ok(())
    }

    /// What goes first of this rank or the next.
    fn first(&self, scope: &str, rank: u8) -> Result<Option<Item>, Failure> {
        let from = (scope, rank, 0, "", 0);
        let Some(row) = self.order.range(from..)?.next() else {
            return Ok(None);
        };
        let (place, _) = row?;
        let (found, rank, at, key, first_seen_at) = place.value();
        Ok((found == scope).then(|| Item {
            rank,
            at,
            key: key.to_owned(),
            first_seen_at,
        }))
    }

    fn evict(&mut self, item: &Item) -> Result<(), Failure> {
        let key = item.key.as_str();
        for scope in scopes(key) {
            let place = (scope, item.rank, item.at, key, item.first_seen_at);
            self.order.remove(place)?;
        }
        if item.rank == PAST {
            return self.drop_version(key, item.first_seen_at);
        }
        let sealed = self.entries.get(key)?.map(|row| row.value().to_vec());
        let touched_at = |sealed: Vec<u8>| Some(read::<EntryRecord>(key, &sealed)?.touched_at());
        // What stood there before it was damaged has been written anew since.
        if sealed.and_then(touched_at).is_some_and(|at| at != item.at) {
            return Ok(());
        }
        self.drop_entry(key)?;
        self.drop_versions(key)
    }
}

/// Where an origin counts.
fn scopes(key: &str) -> [&str; 2] {
    [ALL, domain(key)]
}

/// The registered domain of an origin, by the public suffix list; the whole host if it has none.
fn domain(key: &str) -> &str {
    let authority = key.split_once("://").map_or(key, |(_, rest)| rest);
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => authority.split([':', '/']).next().unwrap_or(authority),
    };
    match host.parse::<IpAddr>() {
        Ok(_) => host,
        Err(_) => psl::domain_str(host).unwrap_or(host),
    }
}

/// What a row costs: B-trees are a half to two thirds full.
fn row_cost(bytes: usize) -> u64 {
    2 * (bytes as u64 + 32)
}

/// An entry, with its two places in the order.
fn entry_cost(key: &str, sealed: usize) -> u64 {
    row_cost(key.len() + sealed) + 2 * row_cost(2 * key.len() + 32)
}

/// A version, with its two places in the order and its two references.
fn version_cost(key: &str) -> u64 {
    row_cost(key.len() + VERSION_BYTES)
        + 2 * row_cost(2 * key.len() + 32)
        + 2 * row_cost(key.len() + 64)
}

fn body_cost(packed: usize) -> u64 {
    match packed {
        0..=INLINE_BYTES => row_cost(packed + 32),
        _ => (packed + 128).next_power_of_two().max(PAGE_BYTES) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sub_domains_count_for_the_domain_that_somebody_registered() {
        for (key, expected) in [
            ("https://a.b.example.com", "example.com"),
            ("http://example.com:8080", "example.com"),
            ("https://a.example.co.uk", "example.co.uk"),
            ("https://someone.github.io", "someone.github.io"),
            ("https://localhost", "localhost"),
            ("https://192.0.2.7:8443", "192.0.2.7"),
            ("https://[2001:db8::1]:8443", "2001:db8::1"),
            ("https://com", "com"),
            (
                "https://a.example.com/.well-known/tdmrep.json",
                "example.com",
            ),
            ("http://[2001:db8::1]/license.xml", "2001:db8::1"),
        ] {
            assert_eq!(domain(key), expected, "{key}");
        }
    }
}
