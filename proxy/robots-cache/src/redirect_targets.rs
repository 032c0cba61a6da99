//! The answers that redirects of robots.txt lead to. Thousands of origins may redirect to one file of another host, which is
//! fetched once for all of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tokio::sync::OnceCell;
use url::Url;
use wayleave_clock::Clock;
use wayleave_lifecycle::{
    ChosenBy, FetchEnding, FetchError, FetchIdentity, FetchResult, LifetimeSettings,
};
use wayleave_record::WAYLEAVE;
use wayleave_robots_txt::{Dialect, ProductToken};

use super::fetch_memory::MemoryReservation;

/// The memory of all answers, and the number of them that is expected.
const MAX_BYTES: u64 = 4 << 20;
const EXPECTED_ANSWERS: usize = 1000;
/// The least age of an answer that an operator's refresh replaces, and the longest that a Crawl-delay makes it.
const REFRESH_INTERVAL: Duration = Duration::from_secs(5);
const LONGEST_DELAY: Duration = Duration::from_mins(5);
/// The memory of an answer besides its body.
const OVERHEAD_BYTES: u64 = 1024;

/// The answer to one request of a fetch.
#[derive(Clone, Debug)]
pub(super) struct HopAnswer {
    pub(super) next: NextHop,
    /// Whether it may come from a public address.
    pub(super) is_public: bool,
    /// Whether others may get another one.
    pub(super) varies: bool,
    pub(super) fetched_at: SystemTime,
}

/// The consequence of an answer.
#[derive(Clone, Debug)]
pub(super) enum NextHop {
    /// The fetch ends.
    End(FetchEnding),
    /// The fetch goes on elsewhere, unless it was redirected too often by then.
    Redirect { status: u16, to: Result<Url, FetchError> },
}

impl HopAnswer {
    /// Returns the age from which an operator may want another one: five seconds, or the Crawl-delay in the file, as if it
    /// were the host's own.
    fn least_age(&self, token: &ProductToken) -> Duration {
        let stated = match &self.next {
            NextHop::End(FetchEnding::Response(response)) => {
                let tokens = std::slice::from_ref(token);
                response.body.parse().longest_delay(Dialect::default(), tokens)
            }
            _ => None,
        };
        let delay = stated.map_or(Duration::ZERO, |(delay, _)| delay);
        delay.clamp(REFRESH_INTERVAL, LONGEST_DELAY)
    }

    /// Returns whether it says something for longer than a moment.
    fn is_usable(&self) -> bool {
        match &self.next {
            NextHop::End(FetchEnding::Response(response)) => {
                FetchResult::of_status(response.status) != FetchResult::Unreachable
            }
            NextHop::Redirect { to, .. } => to.is_ok(),
            NextHop::End(_) => false,
        }
    }
}

/// The answers, each kept for half of its lifetime: the origins that got it refresh it after more than that.
pub(super) struct RedirectTargets {
    answers: Cache<TargetKey, Arc<HopAnswer>, BodyBytes>,
    flights: Mutex<HashMap<TargetKey, Flight>>,
    lifetimes: LifetimeSettings,
    clock: Clock,
}

/// A fetch in progress, whose result is for everybody who waits for it.
type Flight = Arc<OnceCell<Result<Arc<HopAnswer>, FetchError>>>;

/// A URL, and everything by which its origin may answer one request otherwise than another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct TargetKey {
    uri: String,
    identity: FetchIdentity,
}

impl TargetKey {
    /// Returns the key of a request by `identity` to a host that was `chosen` by that party.
    pub(super) fn new(uri: &str, identity: &FetchIdentity, chosen: ChosenBy) -> Self {
        let chosen = match chosen {
            // Only fetches of public origins are kept from internal addresses.
            ChosenBy::Crawler | ChosenBy::Internal => ChosenBy::Crawler,
            ChosenBy::Public => ChosenBy::Public,
        };
        // Origins cannot see the crawler's name in the configuration.
        let identity = FetchIdentity { crawler: None, chosen, ..identity.clone() };
        Self { uri: uri.to_owned(), identity }
    }
}

/// Weighs an answer by its memory.
#[derive(Clone)]
struct BodyBytes;

impl Weighter<TargetKey, Arc<HopAnswer>> for BodyBytes {
    fn weight(&self, _: &TargetKey, answer: &Arc<HopAnswer>) -> u64 {
        let body = match &answer.next {
            NextHop::End(FetchEnding::Response(response)) => response.body.bytes.len() as u64,
            _ => 0,
        };
        body + OVERHEAD_BYTES
    }
}

impl RedirectTargets {
    /// Returns an empty collection, for files that are fresh for at most `max_age`.
    pub(super) fn new(max_age: Duration, clock: Clock) -> Self {
        Self {
            answers: Cache::with_weighter(EXPECTED_ANSWERS, MAX_BYTES, BodyBytes),
            flights: Mutex::default(),
            lifetimes: LifetimeSettings { max_age, ..LifetimeSettings::default() },
            clock,
        }
    }

    /// Returns the answer for `key`: a recent one, the one that somebody else is waiting for, or the result of `fetch`.
    ///
    /// # Errors
    ///
    /// If the fetch fails, for all that wait for it.
    pub(super) async fn get_or_fetch(
        &self,
        key: TargetKey,
        fetch: impl Future<Output = Result<(HopAnswer, Option<MemoryReservation>), FetchError>>,
    ) -> Result<(Arc<HopAnswer>, Option<MemoryReservation>), FetchError> {
        if let Some(answer) = self.recent(&key) {
            return Ok((answer, None));
        }
        let flight = Arc::clone(self.lock().entry(key.clone()).or_default());
        let mut reservation = None;
        // If the one that fetches gives up, the next one does.
        let fetching = async {
            // Another flight may have ended since.
            if let Some(answer) = self.recent(&key) {
                return Ok(answer);
            }
            let (answer, reserved) = fetch.await?;
            reservation = reserved;
            let answer = Arc::new(answer);
            if answer.is_usable() {
                self.answers.insert(key.clone(), Arc::clone(&answer));
            }
            Ok(answer)
        };
        let landing = Landing { targets: self, key: &key, flight: &flight };
        let result = flight.get_or_init(|| fetching).await.clone();
        drop(landing);
        Ok((result?, reservation))
    }

    /// Forgets the answers for these URLs, because an operator wants new ones. Recent ones are kept: of a thousand origins that are
    /// refreshed, each may lead to the same host.
    pub(super) fn forget(&self, uris: &[&str]) {
        let Ok(token) = ProductToken::new(WAYLEAVE) else {
            return;
        };
        let now = self.clock.now();
        self.answers.retain(|key, answer| {
            let is_wanted = uris.contains(&key.uri.as_str());
            let age = now.duration_since(answer.fetched_at).unwrap_or_default();
            !is_wanted || age < answer.least_age(&token)
        });
    }

    fn recent(&self, key: &TargetKey) -> Option<Arc<HopAnswer>> {
        let answer = self.answers.get(key)?;
        let lifetime = match &answer.next {
            NextHop::End(FetchEnding::Response(response)) => {
                self.lifetimes.fresh_for(Some(&response.fields), answer.fetched_at)
            }
            // Its fields are not kept, so nothing says that it may be used for long.
            _ => self.lifetimes.uncacheable_age,
        };
        let age = self.clock.now().duration_since(answer.fetched_at).ok()?;
        (age < lifetime / 2).then_some(answer)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TargetKey, Flight>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a flight when it has ended, or when the last that waited for it leaves.
struct Landing<'a> {
    targets: &'a RedirectTargets,
    key: &'a TargetKey,
    flight: &'a Flight,
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        let mut flights = self.targets.lock();
        // The map and this one have it. Another flight may be under way by now.
        let is_last = Arc::strong_count(self.flight) <= 2;
        if flights.get(self.key).is_some_and(|other| Arc::ptr_eq(other, self.flight))
            && (is_last || self.flight.initialized())
        {
            flights.remove(self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;
    use tokio::time::{sleep, timeout};
    use wayleave_lifecycle::{FetchErrorKind, FetchedBody, FetchedResponse, ResponseFields};

    use super::*;

    const HOUR: Duration = Duration::from_secs(60 * 60);

    fn key(uri: &str, identity: &FetchIdentity) -> TargetKey {
        TargetKey::new(uri, identity, ChosenBy::Public)
    }

    /// Answers after a second with `status`, and counts the fetches.
    async fn fetch(
        clock: Clock,
        status: u16,
        fetches: &AtomicUsize,
    ) -> Result<(HopAnswer, Option<MemoryReservation>), FetchError> {
        fetches.fetch_add(1, Ordering::Relaxed);
        sleep(Duration::from_secs(1)).await;
        let body = FetchedBody::default();
        let response = FetchedResponse { status, fields: ResponseFields::default(), body };
        let answer = HopAnswer {
            next: NextHop::End(FetchEnding::Response(response)),
            is_public: true,
            varies: false,
            fetched_at: clock.now(),
        };
        Ok((answer, None))
    }

    #[tokio::test(start_paused = true)]
    async fn a_thousand_origins_cause_one_fetch_of_a_file() {
        let clock = Clock::start_at(SystemTime::UNIX_EPOCH);
        let targets = RedirectTargets::new(2 * HOUR, clock);
        let fetches = AtomicUsize::new(0);
        let identity = FetchIdentity::default();
        let ask = async |status| {
            let fetching = fetch(clock, status, &fetches);
            targets.get_or_fetch(key("https://victim.test/rules", &identity), fetching).await
        };
        // At the same time, within half of the lifetime, and afterwards.
        for (pause, expected) in [(0, 1), (1800, 1), (1790, 1), (60, 2), (1, 2)] {
            sleep(Duration::from_secs(pause)).await;
            let answers = join_all((0..1000).map(|_| ask(200))).await;
            assert!(answers.iter().all(Result::is_ok));
            assert_eq!(fetches.load(Ordering::Relaxed), expected, "after {pause} s more");
        }
        for (pause, expected) in [(0, 2), (3, 2), (1, 3)] {
            sleep(Duration::from_secs(pause)).await;
            targets.forget(&["https://victim.test/rules"]);
            assert!(ask(200).await.is_ok());
            assert_eq!(fetches.load(Ordering::Relaxed), expected, "an operator wants a new one");
        }
        assert!(targets.lock().is_empty());
    }

    #[test]
    fn a_refresh_keeps_the_delay_that_the_host_asks_for() {
        let token = ProductToken::new(WAYLEAVE).unwrap();
        let least_age = |text: &str| {
            let body = FetchedBody { bytes: text.as_bytes().into(), ..FetchedBody::default() };
            let response = FetchedResponse { status: 200, fields: ResponseFields::default(), body };
            let next = NextHop::End(FetchEnding::Response(response));
            let fetched_at = SystemTime::UNIX_EPOCH;
            HopAnswer { next, is_public: true, varies: false, fetched_at }.least_age(&token)
        };
        assert_eq!(least_age("User-agent: *\nCrawl-delay: 30\n"), Duration::from_secs(30));
        assert_eq!(least_age("User-agent: *\nCrawl-delay: 1\n"), REFRESH_INTERVAL);
        assert_eq!(least_age("User-agent: *\nCrawl-delay: 9000\n"), LONGEST_DELAY);
        assert_eq!(least_age("<html>"), REFRESH_INTERVAL);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_none_is_shared_only_while_it_is_fetched() {
        let clock = Clock::start_at(SystemTime::UNIX_EPOCH);
        let targets = RedirectTargets::new(HOUR, clock);
        let fetches = AtomicUsize::new(0);
        let identity = FetchIdentity::default();
        for (status, expected) in [(503, 1), (429, 2), (404, 3), (404, 3)] {
            let asked = (0..100).map(|_| {
                let fetching = fetch(clock, status, &fetches);
                targets.get_or_fetch(key("https://victim.test/rules", &identity), fetching)
            });
            assert!(join_all(asked).await.iter().all(Result::is_ok));
            assert_eq!(fetches.load(Ordering::Relaxed), expected, "{status}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn identities_that_may_get_other_answers_fetch_apart() {
        let clock = Clock::start_at(SystemTime::UNIX_EPOCH);
        let targets = RedirectTargets::new(HOUR, clock);
        let fetches = AtomicUsize::new(0);
        let proxy = FetchIdentity::default();
        let other = FetchIdentity { user_agent: Some("OtherBot/1".into()), ..proxy.clone() };
        let named = FetchIdentity { crawler: Some("news".into()), ..proxy.clone() };
        let uri = "https://victim.test/rules";
        for (key, expected) in [
            (key(uri, &proxy), 1),
            (key(uri, &named), 1),
            (key(uri, &other), 2),
            (key("https://victim.test/other", &proxy), 3),
            (TargetKey::new(uri, &proxy, ChosenBy::Internal), 4),
            (TargetKey::new(uri, &proxy, ChosenBy::Crawler), 4),
        ] {
            let answer = targets.get_or_fetch(key.clone(), fetch(clock, 200, &fetches)).await;
            assert!(answer.is_ok());
            assert_eq!(fetches.load(Ordering::Relaxed), expected, "{key:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_fetch_is_forgotten_when_the_last_that_waits_leaves() {
        let clock = Clock::start_at(SystemTime::UNIX_EPOCH);
        let targets = RedirectTargets::new(HOUR, clock);
        let fetches = AtomicUsize::new(0);
        let identity = FetchIdentity::default();
        let ask = |patience| {
            let key = key("https://victim.test/rules", &identity);
            timeout(patience, targets.get_or_fetch(key, fetch(clock, 200, &fetches)))
        };
        let [short, longer] = [200, 400].map(Duration::from_millis);
        let (first, second) = tokio::join!(ask(short), ask(longer));
        assert!(first.is_err() && second.is_err());
        assert!(targets.lock().is_empty());
        assert!(ask(2 * longer + HOUR).await.is_ok(), "the next one fetches");
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_for_all_that_wait_and_a_gap_is_filled() {
        let clock = Clock::start_at(SystemTime::UNIX_EPOCH);
        let targets = RedirectTargets::new(HOUR, clock);
        let fetches = AtomicUsize::new(0);
        let identity = FetchIdentity::default();
        let fails = || async {
            fetches.fetch_add(1, Ordering::Relaxed);
            sleep(Duration::from_secs(1)).await;
            let detail = "as scripted".to_owned();
            Err(FetchError { kind: FetchErrorKind::Connect, detail })
        };
        let asked = (0..100)
            .map(|_| targets.get_or_fetch(key("https://victim.test/rules", &identity), fails()));
        assert!(join_all(asked).await.iter().all(Result::is_err));
        assert_eq!(fetches.load(Ordering::Relaxed), 1);
        let leaves = timeout(
            Duration::from_millis(500),
            targets.get_or_fetch(
                key("https://victim.test/rules", &identity),
                fetch(clock, 200, &fetches),
            ),
        );
        let waits = targets
            .get_or_fetch(key("https://victim.test/rules", &identity), fetch(clock, 200, &fetches));
        let (left, answered) = tokio::join!(leaves, waits);
        assert!(left.is_err() && answered.is_ok());
        assert_eq!(fetches.load(Ordering::Relaxed), 3);
        assert!(targets.lock().is_empty());
    }
}
