//! `[state]`: what outlives the process.

use std::path::{Path, PathBuf};

use bytesize::ByteSize;

use super::file::{Section, at_least, checked, fixed, path_in, size};

/// What outlives the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// The directory of everything the proxy keeps; made when it is first needed.
    pub(crate) dir: PathBuf,
    /// Bytes that the file of robots.txt entries may take.
    pub(super) max_size: u64,
}

/// Paths are relative to `dir`.
pub(super) fn state(section: &mut Section<'_>, dir: &Path) -> State {
    // The file has room for a few of the largest robots.txt files then.
    let max_size = checked(size, at_least(ByteSize::mib(8)));
    State {
        dir: section.key(fixed("dir"), dir.join("wayleave-state"), path_in(dir)),
        max_size: section
            .key(fixed("max_size"), ByteSize::gib(10), max_size)
            .as_u64(),
    }
}
