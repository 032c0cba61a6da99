//! The part of `[log]` that concerns the decision log.

use std::path::PathBuf;
use std::time::Duration;

use super::super::files::LogPlace;

/// The location, rotation and retention of the decision log; part of `[log]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalConfig {
    /// The current file. Rotated ones are next to it, with a time in their names.
    pub path: PathBuf,
    /// The size at which a file is rotated.
    pub max_size_bytes: u64,
    /// The age at which a file is rotated.
    pub max_age: Duration,
    /// The time after which rotated files are deleted.
    pub keep: Duration,
    /// The maximum size of all files together; the oldest are deleted to remain below it.
    pub max_total_bytes: Option<u64>,
    /// Whether rotated files are compressed.
    pub compresses: bool,
    /// The file with the key that signs heads; created if it is missing.
    pub key: PathBuf,
    /// The state directory, which holds a copy of the log's head out of the reach of those who can write only to the log's
    /// directory.
    pub state_dir: PathBuf,
}

impl JournalConfig {
    /// Returns the location of the log.
    pub fn place(&self) -> LogPlace<'_> {
        LogPlace { path: &self.path, state_dir: &self.state_dir }
    }
}
