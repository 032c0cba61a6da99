//! Retention of rotated files: those that are too old are deleted, then the oldest until the rest fit the configured total
//! size. A file with a decision that is held is not.
//!
//! Ages and sizes are those that the files' heads sign, and ages count from the settled time, so that neither a wrong clock nor
//! `touch` deletes anything. Files that do not belong to the log do not count, and are left alone.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use wayleave_evidence::holds::{Hold, HoldFolder};
use wayleave_evidence::log_files::{LogFile, LogFiles};
use wayleave_evidence::regular_file;
use wayleave_signing::SigningKey;

use super::config::JournalConfig;

/// A file that is to be deleted. It is locked until then, so that no export and no compression of it can begin.
#[derive(Debug)]
pub(super) struct ExpiredFile {
    /// Its number.
    pub(super) number: u64,
    path: PathBuf,
    _lock: File,
}

impl ExpiredFile {
    /// Locks the file; `None` if it is in use.
    fn lock(file: &LogFile) -> Option<Self> {
        let lock = regular_file::open(&file.path).ok()?;
        lock.try_lock().ok()?;
        Some(Self { number: file.number, path: file.path.clone(), _lock: lock })
    }

    pub(super) fn delete(self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(%error, file = %self.path.display(), "an old decision log could not be deleted");
        }
    }
}

/// The files that are known to have held decisions, or none: a rotated file does not change.
#[derive(Debug, Default)]
pub(super) struct HeldFiles {
    /// The holds by which they were read.
    holds: Vec<u64>,
    known: HashMap<PathBuf, bool>,
}

impl HeldFiles {
    /// Returns whether a file must be kept because of one of `holds`, as one that cannot be read must.
    fn includes(&mut self, path: &Path, holds: &[Hold]) -> bool {
        let numbers: Vec<_> = holds.iter().map(|hold| hold.id).collect();
        if numbers != self.holds {
            *self = Self { holds: numbers, known: HashMap::new() };
        }
        if holds.is_empty() {
            return false;
        }
        let read = || holds.iter().any(|hold| hold.holds_file(path).unwrap_or(true));
        *self.known.entry(path.to_owned()).or_insert_with(read)
    }
}

/// Returns the numbers of files whose deletion the log has to record when those that are `expired` are deleted: theirs, and those
/// of files that were deleted earlier and are newer than one that a hold keeps. The files that recorded these may be gone, too.
/// The list of deleted files is taken from the state directory, signed with `key`: a file that is missing for another
/// reason must not pass for one of them.
///
/// # Errors
///
/// Returns an error if that cannot be read or written. Nothing may be deleted then.
pub(super) fn deletions_to_record(
    options: &JournalConfig,
    key: &SigningKey,
    files: &LogFiles,
    expired: &[ExpiredFile],
) -> anyhow::Result<BTreeSet<u64>> {
    let gone: BTreeSet<_> = expired.iter().map(|file| file.number).collect();
    let Some(newest_gone) = gone.last().copied() else {
        return Ok(gone);
    };
    let there: BTreeSet<_> = files.files.iter().map(|file| file.number).collect();
    let oldest_kept = there.difference(&gone).next().copied().unwrap_or(newest_gone + 1);
    let folder = HoldFolder::in_state_dir(&options.state_dir);
    let mut deleted = folder.deletions(&options.path, &key.public_base64())?;
    deleted.extend(&gone);
    // If the deletion of the one before the oldest is recorded, those before it were deleted earlier.
    deleted.retain(|number| number + 1 >= oldest_kept);
    folder.save_deletions(&options.path, deleted.clone(), key.pair())?;
    deleted.extend(gone);
    Ok(deleted)
}

/// Returns the `files` of the log to delete when a new one is begun at `now`, the settled time, with `holds` in effect, the
/// oldest first. A file that an export is reading is kept, and so are all younger ones, unless they are too old themselves: the
/// remaining files should have no gap that age does not explain.
pub(super) fn expired_files(
    options: &JournalConfig,
    files: &LogFiles,
    now: SystemTime,
    holds: &[Hold],
    held: &mut HeldFiles,
) -> Vec<ExpiredFile> {
    let sizes = files.files.iter().map(|file| file.bytes);
    // The new file will grow to its maximum size.
    let mut total = sizes.fold(options.max_size_bytes, u64::saturating_add);
    let mut may_delete = options.max_total_bytes.is_some();
    let mut expired = Vec::new();
    for file in &files.files {
        let is_too_old = file.ended_at.is_some_and(|ended_at| {
            now.duration_since(ended_at).unwrap_or_default() > options.keep
        });
        let is_too_much = options.max_total_bytes.is_some_and(|max| total > max);
        // Age always applies: it limits how long personal data is stored.
        let must_go = is_too_old || (is_too_much && may_delete);
        if !must_go || held.includes(&file.path, holds) {
            continue;
        }
        match ExpiredFile::lock(file) {
            Some(locked) => {
                total -= file.bytes;
                expired.push(locked);
            }
            None => may_delete = false,
        }
    }
    if options.max_total_bytes.is_some_and(|max| total > max) {
        tracing::warn!(
            bytes = total,
            "the decision log grows beyond log.decisions_max_total, by what is held, or until an export has ended"
        );
    }
    expired
}
