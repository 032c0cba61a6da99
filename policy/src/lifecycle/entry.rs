//! `Entry`: everything that is known of one resource, as facts.

use std::sync::Arc;
use std::time::SystemTime;

use super::lifetime::Lifetimes;
use super::outcome::{Ending, Facts, FetchErrorKind, FetchOutcome, FetchRequest, FetchResult};
use super::resource::Resource;

/// What one origin last said, and whether it could be reached since. This is what is worth keeping over a restart; all
/// else follows from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The last fetch that ended with an answer: rules, unavailable, or redirects without end.
    pub answer: Option<Arc<Facts>>,
    /// The attempts since, all of which failed.
    pub failing: Option<Failing>,
}

/// Attempts that failed, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    /// When the first of them failed; since then none was too long after the one before to show that the origin could
    /// not be reached between.
    pub since: SystemTime,
    /// How many there were.
    pub count: u32,
    /// The last of them.
    pub last: Arc<Facts>,
}

impl Entry {
    /// What is known after one more fetch, which ended at `now`.
    #[must_use]
    pub fn after(&self, outcome: FetchOutcome, now: SystemTime) -> Self {
        if let Ending::NotModified(fields) = &outcome.ending {
            return match &self.answer {
                Some(answer) => Self::answered(answer.confirmed(fields, now)),
                // The answer was forgotten while the fetch was under way.
                None => self.failed(nothing_to_confirm(outcome.uri), now),
            };
        }
        match outcome.result() {
            FetchResult::Unreachable => self.failed(outcome, now),
            _ => Self::answered(Facts {
                fetched_at: now,
                outcome,
            }),
        }
    }

    /// What still counts for a fetch at `now`: failures so long ago that nobody knows what was between count no more.
    #[must_use]
    pub(super) fn still_counting(&self, now: SystemTime, lifetimes: &Lifetimes) -> Self {
        let is_recent = |failing: &&Failing| {
            let gap = now.duration_since(failing.last.fetched_at);
            gap.unwrap_or_default() <= lifetimes.longest_gap(failing.count)
        };
        Self {
            answer: self.answer.clone(),
            failing: self.failing.as_ref().filter(is_recent).cloned(),
        }
    }

    /// What to fetch to learn more.
    #[must_use]
    pub fn request(&self, resource: &Resource) -> FetchRequest {
        FetchRequest {
            resource: resource.clone(),
            validators: self.answer.as_ref().and_then(|answer| answer.validators()),
        }
    }

    /// Whether both answers have one body, so that what was parsed from it holds for both.
    pub(super) fn has_body_of(&self, other: &Self) -> bool {
        let body = |entry: &Self| Some(entry.answer.as_ref()?.outcome.body()?.bytes.clone());
        match (body(self), body(other)) {
            (Some(one), Some(other)) => Arc::ptr_eq(&one, &other) || one == other,
            _ => false,
        }
    }

    fn answered(facts: Facts) -> Self {
        Self {
            answer: Some(Arc::new(facts)),
            failing: None,
        }
    }

    fn failed(&self, outcome: FetchOutcome, now: SystemTime) -> Self {
        let (since, count) = match &self.failing {
            // A clock that was set back must not leave the failures in the future.
            Some(earlier) => (earlier.since.min(now), earlier.count.saturating_add(1)),
            None => (now, 1),
        };
        let last = Arc::new(Facts {
            fetched_at: now,
            outcome,
        });
        Self {
            answer: self.answer.clone(),
            failing: Some(Failing { since, count, last }),
        }
    }
}

fn nothing_to_confirm(uri: String) -> FetchOutcome {
    FetchOutcome::failed(uri, FetchErrorKind::Internal, "304 for a copy that is gone")
}
