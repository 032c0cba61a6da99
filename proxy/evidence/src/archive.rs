//! Texts that are archived under their SHA-256, so that decisions by them can be derived again.

use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::{Sha256Digest, regular_file};

/// Returns the path of the text with this digest. `extension` is that of all texts in the folder.
pub fn path(folder: &Path, digest: Sha256Digest, extension: &str) -> PathBuf {
    folder.join(format!("{digest}.{extension}"))
}

/// Returns the text with this digest, if it is still there as it was.
pub fn read(folder: &Path, digest: Sha256Digest, extension: &str) -> Option<Vec<u8>> {
    let kept = regular_file::read(&path(folder, digest, extension)).ok();
    kept.filter(|text| Sha256Digest::of(text) == digest)
}

/// Stores a text unless it is there already, also if what is there was cut short or edited. Creates the folder.
///
/// # Errors
///
/// Returns an error if it cannot be written.
pub fn store(folder: &Path, text: &[u8], extension: &str) -> io::Result<()> {
    let digest = Sha256Digest::of(text);
    if read(folder, digest, extension).is_some() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o750).create(folder)?;
    let path = path(folder, digest, extension);
    let part = path.with_extension("part");
    let mut file =
        regular_file::options().write(true).create(true).truncate(true).mode(0o640).open(&part)?;
    file.write_all(text)?;
    // On disk before it has its name: after a power cut the archive has whole files only.
    file.sync_all()?;
    fs::rename(&part, &path)
}
