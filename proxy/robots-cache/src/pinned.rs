//! Robots.txt files that the configuration states in place of the origins' own, to try them out (`[[robots.pinned]]`).
//!
//! They are looked up before any copy, and are neither in the store nor in the fleet, whose entries are what origins serve. Their
//! texts are archived (`pinned_archive`).

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use wayleave_decision::CheckedSnapshot;
use wayleave_evidence::Sha256Digest;
use wayleave_lifecycle::{
    FetchEnding, FetchOutcome, FetchedBody, FetchedResponse, FinishedFetch, Resource,
    ResponseFields, Snapshot,
};
use wayleave_robots_txt::Origin;

use super::stored_copies::CopyHead;

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
    /// The parsed text of each origin, and the answer that it stands for.
    by_origin: HashMap<Origin, (CheckedSnapshot, Arc<FinishedFetch>)>,
}

impl PinnedFiles {
    /// Parses the texts, which were read at this time.
    pub fn new(texts: &[PinnedText], read_at: SystemTime) -> Self {
        let parsed = texts.iter().map(|pinned| {
            let answer = answer(pinned, read_at);
            let known = CheckedSnapshot::from_fetch(&(&pinned.origin).into(), answer.clone());
            let known = CheckedSnapshot { is_pinned: true, ..known };
            (pinned.origin.clone(), (known, Arc::new(answer)))
        });
        Self { by_origin: parsed.collect() }
    }

    /// Returns whether an origin's robots.txt is pinned.
    pub fn contains(&self, origin: &Origin) -> bool {
        self.by_origin.contains_key(origin)
    }

    /// Returns the pinned origins, in no particular order.
    pub fn origins(&self) -> impl Iterator<Item = &Origin> {
        self.by_origin.keys()
    }

    /// Returns them with the snapshots of their texts.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Origin, &Arc<Snapshot>)> {
        self.by_origin.iter().map(|(origin, (known, _))| (origin, &known.snapshot))
    }

    pub(super) fn len(&self) -> usize {
        self.by_origin.len()
    }

    /// Returns the text, if this is the robots.txt of an origin that has one. It counts for every identity, and never ages.
    pub fn find(&self, resource: &Resource) -> Option<&CheckedSnapshot> {
        // Nearly always there is none, and every request asks.
        if self.by_origin.is_empty() || !resource.is_robots_txt() {
            return None;
        }
        self.by_origin.get(resource.origin()).map(|(known, _)| known)
    }

    /// Returns the answer that an origin's text stands for.
    pub(super) fn answer(&self, origin: &Origin) -> Option<&Arc<FinishedFetch>> {
        self.by_origin.get(origin).map(|(_, answer)| answer)
    }

    /// Returns the text with this SHA-256 as clients get it.
    pub(super) fn copy(
        &self,
        origin: &Origin,
        sha256: &[u8; 32],
    ) -> Option<(Arc<CopyHead>, Arc<FinishedFetch>)> {
        let copy = self.answer(origin)?;
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
