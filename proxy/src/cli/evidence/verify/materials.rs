//! What decisions rest on, as the export holds it: robots.txt files and configurations, each with its digest.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use super::findings::Findings;
use crate::cli::evidence::manifest::{self, Manifest};
use crate::observe::digest::Digest;

/// Files of an export, read when they are wanted.
pub(super) struct Materials {
    dir: PathBuf,
    /// What is there, and whole.
    sound: HashMap<String, Digest>,
}

impl Materials {
    /// Compares all files with the manifest.
    pub(super) fn check(dir: &Path, manifest: &Manifest, findings: &mut Findings) -> Self {
        let mut sound = HashMap::new();
        for listed in &manifest.files {
            let found = fs::read(dir.join(&listed.path));
            match found.map(|bytes| Digest::of(&bytes)) {
                Ok(digest) if digest == listed.sha256 => {
                    sound.insert(listed.path.clone(), digest);
                }
                Ok(_) => findings.altered(&listed.path, "does not have its digest"),
                Err(error) => findings.altered(&listed.path, &format!("cannot be read: {error}")),
            }
        }
        let listed = manifest.files.iter().chain(&manifest.logs);
        let mut listed: BTreeSet<&str> = listed.map(|listed| listed.path.as_str()).collect();
        listed.insert(manifest::PATH);
        for path in files_below(dir, "") {
            if !listed.contains(path.as_str()) {
                findings.altered(&path, "is not in the manifest");
            }
        }
        Self {
            dir: dir.to_owned(),
            sound,
        }
    }

    /// A robots.txt.
    pub(super) fn body(&self, digest: Digest) -> Option<Vec<u8>> {
        self.read(&format!("bodies/{digest}"), digest)
    }

    /// A configuration.
    pub(super) fn configuration(&self, digest: Digest) -> Option<Vec<u8>> {
        self.read(&format!("configurations/{digest}.toml"), digest)
    }

    fn read(&self, path: &str, digest: Digest) -> Option<Vec<u8>> {
        let is_it = self.sound.get(path) == Some(&digest);
        is_it.then(|| fs::read(self.dir.join(path)).ok()).flatten()
    }
}

/// The paths of all files, with slashes.
fn files_below(dir: &Path, prefix: &str) -> Vec<String> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        match entry.path().is_dir() {
            true => files.extend(files_below(&entry.path(), &format!("{name}/"))),
            false => files.push(name),
        }
    }
    files.sort();
    files
}
