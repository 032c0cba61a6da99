//! The store's tables, and the reads from them.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeInclusive};
use std::sync::Arc;

use redb::{
    Database, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition,
    WriteTransaction,
};
use wayleave_evidence::holds::Hold;
use wayleave_evidence::holds_in_effect::HoldsInEffect;
use wayleave_lifecycle::{CacheEntry, Resource};
use wayleave_robots_txt::Origin;

use super::failure::StoreFailure;
use super::sealed::{seal, unpack, unseal};
use crate::record::{EntryRecord, VersionRecord};

/// The SHA-256 of a body.
pub(super) type BodyDigest = [u8; 32];

pub(super) const HEAD: TableDefinition<'_, &str, u64> = TableDefinition::new("head");
/// Resource → sealed entry.
pub(super) const ENTRIES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("entries");
/// Digest → compressed body.
pub(super) const BODIES: TableDefinition<'_, &BodyDigest, &[u8]> = TableDefinition::new("packed");
/// Digest and scope → number of versions in the scope that have this body.
pub(super) const REFERENCES: TableDefinition<'_, (&BodyDigest, &str), u64> =
    TableDefinition::new("scoped references");
/// Resource and time first seen → sealed version.
pub(super) const VERSIONS: TableDefinition<'_, (&str, u64), &[u8]> =
    TableDefinition::new("versions");
/// Scope, rank, time last seen, resource, time first seen: in the order of eviction.
pub(super) const ORDER: TableDefinition<'_, OrderKey<'static>, ()> = TableDefinition::new("order");
/// Scope → bytes on disk that its rows cost.
pub(super) const SPENT: TableDefinition<'_, &str, u64> = TableDefinition::new("spent");

pub(super) type OrderKey<'a> = (&'a str, u8, u64, &'a str, u64);

/// The limits on kept entries.
#[derive(Debug)]
pub(super) struct RetentionLimits {
    /// Versions (except the newest of each document) and entries last seen before these times are dropped. In
    /// milliseconds.
    pub(super) versions_not_before: u64,
    pub(super) entries_not_before: u64,
    /// The maximum number of versions of one document.
    pub(super) max_versions: usize,
    /// The most bytes on disk of all rows, and of those of one registered domain.
    pub(super) max_bytes: u64,
    pub(super) max_domain_bytes: u64,
    pub(super) held: HeldDocuments,
}

/// The documents that no limit drops.
#[derive(Debug)]
pub(super) enum HeldDocuments {
    /// The documents of hosts that these holds are about.
    Of(Vec<Hold>),
    /// All documents: a hold cannot be read.
    All,
}

impl HeldDocuments {
    /// Reads the holds in effect; none for a store in memory.
    pub(super) fn read(holds: Option<&mut HoldsInEffect>) -> Self {
        match holds.map_or_else(|| Ok(Vec::new()), HoldsInEffect::read) {
            Ok(holds) => Self::Of(holds),
            Err(error) => {
                let error = format!("{error:#}");
                tracing::error!(error, "a hold cannot be read: no robots.txt is deleted");
                Self::All
            }
        }
    }

    /// Returns whether the document with this key is held.
    pub(super) fn includes(&self, key: &str) -> bool {
        match self {
            Self::All => true,
            Self::Of(holds) if holds.is_empty() => false,
            Self::Of(holds) => {
                let resource = Resource::parse_key(key);
                let host = resource.as_ref().map_or("", |resource| resource.origin().host());
                holds.iter().any(|hold| hold.is_about(host))
            }
        }
    }
}

/// A read of one entry.
pub(super) enum LoadedEntry {
    Missing,
    Entry(Box<CacheEntry>),
    /// The entry was changed on disk, or its body was, whose digest this is.
    Damaged(Option<BodyDigest>),
}

pub(super) fn begin(database: &Database) -> Result<WriteTransaction, StoreFailure> {
    let mut write = database.begin_write()?;
    // After a crash the file then opens without a full scan, however large it is.
    write.set_quick_repair(true);
    Ok(write)
}

pub(super) fn versions_range(key: &str) -> RangeInclusive<(&str, u64)> {
    (key, 0)..=(key, u64::MAX)
}

/// Decodes a sealed record; `None` if it was changed.
pub(super) fn decode<T: serde::de::DeserializeOwned>(key: &str, sealed: &[u8]) -> Option<T> {
    postcard::from_bytes(unseal(key, sealed)?).ok()
}

/// Encodes and seals a record.
pub(super) fn encode<T: serde::Serialize>(key: &str, record: &T) -> Result<Vec<u8>, StoreFailure> {
    Ok(seal(key, postcard::to_stdvec(record)?))
}

/// Reads the entries of these documents, in their order.
pub(super) fn load_entries(
    database: &Database,
    resources: &[Resource],
) -> Result<Vec<LoadedEntry>, StoreFailure> {
    let read = database.begin_read()?;
    let table = read.open_table(ENTRIES)?;
    let load = |resource: &Resource| -> Result<LoadedEntry, StoreFailure> {
        let key = resource.to_string();
        match table.get(key.as_str())? {
            None => Ok(LoadedEntry::Missing),
            Some(sealed) => load_entry(&read, resource, decode(&key, sealed.value())),
        }
    };
    resources.iter().map(load).collect()
}

fn load_entry(
    read: &ReadTransaction,
    resource: &Resource,
    record: Option<EntryRecord>,
) -> Result<LoadedEntry, StoreFailure> {
    let Some(record) = record else {
        return Ok(LoadedEntry::Damaged(None));
    };
    let bytes = match record.body() {
        None => None,
        Some(body) => match body_bytes(read, &body.digest)? {
            Some(Ok(bytes)) => Some(bytes),
            Some(Err(DamagedBody)) | None => return Ok(LoadedEntry::Damaged(Some(body.digest))),
        },
    };
    Ok(LoadedEntry::Entry(Box::new(record.into_entry(resource, bytes))))
}

/// Reads all versions of a document, oldest first, each with the time when it was first seen.
pub(super) fn load_versions(
    database: &Database,
    resource: &Resource,
) -> Result<Vec<(u64, VersionRecord)>, StoreFailure> {
    let key = resource.to_string();
    let versions = database.begin_read()?.open_table(VERSIONS)?;
    let mut found = Vec::new();
    for row in versions.range(versions_range(&key))? {
        let (row_key, value) = row?;
        if let Some(record) = decode(&key, value.value()) {
            found.push((row_key.value().1, record));
        }
    }
    Ok(found)
}

/// A version, with the time at which it was first seen.
pub(super) type DatedVersion = (u64, VersionRecord);

/// Finds the versions of robots.txt files that were first seen in a time range, in milliseconds, and replaced another one. Returns
/// the newest `limit` of them, the newest first.
pub(super) fn load_changes(
    database: &Database,
    range: &RangeInclusive<u64>,
    limit: usize,
) -> Result<Vec<(Origin, [DatedVersion; 2])>, StoreFailure> {
    let versions = database.begin_read()?.open_table(VERSIONS)?;
    // In the order of time, so that the oldest gives way.
    let mut found: BTreeMap<(u64, String), (Origin, [DatedVersion; 2])> = BTreeMap::new();
    let mut key = String::new();
    let mut before = None::<(u64, Vec<u8>)>;
    for row in versions.iter()? {
        let (row_key, sealed) = row?;
        let (row_key, seen_at) = row_key.value();
        if row_key != key {
            row_key.clone_into(&mut key);
            before = None;
        }
        if let Some((before_at, before)) = &before
            && range.contains(&seen_at)
            && let Some(change) = change(&key, (*before_at, before), (seen_at, sealed.value()))
        {
            found.insert((seen_at, key.clone()), change);
            if found.len() > limit {
                found.pop_first();
            }
        }
        before = Some((seen_at, sealed.value().to_vec()));
    }
    Ok(found.into_values().rev().collect())
}

/// Returns an origin with the two versions of its robots.txt; none if they are of another document, or changed on disk.
fn change(
    key: &str,
    before: (u64, &[u8]),
    after: (u64, &[u8]),
) -> Option<(Origin, [DatedVersion; 2])> {
    let resource = Resource::parse_key(key).ok().filter(Resource::is_shared_robots_txt)?;
    let version = |(seen_at, sealed): (u64, &[u8])| Some((seen_at, decode(key, sealed)?));
    Some((resource.origin().clone(), [version(before)?, version(after)?]))
}

/// Reads which other documents of an origin have an entry, own copies of its robots.txt included: their keys are the
/// origin's, continued by a holder or a path.
pub(super) fn related_documents(
    database: &Database,
    origin: &Origin,
) -> Result<Vec<Resource>, StoreFailure> {
    let entries = database.begin_read()?.open_table(ENTRIES)?;
    let mut found = Vec::new();
    for mark in ['#', '/'] {
        let begin = format!("{origin}{mark}");
        for row in entries.range(begin.as_str()..)? {
            let (key, _) = row?;
            if !key.value().starts_with(&begin) {
                break;
            }
            found.extend(Resource::parse_key(key.value()).ok());
        }
    }
    Ok(found)
}

/// A body that does not have the digest it is stored under.
pub(super) struct DamagedBody;

type CheckedBody = Result<Arc<[u8]>, DamagedBody>;

/// Reads a body.
pub(super) fn load_body(
    database: &Database,
    digest: &BodyDigest,
) -> Result<Option<CheckedBody>, StoreFailure> {
    body_bytes(&database.begin_read()?, digest)
}

fn body_bytes(
    read: &ReadTransaction,
    digest: &BodyDigest,
) -> Result<Option<CheckedBody>, StoreFailure> {
    let bodies = read.open_table(BODIES)?;
    let packed = bodies.get(digest)?;
    Ok(packed.map(|packed| unpack(packed.value(), digest).ok_or(DamagedBody)))
}

/// The table of entries, at one moment.
pub(super) type EntriesTable = ReadOnlyTable<&'static str, &'static [u8]>;

/// Opens the table of entries as it is now.
pub(super) fn open_entries(database: &Database) -> Result<EntriesTable, StoreFailure> {
    Ok(database.begin_read()?.open_table(ENTRIES)?)
}

#[cfg(test)]
thread_local! {
    /// The number of entries that this thread has read in [`walk`].
    pub static WALKED_ENTRIES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Calls `take` with each document after `after`, in the order of their text, and with its entry without the body,
/// until it returns `false`.
pub(super) fn walk(
    database: &Database,
    after: Option<&str>,
    mut take: impl FnMut(&str, &dyn Fn() -> Option<(Resource, CacheEntry)>) -> bool,
) -> Result<(), StoreFailure> {
    let entries = database.begin_read()?.open_table(ENTRIES)?;
    let start = after.map_or(Bound::Unbounded, Bound::Excluded);
    for row in entries.range::<&str>((start, Bound::Unbounded))? {
        #[cfg(test)]
        WALKED_ENTRIES.set(WALKED_ENTRIES.get() + 1);
        let (row_key, sealed) = row?;
        let key = row_key.value();
        let entry = || {
            let record: EntryRecord = decode(key, sealed.value())?;
            let resource = Resource::parse_key(key).ok()?;
            let entry = record.into_entry(&resource, None);
            Some((resource, entry))
        };
        if !take(key, &entry) {
            break;
        }
    }
    Ok(())
}
