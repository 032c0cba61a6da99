//! The tables and the transactions on them.

use std::ops::RangeInclusive;
use std::sync::Arc;

use redb::{
    Database, ReadTransaction, ReadableDatabase, ReadableTable, Table, TableDefinition, TableError,
    WriteTransaction,
};
use wayleave_policy::Origin;
use wayleave_policy::lifecycle::Entry;

use super::record::{BodyRecord, EntryRecord, VersionRecord};

/// Origins looked at beside each write, to let go of what is too old.
const SWEPT: usize = 64;
/// Counts the forms in `record`; see there.
const FORMAT: u64 = 1;

/// The SHA-256 of a body.
type Digest = [u8; 32];

const HEAD: TableDefinition<'_, &str, u64> = TableDefinition::new("head");
/// Origin → entry.
const ENTRIES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("entries");
/// Digest → body.
const BODIES: TableDefinition<'_, &Digest, &[u8]> = TableDefinition::new("bodies");
/// Digest → how many versions have that body.
const REFERENCES: TableDefinition<'_, &Digest, u64> = TableDefinition::new("references");
/// Origin and when it was first seen → version.
const VERSIONS: TableDefinition<'_, (&str, u64), &[u8]> = TableDefinition::new("versions");

/// A failure of the database, whatever kind; transient or not, the answer is to open it anew.
pub(super) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What is to be written of an origin.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Save(Arc<Entry>),
    Forget,
}

/// How much of the past is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keep {
    /// Versions last seen before, except each origin's newest, and entries not heard of since, go. In milliseconds.
    pub(super) versions_since: u64,
    pub(super) entries_since: u64,
    /// Versions of one origin.
    pub(super) versions: usize,
}

/// Makes sure that the tables are there and of this format.
///
/// # Errors
///
/// With the format found, if it is another; or if the database fails.
pub(super) fn prepare(database: &Database) -> Result<Result<(), u64>, Failure> {
    let write = begin(database)?;
    let mut found = FORMAT;
    {
        let mut head = write.open_table(HEAD)?;
        let before = head.get("format")?.map(|format| format.value());
        match before {
            Some(format) => found = format,
            None => {
                head.insert("format", FORMAT)?;
            }
        }
        if found != FORMAT {
            return Ok(Err(found));
        }
        write.open_table(ENTRIES)?;
        write.open_table(BODIES)?;
        write.open_table(REFERENCES)?;
        write.open_table(VERSIONS)?;
    }
    write.commit()?;
    Ok(Ok(()))
}

fn begin(database: &Database) -> Result<WriteTransaction, Failure> {
    let mut write = database.begin_write()?;
    // After a crash the file opens without being walked through, however large it is.
    write.set_quick_repair(true);
    Ok(write)
}

/// Writes all changes or none, and beside them looks at some origins from `sweep_from` on for what is too old to keep.
/// Returns where to go on with that, nothing at the end.
pub(super) fn write<'a>(
    database: &Database,
    changes: impl Iterator<Item = (&'a Origin, &'a Change)>,
    sweep_from: &str,
    keep: Keep,
) -> Result<String, Failure> {
    let write = begin(database)?;
    let swept_to;
    {
        let mut batch = Batch::open(&write, keep)?;
        for (origin, change) in changes {
            batch.apply(origin, change)?;
        }
        swept_to = batch.sweep(sweep_from)?;
    }
    write.commit()?;
    Ok(swept_to)
}

struct Batch<'txn> {
    entries: Table<'txn, &'static str, &'static [u8]>,
    bodies: Table<'txn, &'static Digest, &'static [u8]>,
    references: Table<'txn, &'static Digest, u64>,
    versions: Table<'txn, (&'static str, u64), &'static [u8]>,
    keep: Keep,
}

impl<'txn> Batch<'txn> {
    fn open(write: &'txn WriteTransaction, keep: Keep) -> Result<Self, TableError> {
        Ok(Self {
            entries: write.open_table(ENTRIES)?,
            bodies: write.open_table(BODIES)?,
            references: write.open_table(REFERENCES)?,
            versions: write.open_table(VERSIONS)?,
            keep,
        })
    }

    fn apply(&mut self, origin: &Origin, change: &Change) -> Result<(), Failure> {
        let key = origin.to_string();
        let entry = match change {
            Change::Forget => {
                self.entries.remove(key.as_str())?;
                return Ok(());
            }
            Change::Save(entry) => entry,
        };
        let record = EntryRecord::new(origin, entry);
        let encoded = postcard::to_stdvec(&record)?;
        self.entries.insert(key.as_str(), encoded.as_slice())?;
        if let Some((seen_at, version)) = record.version() {
            let body = entry.answer.as_ref().and_then(|facts| facts.outcome.body());
            let bytes = body.map(|body| &*body.bytes).unwrap_or_default();
            self.note_version(&key, seen_at, &version, bytes)?;
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
        let newest = match self.versions.range(of(key))?.next_back() {
            Some(row) => {
                let (row_key, value) = row?;
                let record: VersionRecord = postcard::from_bytes(value.value())?;
                Some((row_key.value().1, record))
            }
            None => None,
        };
        let first_seen_at = match &newest {
            Some((first, newest))
                if newest.status == version.status && newest.body == version.body =>
            {
                *first
            }
            // Two versions in one millisecond, or a clock set back: the order they came in is kept.
            Some((first, _)) => seen_at.max(first + 1),
            None => seen_at,
        };
        let is_new = newest.is_none_or(|(first, _)| first != first_seen_at);
        if let (true, Some(body)) = (is_new, version.body) {
            self.refer(&body, bytes)?;
        }
        let encoded = postcard::to_stdvec(version)?;
        self.versions
            .insert((key, first_seen_at), encoded.as_slice())?;
        if is_new { self.prune(key) } else { Ok(()) }
    }

    fn refer(&mut self, body: &BodyRecord, bytes: &[u8]) -> Result<(), Failure> {
        let before = self.references.get(&body.digest)?.map_or(0, |n| n.value());
        if before == 0 {
            self.bodies.insert(&body.digest, bytes)?;
        }
        self.references.insert(&body.digest, before + 1)?;
        Ok(())
    }

    fn release(&mut self, body: &BodyRecord) -> Result<(), Failure> {
        let before = self.references.get(&body.digest)?.map_or(0, |n| n.value());
        if before > 1 {
            self.references.insert(&body.digest, before - 1)?;
        } else {
            self.references.remove(&body.digest)?;
            self.bodies.remove(&body.digest)?;
        }
        Ok(())
    }

    /// Lets go of an origin's versions that are too old or too many; the newest stays.
    fn prune(&mut self, key: &str) -> Result<(), Failure> {
        let mut rows = Vec::new();
        for row in self.versions.range(of(key))? {
            let (row_key, value) = row?;
            let record: VersionRecord = postcard::from_bytes(value.value())?;
            rows.push((row_key.value().1, record));
        }
        rows.pop();
        let too_many = (rows.len() + 1).saturating_sub(self.keep.versions.max(1));
        for (index, (first_seen_at, record)) in rows.into_iter().enumerate() {
            if index < too_many || record.last_seen_at < self.keep.versions_since {
                self.versions.remove((key, first_seen_at))?;
                if let Some(body) = record.body {
                    self.release(&body)?;
                }
            }
        }
        Ok(())
    }

    /// Looks at the next origins from `from` on, prunes what they said too long ago, and drops those that have not been
    /// heard of for too long.
    fn sweep(&mut self, from: &str) -> Result<String, Failure> {
        let mut seen = Vec::new();
        for row in self.entries.range(from..)?.take(SWEPT + 1) {
            let (key, value) = row?;
            let record: EntryRecord = postcard::from_bytes(value.value())?;
            seen.push((key.value().to_owned(), record.touched_at()));
        }
        let next = match seen.len() > SWEPT {
            true => seen.pop().map(|(key, _)| key).unwrap_or_default(),
            false => String::new(),
        };
        for (key, touched_at) in seen {
            if touched_at < self.keep.entries_since {
                self.entries.remove(key.as_str())?;
                self.drop_versions(&key)?;
            } else {
                self.prune(&key)?;
            }
        }
        Ok(next)
    }

    fn drop_versions(&mut self, key: &str) -> Result<(), Failure> {
        let mut rows = Vec::new();
        for row in self.versions.range(of(key))? {
            let (row_key, value) = row?;
            let record: VersionRecord = postcard::from_bytes(value.value())?;
            rows.push((row_key.value().1, record.body));
        }
        for (first_seen_at, body) in rows {
            self.versions.remove((key, first_seen_at))?;
            if let Some(body) = body {
                self.release(&body)?;
            }
        }
        Ok(())
    }
}

fn of(key: &str) -> RangeInclusive<(&str, u64)> {
    (key, 0)..=(key, u64::MAX)
}

/// What is kept of origins, in their order.
pub(super) fn entries(
    database: &Database,
    origins: &[Origin],
) -> Result<Vec<Option<Entry>>, Failure> {
    let read = database.begin_read()?;
    let entries = read.open_table(ENTRIES)?;
    let entry = |origin: &Origin| -> Result<Option<Entry>, Failure> {
        let Some(encoded) = entries.get(origin.to_string().as_str())? else {
            return Ok(None);
        };
        let record: EntryRecord = postcard::from_bytes(encoded.value())?;
        let bytes = match record.body() {
            Some(body) => Some(body_bytes(&read, &body.digest)?.ok_or("a body is missing")?),
            None => None,
        };
        Ok(Some(record.entry(origin, bytes)))
    };
    origins.iter().map(entry).collect()
}

/// Everything the origin is known to have said, oldest first, with when each began.
pub(super) fn versions(
    database: &Database,
    origin: &Origin,
) -> Result<Vec<(u64, VersionRecord)>, Failure> {
    let read = database.begin_read()?;
    let key = origin.to_string();
    let versions = read.open_table(VERSIONS)?;
    let mut found = Vec::new();
    for row in versions.range(of(&key))? {
        let (row_key, value) = row?;
        found.push((row_key.value().1, postcard::from_bytes(value.value())?));
    }
    Ok(found)
}

/// A kept body.
pub(super) fn body(database: &Database, digest: &Digest) -> Result<Option<Arc<[u8]>>, Failure> {
    body_bytes(&database.begin_read()?, digest)
}

fn body_bytes(read: &ReadTransaction, digest: &Digest) -> Result<Option<Arc<[u8]>>, Failure> {
    let bodies = read.open_table(BODIES)?;
    Ok(bodies.get(digest)?.map(|bytes| bytes.value().into()))
}
