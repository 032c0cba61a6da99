//! Rests: times during which nothing is requested from an origin, from one of its pages, or from an origin by one client.
//! A 429 or 503 begins one, and so does an answer that says that a quota is used up. `signals` says whom each of them
//! concerns. Origins that share a pace rest as one origin.
//!
//! Answers to requests that were under way when a rest began say nothing about it: only the answer to a request that got
//! its slot afterwards may end the rest, or shorten it.

use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use wayleave_fairness::{Holder, SharedMap};
use wayleave_fleet::rest::requested_rest;
use wayleave_robots_txt::Target;

use super::rest_scope::RestScope;
use super::signals::{AnsweredRequest, PageAndClient, QuotaHolder, Signal, SignalScope, ToldQuota};
use super::turnstile::lock;
use super::unit::PaceUnit;

/// The most origins that rest. A client that makes half of them rest gets no further slot.
const MAX_RESTING: usize = 250_000;
/// The time after a rest during which the next 503 still counts as a repetition.
const REMEMBERED_FOR: Duration = Duration::from_secs(60);
/// The maximum number of 503 answers, and of clients with a quota of their own, remembered per origin. Beyond it, those
/// whose rest ends first are forgotten.
const MAX_PARTS: usize = 32;

/// All rests under way.
pub(super) struct RestingOrigins {
    by_unit: Mutex<SharedMap<PaceUnit, OriginRestPeriods>>,
    /// The number of units. It is zero most of the time, and then a request needs no lock.
    count: AtomicUsize,
    /// The number of rests that have begun. Read without a lock or a clock, it shows whether a slot was granted before
    /// or after a rest began.
    begun: AtomicU64,
}

/// The rests of one origin, or of those that share its pace.
#[derive(Default)]
struct OriginRestPeriods {
    /// Whether several origins share them. An answer of one then says nothing about the others.
    is_shared: bool,
    whole: Option<RestPeriod>,
    parts: Vec<(PageAndClient, RestPeriod)>,
    /// The clients whose own quota is used up.
    clients: Vec<(QuotaHolder, RestPeriod)>,
}

/// A time without requests.
#[derive(Clone, Copy)]
struct RestPeriod {
    /// Its place among all rests that have begun, the first being one.
    number: u64,
    until: Instant,
    /// Whether no answer ends it before its time: another node got the answer, or the quota is used up.
    outlasts_answers: bool,
    /// The number of such answers in a row.
    refusals: u32,
}

impl RestPeriod {
    fn is_remembered(&self, now: Instant) -> bool {
        now < self.until + REMEMBERED_FOR
    }

    /// Returns whether an answer other than a 429 or 503 ends the rest. Its request got its slot after `rests_before` rests had
    /// begun.
    fn ends_with_answer(&self, rests_before: u64, is_shared: bool, now: Instant) -> bool {
        self.number <= rests_before && (!(self.outlasts_answers || is_shared) || self.until <= now)
    }

    /// Returns this rest as the successor of `known`. If the request got its slot before `known` began, its answer does not shorten
    /// the rest.
    fn after(self, known: Option<Self>, rests_before: u64) -> Self {
        match known {
            Some(known) if known.number > rests_before => {
                Self { until: self.until.max(known.until), ..self }
            }
            _ => self,
        }
    }
}

impl OriginRestPeriods {
    /// Returns the end of the rest for `part`'s page and client.
    fn until(&self, part: PageAndClient, now: Instant) -> Option<Instant> {
        let mut until = self.whole.map(|rest| rest.until);
        let mut of_client = None;
        let mut pages = 0;
        for (other, rest) in &self.parts {
            if other.path == part.path {
                until = until.max(Some(rest.until));
            }
            if other.client == part.client && rest.is_remembered(now) {
                // One 503 may be the page's fault; with two pages refused, the client as a whole has to rest.
                of_client = of_client.max(Some(rest.until));
                pages += 1;
            }
        }
        if pages > 1 {
            until = until.max(of_client);
        }
        let of_quota = self.clients.iter().find(|(holder, _)| holder.client == part.client);
        until.max(of_quota.map(|(_, rest)| rest.until))
    }

    /// Lets the whole origin rest after a refusal, counted as if at least `least` others had come before it.
    fn begin_whole(&mut self, refusal: &RefusalToCount, least: u32) {
        let before = self.whole.map_or(least, |rest| rest.refusals.max(least));
        if let Some(rest) = refusal.rest_after(before) {
            self.whole = Some(rest.after(self.whole, refusal.rests_before));
        }
    }

    /// Begins the rests after a 429 or 503, and returns their scopes.
    fn record_refusal(
        &mut self,
        signal: Signal,
        part: PageAndClient,
        refusal: &RefusalToCount,
    ) -> Vec<RestScope> {
        let is_seconded = self.is_503_seconded(part);
        match signal.scope(is_seconded) {
            SignalScope::All if signal != Signal::Unavailable => {
                self.begin_whole(refusal, 0);
                vec![RestScope::Whole]
            }
            SignalScope::All => {
                self.begin_part(part, refusal);
                self.begin_whole(refusal, 1);
                vec![RestScope::Part(part), RestScope::Whole]
            }
            SignalScope::Page | SignalScope::Client => {
                self.begin_part(part, refusal);
                vec![RestScope::Part(part)]
            }
        }
    }

    /// Lets a page rest after a 503.
    fn begin_part(&mut self, part: PageAndClient, refusal: &RefusalToCount) {
        // Refusals of other pages count as well, because one page's fault does not explain them.
        let others = self
            .parts
            .iter()
            .filter(|(other, _)| other.client == part.client && other.path != part.path)
            .count();
        let known = self.find_part(part);
        let of_page = known.map_or(0, |rest| rest.refusals);
        let before = of_page.saturating_add(u32::try_from(others).unwrap_or(u32::MAX));
        if let Some(rest) = refusal.rest_after(before) {
            self.insert_part(part, rest.after(known, refusal.rests_before));
        }
    }

    fn find_part(&self, part: PageAndClient) -> Option<RestPeriod> {
        self.parts.iter().find(|(other, _)| *other == part).map(|(_, rest)| *rest)
    }

    fn insert_part(&mut self, part: PageAndClient, rest: RestPeriod) {
        self.parts.retain(|(other, _)| *other != part);
        push_bounded(&mut self.parts, part, rest);
    }

    fn find_client(&self, holder: QuotaHolder) -> Option<RestPeriod> {
        self.clients.iter().find(|(other, _)| other.client == holder.client).map(|(_, rest)| *rest)
    }

    fn insert_client(&mut self, holder: QuotaHolder, rest: RestPeriod) {
        self.clients.retain(|(other, _)| other.client != holder.client);
        push_bounded(&mut self.clients, holder, rest);
    }

    /// Returns whether an independent party got a 503.
    fn is_503_seconded(&self, part: PageAndClient) -> bool {
        self.parts.iter().any(|(other, _)| part.is_independent_of(*other))
    }

    /// Returns whether the quota of an independent party is used up.
    fn is_quota_seconded(&self, holder: QuotaHolder, now: Instant) -> bool {
        self.clients
            .iter()
            .any(|(other, rest)| rest.until > now && holder.is_independent_of(*other))
    }

    /// Starts a rest that no answer ends early, or extends the one under way.
    fn begin(&mut self, scope: RestScope, number: u64, until: Instant) {
        let known = match scope {
            RestScope::Whole => self.whole,
            RestScope::Part(part) => self.find_part(part),
            RestScope::Client(holder) => self.find_client(holder),
        };
        let rest = RestPeriod {
            number,
            // Several nodes may report the same rest: the longest applies.
            until: known.map_or(until, |known| known.until.max(until)),
            outlasts_answers: true,
            refusals: known.map_or(1, |known| known.refusals),
        };
        match scope {
            RestScope::Whole => self.whole = Some(rest),
            RestScope::Part(part) => self.insert_part(part, rest),
            RestScope::Client(holder) => self.insert_client(holder, rest),
        }
    }

    fn end(&mut self, scope: RestScope) {
        match scope {
            RestScope::Whole => self.whole = None,
            RestScope::Part(part) => self.parts.retain(|(other, _)| *other != part),
            RestScope::Client(holder) => self.clients.retain(|(other, _)| *other != holder),
        }
    }

    fn is_empty(&self) -> bool {
        self.whole.is_none() && self.parts.is_empty() && self.clients.is_empty()
    }

    /// Removes the rests that an answer other than a 429 or 503 ends, and returns their scopes.
    fn end_answered(
        &mut self,
        part: PageAndClient,
        rests_before: u64,
        now: Instant,
    ) -> Vec<RestScope> {
        let mut ended = Vec::new();
        let is_shared = self.is_shared;
        // The answer for any page shows that the origin accepts requests again.
        if self.whole.is_some_and(|rest| rest.ends_with_answer(rests_before, is_shared, now)) {
            self.whole = None;
            ended.push(RestScope::Whole);
        }
        self.parts.retain(|(resting, rest)| {
            let ends =
                resting.path == part.path && rest.ends_with_answer(rests_before, is_shared, now);
            if ends {
                ended.push(RestScope::Part(*resting));
            }
            !ends
        });
        ended
    }

    fn drop_expired(&mut self, now: Instant) {
        self.parts.retain(|(_, rest)| rest.is_remembered(now));
        self.clients.retain(|(_, rest)| rest.until > now);
    }

    fn is_over(&self, now: Instant) -> bool {
        self.whole.is_none_or(|rest| rest.until <= now)
            && !self.parts.iter().any(|(_, rest)| rest.is_remembered(now))
            && !self.clients.iter().any(|(_, rest)| rest.until > now)
    }
}

impl Default for RestingOrigins {
    fn default() -> Self {
        Self {
            by_unit: Mutex::new(SharedMap::new(MAX_RESTING)),
            count: AtomicUsize::new(0),
            begun: AtomicU64::new(0),
        }
    }
}

impl RestingOrigins {
    /// Returns whether a client made so many origins rest that it may not cause another rest.
    pub(super) fn is_share_full(&self, client: IpAddr) -> bool {
        const MOST: usize = MAX_RESTING / 2;
        // Nearly always decided without the lock.
        self.count.load(Ordering::Relaxed) >= MOST
            && lock(&self.by_unit).count_of(Holder::of_client(client)) >= MOST
    }

    /// Returns the time until which `client` must not request `target`. `unit` is the unit that shares the target's pace, if there
    /// is one.
    pub(super) fn until(
        &self,
        target: &Target,
        unit: Option<&PaceUnit>,
        client: IpAddr,
    ) -> Option<Instant> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let now = Instant::now();
        let by_unit = lock(&self.by_unit);
        let of = |unit: &PaceUnit| {
            by_unit.get(unit)?.until(PageAndClient::of(target, client, unit), now)
        };
        // The origin's own rest may be from before it shared a pace, from a node on which it does not, or from an
        // address elsewhere.
        let of_origin = of(&PaceUnit::Origin(target.origin().clone()));
        let until = of_origin.max(unit.and_then(of));
        until.filter(|until| *until > now)
    }

    /// Returns until when all of a unit rests.
    pub(super) fn whole_until(&self, unit: &PaceUnit) -> Option<Instant> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let now = Instant::now();
        let whole = lock(&self.by_unit).get(unit).and_then(|rests| rests.whole);
        whole.map(|rest| rest.until).filter(|until| *until > now)
    }

    /// Returns the number of rests that have begun.
    pub(super) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// Records an answer. Returns each scope whose rest began or ended. [`requested_rest`] says how long a rest is.
    pub(super) fn record_answer(
        &self,
        answered: AnsweredRequest<'_>,
        status: u16,
        retry_after: Option<Duration>,
        longest: Duration,
    ) -> Vec<(PaceUnit, RestScope)> {
        let signal = Signal::of_response(status, answered.target);
        if signal.is_none() && self.count.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let AnsweredRequest { target, client, rests_before, .. } = answered;
        let now = Instant::now();
        let mut changed = Vec::new();
        let mut by_unit = lock(&self.by_unit);
        for unit in answered.units() {
            let part = PageAndClient::of(target, client, &unit);
            let scopes = match signal {
                Some(signal) => {
                    let number = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
                    let refusal =
                        RefusalToCount { status, retry_after, longest, number, rests_before };
                    let rests = entry(&mut by_unit, &unit, Holder::of_client(client), now);
                    rests.drop_expired(now);
                    rests.record_refusal(signal, part, &refusal)
                }
                None => match by_unit.get_mut(&unit) {
                    Some(rests) => rests.end_answered(part, rests_before, now),
                    None => Vec::new(),
                },
            };
            // A unit without rests must not count: `count` keeps the usual request off the lock.
            if by_unit.get(&unit).is_some_and(OriginRestPeriods::is_empty) {
                by_unit.remove(&unit);
            }
            changed.extend(scopes.into_iter().map(|scope| (unit.clone(), scope)));
        }
        self.count.store(by_unit.len(), Ordering::Relaxed);
        changed
    }

    /// Starts the rest after an answer that says that nothing is left of a quota. Returns each scope whose rest began.
    /// Other answers do not end it: those under way were sent before the quota was used up.
    pub(super) fn record_used_up(
        &self,
        answered: AnsweredRequest<'_>,
        quota: &ToldQuota,
        rest: Duration,
    ) -> Vec<(PaceUnit, RestScope)> {
        let now = Instant::now();
        let holder = QuotaHolder::of(answered.client, quota.credentials);
        let mut begun = Vec::new();
        let mut by_unit = lock(&self.by_unit);
        for unit in answered.units() {
            let rests = entry(&mut by_unit, &unit, Holder::of_client(answered.client), now);
            rests.drop_expired(now);
            let signal = quota.signal();
            let is_for_all = signal.scope(rests.is_quota_seconded(holder, now)) == SignalScope::All;
            let scopes = (signal == Signal::OwnQuota)
                .then_some(RestScope::Client(holder))
                .into_iter()
                .chain(is_for_all.then_some(RestScope::Whole));
            for scope in scopes {
                let number = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
                rests.begin(scope, number, now + rest);
                begun.push((unit.clone(), scope));
            }
        }
        self.count.store(by_unit.len(), Ordering::Relaxed);
        begun
    }

    /// Starts a rest that another node, or the engine, reported. No answer ends it.
    pub(super) fn begin(&self, unit: &PaceUnit, scope: RestScope, rest: Duration) {
        let now = Instant::now();
        let mut by_unit = lock(&self.by_unit);
        let number = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
        entry(&mut by_unit, unit, Holder::OWN, now).begin(scope, number, now + rest);
        self.count.store(by_unit.len(), Ordering::Relaxed);
    }

    /// Ends a rest because another node reported its end.
    pub(super) fn end(&self, unit: &PaceUnit, scope: RestScope) {
        let mut by_unit = lock(&self.by_unit);
        if let Some(rests) = by_unit.get_mut(unit) {
            rests.end(scope);
            if rests.is_empty() {
                by_unit.remove(unit);
            }
        }
        self.count.store(by_unit.len(), Ordering::Relaxed);
    }
}

/// Adds a rest. Where there are too many, the one that ends first is forgotten.
fn push_bounded<T>(rests: &mut Vec<(T, RestPeriod)>, of: T, rest: RestPeriod) {
    if rests.len() >= MAX_PARTS {
        rests.sort_by_key(|(_, rest)| rest.until);
        rests.remove(0);
    }
    rests.push((of, rest));
}

/// Returns the rests of a unit, created for the one that caused the first of them.
fn entry<'a>(
    by_unit: &'a mut SharedMap<PaceUnit, OriginRestPeriods>,
    unit: &PaceUnit,
    holder: Holder,
    now: Instant,
) -> &'a mut OriginRestPeriods {
    if by_unit.get(unit).is_none() {
        let new = OriginRestPeriods { is_shared: unit.is_shared(), ..Default::default() };
        // A rest must begin: where there is no room, the oldest one of the client with the most is forgotten.
        by_unit.insert(holder, unit.clone(), new, |rests| rests.is_over(now));
    }
    by_unit.get_mut(unit).expect("inserted if it was not there")
}

/// A 429 or 503 that a rest follows.
struct RefusalToCount {
    status: u16,
    retry_after: Option<Duration>,
    /// The longest rest that is honoured.
    longest: Duration,
    /// The place of the rest among all that have begun.
    number: u64,
    /// The number of rests that had begun when the request got its slot.
    rests_before: u64,
}

impl RefusalToCount {
    /// Returns the rest that it asks for after this many refusals in a row.
    fn rest_after(&self, before: u32) -> Option<RestPeriod> {
        let rest = requested_rest((self.status, self.retry_after, before), self.longest)?;
        Some(RestPeriod {
            number: self.number,
            until: Instant::now() + rest,
            outlasts_answers: false,
            refusals: before.saturating_add(1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn late_answers_do_not_end_rests_from_other_nodes() {
        let shop = Target::parse("http://shop.test/a").unwrap();
        let client = IpAddr::from([192, 0, 2, 1]);
        let mut request =
            AnsweredRequest { target: &shop, unit: None, network: None, client, rests_before: 0 };
        let unit = PaceUnit::Origin(shop.origin().clone());
        let part = PageAndClient::of(&shop, client, &unit);
        let of_unit = |scope| [(unit.clone(), scope)];
        let until = |rests: &RestingOrigins| rests.until(&shop, None, client);
        for scope in [RestScope::Whole, RestScope::Part(part)] {
            for was_refused_too in [false, true] {
                let rests = RestingOrigins::default();
                let status = if scope == RestScope::Whole { 429 } else { 503 };
                if was_refused_too {
                    let begun = rests.record_answer(request, status, None, MINUTE);
                    assert_eq!(begun, of_unit(scope));
                }
                rests.begin(&unit, scope, MINUTE);
                let before = until(&rests);
                assert!(before.is_some());
                request.rests_before = rests.begun();
                assert_eq!(rests.record_answer(request, 200, None, MINUTE), [], "too early");
                assert_eq!(until(&rests), before);
                tokio::time::advance(MINUTE).await;
                assert_eq!(rests.record_answer(request, 200, None, MINUTE), of_unit(scope));
            }
            // A rest that was requested of this node alone ends with the first answer that requests none.
            let rests = RestingOrigins::default();
            rests.record_answer(request, 429, Some(MINUTE), MINUTE);
            request.rests_before = rests.begun();
            let ended = rests.record_answer(request, 200, None, MINUTE);
            assert_eq!(ended, of_unit(RestScope::Whole));
            assert_eq!(until(&rests), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_later_shorter_report_does_not_shorten_a_rest() {
        let shop = Target::parse("http://shop.test/a").unwrap();
        let client = IpAddr::from([192, 0, 2, 1]);
        let unit = PaceUnit::Origin(shop.origin().clone());
        for scope in [RestScope::Whole, RestScope::Part(PageAndClient::of(&shop, client, &unit))] {
            let rests = RestingOrigins::default();
            rests.begin(&unit, scope, 2 * MINUTE);
            let until = rests.until(&shop, None, client);
            assert_eq!(until, Some(Instant::now() + 2 * MINUTE));
            rests.begin(&unit, scope, MINUTE);
            assert_eq!(rests.until(&shop, None, client), until);
            // A longer one makes it longer.
            rests.begin(&unit, scope, 3 * MINUTE);
            assert_eq!(rests.until(&shop, None, client), Some(Instant::now() + 3 * MINUTE));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_shorter_rest_of_a_later_request_replaces_the_longer() {
        let shop = Target::parse("http://shop.test/a").unwrap();
        let client = IpAddr::from([192, 0, 2, 1]);
        let mut request =
            AnsweredRequest { target: &shop, unit: None, network: None, client, rests_before: 0 };
        let rests = RestingOrigins::default();
        rests.record_answer(request, 429, Some(3 * MINUTE), 5 * MINUTE);
        let until = || rests.until(&shop, None, client).unwrap() - Instant::now();
        rests.record_answer(request, 429, Some(2 * MINUTE), 5 * MINUTE);
        assert_eq!(until(), 3 * MINUTE, "the answer to an earlier request");
        request.rests_before = rests.begun();
        rests.record_answer(request, 429, Some(MINUTE), 5 * MINUTE);
        assert_eq!(until(), MINUTE);
    }
}
