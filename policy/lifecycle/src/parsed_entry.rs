//! Cache entries with a parsed answer.

use std::sync::Arc;

use wayleave_usage_preferences::DocumentKind;

use super::entry::CacheEntry;
use super::fetch_outcome::{FetchResult, FinishedFetch};
use super::lifetime::LifetimeSettings;
use super::parsed_answer::ParsedAnswer;
use super::snapshot::Snapshot;

/// An entry from a fetch or a store, with its parsed answer. The caller parses it, because that takes a while and the
/// [`RefreshScheduler`](super::RefreshScheduler) serves every origin.
#[derive(Clone, Debug)]
pub struct ParsedEntry {
    entry: CacheEntry,
    /// The parsed content of the answer, if there is one.
    answer: Option<ParsedAnswer>,
    /// The last attempt, if it was postponed. It is no fact about the origin, so it is not in the entry.
    postponed: Option<Arc<FinishedFetch>>,
}

impl ParsedEntry {
    /// Returns the entry, to be stored.
    #[must_use]
    pub fn entry(&self) -> &CacheEntry {
        &self.entry
    }

    /// Returns the entry, the parsed content of its answer, and the last attempt if it was postponed.
    pub(super) fn parts(&self) -> (&CacheEntry, Option<&ParsedAnswer>, Option<&FinishedFetch>) {
        (&self.entry, self.answer.as_ref(), self.postponed.as_deref())
    }

    /// Returns whether the last attempt brought no answer, so that an earlier one may still decide.
    pub(super) fn has_failed(&self) -> bool {
        self.entry.failures.is_some() || self.postponed.is_some()
    }

    /// Returns the entry without the parsed content.
    #[must_use]
    pub fn into_entry(self) -> CacheEntry {
        self.entry
    }

    /// Parses the answer of an entry, unless `known` was made of the same answer.
    #[must_use]
    pub fn parse(kind: DocumentKind, entry: CacheEntry, known: Option<&Snapshot>) -> Self {
        let parsed =
            known.filter(|known| known.is_answer_of(&entry)).and_then(Snapshot::parsed_answer);
        Self::with_answer(kind, entry, parsed)
    }

    /// Returns the entry after one more fetch. `before` is the entry stored when the fetch began
    /// and `known` the snapshot in use then: an answer with the same body is not parsed again.
    #[must_use]
    pub fn after_fetch(
        kind: DocumentKind,
        (before, known): (&CacheEntry, Option<&Snapshot>),
        finished: FinishedFetch,
        lifetimes: &LifetimeSettings,
    ) -> Self {
        let recent = before.without_expired_failures(finished.fetched_at, lifetimes);
        let is_postponed = finished.outcome.result() == FetchResult::Postponed;
        let postponed = is_postponed.then(|| Arc::new(finished.clone()));
        let entry = recent.after_fetch(finished);
        // After a 304 the body is the same, and parsing it again would be most of the work.
        let parsed = known
            .filter(|known| known.is_answer_of(before) && before.has_body_of(&entry))
            .and_then(Snapshot::parsed_answer);
        Self { postponed, ..Self::with_answer(kind, entry, parsed) }
    }

    fn with_answer(kind: DocumentKind, entry: CacheEntry, parsed: Option<&ParsedAnswer>) -> Self {
        let parse = || entry.answer.as_ref().map(|answer| ParsedAnswer::parse(kind, answer));
        Self { answer: parsed.cloned().or_else(parse), entry, postponed: None }
    }
}

/// Parses the entry of a robots.txt.
impl From<CacheEntry> for ParsedEntry {
    fn from(entry: CacheEntry) -> Self {
        Self::parse(DocumentKind::RobotsTxt, entry, None)
    }
}
