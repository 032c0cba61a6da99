//! Secrets of 32 random bytes, and the files that hold them.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use anyhow::anyhow;
use ring::rand::{SecureRandom, SystemRandom};

/// The length of a secret.
pub const SECRET_BYTES: usize = 32;

/// Generates a secret.
///
/// # Errors
///
/// Returns an error if the system has no random numbers.
pub fn new_secret() -> anyhow::Result<[u8; SECRET_BYTES]> {
    let mut secret = [0; SECRET_BYTES];
    SystemRandom::new()
        .fill(&mut secret)
        .map_err(|_| anyhow!("the system has no random numbers"))?;
    Ok(secret)
}

/// Creates a folder that only its owner may enter, and the folders above it. One that exists is left as it is.
///
/// # Errors
///
/// Returns an error if it cannot be created.
pub fn create_private_dir(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Writes a new file that only its owner may read, and the folders above it.
///
/// # Errors
///
/// Returns an error if the file exists or cannot be written.
pub fn write_secret(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        create_private_dir(dir)?;
    }
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    // A key must not be lost once it was published.
    file.sync_all()
}
