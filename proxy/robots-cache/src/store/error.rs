//! The errors of opening a store.

use std::fmt;
use std::path::PathBuf;

/// A store that cannot be opened and must not be replaced.
#[derive(Debug)]

pub enum StoreError {
    /// Another process has it open.
    Locked(PathBuf),
    /// A different version of wayleave wrote it.
    Format {
        /// The path of the file.
        path: PathBuf,
        /// The format found.
        found: u64,
    },
    /// It is damaged or cannot be read, and was opened only to read.
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        what: String,
    },
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked(path) => write!(
                f,
                "{} is in use by another process: give each wayleave a state.dir of its own",
                path.display()
            ),
            Self::Unreadable { path, what } => {
                write!(f, "{} is damaged or cannot be read: {what}", path.display())
            }
            Self::Format { path, found } => write!(
                f,
                "{} has format {found}, which this version of wayleave cannot read",
                path.display()
            ),
        }
    }
}

impl std::error::Error for StoreError {}
