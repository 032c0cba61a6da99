//! Archives every configuration that was in effect under its SHA-256, so that each decision can be reproduced with its own.

use std::fs::{self, DirBuilder};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use wayleave_evidence::{Sha256Digest, regular_file};

/// The folder of the archive in the state directory.
const DIR: &str = "configurations";

/// Returns the path of the configuration with this digest.
fn path(state_dir: &Path, digest: Sha256Digest) -> PathBuf {
    state_dir.join(DIR).join(format!("{digest}.toml"))
}

/// Returns a configuration, if it is still stored.
pub fn read(state_dir: &Path, digest: Sha256Digest) -> Option<Vec<u8>> {
    let kept = regular_file::read(&path(state_dir, digest)).ok();
    kept.filter(|text| Sha256Digest::of(text) == digest)
}

/// Stores a configuration unless it is stored already, and returns its digest.
///
/// # Errors
///
/// Returns an error if it cannot be written.
pub fn store(state_dir: &Path, text: &[u8]) -> anyhow::Result<Sha256Digest> {
    let digest = Sha256Digest::of(text);
    let path = path(state_dir, digest);
    // Compared as a whole, so that a file which was cut short or edited is replaced.
    if regular_file::read(&path).is_ok_and(|kept| kept == text) {
        return Ok(digest);
    }
    let write = || {
        let dir = path.parent().unwrap_or(state_dir);
        DirBuilder::new().recursive(true).mode(0o750).create(dir)?;
        let part = path.with_extension("part");
        let mut file = regular_file::options()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o640)
            .open(&part)?;
        file.write_all(text)?;
        // On disk before it has its name: after a power cut the archive has whole files only.
        file.sync_all()?;
        fs::rename(&part, &path)
    };
    write().with_context(|| format!("saving the configuration in {}", path.display()))?;
    Ok(digest)
}
