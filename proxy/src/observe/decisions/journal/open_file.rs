//! The open file of the decision log.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::clock::calendar;

#[derive(Debug)]
pub(super) struct Open {
    pub(super) file: File,
    size_bytes: u64,
    since: SystemTime,
    /// What is in it can be read again, and is not a device or a pipe.
    pub(super) is_regular: bool,
    /// Whether something was written. Until then a journal that this one is to replace may still write to the file.
    pub(super) is_begun: bool,
}

impl Open {
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        // What crawlers fetch is nobody else's business.
        let file = OpenOptions::new()
            .read(true)
            .create(true)
            .append(true)
            .mode(0o640)
            .open(path)?;
        let metadata = file.metadata()?;
        Ok(Self {
            file,
            size_bytes: metadata.len(),
            is_regular: metadata.is_file(),
            // File systems without a birth time start anew with each process.
            since: metadata.created().unwrap_or_else(|_| calendar()),
            is_begun: false,
        })
    }

    /// Cuts off the line that is there in part, because it is counted as lost; how much of `lines` stays, and whether nothing of it is
    /// behind that.
    pub(super) fn keep_whole_lines(&mut self, lines: &[u8]) -> (usize, bool) {
        let found = self.file.metadata().map_or(0, |found| found.len());
        let arrived = usize::try_from(found.saturating_sub(self.size_bytes)).unwrap_or(0);
        let arrived = &lines[..arrived.min(lines.len())];
        let whole = memchr::memrchr(b'\n', arrived).map_or(0, |at| at + 1);
        // If that fails too, the piece is ended when the file is opened anew.
        let kept = found.min(self.size_bytes + whole as u64);
        (whole, self.file.set_len(kept).is_ok())
    }

    /// Looks how the file is now. Whether it is still there: what is written to one that somebody deleted is seen by nobody. One
    /// that somebody changed is begun anew.
    pub(super) fn look(&mut self, known_bytes: Option<u64>) -> bool {
        let Ok(found) = self.file.metadata() else {
            return true;
        };
        if self.is_regular && known_bytes != Some(found.len()) {
            self.size_bytes = found.len();
            self.is_begun = false;
        }
        found.nlink() > 0
    }

    /// So many bytes were written; how many there are.
    pub(super) fn grow(&mut self, bytes: usize) -> u64 {
        self.size_bytes += bytes as u64;
        self.size_bytes
    }

    /// Whether it is as large as that, or as old.
    pub(super) fn is_due(&self, max_size_bytes: u64, max_age: Duration) -> bool {
        let age = calendar().duration_since(self.since).unwrap_or_default();
        self.size_bytes >= max_size_bytes || (self.size_bytes > 0 && age >= max_age)
    }
}
