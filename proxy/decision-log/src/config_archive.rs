//! Archives every configuration that was in effect under its SHA-256, so that each decision can be reproduced with its own.

use std::path::{Path, PathBuf};

use anyhow::Context;
use wayleave_evidence::{Sha256Digest, archive};

const EXTENSION: &str = "toml";

fn folder(state_dir: &Path) -> PathBuf {
    state_dir.join("configurations")
}

/// Returns a configuration, if it is still stored.
pub fn read(state_dir: &Path, digest: Sha256Digest) -> Option<Vec<u8>> {
    archive::read(&folder(state_dir), digest, EXTENSION)
}

/// Stores a configuration unless it is stored already, and returns its digest.
///
/// # Errors
///
/// Returns an error if it cannot be written.
pub fn store(state_dir: &Path, text: &[u8]) -> anyhow::Result<Sha256Digest> {
    let digest = Sha256Digest::of(text);
    let folder = folder(state_dir);
    archive::store(&folder, text, EXTENSION).with_context(|| {
        let path = archive::path(&folder, digest, EXTENSION);
        format!("saving the configuration in {}", path.display())
    })?;
    Ok(digest)
}
