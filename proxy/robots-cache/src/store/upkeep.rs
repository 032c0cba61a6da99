//! Preparation of an opened file: its tables are created or converted from an older format, and cut down to the limits.

use redb::{Database, ReadableTable, TableDefinition, WriteTransaction};

use super::batch::WriteBatch;
use super::failure::{StoreFailure, catching_panics};
use super::tables::{BodyDigest, ENTRIES, HEAD, RetentionLimits, VERSIONS, begin};
use crate::record::{EntryRecord, VersionRecord};

/// The number of the format: of the types in `record` and of the tables.
const FORMAT: u64 = 2;
/// The format without checksums, compression and limits.
const UNSEALED_FORMAT: u64 = 1;

/// The bodies and references of format 1.
const UNPACKED: TableDefinition<'_, &BodyDigest, &[u8]> = TableDefinition::new("bodies");
const UNSCOPED: TableDefinition<'_, &BodyDigest, u64> = TableDefinition::new("references");

/// Creates the tables, or converts those of an older format.
///
/// # Errors
///
/// With the format found, if it is unknown; or if the database fails.
pub(super) fn prepare(
    database: &Database,
    limits: RetentionLimits,
) -> Result<Result<(), u64>, StoreFailure> {
    catching_panics(|| {
        let write = begin(database)?;
        let found = {
            let mut head = write.open_table(HEAD)?;
            let found = head.get("format")?.map(|format| format.value());
            if matches!(found, None | Some(UNSEALED_FORMAT)) {
                head.insert("format", FORMAT)?;
            }
            found
        };
        match found {
            // redb creates the tables that are missing when they are opened.
            None | Some(FORMAT) => drop(WriteBatch::open(&write, limits)?),
            Some(UNSEALED_FORMAT) => convert_unsealed(&write, limits)?,
            // Dropped without a commit, so a file of a later version remains as it is.
            Some(other) => return Ok(Err(other)),
        }
        write.commit()?;
        Ok(Ok(()))
    })
}

/// Converts format 1, which could not reveal damage: records that do not decode and bodies without their digest are
/// left out.
fn convert_unsealed(write: &WriteTransaction, limits: RetentionLimits) -> Result<(), StoreFailure> {
    tracing::info!("the store has an older format: converting it");
    let entries = take_old_entries(write)?;
    let versions = take_old_versions(write)?;
    // A block, because open tables cannot be deleted.
    {
        let mut batch = WriteBatch::open(write, limits)?;
        let bodies = write.open_table(UNPACKED)?;
        for (key, first_seen_at, record) in versions {
            let body = match &record.body {
                Some(body) => bodies.get(&body.digest)?.map(|bytes| bytes.value().to_vec()),
                None => None,
            };
            batch.put_version(&key, first_seen_at, &record, body.as_deref())?;
        }
        for (key, record) in entries {
            batch.put_entry(&key, &record)?;
        }
        batch.finish()?;
    }
    write.delete_table(UNPACKED)?;
    write.delete_table(UNSCOPED)?;
    Ok(())
}

/// Deletes entries beyond the limits, down to seven eighths.
pub(super) fn shrink(database: &Database, limits: RetentionLimits) -> Result<(), StoreFailure> {
    catching_panics(|| {
        let write = begin(database)?;
        let most = limits.max_bytes / 8 * 7;
        let mut batch = WriteBatch::open(&write, limits)?;
        batch.enforce_limit("", most)?;
        batch.finish()?;
        write.commit()?;
        Ok(())
    })
}

/// Takes all entries of format 1 out of their table.
fn take_old_entries(write: &WriteTransaction) -> Result<Vec<(String, EntryRecord)>, StoreFailure> {
    let mut found = Vec::new();
    let entries = write.open_table(ENTRIES)?;
    for row in entries.iter()? {
        let (key, value) = row?;
        if let Ok(record) = postcard::from_bytes(value.value()) {
            found.push((key.value().to_owned(), record));
        }
    }
    drop(entries);
    write.delete_table(ENTRIES)?;
    Ok(found)
}

fn take_old_versions(
    write: &WriteTransaction,
) -> Result<Vec<(String, u64, VersionRecord)>, StoreFailure> {
    let mut found = Vec::new();
    let versions = write.open_table(VERSIONS)?;
    for row in versions.iter()? {
        let (key, value) = row?;
        if let Ok(record) = postcard::from_bytes(value.value()) {
            let (origin, first_seen_at) = key.value();
            found.push((origin.to_owned(), first_seen_at, record));
        }
    }
    drop(versions);
    write.delete_table(VERSIONS)?;
    Ok(found)
}
