//! The errors of opening a store.

use std::path::PathBuf;

/// A store that cannot be opened and must not be replaced.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has it open.
    #[error("{} is in use by another process: give each wayleave a state.dir of its own", .0.display())]
    Locked(PathBuf),
    /// A different version of wayleave wrote it.
    #[error("{} has format {found}, which this version of wayleave cannot read", path.display())]
    Format {
        /// The path of the file.
        path: PathBuf,
        /// The format found.
        found: u64,
    },
    /// It is damaged or cannot be read, and was opened only to read.
    #[error("{} is damaged or cannot be read: {what}", path.display())]
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        what: String,
    },
}
