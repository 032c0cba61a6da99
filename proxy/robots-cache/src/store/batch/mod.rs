//! A write transaction: versions, the order in which they are evicted, and their cost.
//!
//! Everything is counted in two *scopes*: that of all origins, and that of its registered domain, because anybody can
//! make up sub-domains by the million. In both, superseded versions are evicted first, those last seen longest ago
//! before the others, and then whole documents, those contacted longest ago before the others.

mod bodies;
mod bounds;
mod scope;

use std::collections::HashMap;

use redb::{ReadableTable, Table, TableError, WriteTransaction};
use wayleave_lifecycle::Resource;

use self::scope::{ALL, domain, entry_cost, scopes, version_cost};
use super::failure::StoreFailure;
use super::pending::StoreChange;
use super::state_tally::StateTally;
use super::tables::{
    BODIES, BodyDigest, ENTRIES, ORDER, OrderKey, REFERENCES, RetentionLimits, SPENT, VERSIONS,
    decode, encode, versions_range,
};
use crate::record::{EntryRecord, VersionRecord};

/// The ranks in the order of eviction: superseded versions, then whole documents.
const PAST_VERSION: u8 = 0;
const WHOLE_ENTRY: u8 = 1;

pub(super) struct WriteBatch<'txn> {
    entries: Table<'txn, &'static str, &'static [u8]>,
    bodies: Table<'txn, &'static BodyDigest, &'static [u8]>,
    references: Table<'txn, (&'static BodyDigest, &'static str), u64>,
    versions: Table<'txn, (&'static str, u64), &'static [u8]>,
    order: Table<'txn, OrderKey<'static>, ()>,
    spent: Table<'txn, &'static str, u64>,
    /// The scopes whose cost has changed, with the new cost.
    costs: HashMap<String, u64>,
    limits: RetentionLimits,
    /// The entries that came and went, if they are counted.
    pub(super) tally: Option<StateTally>,
    /// The number of records found damaged.
    damaged: usize,
}

impl<'txn> WriteBatch<'txn> {
    pub(super) fn open(
        write: &'txn WriteTransaction,
        limits: RetentionLimits,
    ) -> Result<Self, TableError> {
        Ok(Self {
            entries: write.open_table(ENTRIES)?,
            bodies: write.open_table(BODIES)?,
            references: write.open_table(REFERENCES)?,
            versions: write.open_table(VERSIONS)?,
            order: write.open_table(ORDER)?,
            spent: write.open_table(SPENT)?,
            costs: HashMap::new(),
            limits,
            tally: None,
            damaged: 0,
        })
    }

    /// Stores the new costs. Returns how many records were found damaged, and which entries came and went.
    pub(super) fn finish(mut self) -> Result<(usize, Option<StateTally>), StoreFailure> {
        for (scope, cost) in &self.costs {
            match cost {
                // Removed, or a row would remain of each domain that was ever known.
                0 => drop(self.spent.remove(scope.as_str())?),
                _ => drop(self.spent.insert(scope.as_str(), cost)?),
            }
        }
        Ok((self.damaged, self.tally))
    }

    pub(super) fn apply(
        &mut self,
        resource: &Resource,
        change: &StoreChange,
    ) -> Result<(), StoreFailure> {
        let key = resource.to_string();
        match change {
            StoreChange::Forget => {
                self.drop_entry(&key)?;
                // Without an entry, the newest version is evicted like the superseded ones.
                if let Some((first_seen_at, newest)) = self.newest(&key)? {
                    self.list_past(&key, first_seen_at, newest.last_seen_at)?;
                }
            }
            StoreChange::Save(entry) => {
                let record = EntryRecord::new(resource, entry);
                if let Some((seen_at, version)) = record.version() {
                    let bytes = entry
                        .answer
                        .as_ref()
                        .and_then(|answer| answer.outcome.body())
                        .map(|body| &*body.bytes)
                        .unwrap_or_default();
                    self.note_version(&key, seen_at, &version, bytes)?;
                }
                self.put_entry(&key, &record)?;
            }
        }
        // After each change, so that the limits hold within a large transaction too.
        self.enforce_limit(domain(&key), self.limits.max_domain_bytes)?;
        self.enforce_limit(ALL, self.limits.max_bytes)
    }

    /// Stores an entry in place of the previous one.
    pub(super) fn put_entry(
        &mut self,
        key: &str,
        record: &EntryRecord,
    ) -> Result<(), StoreFailure> {
        self.drop_entry(key)?;
        let sealed = encode(key, record)?;
        self.entries.insert(key, sealed.as_slice())?;
        if let Some(counted) = &mut self.tally {
            counted.add(key, &sealed);
        }
        for scope in scopes(key) {
            let order_key = (scope, WHOLE_ENTRY, record.last_contact_at(), key, 0);
            self.order.insert(order_key, ())?;
            self.charge(scope, entry_cost(key, sealed.len()))?;
        }
        Ok(())
    }

    fn drop_entry(&mut self, key: &str) -> Result<(), StoreFailure> {
        let Some(sealed) = self.entries.remove(key)?.map(|row| row.value().to_vec()) else {
            return Ok(());
        };
        if let Some(counted) = &mut self.tally {
            counted.remove(key, &sealed);
        }
        let record: Option<EntryRecord> = decode(key, &sealed);
        // The position of a damaged record in the order is unknown; it is removed when its turn comes.
        self.damaged += usize::from(record.is_none());
        for scope in scopes(key) {
            if let Some(record) = &record {
                let order_key = (scope, WHOLE_ENTRY, record.last_contact_at(), key, 0);
                self.order.remove(order_key)?;
            }
            self.refund(scope, entry_cost(key, sealed.len()))?;
        }
        Ok(())
    }

    /// Extends the newest version if it is the same, or adds a new one.
    fn note_version(
        &mut self,
        key: &str,
        seen_at: u64,
        version: &VersionRecord,
        bytes: &[u8],
    ) -> Result<(), StoreFailure> {
        match self.newest(key)? {
            Some((first_seen_at, newest))
                if newest.status == version.status && newest.body == version.body =>
            {
                // A forgotten document's newest version is listed as superseded.
                self.unlist_past(key, first_seen_at, newest.last_seen_at)?;
                let sealed = encode(key, version)?;
                self.versions.insert((key, first_seen_at), sealed.as_slice())?;
                match &version.body {
                    Some(body) => self.restore_body(&body.digest, bytes),
                    None => Ok(()),
                }
            }
            Some((first_seen_at, newest)) => {
                self.list_past(key, first_seen_at, newest.last_seen_at)?;
                // Two versions in one millisecond, or a clock that was set back: the order of arrival is kept.
                let first_seen_at = seen_at.max(first_seen_at + 1);
                self.put_version(key, first_seen_at, version, Some(bytes))?;
                self.drop_too_many(key)
            }
            None => self.put_version(key, seen_at, version, Some(bytes)),
        }
    }

    /// Stores a new version; the previously newest one is superseded by it. `bytes` are stored only if they have the
    /// right digest.
    pub(super) fn put_version(
        &mut self,
        key: &str,
        first_seen_at: u64,
        version: &VersionRecord,
        bytes: Option<&[u8]>,
    ) -> Result<(), StoreFailure> {
        if let Some((before, newest)) = self.newest(key)? {
            self.list_past(key, before, newest.last_seen_at)?;
        }
        let sealed = encode(key, version)?;
        self.versions.insert((key, first_seen_at), sealed.as_slice())?;
        for scope in scopes(key) {
            self.charge(scope, version_cost(key))?;
        }
        match &version.body {
            Some(body) => self.add_reference(key, body, bytes),
            None => Ok(()),
        }
    }

    fn newest(&mut self, key: &str) -> Result<Option<(u64, VersionRecord)>, StoreFailure> {
        loop {
            let Some(row) = self.versions.range(versions_range(key))?.next_back() else {
                return Ok(None);
            };
            let (row_key, sealed) = row?;
            let first_seen_at = row_key.value().1;
            let record = decode(key, sealed.value());
            // They borrow the table, from which a damaged record is dropped.
            drop((row_key, sealed));
            match record {
                Some(record) => return Ok(Some((first_seen_at, record))),
                None => self.drop_version(key, first_seen_at)?,
            }
        }
    }

    fn list_past(&mut self, key: &str, first_seen_at: u64, at: u64) -> Result<(), StoreFailure> {
        for scope in scopes(key) {
            let order_key = (scope, PAST_VERSION, at, key, first_seen_at);
            self.order.insert(order_key, ())?;
        }
        Ok(())
    }

    fn unlist_past(&mut self, key: &str, first_seen_at: u64, at: u64) -> Result<(), StoreFailure> {
        for scope in scopes(key) {
            let order_key = (scope, PAST_VERSION, at, key, first_seen_at);
            self.order.remove(order_key)?;
        }
        Ok(())
    }

    /// Returns when the versions of a document were first seen.
    fn first_seen(&self, key: &str) -> Result<Vec<u64>, StoreFailure> {
        let mut times = Vec::new();
        for row in self.versions.range(versions_range(key))? {
            times.push(row?.0.value().1);
        }
        Ok(times)
    }

    /// Drops the oldest versions of a document if there are too many.
    fn drop_too_many(&mut self, key: &str) -> Result<(), StoreFailure> {
        if self.limits.held.includes(key) {
            return Ok(());
        }
        let times = self.first_seen(key)?;
        // At least one, because the entry's body is that of the newest version.
        let most = self.limits.max_versions.max(1);
        for first_seen_at in &times[..times.len().saturating_sub(most)] {
            self.drop_version(key, *first_seen_at)?;
        }
        Ok(())
    }

    fn drop_version(&mut self, key: &str, first_seen_at: u64) -> Result<(), StoreFailure> {
        let row = self.versions.remove((key, first_seen_at))?;
        let Some(sealed) = row.map(|row| row.value().to_vec()) else {
            return Ok(());
        };
        for scope in scopes(key) {
            self.refund(scope, version_cost(key))?;
        }
        let Some(record) = decode::<VersionRecord>(key, &sealed) else {
            // The damaged record does not say which body it had, so the body is not released.
            self.damaged += 1;
            return Ok(());
        };
        self.unlist_past(key, first_seen_at, record.last_seen_at)?;
        match record.body {
            Some(body) => self.drop_reference(key, &body.digest),
            None => Ok(()),
        }
    }
}
