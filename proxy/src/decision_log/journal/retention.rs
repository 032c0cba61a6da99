//! Retention of rotated files: those that are too old are deleted, then the oldest until the rest fit the configured total
//! size.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::SystemTime;

use wayleave_evidence::files::{file_number, rotated_files};

use super::config::JournalConfig;
use crate::clock::system_time;

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

/// A rotated file.
struct RotatedFile {
    number: Option<u64>,
    path: PathBuf,
    bytes: u64,
    written_at: SystemTime,
}

/// Returns the files to delete when a new one is begun, the oldest first. A file that an export is reading is kept, and so are
/// all younger ones, unless they are too old themselves: the remaining files should have no gap that age does not explain.
pub(super) fn expired_files(options: &JournalConfig) -> Vec<ExpiredFile> {
    let now = system_time();
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
        if !must_go {
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
            "the decision log grows beyond log.decisions_max_total until an export has ended"
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
        let lock = File::open(&self.path).ok()?;
        lock.try_lock().ok()?;
        Some(ExpiredFile { number: self.number, path: self.path, _lock: lock })
    }
}
