//! Robots.txt files that the configuration states in place of the origins' own, for trying (`[[robots.pinned]]`).
//!
//! They are looked up before any copy, and are neither in the store nor in the fleet, whose entries are what origins serve. Their
//! texts are archived in a folder of the state directory, so that the decisions by them can be made again.

use std::collections::HashMap;
use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use wayleave_decision::CheckedSnapshot;
use wayleave_evidence::{Sha256Digest, regular_file};
use wayleave_lifecycle::{
    FetchEnding, FetchOutcome, FetchedBody, FetchedResponse, FinishedFetch, Resource,
    ResponseFields, Snapshot,
};
use wayleave_robots_txt::Origin;

use super::stored_copies::CopyHead;

/// The folder of the archive in the state directory.
const DIR: &str = "pinned";

/// The text that one origin's robots.txt is pinned to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedText {
    pub origin: Origin,
    /// The file that it was read from.
    pub file: PathBuf,
    pub text: Arc<[u8]>,
}

/// The pinned robots.txt files, by origin.
#[derive(Debug, Default)]
pub struct PinnedFiles {
    known: HashMap<Origin, CheckedSnapshot>,
    /// The answers that they stand for.
    answers: HashMap<Origin, Arc<FinishedFetch>>,
}

impl PinnedFiles {
    /// Parses the texts, which were read at this time.
    pub fn new(texts: &[PinnedText], read_at: SystemTime) -> Self {
        let mut files = Self::default();
        for pinned in texts {
            let origin = pinned.origin.clone();
            let answer = answer(pinned, read_at);
            let known = CheckedSnapshot::from_fetch(&(&origin).into(), answer.clone());
            files.known.insert(origin.clone(), CheckedSnapshot { is_pinned: true, ..known });
            files.answers.insert(origin, Arc::new(answer));
        }
        files
    }

    /// Returns whether an origin's robots.txt is pinned.
    pub fn contains(&self, origin: &Origin) -> bool {
        self.known.contains_key(origin)
    }

    /// Returns the pinned origins, in no particular order.
    pub fn origins(&self) -> impl Iterator<Item = &Origin> {
        self.known.keys()
    }

    /// Returns them with the snapshots of their texts.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Origin, &Arc<Snapshot>)> {
        self.known.iter().map(|(origin, known)| (origin, &known.snapshot))
    }

    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// Returns the text, if this is the robots.txt of an origin that has one. It counts for every identity, and never ages.
    pub fn find(&self, resource: &Resource) -> Option<&CheckedSnapshot> {
        // Nearly always there is none, and every request asks.
        if self.known.is_empty() || !resource.is_robots_txt() {
            return None;
        }
        self.known.get(resource.origin())
    }

    /// Returns the answer that an origin's text stands for.
    pub(super) fn answer(&self, origin: &Origin) -> Option<&Arc<FinishedFetch>> {
        self.answers.get(origin)
    }

    /// Returns the text with this SHA-256 as clients get it.
    pub(super) fn copy(
        &self,
        origin: &Origin,
        sha256: &[u8; 32],
    ) -> Option<(Arc<CopyHead>, Arc<FinishedFetch>)> {
        let copy = self.answers.get(origin)?;
        let body = copy.outcome.body()?;
        let head = CopyHead { is_pinned: true, ..CopyHead::of(copy) };
        (body.digest.as_deref() == Some(sha256)).then(|| (Arc::new(head), Arc::clone(copy)))
    }
}

/// Returns the answer of an origin that serves the text.
fn answer(pinned: &PinnedText, read_at: SystemTime) -> FinishedFetch {
    let body = FetchedBody {
        bytes: Arc::clone(&pinned.text),
        is_cut: false,
        digest: Some(Sha256Digest::of(&pinned.text).0.into()),
    };
    let response = FetchedResponse { status: 200, fields: ResponseFields::default(), body };
    let outcome = FetchOutcome {
        redirects: Vec::new(),
        uri: pinned.origin.robots_txt_uri(),
        ending: FetchEnding::Response(response),
    };
    FinishedFetch::of_proxy(outcome, read_at)
}

/// Returns the path of the archived text with this digest.
fn path(state_dir: &Path, digest: Sha256Digest) -> PathBuf {
    state_dir.join(DIR).join(format!("{digest}.txt"))
}

/// Returns an archived text, if it is still there.
pub(super) fn archived(state_dir: &Path, digest: Sha256Digest) -> Option<Vec<u8>> {
    let kept = regular_file::read(&path(state_dir, digest)).ok();
    kept.filter(|text| Sha256Digest::of(text) == digest)
}

/// Archives the texts, before any decision rests on them.
///
/// # Errors
///
/// Returns an error if one cannot be written.
pub fn archive(state_dir: &Path, texts: &[PinnedText]) -> io::Result<()> {
    for pinned in texts {
        let digest = Sha256Digest::of(&pinned.text);
        if archived(state_dir, digest).is_some() {
            continue;
        }
        let path = path(state_dir, digest);
        DirBuilder::new().recursive(true).mode(0o750).create(state_dir.join(DIR))?;
        let part = path.with_extension("part");
        let mut file = regular_file::options()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o640)
            .open(&part)?;
        file.write_all(&pinned.text)?;
        // On disk before it has its name, as configurations are.
        file.sync_all()?;
        fs::rename(&part, &path)?;
    }
    Ok(())
}
