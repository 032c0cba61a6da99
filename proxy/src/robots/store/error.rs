//! Errors of opening a store.

use std::fmt;
use std::path::PathBuf;

/// Why a store cannot be opened, and must not be replaced by another.
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// Another process has it open.
    Locked(PathBuf),
    /// A different version of wayleave wrote it.
    Format {
        /// Where it is.
        path: PathBuf,
        /// The format found.
        found: u64,
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
            Self::Format { path, found } => write!(
                f,
                "{} has format {found}, which this version of wayleave cannot read",
                path.display()
            ),
        }
    }
}

impl std::error::Error for StoreError {}
