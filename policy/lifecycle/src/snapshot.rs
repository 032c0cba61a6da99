//! Snapshots: immutable views of the knowledge about a resource.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use wayleave_robots_txt::AccessResult;
use wayleave_usage_preferences::{DocumentKind, PreferenceDocument};

use super::entry::{CacheEntry, FailureRun};
use super::fetch_identity::{Audience, FetchIdentity};
use super::fetch_outcome::{FetchErrorKind, FetchResult, FinishedFetch};
use super::lifetime::{LifetimeSettings, POSTPONED_PAUSE};
use super::parsed_answer::ParsedAnswer;
use super::resource::Resource;
use super::unix_millis::{from_unix_millis, to_unix_millis};

/// The state of a resource: its last answer, parsed, and whether the origin was reachable since. Immutable; times are
/// arguments.
#[derive(Clone, Debug)]
pub struct Snapshot {
    answer: Option<SnapshotAnswer>,
    /// Boxed, because most origins have none.
    failure: Option<Box<SnapshotFailure>>,
}

/// The origin's last answer.
#[derive(Clone, Debug)]
struct SnapshotAnswer {
    contents: ParsedAnswer,
    /// Behind a pointer, because many origins have no rules.
    digest: Option<Arc<[u8; 32]>>,
    fetched_at: UnixMillis,
    /// The time for which it is fresh, in milliseconds; at most a day.
    fresh_for: u32,
    /// The time for which it is usable, in seconds.
    usable_for: u32,
    /// Whether the body was longer than the part that was read.
    is_cut: bool,
    /// Whether it is a copy to use while the origin is unreachable: a robots.txt, or the answer for another document.
    /// The absence of a robots.txt is not a copy.
    is_copy: bool,
    audience: Audience,
    fetched_as: Arc<FetchIdentity>,
}

/// The failures of every attempt since the answer, or an attempt that was postponed.
#[derive(Clone, Debug)]
struct SnapshotFailure {
    first_at: UnixMillis,
    last_at: UnixMillis,
    retry_at: UnixMillis,
    /// The time from which an origin without an answer counts as unreachable for long.
    given_up_at: UnixMillis,
    /// The access result that applies without a usable answer, before `given_up_at` and after.
    fallback_access: [AccessResult; 2],
    /// The number of failures of the origin; 0 if the last attempt was postponed, and none came before it.
    count: u32,
    status: Option<u16>,
    kind: Option<FetchErrorKind>,
    /// Whether a redirect's target failed, rather than the origin itself.
    is_redirected: bool,
    audience: Audience,
    fetched_as: Arc<FetchIdentity>,
    /// The reason in words.
    cause: Box<str>,
}

impl SnapshotAnswer {
    fn new(
        kind: DocumentKind,
        finished: &FinishedFetch,
        contents: ParsedAnswer,
        lifetimes: &LifetimeSettings,
    ) -> Self {
        let fresh_for = lifetimes.fresh_for(finished.outcome.fields(), finished.fetched_at);
        let body = finished.outcome.body();
        // A configured `max_stale` below `max_age` must not make an answer unusable while it is fresh.
        let usable_for = fresh_for.max(lifetimes.max_stale);
        Self {
            contents,
            is_copy: kind != DocumentKind::RobotsTxt || body.is_some(),
            audience: finished.audience(),
            fetched_as: Arc::clone(&finished.fetched_as),
            digest: body.and_then(|body| body.digest.clone()),
            is_cut: body.is_some_and(|body| body.is_cut),
            fetched_at: finished.fetched_at.into(),
            fresh_for: u32::try_from(fresh_for.as_millis()).unwrap_or(u32::MAX),
            usable_for: u32::try_from(usable_for.as_secs()).unwrap_or(u32::MAX),
        }
    }

    /// Returns the answer with other lifetimes, which may shorten the time for which it is fresh.
    fn with_lifetimes(&self, lifetimes: &LifetimeSettings) -> Self {
        let max_age = u32::try_from(lifetimes.max_age.as_millis()).unwrap_or(u32::MAX);
        let fresh_for = self.fresh_for.min(max_age);
        let usable_for = Duration::from_millis(fresh_for.into()).max(lifetimes.max_stale);
        Self {
            fresh_for,
            usable_for: u32::try_from(usable_for.as_secs()).unwrap_or(u32::MAX),
            ..self.clone()
        }
    }

    /// Returns the answer for an origin that became unreachable: an answer that is not a copy decides no longer than
    /// `max_age`. RFC 9309 §2.4 allows the use of a cached robots.txt then, and there is none.
    fn while_unreachable(self, lifetimes: &LifetimeSettings) -> Self {
        if self.is_copy {
            return self;
        }
        let max_age = lifetimes.max_age.as_millis().div_ceil(1000);
        Self { usable_for: u32::try_from(max_age).unwrap_or(u32::MAX), ..self }
    }

    fn fresh_until(&self) -> UnixMillis {
        self.fetched_at.after(Duration::from_millis(self.fresh_for.into()))
    }

    fn usable_until(&self) -> UnixMillis {
        self.fetched_at.after(Duration::from_secs(self.usable_for.into()))
    }
}

impl SnapshotFailure {
    /// Summarises the failed attempts. `run` has the origin's failures, `None` if there were none; `last` is the last attempt,
    /// which may be a postponed one, and is not in `run` then.
    fn new(
        resource: &Resource,
        (run, last): (Option<&FailureRun>, &FinishedFetch),
        answer: Option<&SnapshotAnswer>,
        lifetimes: &LifetimeSettings,
    ) -> Self {
        let outcome = &last.outcome;
        let first_at = UnixMillis::from(run.map_or(last.fetched_at, |run| run.since));
        let count = run.map_or(0, |run| run.count);
        let backed_off_until = run.map(|run| retry_at(resource, run, lifetimes));
        let paused_until = (outcome.result() == FetchResult::Postponed)
            .then(|| UnixMillis::from(last.fetched_at).after(POSTPONED_PAUSE));
        Self {
            first_at,
            last_at: last.fetched_at.into(),
            retry_at: backed_off_until.max(paused_until).unwrap_or(first_at),
            given_up_at: Self::given_up_at((first_at, count), answer, lifetimes),
            // Both results are made now, since requests borrow them from the snapshot.
            fallback_access: match answer.map(|answer| &answer.contents.access) {
                Some(AccessResult::Successful(copy)) => {
                    [AccessResult::Lapsed(copy.clone()), AccessResult::LongLapsed(copy.clone())]
                }
                _ => [AccessResult::Unreachable, AccessResult::LongUnreachable],
            },
            count,
            status: outcome.status(),
            kind: outcome.error().map(|error| error.kind),
            is_redirected: !outcome.redirects.is_empty(),
            audience: last.audience(),
            fetched_as: Arc::clone(&last.fetched_as),
            cause: outcome.cause().unwrap_or_default().into(),
        }
    }

    fn given_up_at(
        (first_at, count): (UnixMillis, u32),
        answer: Option<&SnapshotAnswer>,
        lifetimes: &LifetimeSettings,
    ) -> UnixMillis {
        // An origin that was never asked has not failed to answer.
        if count == 0 {
            return UnixMillis(u64::MAX);
        }
        // As long as a copy is usable, there is an answer.
        let without_answer_since =
            answer.map_or(first_at, |answer| answer.usable_until().max(first_at));
        without_answer_since.after(lifetimes.max_stale)
    }
}

/// Returns the time of the next attempt after a run of failures.
fn retry_at(resource: &Resource, run: &FailureRun, lifetimes: &LifetimeSettings) -> UnixMillis {
    let last_at = run.last.fetched_at;
    let fields = run.last.outcome.fields();
    // An instant in the past asks for nothing.
    let retry_after =
        fields.and_then(|fields| fields.retry_at).and_then(|at| at.duration_since(last_at).ok());
    UnixMillis::from(last_at).after(lifetimes.backoff(resource, run.count, retry_after))
}

/// Milliseconds since the epoch: half the size of `SystemTime`, which matters for millions of snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct UnixMillis(u64);

impl From<SystemTime> for UnixMillis {
    fn from(time: SystemTime) -> Self {
        Self(to_unix_millis(time))
    }
}

impl From<UnixMillis> for SystemTime {
    fn from(moment: UnixMillis) -> Self {
        from_unix_millis(moment.0)
    }
}

impl UnixMillis {
    fn after(self, span: Duration) -> Self {
        let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(millis))
    }

    fn until(self, later: Self) -> Duration {
        Duration::from_millis(later.0.saturating_sub(self.0))
    }
}

/// The state of the cached answer, which may be older than the last fetch ([`FetchResult`](crate::FetchResult)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SnapshotState {
    /// The origin's rules, within their lifetime.
    Fresh,
    /// The origin's rules, past their lifetime.
    Stale,
    /// The origin has no rules, or its redirects went on for too long.
    Unavailable,
    /// No answer, or none that is still usable.
    Unreachable,
}

impl SnapshotState {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Fresh, Self::Stale, Self::Unavailable, Self::Unreachable];

    /// Returns the state in lower case, the metrics' label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Stale => "stale",
            Self::Unavailable => "unavailable",
            Self::Unreachable => "unreachable",
        }
    }
}

/// The usability of a snapshot for a request now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usability {
    /// The snapshot is usable.
    Immediate,
    /// The snapshot is usable, but another attempt to reach the origin is due.
    ImmediateAndRefetch,
    /// A fetch has to come first. If it fails, the new snapshot decides.
    AfterRefetch,
}

impl Snapshot {
    /// Creates the snapshot of an entry, its parsed answer and the attempt that has been postponed since. `in_use` is the snapshot
    /// in use so far, whose answer is kept if it is newer.
    pub(super) fn from_entry(
        resource: &Resource,
        (entry, contents, postponed): (&CacheEntry, Option<&ParsedAnswer>, Option<&FinishedFetch>),
        in_use: Option<&Self>,
        lifetimes: &LifetimeSettings,
    ) -> Self {
        let stored = entry.answer.as_ref().zip(contents).map(|(finished, contents)| {
            SnapshotAnswer::new(resource.kind(), finished, contents.clone(), lifetimes)
        });
        // An answer that could not be stored is only in the snapshot in use.
        let answer_in_use = in_use.and_then(|snapshot| snapshot.answer.clone());
        let fetched_at =
            |answer: &Option<SnapshotAnswer>| answer.as_ref().map(|answer| answer.fetched_at);
        let is_newer = fetched_at(&answer_in_use) > fetched_at(&stored);
        let mut answer = if is_newer { answer_in_use } else { stored };
        let run = entry.failures.as_ref();
        let last = postponed.or(run.map(|run| &*run.last));
        if last.is_some() {
            answer = answer.map(|answer| answer.while_unreachable(lifetimes));
        }
        let failure = last.map(|last| {
            Box::new(SnapshotFailure::new(resource, (run, last), answer.as_ref(), lifetimes))
        });
        Self { answer, failure }
    }

    /// Returns whether it counts for requests of `identity`. Others fetch their own.
    #[must_use]
    pub fn counts_for(&self, identity: &FetchIdentity) -> bool {
        let answer = self.answer.as_ref().map(|answer| (answer.audience, &answer.fetched_as));
        let failure = self.failure.as_ref().map(|failure| (failure.audience, &failure.fetched_as));
        let mut parts = answer.into_iter().chain(failure);
        parts.all(|(audience, fetched_as)| audience.includes(fetched_as, identity))
    }

    /// Returns whether it is an answer that counts for everybody, with no failure since.
    #[must_use]
    pub fn counts_for_everybody(&self) -> bool {
        self.failure.is_none()
            && self.answer.as_ref().is_some_and(|answer| answer.audience == Audience::Everybody)
    }

    /// Returns whether the snapshot may stay in use as `resource` for a request of `identity`. Anybody's answer may be the shared
    /// copy; an own copy must count for its holder's present identity.
    #[must_use]
    pub fn may_be_kept_as(&self, resource: &Resource, identity: &FetchIdentity) -> bool {
        resource.is_shared() || self.counts_for(identity)
    }

    /// Returns the identity that the last answer was fetched as, or the last attempt if there is no answer; `None` if
    /// nothing was fetched.
    #[must_use]
    pub fn fetched_as(&self) -> Option<&Arc<FetchIdentity>> {
        let answer = self.answer.as_ref().map(|answer| &answer.fetched_as);
        answer.or(self.failure.as_ref().map(|failure| &failure.fetched_as))
    }

    /// Returns the parsed content of the last answer, however old.
    pub(super) fn parsed_answer(&self) -> Option<&ParsedAnswer> {
        self.answer.as_ref().map(|answer| &answer.contents)
    }

    /// Returns the snapshot with other lifetimes, which may shorten the time for which it is usable.
    pub(super) fn with_lifetimes(&self, lifetimes: &LifetimeSettings) -> Self {
        let answer = self.answer.as_ref().map(|answer| {
            let renewed = answer.with_lifetimes(lifetimes);
            if self.failure.is_some() { renewed.while_unreachable(lifetimes) } else { renewed }
        });
        let failure = self.failure.as_deref().map(|failure| {
            let since = (failure.first_at, failure.count);
            let given_up_at = SnapshotFailure::given_up_at(since, answer.as_ref(), lifetimes);
            Box::new(SnapshotFailure { given_up_at, ..failure.clone() })
        });
        Self { answer, failure }
    }

    /// Returns whether its answer is that of an entry.
    pub(super) fn is_answer_of(&self, entry: &CacheEntry) -> bool {
        // A resource has one fetch at a time, so the time identifies the answer.
        let stored_at = entry.answer.as_ref().map(|answer| UnixMillis::from(answer.fetched_at));
        self.answer.as_ref().map(|answer| answer.fetched_at) == stored_at
    }

    /// Returns the time of the next refresh while in use; `None` while the origin is unreachable, when requests trigger
    /// the next attempt.
    pub(super) fn refresh_at(
        &self,
        resource: &Resource,
        lifetimes: &LifetimeSettings,
    ) -> Option<SystemTime> {
        let (Some(answer), None) = (&self.answer, &self.failure) else {
            return None;
        };
        let lifetime = answer.fetched_at.until(answer.fresh_until());
        let after = lifetimes.refresh_after(resource, lifetime);
        Some(answer.fetched_at.after(after).into())
    }

    /// Returns the access result that applies at `now`. The crawler's dialect is applied by
    /// [`decide`](wayleave_robots_txt::decide).
    ///
    /// Fresh or stale, an answer decides until it is too old to be usable at all; [`usability`](Self::usability) says
    /// whether it may be used without revalidation.
    #[must_use]
    pub fn access(&self, now: SystemTime) -> &AccessResult {
        let now = UnixMillis::from(now);
        match (&self.answer, &self.failure) {
            (Some(answer), _) if now < answer.usable_until() => &answer.contents.access,
            // Without a usable answer RFC 9309 §2.3.1.4 decides: complete disallow at first, later as if unavailable.
            (_, Some(failure)) => &failure.fallback_access[usize::from(now >= failure.given_up_at)],
            _ => &AccessResult::Unreachable,
        }
    }

    /// Returns the document that applies at `now`; `None` if it does not exist or is unavailable. A copy is usable for
    /// as long as one of a robots.txt, but nothing replaces it afterwards.
    #[must_use]
    pub fn document(&self, now: SystemTime) -> Option<&Arc<PreferenceDocument>> {
        let answer = self.answer.as_ref()?;
        let is_usable = UnixMillis::from(now) < answer.usable_until();
        answer.contents.document.as_ref().filter(|_| is_usable)
    }

    /// Returns whether the snapshot may be used at `now`.
    ///
    /// RFC 9309 §2.4 allows use of an answer past its lifetime only while the origin is unreachable: so a stale answer
    /// waits for a fetch, unless the last fetch failed.
    #[must_use]
    pub fn usability(&self, now: SystemTime) -> Usability {
        if self.is_fresh(now) {
            return Usability::Immediate;
        }
        let now = UnixMillis::from(now);
        let Some(failure) = &self.failure else {
            return Usability::AfterRefetch;
        };
        // A failure in the future was recorded before the clock was set back.
        if failure.last_at <= now && now < failure.retry_at {
            return Usability::Immediate;
        }
        match &self.answer {
            Some(answer) if now < answer.usable_until() => Usability::ImmediateAndRefetch,
            _ => Usability::AfterRefetch,
        }
    }

    fn is_fresh(&self, now: SystemTime) -> bool {
        let now = UnixMillis::from(now);
        self.answer.as_ref().is_some_and(|answer| {
            // An answer in the future was recorded before the clock was set back, so its age is unknown.
            answer.fetched_at <= now && now < answer.fresh_until()
        })
    }

    /// Returns the state of the cached answer at `now`.
    #[must_use]
    pub fn state(&self, now: SystemTime) -> SnapshotState {
        match self.access(now) {
            AccessResult::Successful(_) if self.is_fresh(now) => SnapshotState::Fresh,
            AccessResult::Successful(_) => SnapshotState::Stale,
            AccessResult::Unavailable { .. } | AccessResult::RedirectLost => {
                SnapshotState::Unavailable
            }
            // Lapsed copies may still decide in some dialect, but the origin is unreachable.
            _ => SnapshotState::Unreachable,
        }
    }

    /// Returns the time until the next attempt, if the origin was unreachable; at least a second.
    #[must_use]
    pub fn retry_after(&self, now: SystemTime) -> Option<Duration> {
        let retry_at = self.failure.as_ref()?.retry_at;
        // Zero seconds in `Retry-After` would ask for another request at once.
        Some(UnixMillis::from(now).until(retry_at).max(Duration::from_secs(1)))
    }

    /// Returns the time from which the snapshot is not worth keeping. A snapshot that gave up on an origin is kept for
    /// as long again: for a crawler that visits once a month, the wait must not start over each time.
    #[must_use]
    pub fn discard_at(&self, lifetimes: &LifetimeSettings) -> SystemTime {
        let usable_until = self.answer.as_ref().map(SnapshotAnswer::usable_until);
        let given_up_until = self.failure.as_ref().map(|failure| match failure.count {
            0 => failure.retry_at.after(POSTPONED_PAUSE),
            _ => failure.given_up_at.after(lifetimes.max_stale),
        });
        usable_until.max(given_up_until).map_or(SystemTime::UNIX_EPOCH, SystemTime::from)
    }

    /// Returns roughly how many bytes it holds on the heap: mostly the compiled rules.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let contents = self.parsed_answer();
        let rules = match contents.map(|contents| &contents.access) {
            Some(AccessResult::Successful(robots)) => robots.heap_bytes(),
            _ => 0,
        };
        let document = contents
            .and_then(|contents| contents.document.as_deref())
            .map_or(0, |answer| size_of_val(answer) + answer.heap_bytes());
        let digest = self.digest().map_or(0, size_of_val);
        let failure =
            self.failure.as_deref().map_or(0, |failure| size_of_val(failure) + failure.cause.len());
        rules + document + digest + failure
    }

    /// Returns the SHA-256 digest of the last answer's body, if it had rules and the fetcher computed it.
    #[must_use]
    pub fn digest(&self) -> Option<&[u8; 32]> {
        self.answer.as_ref()?.digest.as_deref()
    }

    /// Returns whether the last answer's body was longer than the part that was read.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| answer.is_cut)
    }

    /// Returns the time at which the last answer was received or confirmed.
    #[must_use]
    pub fn fetched_at(&self) -> Option<SystemTime> {
        self.answer.as_ref().map(|answer| answer.fetched_at.into())
    }

    /// Returns the time until which the last answer is fresh.
    #[must_use]
    pub fn fresh_until(&self) -> Option<SystemTime> {
        self.answer.as_ref().map(|answer| answer.fresh_until().into())
    }

    /// Returns the time until which the last answer decides if the origin remains unreachable.
    #[must_use]
    pub fn usable_until(&self) -> Option<SystemTime> {
        self.answer.as_ref().map(|answer| answer.usable_until().into())
    }

    /// Returns the time of the first failure, if every attempt since the last answer failed.
    #[must_use]
    pub fn unreachable_since(&self) -> Option<SystemTime> {
        let failure = self.failure.as_ref().filter(|failure| failure.count > 0);
        failure.map(|failure| failure.first_at.into())
    }

    /// Returns the number of failed attempts since the last answer.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failure.as_ref().map_or(0, |failure| failure.count)
    }

    /// Returns the time of the next attempt to reach an unreachable origin.
    #[must_use]
    pub fn retry_at(&self) -> Option<SystemTime> {
        self.failure.as_ref().map(|failure| failure.retry_at.into())
    }

    /// Returns the kind of error of the last attempt, if it failed without a response.
    #[must_use]
    pub fn error_kind(&self) -> Option<FetchErrorKind> {
        self.failure.as_ref()?.kind
    }

    /// Returns whether the last attempt failed after a redirect, rather than at the origin itself.
    #[must_use]
    pub fn failed_after_redirect(&self) -> bool {
        self.failure.as_ref().is_some_and(|failure| failure.is_redirected)
    }

    /// Returns the reason in words why the last attempt failed, if it did.
    #[must_use]
    pub fn cause(&self) -> Option<&str> {
        self.failure.as_ref().map(|failure| &*failure.cause)
    }

    /// Returns the status that explains the absence of rules, if there is one.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        // Since a failure, an older answer no longer explains anything.
        if self.failure.is_some() {
            return self.error_status();
        }
        match &self.parsed_answer()?.access {
            AccessResult::Unavailable { status } => Some(*status),
            _ => None,
        }
    }

    /// Returns the status that made the last attempt a failure, if there was a response.
    #[must_use]
    pub fn error_status(&self) -> Option<u16> {
        self.failure.as_ref()?.status
    }
}
