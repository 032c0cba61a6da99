//! `Snapshot`: what is known of one resource at one moment, never to change.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::contents::Contents;
use super::entry::{Entry, Failing};
use super::lifetime::Lifetimes;
use super::outcome::{Facts, FetchErrorKind};
use super::resource::Resource;
use crate::{AccessResult, Document, Kind};

/// What is known of one origin's robots.txt: its last answer with the compiled rules, and whether the origin could be
/// reached since. Times go in as arguments; nothing here changes.
#[derive(Clone, Debug)]
pub struct Snapshot {
    answer: Option<Answer>,
    /// Apart, because most origins have none.
    failure: Option<Box<Failure>>,
}

/// The last thing the origin said.
#[derive(Clone, Debug)]
struct Answer {
    contents: Contents,
    /// Apart, because many origins have no rules.
    digest: Option<Arc<[u8; 32]>>,
    fetched_at: Moment,
    /// In milliseconds: a day at most.
    fresh_for: u32,
    /// In seconds.
    usable_for: u32,
    /// There was more of the body than was read.
    is_cut: bool,
    /// It is a copy to go by while the origin is unreachable: a robots.txt, or what there is of a document beside it. That there is
    /// no robots.txt is none.
    is_copy: bool,
    /// It was given to a request without a signature, and asks for one.
    asks_for_signature: bool,
}

/// That it could not be reached, in every attempt since the answer.
#[derive(Clone, Debug)]
struct Failure {
    first_at: Moment,
    last_at: Moment,
    retry_at: Moment,
    /// From here on an origin without an answer counts as unreachable for long.
    given_up_at: Moment,
    /// What counts where no answer does, before and after.
    beyond: [AccessResult; 2],
    count: u32,
    status: Option<u16>,
    kind: Option<FetchErrorKind>,
    /// It was a redirect's target that failed, not the origin asked for.
    is_redirected: bool,
    /// In words.
    cause: Box<str>,
}

impl Answer {
    fn new(kind: Kind, facts: &Facts, contents: Contents, lifetimes: &Lifetimes) -> Self {
        let fresh_for = lifetimes.fresh_for(facts.outcome.fields(), facts.fetched_at);
        let body = facts.outcome.body();
        let usable_for = fresh_for.max(lifetimes.max_stale);
        Self {
            contents,
            is_copy: kind != Kind::RobotsTxt || body.is_some(),
            asks_for_signature: facts.outcome.asks_for_signature(),
            digest: body.and_then(|body| body.digest.clone()),
            is_cut: body.is_some_and(|body| body.is_cut),
            fetched_at: facts.fetched_at.into(),
            fresh_for: u32::try_from(fresh_for.as_millis()).unwrap_or(u32::MAX),
            usable_for: u32::try_from(usable_for.as_secs()).unwrap_or(u32::MAX),
        }
    }

    /// The same where `lifetimes` hold, which may shorten how long it is fresh.
    fn within(&self, lifetimes: &Lifetimes) -> Self {
        let max_age = u32::try_from(lifetimes.max_age.as_millis()).unwrap_or(u32::MAX);
        let fresh_for = self.fresh_for.min(max_age);
        let usable_for = Duration::from_millis(fresh_for.into()).max(lifetimes.max_stale);
        Self {
            fresh_for,
            usable_for: u32::try_from(usable_for.as_secs()).unwrap_or(u32::MAX),
            ..self.clone()
        }
    }

    /// The same for an origin that is unreachable since: what is no copy decides no longer than `max_age`. RFC 9309 §2.4 lets a
    /// cached robots.txt be used then, and there is none.
    fn while_unreachable(self, lifetimes: &Lifetimes) -> Self {
        if self.is_copy {
            return self;
        }
        let max_age = lifetimes.max_age.as_millis().div_ceil(1000);
        Self {
            usable_for: u32::try_from(max_age).unwrap_or(u32::MAX),
            ..self
        }
    }

    fn fresh_until(&self) -> Moment {
        self.fetched_at
            .after(Duration::from_millis(self.fresh_for.into()))
    }

    fn usable_until(&self) -> Moment {
        self.fetched_at
            .after(Duration::from_secs(self.usable_for.into()))
    }
}

impl Failure {
    fn new(
        resource: &Resource,
        failing: &Failing,
        answer: Option<&Answer>,
        lifetimes: &Lifetimes,
    ) -> Self {
        let outcome = &failing.last.outcome;
        let last_at = failing.last.fetched_at;
        let asked = outcome.fields().and_then(|fields| fields.retry_at);
        let asked = asked.and_then(|at| at.duration_since(last_at).ok());
        let first_at = Moment::from(failing.since);
        Self {
            first_at,
            last_at: last_at.into(),
            retry_at: Moment::from(last_at).after(lifetimes.backoff(
                resource,
                failing.count,
                asked,
            )),
            given_up_at: Self::given_up_at(first_at, answer, lifetimes),
            beyond: match answer.map(|answer| &answer.contents.access) {
                Some(AccessResult::Successful(copy)) => [
                    AccessResult::Lapsed(copy.clone()),
                    AccessResult::LongLapsed(copy.clone()),
                ],
                _ => [AccessResult::Unreachable, AccessResult::LongUnreachable],
            },
            count: failing.count,
            status: outcome.status(),
            kind: outcome.error().map(|error| error.kind),
            is_redirected: !outcome.redirects.is_empty(),
            cause: outcome.cause().unwrap_or_default().into(),
        }
    }

    fn given_up_at(first_at: Moment, answer: Option<&Answer>, lifetimes: &Lifetimes) -> Moment {
        let without_answer_since =
            answer.map_or(first_at, |answer| answer.usable_until().max(first_at));
        without_answer_since.after(lifetimes.max_stale)
    }
}

/// Milliseconds since the epoch: half the size of `SystemTime`, and there are millions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Moment(u64);

impl From<SystemTime> for Moment {
    fn from(time: SystemTime) -> Self {
        let since_epoch = time
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        Self(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
    }
}

impl From<Moment> for SystemTime {
    fn from(moment: Moment) -> Self {
        Self::UNIX_EPOCH + Duration::from_millis(moment.0)
    }
}

impl Moment {
    fn after(self, span: Duration) -> Self {
        let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(millis))
    }

    fn until(self, later: Self) -> Duration {
        Duration::from_millis(later.0.saturating_sub(self.0))
    }
}

/// How good what is known is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// The origin's rules, within their lifetime.
    Fresh,
    /// The origin's rules, past their lifetime.
    Stale,
    /// The origin says that it has no rules, or its redirects led nowhere.
    Unavailable,
    /// No answer, or none that still counts.
    Unreachable,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 4] = [
        Self::Fresh,
        Self::Stale,
        Self::Unavailable,
        Self::Unreachable,
    ];

    /// The state in lower case, as metrics label it.
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

/// Whether someone who needs an origin's robots.txt now may go by the snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Yes.
    AtOnce,
    /// Yes, but another attempt to reach the origin is due beside it.
    AtOnceAndRefetch,
    /// No: fetch first. If that fails, the snapshot it leaves says what then.
    AfterRefetch,
}

impl Snapshot {
    /// What follows from an entry and what its answer says; with `newer`'s answer, if that is newer.
    pub(super) fn of(
        resource: &Resource,
        (entry, contents): (&Entry, Option<&Contents>),
        newer: Option<&Self>,
        lifetimes: &Lifetimes,
    ) -> Self {
        let answer = entry.answer.as_ref().zip(contents.cloned());
        let kind = resource.kind();
        let answer = answer.map(|(facts, contents)| Answer::new(kind, facts, contents, lifetimes));
        let newer = newer.and_then(|newer| newer.answer.clone());
        let fetched_at = |answer: &Option<Answer>| answer.as_ref().map(|answer| answer.fetched_at);
        let answer = match fetched_at(&newer) > fetched_at(&answer) {
            true => newer,
            false => answer,
        };
        let failing = entry.failing.as_ref();
        let answer = match failing {
            Some(_) => answer.map(|answer| answer.while_unreachable(lifetimes)),
            None => answer,
        };
        let failure = failing
            .map(|failing| Box::new(Failure::new(resource, failing, answer.as_ref(), lifetimes)));
        Self { answer, failure }
    }

    /// What counts for those who sign their requests: an answer that asked somebody else for a signature is none to them.
    #[must_use]
    pub fn to_signers(self: &Arc<Self>) -> Arc<Self> {
        match &self.answer {
            Some(answer) if answer.asks_for_signature => Arc::new(Self {
                answer: None,
                failure: self.failure.clone(),
            }),
            _ => Arc::clone(self),
        }
    }

    /// What the last answer says, however old.
    pub(super) fn contents(&self) -> Option<&Contents> {
        self.answer.as_ref().map(|answer| &answer.contents)
    }

    /// The same where `lifetimes` hold, which may shorten how long it serves.
    pub(super) fn within(&self, lifetimes: &Lifetimes) -> Self {
        let answer = self.answer.as_ref().map(|answer| {
            let answer = answer.within(lifetimes);
            match self.failure {
                Some(_) => answer.while_unreachable(lifetimes),
                None => answer,
            }
        });
        let failure = self.failure.as_deref().map(|failure| {
            let given_up_at = Failure::given_up_at(failure.first_at, answer.as_ref(), lifetimes);
            Box::new(Failure {
                given_up_at,
                ..failure.clone()
            })
        });
        Self { answer, failure }
    }

    /// Whether the answer is that of `entry`.
    pub(super) fn is_of(&self, entry: &Entry) -> bool {
        let facts = entry.answer.as_ref();
        let fetched_at = facts.map(|facts| Moment::from(facts.fetched_at));
        self.answer.as_ref().map(|answer| answer.fetched_at) == fetched_at
    }

    /// When to fetch again what is in use; `None` while the origin is unreachable, when requests say when.
    pub(super) fn refresh_at(
        &self,
        resource: &Resource,
        lifetimes: &Lifetimes,
    ) -> Option<SystemTime> {
        let (Some(answer), None) = (&self.answer, &self.failure) else {
            return None;
        };
        let lifetime = answer.fetched_at.until(answer.fresh_until());
        let after = lifetimes.refresh_after(resource, lifetime);
        Some(answer.fetched_at.after(after).into())
    }

    /// What the origin's robots.txt is taken to say at `now`. The dialect of who asks is applied by
    /// [`decide`](crate::decide).
    ///
    /// Fresh or stale, an answer decides until it is too old to be used at all; whether it may be used without asking
    /// again says [`usable`](Self::usable).
    #[must_use]
    pub fn access(&self, now: SystemTime) -> &AccessResult {
        let now = Moment::from(now);
        match (&self.answer, &self.failure) {
            (Some(answer), _) if now < answer.usable_until() => &answer.contents.access,
            (_, Some(failure)) => &failure.beyond[usize::from(now >= failure.given_up_at)],
            _ => &AccessResult::Unreachable,
        }
    }

    /// What a document beside robots.txt is taken to say at `now`; `None` if it is not there, or not to be had. A copy serves
    /// as that of a robots.txt does, but once it is too old nothing takes its place.
    #[must_use]
    pub fn document(&self, now: SystemTime) -> Option<&Arc<Document>> {
        let answer = self.answer.as_ref();
        let usable = answer.filter(|answer| Moment::from(now) < answer.usable_until());
        usable?.contents.document.as_ref()
    }

    /// Whether the snapshot may be gone by at `now`.
    ///
    /// RFC 9309 §2.4 lets an answer be used past its lifetime only while the origin is unreachable: so a stale one
    /// waits for a fetch, unless the last fetch failed.
    #[must_use]
    pub fn usable(&self, now: SystemTime) -> Use {
        if self.is_fresh(now) {
            return Use::AtOnce;
        }
        let now = Moment::from(now);
        let Some(failure) = &self.failure else {
            return Use::AfterRefetch;
        };
        // A failure from the future is one from before the clock was set back.
        if failure.last_at <= now && now < failure.retry_at {
            return Use::AtOnce;
        }
        match &self.answer {
            Some(answer) if now < answer.usable_until() => Use::AtOnceAndRefetch,
            _ => Use::AfterRefetch,
        }
    }

    fn is_fresh(&self, now: SystemTime) -> bool {
        let now = Moment::from(now);
        self.answer.as_ref().is_some_and(|answer| {
            // An answer from the future is one from before the clock was set back: of unknown age.
            answer.fetched_at <= now && now < answer.fresh_until()
        })
    }

    /// How good what is known is at `now`.
    #[must_use]
    pub fn state(&self, now: SystemTime) -> State {
        match self.access(now) {
            AccessResult::Successful(_) if self.is_fresh(now) => State::Fresh,
            AccessResult::Successful(_) => State::Stale,
            AccessResult::Unavailable { .. } | AccessResult::RedirectLost => State::Unavailable,
            AccessResult::Unreachable
            | AccessResult::LongUnreachable
            | AccessResult::Lapsed(_)
            | AccessResult::LongLapsed(_) => State::Unreachable,
        }
    }

    /// How long until the origin is tried again, if it could not be reached; at least a second.
    #[must_use]
    pub fn retry_after(&self, now: SystemTime) -> Option<Duration> {
        let failure = self.failure.as_ref()?;
        let wait = Moment::from(now).until(failure.retry_at);
        Some(wait.max(Duration::from_secs(1)))
    }

    /// From when on the snapshot is not worth keeping. One that has given up on an origin goes on to say so for as long
    /// again: for a crawler that comes once a month, the wait must not start over each time.
    #[must_use]
    pub fn last_use(&self, lifetimes: &Lifetimes) -> SystemTime {
        let usable_until = self.answer.as_ref().map(Answer::usable_until);
        let failure = self.failure.as_ref();
        let given_up_until = failure.map(|failure| failure.given_up_at.after(lifetimes.max_stale));
        let last = usable_until.max(given_up_until);
        last.map_or(SystemTime::UNIX_EPOCH, SystemTime::from)
    }

    /// Roughly what it holds in memory beside itself: mostly the compiled rules.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let contents = self.contents();
        let rules = match contents.map(|contents| &contents.access) {
            Some(AccessResult::Successful(robots)) => robots.heap_bytes(),
            _ => 0,
        };
        let document = contents.and_then(|contents| contents.document.as_deref());
        let document = document.map_or(0, |it| size_of_val(it) + it.heap_bytes());
        let digest = self.digest().map_or(0, size_of_val);
        let failure = self
            .failure
            .as_ref()
            .map_or(0, |failure| size_of_val(&**failure) + failure.cause.len());
        rules + document + digest + failure
    }

    /// The SHA-256 of the last answer's body, if it had rules and the fetcher took it.
    #[must_use]
    pub fn digest(&self) -> Option<&[u8; 32]> {
        self.answer.as_ref()?.digest.as_deref()
    }

    /// Whether there was more of the last answer's body than was read.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| answer.is_cut)
    }

    /// When the last answer came or was confirmed.
    #[must_use]
    pub fn fetched_at(&self) -> Option<SystemTime> {
        self.answer.as_ref().map(|answer| answer.fetched_at.into())
    }

    /// Until when the last answer is fresh.
    #[must_use]
    pub fn fresh_until(&self) -> Option<SystemTime> {
        self.answer
            .as_ref()
            .map(|answer| answer.fresh_until().into())
    }

    /// Until when the last answer decides if the origin stays unreachable.
    #[must_use]
    pub fn usable_until(&self) -> Option<SystemTime> {
        self.answer
            .as_ref()
            .map(|answer| answer.usable_until().into())
    }

    /// When the origin was first found unreachable, if it has been in every attempt since.
    #[must_use]
    pub fn unreachable_since(&self) -> Option<SystemTime> {
        self.failure.as_ref().map(|failure| failure.first_at.into())
    }

    /// How many attempts failed since the last answer.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failure.as_ref().map_or(0, |failure| failure.count)
    }

    /// When an unreachable origin is tried again.
    #[must_use]
    pub fn retry_at(&self) -> Option<SystemTime> {
        self.failure.as_ref().map(|failure| failure.retry_at.into())
    }

    /// Why the last attempt failed, if it failed without a response.
    #[must_use]
    pub fn error_kind(&self) -> Option<FetchErrorKind> {
        self.failure.as_ref()?.kind
    }

    /// Whether the last attempt failed where a redirect led, and not at the origin itself.
    #[must_use]
    pub fn failed_behind_redirect(&self) -> bool {
        self.failure
            .as_ref()
            .is_some_and(|failure| failure.is_redirected)
    }

    /// Why the last attempt failed, in words, if it did.
    #[must_use]
    pub fn cause(&self) -> Option<&str> {
        self.failure.as_ref().map(|failure| &*failure.cause)
    }

    /// The status that says why there is nothing, if one does.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self.contents().map(|contents| &contents.access) {
            _ if self.failure.is_some() => self.error_status(),
            Some(AccessResult::Unavailable { status }) => Some(*status),
            _ => None,
        }
    }

    /// The status that made the last attempt a failure, if there was a response.
    #[must_use]
    pub fn error_status(&self) -> Option<u16> {
        self.failure.as_ref()?.status
    }
}
