//! `Learned`: an entry whose answer is parsed.

use std::time::SystemTime;

use super::contents::Contents;
use super::entry::Entry;
use super::lifetime::Lifetimes;
use super::outcome::FetchOutcome;
use super::snapshot::Snapshot;
use crate::document::Kind;

/// What a fetch or a store brought: an entry, its answer parsed. Made by whoever fetched or read it, because parsing takes
/// a while and the [`Cache`](super::Cache) has every origin to look after.
#[derive(Clone, Debug)]
pub struct Learned {
    entry: Entry,
    /// What the entry's answer says, if it has one.
    contents: Option<Contents>,
}

impl Learned {
    /// The entry, to be kept.
    #[must_use]
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// The entry, and what its answer says.
    pub(super) fn parts(&self) -> (&Entry, Option<&Contents>) {
        (&self.entry, self.contents.as_ref())
    }

    /// The entry, without what it says.
    #[must_use]
    pub fn into_entry(self) -> Entry {
        self.entry
    }

    /// What an entry of such a file says; it is parsed unless `known` is of the same answer.
    #[must_use]
    pub fn of(kind: Kind, entry: Entry, known: Option<&Snapshot>) -> Self {
        let parsed = known.filter(|known| known.is_of(&entry));
        let contents = parsed.and_then(Snapshot::contents).cloned();
        Self::with(kind, entry, contents)
    }

    /// What is known after one more fetch, which ended at `now`. `before` is what was kept when it began and `known` what
    /// was gone by then: if that is of the same body, it is not parsed again.
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

/// As of a robots.txt, which is parsed here.
impl From<Entry> for Learned {
    fn from(entry: Entry) -> Self {
        Self::of(Kind::RobotsTxt, entry, None)
    }
}
