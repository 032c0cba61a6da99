//! The documents and configurations of an export, which its decisions rest on, checked against their digests.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::ensure;

use super::findings::ExportFindings;
use super::hashing::HashingReader;
use super::untrusted_folder;
use crate::digest::Sha256Digest;
use crate::manifest::{ListedFile, MANIFEST_PATH, MAX_FILE_BYTES, Manifest};

/// The files of an export, read on demand; by default none.
#[derive(Debug, Default)]
pub struct CheckedMaterials {
    dir: PathBuf,
    /// The paths and digests of intact files.
    intact: HashMap<String, Sha256Digest>,
}

impl CheckedMaterials {
    /// Compares all files in the folder with the manifest.
    pub(super) fn check(dir: &Path, manifest: &Manifest, findings: &mut ExportFindings) -> Self {
        let mut intact = HashMap::new();
        for listed in &manifest.files {
            match digest(dir, listed) {
                Ok(digest) if digest == listed.sha256 => {
                    intact.insert(listed.path.clone(), digest);
                }
                Ok(_) => findings.add_altered(&listed.path, "does not match its digest"),
                Err(error) => {
                    findings.add_altered(&listed.path, &format!("cannot be read: {error:#}"));
                }
            }
        }
        let mut listed: BTreeSet<&str> =
            manifest.files.iter().chain(&manifest.logs).map(|file| file.path.as_str()).collect();
        listed.insert(MANIFEST_PATH);
        // A file that is not listed is not signed. Nothing reads it here, but people might.
        for path in untrusted_folder::list_paths(dir) {
            if !listed.contains(path.as_str()) {
                findings.add_altered(&path, "is not in the manifest");
            }
        }
        Self { dir: dir.to_owned(), intact }
    }

    /// Returns a robots.txt or another document, if it is intact.
    pub fn body(&self, digest: Sha256Digest) -> Option<Vec<u8>> {
        self.read(&format!("bodies/{digest}"), digest)
    }

    /// Returns the text of a configuration, if it is intact.
    pub fn configuration(&self, digest: Sha256Digest) -> Option<Vec<u8>> {
        self.read(&format!("configurations/{digest}.toml"), digest)
    }

    fn read(&self, path: &str, digest: Sha256Digest) -> Option<Vec<u8>> {
        if self.intact.get(path) != Some(&digest) {
            return None;
        }
        let mut bytes = Vec::new();
        let file = untrusted_folder::open_file(&self.dir, path).ok()?;
        file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).ok()?;
        // It may have been changed after it was checked.
        (Sha256Digest::of(&bytes) == digest).then_some(bytes)
    }
}

/// Returns the digest of a file, of which one byte more than the manifest says is read, so that a longer file has another
/// digest.
fn digest(dir: &Path, listed: &ListedFile) -> anyhow::Result<Sha256Digest> {
    ensure!(listed.bytes <= MAX_FILE_BYTES, "is longer than any file of an export");
    let file = untrusted_folder::open_file(dir, &listed.path)?;
    let mut file = HashingReader::new(file.take(listed.bytes + 1));
    io::copy(&mut file, &mut io::sink())?;
    Ok(file.digest())
}
