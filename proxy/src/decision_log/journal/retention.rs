//! Retention of rotated files: those that are too old are deleted, then the oldest until the rest fit the configured total
//! size. A file with a decision that is held is not.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use wayleave_evidence::files::{file_number, rotated_files};
use wayleave_evidence::holds::{Hold, HoldFolder};
use wayleave_evidence::regular_file;

use super::config::JournalConfig;
use crate::clock::system_time;
use crate::signing::SigningKey;

/// A file that is to be deleted. It is locked until then, so that no export and no compression of it can begin.
#[derive(Debug)]
pub(super) struct ExpiredFile {
    /// Its number, if it is a file of the chain.
    pub(super) number: Option<u64>,
    path: PathBuf,
    _lock: File,
}

impl ExpiredFile {
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

/// A rotated file.
struct RotatedFile {
    number: Option<u64>,
    path: PathBuf,
    bytes: u64,
    written_at: SystemTime,
}

/// Returns the numbers of files whose deletion the log has to record when those that are `expired` are deleted: theirs, and those
/// of files that were deleted earlier and are newer than one that a hold keeps. The files that recorded these may be gone, too.
/// What was deleted is taken from the state directory, signed with `key`: a file that is missing for another reason must not pass
/// for one of them.
///
/// # Errors
///
/// Returns an error if that cannot be read or written. Nothing may be deleted then.
pub(super) fn deletions_to_record(
    options: &JournalConfig,
    key: &SigningKey,
    expired: &[ExpiredFile],
) -> anyhow::Result<BTreeSet<u64>> {
    let gone: BTreeSet<_> = expired.iter().filter_map(|file| file.number).collect();
    let Some(newest_gone) = gone.last().copied() else {
        return Ok(gone);
    };
    let files = rotated_files(&options.path)?;
    let there: BTreeSet<_> = files.iter().filter_map(|file| file_number(file)).collect();
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

/// Returns the files to delete when a new one is begun, the oldest first. A file that an export is reading is kept, and so are
/// all younger ones, unless they are too old themselves: the remaining files should have no gap that age does not explain.
pub(super) fn expired_files(options: &JournalConfig, held: &mut HeldFiles) -> Vec<ExpiredFile> {
    let now = system_time();
    let holds = match HoldFolder::in_state_dir(&options.state_dir).active() {
        Ok(holds) => holds,
        Err(error) => {
            let error = format!("{error:#}");
            tracing::error!(error, "a hold cannot be read: nothing of the decision log is deleted");
            return Vec::new();
        }
    };
    let mut files: Vec<_> = rotated_files(&options.path)
        .unwrap_or_default()
        .into_iter()
        .filter_map(RotatedFile::inspect)
        .collect();
    // By number rather than name, because the clock may have been set back.
    files.sort_by(|one, other| (one.number, &one.path).cmp(&(other.number, &other.path)));
    let rotated: u64 = files.iter().map(|file| file.bytes).sum();
    // The new file will grow to its maximum size.
    let mut total = rotated.saturating_add(options.max_size_bytes);
    let mut may_delete = options.max_total_bytes.is_some();
    let mut expired = Vec::new();
    for file in files {
        let age = now.duration_since(file.written_at).unwrap_or_default();
        let is_too_old = age > options.keep;
        let is_too_much = options.max_total_bytes.is_some_and(|max| total > max);
        // Age always applies: it limits how long personal data is stored.
        let must_go = is_too_old || (is_too_much && may_delete);
        if !must_go || held.includes(&file.path, &holds) {
            continue;
        }
        let bytes = file.bytes;
        match file.lock() {
            Some(file) => {
                total -= bytes;
                expired.push(file);
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

impl RotatedFile {
    fn inspect(path: PathBuf) -> Option<Self> {
        let found = fs::metadata(&path).ok()?;
        Some(Self {
            number: file_number(&path),
            bytes: found.len(),
            written_at: found.modified().ok()?,
            path,
        })
    }

    /// Locks the file; `None` if it is in use.
    fn lock(self) -> Option<ExpiredFile> {
        let lock = regular_file::open(&self.path).ok()?;
        lock.try_lock().ok()?;
        Some(ExpiredFile { number: self.number, path: self.path, _lock: lock })
    }
}
