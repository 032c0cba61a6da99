//! The open file of the decision log.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use wayleave_clock::system_time;

/// The file that lines are appended to.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) file: File,
    size_bytes: u64,
    created_at: SystemTime,
    /// Whether it is a regular file, which can be read again, and not a device or a pipe.
    pub(super) is_regular: bool,
    /// Whether its contents are known. Before the first write they are not: a journal that this one replaces may still append
    /// to it.
    pub(super) is_started: bool,
}

impl OpenFile {
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        // Not world-readable: the log shows the URLs that crawlers fetch.
        let file =
            OpenOptions::new().read(true).create(true).append(true).mode(0o640).open(path)?;
        let metadata = file.metadata()?;
        Ok(Self {
            file,
            size_bytes: metadata.len(),
            is_regular: metadata.is_file(),
            // On file systems without birth times, a file's age counts from the start of the process.
            created_at: metadata.created().unwrap_or_else(|_| system_time()),
            is_started: false,
        })
    }

    /// Truncates the file after the last complete line of `lines`, which could only be written in part; the rest is counted as
    /// lost. Returns how many bytes of `lines` are in the file, and whether truncating succeeded, so that nothing follows them.
    pub(super) fn truncate_to_whole_lines(&mut self, lines: &[u8]) -> (usize, bool) {
        let found = self.file.metadata().map_or(0, |found| found.len());
        let arrived = usize::try_from(found.saturating_sub(self.size_bytes)).unwrap_or(0);
        let arrived = &lines[..arrived.min(lines.len())];
        let complete_bytes = memchr::memrchr(b'\n', arrived).map_or(0, |at| at + 1);
        // If this fails, too, the incomplete line is terminated when the file is opened again.
        let kept = found.min(self.size_bytes + complete_bytes as u64);
        (complete_bytes, self.file.set_len(kept).is_ok())
    }

    /// Checks for changes by others. Returns whether the file still has a name: lines written to a deleted file would be lost.
    /// If its size is not `known_bytes`, its contents are read again before the next write.
    pub(super) fn refresh(&mut self, known_bytes: Option<u64>) -> bool {
        let Ok(found) = self.file.metadata() else {
            return true;
        };
        if self.is_regular && known_bytes != Some(found.len()) {
            self.size_bytes = found.len();
            self.is_started = false;
        }
        found.nlink() > 0
    }

    /// Adds the size of lines that were written. Returns the size of the file.
    pub(super) fn add_bytes(&mut self, bytes: usize) -> u64 {
        self.size_bytes += bytes as u64;
        self.size_bytes
    }

    /// Returns whether the file is due for rotation.
    pub(super) fn is_due(&self, max_size_bytes: u64, max_age: Duration) -> bool {
        let age = system_time().duration_since(self.created_at).unwrap_or_default();
        self.size_bytes >= max_size_bytes || (self.size_bytes > 0 && age >= max_age)
    }
}
