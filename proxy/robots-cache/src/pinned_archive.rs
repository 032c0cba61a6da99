//! The archive of the texts of pinned robots.txt files, in a folder of the state directory: from them, the decisions that rest on
//! such a text can be derived again.

use std::io;
use std::path::{Path, PathBuf};

use wayleave_evidence::{Sha256Digest, archive};

/// The extension of archived texts.
const EXTENSION: &str = "txt";

fn folder(state_dir: &Path) -> PathBuf {
    state_dir.join("pinned")
}

/// Returns an archived text, if it is still there.
pub(super) fn load_archived(state_dir: &Path, digest: Sha256Digest) -> Option<Vec<u8>> {
    archive::read(&folder(state_dir), digest, EXTENSION)
}

/// Archives the texts, before any decision rests on them.
///
/// # Errors
///
/// Returns an error if one cannot be written.
pub fn archive_pinned<'a>(
    state_dir: &Path,
    texts: impl IntoIterator<Item = &'a [u8]>,
) -> io::Result<()> {
    let folder = folder(state_dir);
    texts.into_iter().try_for_each(|text| archive::store(&folder, text, EXTENSION))
}
