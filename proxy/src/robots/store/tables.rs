//! The store's tables, and reading from them.

use std::ops::{Bound, RangeInclusive};
use std::sync::Arc;

use redb::{
    Database, ReadOnlyTable, ReadTransaction, ReadableDatabase, TableDefinition, WriteTransaction,
};
use wayleave_robots_txt::Origin;
use wayleave_robots_txt::lifecycle::{Entry, Resource};

use super::failure::Failure;
use super::sealed::{seal, unpack, unseal};
use crate::robots::record::{EntryRecord, VersionRecord};

/// The SHA-256 of a body.
pub(super) type Digest = [u8; 32];

pub(super) const HEAD: TableDefinition<'_, &str, u64> = TableDefinition::new("head");
/// Resource → entry, sealed.
pub(super) const ENTRIES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("entries");
/// Digest → body, packed.
pub(super) const BODIES: TableDefinition<'_, &Digest, &[u8]> = TableDefinition::new("packed");
/// Digest and scope → how many versions in the scope have that body.
pub(super) const REFERENCES: TableDefinition<'_, (&Digest, &str), u64> =
    TableDefinition::new("scoped references");
/// Resource and when it was first seen → version, sealed.
pub(super) const VERSIONS: TableDefinition<'_, (&str, u64), &[u8]> =
    TableDefinition::new("versions");
/// Scope, rank, when it was last seen, origin, when it was first seen: what goes first stands first.
pub(super) const ORDER: TableDefinition<'_, Place<'static>, ()> = TableDefinition::new("order");
/// Scope → bytes on disk that what is kept of it costs.
pub(super) const SPENT: TableDefinition<'_, &str, u64> = TableDefinition::new("spent");

pub(super) type Place<'a> = (&'a str, u8, u64, &'a str, u64);

/// How much is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keep {
    /// Versions last seen before, except each origin's newest, and entries not heard of since, go. In milliseconds.
    pub(super) versions_since: u64,
    pub(super) entries_since: u64,
    /// Versions of one origin.
    pub(super) versions: usize,
    /// What all may cost on disk, and what one registered domain may.
    pub(super) bytes: u64,
    pub(super) domain_bytes: u64,
}

/// What the store has of an origin.
pub(super) enum Loaded {
    Nothing,
    Entry(Box<Entry>),
    /// It was changed on disk; with the digest of its body, if that was.
    Damaged(Option<Digest>),
}

pub(super) fn begin(database: &Database) -> Result<WriteTransaction, Failure> {
    let mut write = database.begin_write()?;
    // After a crash the file opens without being walked through, however large it is.
    write.set_quick_repair(true);
    Ok(write)
}

pub(super) fn of(key: &str) -> RangeInclusive<(&str, u64)> {
    (key, 0)..=(key, u64::MAX)
}

/// A sealed record, read; nothing if it was changed.
pub(super) fn read<T: serde::de::DeserializeOwned>(key: &str, sealed: &[u8]) -> Option<T> {
    postcard::from_bytes(unseal(key, sealed)?).ok()
}

/// A record, sealed.
pub(super) fn written<T: serde::Serialize>(key: &str, record: &T) -> Result<Vec<u8>, Failure> {
    Ok(seal(key, postcard::to_stdvec(record)?))
}

/// What is kept of origins, in their order.
pub(super) fn entries(database: &Database, resources: &[Resource]) -> Result<Vec<Loaded>, Failure> {
    let read = database.begin_read()?;
    let table = read.open_table(ENTRIES)?;
    let load = |resource: &Resource| -> Result<Loaded, Failure> {
        let key = resource.to_string();
        match table.get(key.as_str())? {
            None => Ok(Loaded::Nothing),
            Some(sealed) => load(&read, resource, self::read(&key, sealed.value())),
        }
    };
    resources.iter().map(load).collect()
}

fn load(
    read: &ReadTransaction,
    resource: &Resource,
    record: Option<EntryRecord>,
) -> Result<Loaded, Failure> {
    let Some(record) = record else {
        return Ok(Loaded::Damaged(None));
    };
    let bytes = match record.body() {
        None => None,
        Some(body) => match body_bytes(read, &body.digest)? {
            Some(Ok(bytes)) => Some(bytes),
            Some(Err(Damaged)) | None => return Ok(Loaded::Damaged(Some(body.digest))),
        },
    };
    Ok(Loaded::Entry(Box::new(record.entry(resource, bytes))))
}

/// Everything the origin is known to have said, oldest first, with when each began.
pub(super) fn versions(
    database: &Database,
    resource: &Resource,
) -> Result<Vec<(u64, VersionRecord)>, Failure> {
    let key = resource.to_string();
    let versions = database.begin_read()?.open_table(VERSIONS)?;
    let mut found = Vec::new();
    for row in versions.range(of(&key))? {
        let (row_key, value) = row?;
        if let Some(record) = read(&key, value.value()) {
            found.push((row_key.value().1, record));
        }
    }
    Ok(found)
}

/// The resources with an entry whose text begins with an origin and goes on with a path.
pub(super) fn beside(database: &Database, origin: &Origin) -> Result<Vec<Resource>, Failure> {
    let entries = database.begin_read()?.open_table(ENTRIES)?;
    let begin = format!("{origin}/");
    let mut found = Vec::new();
    for row in entries.range(begin.as_str()..)? {
        let (key, _) = row?;
        if !key.value().starts_with(&begin) {
            break;
        }
        found.extend(Resource::parse(key.value()).ok());
    }
    Ok(found)
}

/// It does not have the digest that it is known by.
pub(super) struct Damaged;

type Checked = Result<Arc<[u8]>, Damaged>;

/// A kept body.
pub(super) fn body(database: &Database, digest: &Digest) -> Result<Option<Checked>, Failure> {
    body_bytes(&database.begin_read()?, digest)
}

fn body_bytes(read: &ReadTransaction, digest: &Digest) -> Result<Option<Checked>, Failure> {
    let bodies = read.open_table(BODIES)?;
    let packed = bodies.get(digest)?;
    Ok(packed.map(|packed| unpack(packed.value(), digest).ok_or(Damaged)))
}

/// The entries at one moment, as the table has them.
pub(super) type Kept = ReadOnlyTable<&'static str, &'static [u8]>;

/// Returns all entries, as they are now.
pub(super) fn kept(database: &Database) -> Result<Kept, Failure> {
    Ok(database.begin_read()?.open_table(ENTRIES)?)
}

#[cfg(test)]
thread_local! {
    /// How many entries this thread has looked at by [`walk`].
    pub(crate) static WALKED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Hands `take` the origins after `after`, in the order of their text, with what is kept of them but their bodies, until it
/// has seen enough and returns `false`.
pub(super) fn walk(
    database: &Database,
    after: Option<&str>,
    mut take: impl FnMut(&str, &dyn Fn() -> Option<(Resource, Entry)>) -> bool,
) -> Result<(), Failure> {
    let entries = database.begin_read()?.open_table(ENTRIES)?;
    let start = after.map_or(Bound::Unbounded, Bound::Excluded);
    for row in entries.range::<&str>((start, Bound::Unbounded))? {
        #[cfg(test)]
        WALKED.set(WALKED.get() + 1);
        let (key, sealed) = row?;
        let key = key.value();
        let entry = || {
            let record: EntryRecord = read(key, sealed.value())?;
            let resource = Resource::parse(key).ok()?;
            let entry = record.entry(&resource, None);
            Some((resource, entry))
        };
        if !take(key, &entry) {
            break;
        }
    }
    Ok(())
}
