//! `[evidence]`: the key that signs the decision log.

use std::path::{Path, PathBuf};

use super::reader::{Section, fixed, path_in};

/// Reads the path of the key file, relative to `state_dir`.
pub(super) fn read_key(section: &mut Section<'_>, state_dir: &Path) -> PathBuf {
    let path = state_dir.join("evidence.key");
    section.key(fixed("key"), path, path_in(state_dir))
}
