//! Cache entries: the facts about one resource.

use std::sync::Arc;
use std::time::SystemTime;

use super::fetch_identity::FetchIdentity;
use super::fetch_outcome::{
    FetchEnding, FetchErrorKind, FetchOutcome, FetchRequest, FetchResult, FinishedFetch,
};
use super::lifetime::LifetimeSettings;
use super::resource::Resource;

/// The last answer of an origin, and the failures since. Only this is worth storing across restarts; everything else
/// follows from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheEntry {
    /// The last fetch that ended with an answer: rules, unavailable, or redirects without end.
    pub answer: Option<Arc<FinishedFetch>>,
    /// The attempts since then, all of which failed.
    pub failures: Option<FailureRun>,
}

/// Consecutive failed attempts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureRun {
    /// The time of the first failure. No later gap between attempts was so long that the origin could have been
    /// reachable in between.
    pub since: SystemTime,
    /// The number of attempts.
    pub count: u32,
    /// The last attempt.
    pub last: Arc<FinishedFetch>,
}

impl CacheEntry {
    /// Returns the identity of the last answer, or of the last attempt if there is no answer. The next fetch is made as
    /// the same.
    #[must_use]
    pub fn fetched_as(&self) -> Option<&Arc<FetchIdentity>> {
        let last = self.answer.as_ref().or(self.failures.as_ref().map(|failing| &failing.last));
        last.map(|fetch| &fetch.fetched_as)
    }

    /// Returns whether it counts for requests of `identity`.
    #[must_use]
    pub fn counts_for(&self, identity: &FetchIdentity) -> bool {
        let failed = self.failures.as_ref().map(|failing| &failing.last);
        self.answer.iter().chain(failed).all(|fetch| fetch.counts_for(identity))
    }

    /// Returns the entry after one more fetch.
    #[must_use]
    pub fn after_fetch(&self, finished: FinishedFetch) -> Self {
        if let FetchEnding::NotModified(fields) = &finished.outcome.ending {
            return match &self.answer {
                Some(answer) => Self::answered(answer.confirmed(&finished, fields)),
                // The answer was dropped while the fetch was in flight.
                None => self.failed(FinishedFetch {
                    outcome: missing_copy(finished.outcome.uri.clone()),
                    ..finished
                }),
            };
        }
        match finished.outcome.result() {
            // The last answer is kept: it may still decide while the origin is unreachable.
            FetchResult::Unreachable => self.failed(finished),
            // Nothing was learned about the origin.
            FetchResult::Postponed => self.clone(),
            _ => Self::answered(finished),
        }
    }

    /// Returns the entry without failures that are so long ago that the origin may have been reachable since.
    #[must_use]
    pub(super) fn without_expired_failures(
        &self,
        now: SystemTime,
        lifetimes: &LifetimeSettings,
    ) -> Self {
        // A clock that was set back gives a negative gap, which counts as none.
        Self {
            answer: self.answer.clone(),
            failures: self
                .failures
                .as_ref()
                .filter(|failing| {
                    let gap = now.duration_since(failing.last.fetched_at);
                    gap.unwrap_or_default() <= lifetimes.longest_gap(failing.count)
                })
                .cloned(),
        }
    }

    /// Returns the request of `identity` that refreshes the entry.
    #[must_use]
    pub fn request(&self, resource: &Resource, identity: Arc<FetchIdentity>) -> FetchRequest {
        // The answer to somebody else may be another representation, which a 304 would not confirm.
        let own = self.answer.as_ref().filter(|answer| answer.fetched_as.looks_like(&identity));
        FetchRequest {
            resource: resource.clone(),
            validators: own.and_then(|answer| answer.validators()),
            identity,
        }
    }

    /// Returns whether both answers have the same body, so that the parsed content of one is valid for the other.
    pub(super) fn has_body_of(&self, other: &Self) -> bool {
        let body = |entry: &Self| Some(entry.answer.as_ref()?.outcome.body()?.bytes.clone());
        match (body(self), body(other)) {
            // The pointers are equal after a 304, so large bodies are rarely compared.
            (Some(one), Some(other)) => Arc::ptr_eq(&one, &other) || one == other,
            _ => false,
        }
    }

    fn answered(finished: FinishedFetch) -> Self {
        Self { answer: Some(Arc::new(finished)), failures: None }
    }

    fn failed(&self, last: FinishedFetch) -> Self {
        let now = last.fetched_at;
        let (since, count) = match &self.failures {
            // If the clock was set back, the failures must not be in the future.
            Some(earlier) => (earlier.since.min(now), earlier.count.saturating_add(1)),
            None => (now, 1),
        };
        let failing = FailureRun { since, count, last: Arc::new(last) };
        Self { answer: self.answer.clone(), failures: Some(failing) }
    }
}

fn missing_copy(uri: String) -> FetchOutcome {
    FetchOutcome::failed(uri, FetchErrorKind::Internal, "304 for a copy that is gone")
}
