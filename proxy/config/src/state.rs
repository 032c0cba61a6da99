//! `[state]`: the files that outlive the process.

use std::path::{Path, PathBuf};

use bytesize::ByteSize;

use super::reader::{Section, at_least, checked, fixed, path_in, size};

/// The files that outlive the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateConfig {
    /// The directory of all state; created when it is first needed.
    pub dir: PathBuf,
    /// The maximum size of the file of robots.txt entries, in bytes.
    pub(super) max_size_bytes: u64,
}

/// Reads `[state]`. Paths are relative to `dir`.
pub(super) fn read(section: &mut Section<'_>, dir: &Path) -> StateConfig {
    // With less, the file could not hold even a few of the largest robots.txt files.
    let max_size = checked(size, at_least(ByteSize::mib(8)));
    StateConfig {
        dir: section.key(fixed("dir"), dir.join("wayleave-state"), path_in(dir)),
        max_size_bytes: section.key(fixed("max_size"), ByteSize::gib(10), max_size).as_u64(),
    }
}
