//! What of `[log]` the decision log goes by.

use std::path::PathBuf;
use std::time::Duration;

/// Where decisions are written, and for how long; part of `[log]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JournalOptions {
    /// The file that is written to. Those rotated away are beside it, the time in their names.
    pub(crate) path: PathBuf,
    /// A file this large is rotated away.
    pub(crate) max_size_bytes: u64,
    /// A file this old is rotated away.
    pub(crate) max_age: Duration,
    /// Files that were rotated away longer ago are deleted.
    pub(crate) keep: Duration,
    /// What all files may take together, if that is bounded; the oldest are deleted before.
    pub(crate) max_total_bytes: Option<u64>,
    /// Whether files that were rotated away are compressed.
    pub(crate) compresses: bool,
    /// The key that heads are signed with; made if it is not there.
    pub(crate) key: PathBuf,
    /// Where a copy of the log's head is kept, which whoever can only write to the log does not reach.
    pub(crate) state_dir: PathBuf,
}
