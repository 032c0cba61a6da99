//! The documents and configurations of an export, which its decisions rest on, checked against their digests.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::ensure;

use super::findings::Findings;
use super::handed;
use super::hashing::Hashing;
use crate::cli::evidence::manifest::{self, LONGEST, Listed, Manifest};
use crate::observe::digest::Digest;

/// The files of an export, read on demand.
pub(super) struct Materials {
    dir: PathBuf,
    /// The paths and digests of intact files.
    sound: HashMap<String, Digest>,
}

impl Materials {
    /// Compares all files in the folder with the manifest.
    pub(super) fn check(dir: &Path, manifest: &Manifest, findings: &mut Findings) -> Self {
        let mut sound = HashMap::new();
        for listed in &manifest.files {
            match digest(dir, listed) {
                Ok(digest) if digest == listed.sha256 => {
                    sound.insert(listed.path.clone(), digest);
                }
                Ok(_) => findings.altered(&listed.path, "does not have its digest"),
                Err(error) => findings.altered(&listed.path, &format!("cannot be read: {error:#}")),
            }
        }
        let listed = manifest.files.iter().chain(&manifest.logs);
        let mut listed: BTreeSet<&str> = listed.map(|listed| listed.path.as_str()).collect();
        listed.insert(manifest::PATH);
        // A file that is not listed is not signed. Nothing reads it here, but people might.
        for path in handed::paths(dir) {
            if !listed.contains(path.as_str()) {
                findings.altered(&path, "is not in the manifest");
            }
        }
        Self {
            dir: dir.to_owned(),
            sound,
        }
    }

    /// Returns a robots.txt or another document, if it is intact.
    pub(super) fn body(&self, digest: Digest) -> Option<Vec<u8>> {
        self.read(&format!("bodies/{digest}"), digest)
    }

    /// Returns the text of a configuration, if it is intact.
    pub(super) fn configuration(&self, digest: Digest) -> Option<Vec<u8>> {
        self.read(&format!("configurations/{digest}.toml"), digest)
    }

    fn read(&self, path: &str, digest: Digest) -> Option<Vec<u8>> {
        let is_it = self.sound.get(path) == Some(&digest);
        let read = || {
            let mut bytes = Vec::new();
            let file = handed::open(&self.dir, path).ok()?;
            file.take(LONGEST).read_to_end(&mut bytes).ok()?;
            // It may have been changed after it was checked.
            (Digest::of(&bytes) == digest).then_some(bytes)
        };
        is_it.then(read).flatten()
    }
}

/// Returns the digest of a file, of which one byte more than the manifest says is read, so that a longer file has another
/// digest.
fn digest(dir: &Path, listed: &Listed) -> anyhow::Result<Digest> {
    ensure!(listed.bytes <= LONGEST, "no file of an export is as long");
    let file = handed::open(dir, &listed.path)?;
    let mut file = Hashing::new(file.take(listed.bytes + 1));
    io::copy(&mut file, &mut io::sink())?;
    Ok(file.digest())
}
