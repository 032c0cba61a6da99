//! Cache entries with a parsed answer.

use std::time::SystemTime;

use super::contents::Contents;
use super::entry::Entry;
use super::lifetime::Lifetimes;
use super::outcome::FetchOutcome;
use super::snapshot::Snapshot;
use crate::document::Kind;

/// An entry from a fetch or a store, with its parsed answer. The caller parses it, because that takes a while and the
/// [`RefreshScheduler`](super::RefreshScheduler) serves every origin.
#[derive(Clone, Debug)]
pub struct Learned {
    entry: Entry,
    /// The parsed content of the answer, if there is one.
    contents: Option<Contents>,
}

impl Learned {
    /// Returns the entry, to be stored.
    #[must_use]
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Returns the entry, and the parsed content of its answer.
    pub(super) fn parts(&self) -> (&Entry, Option<&Contents>) {
        (&self.entry, self.contents.as_ref())
    }

    /// Returns the entry without the parsed content.
    #[must_use]
    pub fn into_entry(self) -> Entry {
        self.entry
    }

    /// Parses the answer of an entry, unless `known` is of the same answer.
    #[must_use]
    pub fn of(kind: Kind, entry: Entry, known: Option<&Snapshot>) -> Self {
        let parsed = known.filter(|known| known.is_of(&entry));
        let contents = parsed.and_then(Snapshot::contents).cloned();
        Self::with(kind, entry, contents)
    }

    /// Returns the entry after one more fetch, which ended at `now`. `before` is the entry stored when the fetch began
    /// and `known` the snapshot in use then: an answer with the same body is not parsed again.
    #[must_use]
    pub fn after(
        kind: Kind,
        (before, known): (&Entry, Option<&Snapshot>),
        outcome: FetchOutcome,
        now: SystemTime,
        lifetimes: &Lifetimes,
    ) -> Self {
        let entry = before.still_counting(now, lifetimes).after(outcome, now);
        let is_parsed = |known: &&Snapshot| known.is_of(before) && before.has_body_of(&entry);
        let parsed = known.filter(is_parsed);
        let contents = parsed.and_then(Snapshot::contents).cloned();
        Self::with(kind, entry, contents)
    }

    fn with(kind: Kind, entry: Entry, parsed: Option<Contents>) -> Self {
        let answer = entry.answer.as_ref();
        let parse = || answer.map(|facts| Contents::of(kind, facts));
        Self {
            contents: parsed.or_else(parse),
            entry,
        }
    }
}

/// Parses the entry of a robots.txt.
impl From<Entry> for Learned {
    fn from(entry: Entry) -> Self {
        Self::of(Kind::RobotsTxt, entry, None)
    }
}
