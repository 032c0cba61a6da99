//! `Learned`: an entry whose answer is parsed.

use std::time::SystemTime;

use super::entry::Entry;
use super::lifetime::Lifetimes;
use super::outcome::FetchOutcome;
use super::snapshot::Snapshot;
use crate::AccessResult;

/// What a fetch or a store brought: an entry, its answer parsed. Made by whoever fetched or read it, because parsing takes
/// a while and the [`Cache`](super::Cache) has every origin to look after.
#[derive(Clone, Debug)]
pub struct Learned {
    entry: Entry,
    /// What the entry's answer says, if it has one.
    access: Option<AccessResult>,
}

impl Learned {
    /// The entry, to be kept.
    #[must_use]
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// The entry, and what its answer says.
    pub(super) fn parts(&self) -> (&Entry, Option<&AccessResult>) {
        (&self.entry, self.access.as_ref())
    }

    /// The entry, without what it says.
    #[must_use]
    pub fn into_entry(self) -> Entry {
        self.entry
    }

    /// What an entry says; it is parsed unless `known` is of the same answer.
    #[must_use]
    pub fn of(entry: Entry, known: Option<&Snapshot>) -> Self {
        let parsed = known.filter(|known| known.is_of(&entry));
        match parsed.and_then(Snapshot::answer_access) {
            Some(access) => Self {
                access: Some(access.clone()),
                entry,
            },
            None => entry.into(),
        }
    }

    /// What is known after one more fetch, which ended at `now`. `before` is what was kept when it began and `known` what
    /// was gone by then: if that is of the same body, it is not parsed again.
    #[must_use]
    pub fn after(
        (before, known): (&Entry, Option<&Snapshot>),
        outcome: FetchOutcome,
        now: SystemTime,
        lifetimes: &Lifetimes,
    ) -> Self {
        let entry = before.still_counting(now, lifetimes).after(outcome, now);
        let is_parsed = |known: &&Snapshot| known.is_of(before) && before.has_body_of(&entry);
        match known.filter(is_parsed).and_then(Snapshot::answer_access) {
            Some(access) => Self {
                access: Some(access.clone()),
                entry,
            },
            None => entry.into(),
        }
    }
}

/// The answer is parsed here.
impl From<Entry> for Learned {
    fn from(entry: Entry) -> Self {
        let access = entry.answer.as_ref().map(|facts| facts.access());
        Self { entry, access }
    }
}
