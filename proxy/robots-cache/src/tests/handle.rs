use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use tokio::sync::Notify;
use wayleave_lifecycle::{
    FetchEnding, FetchErrorKind, FetchOutcome, FetchRequest, FetchedBody, FetchedResponse,
    ResponseFields,
};
use wayleave_robots_txt::{AccessResult, AccessVerdict, Dialect, ProductToken, decide};

use super::super::*;
use crate::store::WALKED_ENTRIES;

pub(super) const HOUR: Duration = Duration::from_secs(60 * 60);
pub(super) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Answers from a script: by origin, or 200 with rules.
#[derive(Clone, Default)]
pub(super) struct ScriptedFetch {
    script: Arc<Script>,
}

#[derive(Default)]
struct Script {
    answers: Mutex<HashMap<Origin, Answer>>,
    fetched: Mutex<Vec<FetchRequest>>,
    under_way: AtomicUsize,
    most_under_way: AtomicUsize,
    /// While set, every fetch waits here.
    gate: Mutex<Option<Arc<Notify>>>,
}

#[derive(Clone)]
pub(super) enum Answer {
    Status(u16),
    Says(String),
    /// Answers the one with this `User-Agent` with these rules, and others with 403.
    OnlyTo(&'static str, &'static str),
    /// Answers with rules that disallow everything to the `User-Agent`, and says that others get other rules.
    Varies,
    /// Answers with 304.
    Confirms,
    Fails(FetchErrorKind),
    /// Accepts connections and sends nothing, until the fetch has taken ten seconds.
    Hangs,
    Panics,
}

impl ScriptedFetch {
    pub(super) fn answer(&self, origin: &Origin, answer: Answer) {
        let mut answers = self.script.answers.lock().unwrap();
        answers.insert(origin.clone(), answer);
    }

    pub(super) fn fetches(&self) -> usize {
        self.script.fetched.lock().unwrap().len()
    }

    /// Returns the identity of each fetch.
    pub(super) fn identities(&self) -> Vec<Arc<FetchIdentity>> {
        let fetched = self.script.fetched.lock().unwrap();
        fetched.iter().map(|request| Arc::clone(&request.identity)).collect()
    }

    /// Returns the `User-Agent` of each fetch; `-` for the proxy's own.
    pub(super) fn user_agents(&self) -> Vec<String> {
        let identities = self.identities().into_iter();
        identities
            .map(|identity| identity.user_agent.as_deref().unwrap_or("-").to_owned())
            .collect()
    }

    /// Makes fetches wait until the gate is notified.
    pub(super) fn close_gate(&self) -> Arc<Notify> {
        let gate = Arc::new(Notify::new());
        *self.script.gate.lock().unwrap() = Some(gate.clone());
        gate
    }

    pub(super) fn open_gate(&self, gate: &Notify) {
        *self.script.gate.lock().unwrap() = None;
        gate.notify_waiters();
    }
}

impl DocumentFetcher for ScriptedFetch {
    async fn fetch(&self, request: FetchRequest, _: Option<&[u8]>) -> FetchedDocument {
        let script = &self.script;
        let under_way = script.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        script.most_under_way.fetch_max(under_way, Ordering::SeqCst);
        let origin = request.resource.origin().clone();
        let user_agent = request.identity.user_agent.as_deref().unwrap_or("-").to_owned();
        script.fetched.lock().unwrap().push(request);
        let gate = script.gate.lock().unwrap().clone();
        if let Some(gate) = gate {
            gate.notified().await;
        }
        script.under_way.fetch_sub(1, Ordering::SeqCst);
        let answer = script.answers.lock().unwrap().get(&origin).cloned();
        let uri = origin.robots_txt_uri();
        let varies = matches!(answer, Some(Answer::Varies));
        let (status, bytes) = match answer.unwrap_or(Answer::Status(200)) {
            Answer::Panics => panic!("as scripted"),
            Answer::Confirms => {
                let ending = FetchEnding::NotModified(ResponseFields::default());
                let outcome = FetchOutcome { redirects: Vec::new(), uri, ending };
                return outcome.into();
            }
            Answer::Fails(kind) => return FetchOutcome::failed(uri, kind, "as scripted").into(),
            Answer::Hangs => {
                tokio::time::sleep(Duration::from_secs(10)).await;
                return FetchOutcome::failed(uri, FetchErrorKind::Timeout, "as scripted").into();
            }
            Answer::OnlyTo(admitted, rules) if admitted == user_agent => {
                (200, rules.as_bytes().into())
            }
            Answer::OnlyTo(..) => (403, [].into()),
            Answer::Varies => {
                (200, format!("User-agent: *\nDisallow: /{user_agent}\n").into_bytes().into())
            }
            Answer::Status(status) => (status, super::http::RULES.into()),
            Answer::Says(text) => (200, text.into_bytes().into()),
        };
        let outcome = FetchOutcome {
            redirects: Vec::new(),
            uri,
            ending: FetchEnding::Response(FetchedResponse {
                status,
                fields: ResponseFields { varies, ..ResponseFields::default() },
                body: FetchedBody { bytes, is_cut: false, digest: None },
            }),
        };
        outcome.into()
    }
}

pub(super) fn origin(name: &str) -> Origin {
    Origin::parse(&format!("https://{name}.example")).unwrap()
}

pub(super) fn start(fetch: &ScriptedFetch, bounds: FetchLimits) -> (RobotsCache, Arc<Metrics>) {
    let metrics = Arc::new(Metrics::new().unwrap());
    let first = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let options = RobotsCacheConfig { fetch_limits: bounds, ..RobotsCacheConfig::default() };
    let clock = Clock::start_at(first);
    let store = RobotsStore::in_memory(clock, metrics.clone());
    let (robots, _) = RobotsCache::start(fetch.clone(), store, &options, clock, metrics.clone());
    (robots, metrics)
}

/// Starts a cache with a store in `dir`, and a clock that is ahead by `after`.
fn start_in(
    dir: &std::path::Path,
    fetch: &ScriptedFetch,
    after: Duration,
    memory_bytes: usize,
) -> RobotsCache {
    let metrics = Arc::new(Metrics::new().unwrap());
    let clock =
        Clock::start_at(SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000) + after);
    let store =
        RobotsStore::open(dir, RobotsStoreConfig::default(), clock, metrics.clone()).unwrap();
    let options = RobotsCacheConfig { memory_bytes, ..RobotsCacheConfig::default() };
    RobotsCache::start(fetch.clone(), store, &options, clock, metrics).0
}

pub(super) fn started(fetch: &ScriptedFetch) -> RobotsCache {
    start(fetch, FetchLimits::default()).0
}

/// Returns whether the rules of a snapshot allow `/private/a`.
pub(super) fn private(robots: &RobotsCache, snapshot: &Snapshot) -> AccessVerdict {
    let tokens = [ProductToken::new("ExampleBot").unwrap()];
    let access = snapshot.access(robots.clock().now());
    decide(
        access,
        Dialect::Rfc9309,
        &tokens,
        &wayleave_robots_txt::UrlPath::parse("/private/a").expect("a path"),
    )
    .verdict()
}

/// Lets every runnable task run: with a paused clock, time passes only when all are idle.
pub(super) async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_fetched_file_is_fresh_for_a_day() {
    let fetch = ScriptedFetch::default();
    let robots = started(&fetch);
    let shop = origin("shop");
    assert!(robots.cached(&shop).is_none());
    let snapshot = robots.find(&shop).await.unwrap().snapshot;
    assert_eq!(private(&robots, &snapshot), AccessVerdict::Disallow);
    tokio::time::advance(DAY - HOUR * 12).await;
    assert!(robots.cached(&shop).is_some());
    assert_eq!(fetch.fetches(), 1);
}

#[tokio::test(start_paused = true)]
async fn files_in_use_are_refreshed_before_they_expire() {
    let fetch = ScriptedFetch::default();
    let robots = started(&fetch);
    let shop = origin("shop");
    robots.find(&shop).await.unwrap();
    for _ in 0..24 * 30 {
        tokio::time::sleep(HOUR).await;
        assert!(robots.cached(&shop).is_some(), "after {}", fetch.fetches());
    }
    let fetches = fetch.fetches();
    assert!((31..=45).contains(&fetches), "{fetches} in 30 days");
}

#[tokio::test(start_paused = true)]
async fn unused_files_are_not_refreshed_and_finally_forgotten() {
    let fetch = ScriptedFetch::default();
    let robots = started(&fetch);
    let shop = origin("shop");
    robots.find(&shop).await.unwrap();
    tokio::time::sleep(29 * DAY).await;
    assert_eq!(fetch.fetches(), 1);
    let inspected = robots.inspect(&shop).await.unwrap();
    assert!(inspected.snapshot.is_some());
    assert!(robots.cached(&shop).is_none(), "too old to be used");
    tokio::time::sleep(2 * DAY).await;
    let inspected = robots.inspect(&shop).await.unwrap();
    assert!(inspected.snapshot.is_none(), "only the store keeps it longer");
    assert!(inspected.entry.answer.is_some());
    assert!(robots.list(&EntryQuery { limit: 10, ..EntryQuery::default() }).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_stale_copy_is_used_only_if_the_fetch_fails() {
    let fetch = ScriptedFetch::default();
    let robots = started(&fetch);
    let shop = origin("shop");
    robots.find(&shop).await.unwrap();
    tokio::time::sleep(2 * DAY).await;
    fetch.answer(&shop, Answer::Fails(FetchErrorKind::Connect));
    let snapshot = robots.find(&shop).await.unwrap().snapshot;
    assert_eq!(fetch.fetches(), 2);
    assert_eq!(snapshot.state(robots.clock().now()), SnapshotState::Stale);
    assert_eq!(private(&robots, &snapshot), AccessVerdict::Disallow);

    tokio::time::sleep(Duration::from_secs(90)).await;
    let gate = fetch.close_gate();
    for _ in 0..5 {
        assert!(robots.cached(&shop).is_some(), "a copy of an unreachable origin waits for nobody");
        settle().await;
    }
    assert_eq!(fetch.fetches(), 3, "one attempt beside it");
    fetch.answer(&shop, Answer::Status(404));
    fetch.open_gate(&gate);
    settle().await;
    let snapshot = robots.cached(&shop).expect("published").snapshot;
    assert_eq!(private(&robots, &snapshot), AccessVerdict::Allow);
}

#[tokio::test(start_paused = true)]
async fn unreachable_origins_are_refused_and_retried() {
    let fetch = ScriptedFetch::default();
    let robots = started(&fetch);
    let shop = origin("shop");
    fetch.answer(&shop, Answer::Status(503));
    for _ in 0..10 {
        let snapshot = robots.find(&shop).await.unwrap().snapshot;
        assert_eq!(private(&robots, &snapshot), AccessVerdict::Disallow);
        let retry_after = snapshot.retry_after(robots.clock().now()).unwrap();
        assert!(retry_after <= Duration::from_secs(66), "{retry_after:?}");
    }
    assert_eq!(fetch.fetches(), 1);
    fetch.answer(&shop, Answer::Status(200));
    tokio::time::sleep(Duration::from_secs(67)).await;
    let snapshot = robots.find(&shop).await.unwrap().snapshot;
    assert!(matches!(snapshot.access(robots.clock().now()), AccessResult::Successful(_)));
    assert_eq!(fetch.fetches(), 2);
}

#[tokio::test(start_paused = true)]
async fn one_fetch_answers_everyone_who_waits() {
    let fetch = ScriptedFetch::default();
    let (robots, metrics) = start(&fetch, FetchLimits::default());
    let shop = origin("shop");
    let gate = fetch.close_gate();
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let robots = robots.clone();
        let shop = shop.clone();
        waiting.spawn(async move { robots.find(&shop).await.is_ok() });
    }
    settle().await;
    fetch.open_gate(&gate);
    assert!(waiting.join_all().await.into_iter().all(|found| found));
    assert_eq!(fetch.fetches(), 1);
    robots.find(&shop).await.unwrap();
    let (_, text) = metrics.text().unwrap();
    for line in [
        "wayleave_robots_lookups_total{result=\"miss\"} 1",
        "wayleave_robots_lookups_total{result=\"joined\"} 99",
        "wayleave_robots_lookups_total{result=\"hit\"} 1",
        "wayleave_robots_fetches_total{result=\"successful\"} 1",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn leaving_does_not_cancel_the_fetch() {
    let fetch = ScriptedFetch::default();
    let robots = started(&fetch);
    let shop = origin("shop");
    let gate = fetch.close_gate();
    let left = tokio::time::timeout(Duration::from_millis(50), robots.find(&shop)).await;
    assert!(left.is_err());
    fetch.open_gate(&gate);
    settle().await;
    assert!(robots.cached(&shop).is_some());
    assert_eq!(fetch.fetches(), 1);
}

#[tokio::test(start_paused = true)]
async fn waiting_times_out() {
    let fetch = ScriptedFetch::default();
    let robots = started(&fetch);
    let _gate = fetch.close_gate();
    let started = tokio::time::Instant::now();
    let pending = robots.find(&origin("shop")).await;
    assert!(pending.is_err_and(|pending| pending.retry_after > Duration::ZERO));
    assert_eq!(started.elapsed(), Duration::from_secs(11));
}

#[tokio::test(start_paused = true)]
async fn a_panicking_fetch_fails_only_its_origin() {
    let fetch = ScriptedFetch::default();
    let robots = started(&fetch);
    fetch.answer(&origin("bad"), Answer::Panics);
    let snapshot = robots.find(&origin("bad")).await.unwrap().snapshot;
    assert_eq!(snapshot.error_kind(), Some(FetchErrorKind::Internal));
    assert_eq!(private(&robots, &snapshot), AccessVerdict::Disallow);
    assert!(robots.find(&origin("good")).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn five_hundred_new_origins_at_once_are_all_answered() {
    let fetch = ScriptedFetch::default();
    let robots = started(&fetch);
    let gate = fetch.close_gate();
    let mut waiting = tokio::task::JoinSet::new();
    for n in 0..500 {
        let robots = robots.clone();
        waiting.spawn(async move { robots.find(&origin(&format!("host{n}"))).await.is_ok() });
    }
    settle().await;
    assert_eq!(fetch.fetches(), 224, "the bound for unknown origins");
    fetch.open_gate(&gate);
    assert!(waiting.join_all().await.into_iter().all(|found| found));
    assert_eq!(fetch.fetches(), 500);
    assert!(fetch.script.most_under_way.load(Ordering::SeqCst) <= 256);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_new_origins_does_not_delay_known_ones() {
    let fetch = ScriptedFetch::default();
    let robots = started(&fetch);
    let shop = origin("shop");
    robots.find(&shop).await.unwrap();
    tokio::time::sleep(2 * DAY).await;
    let gate = fetch.close_gate();
    let mut storm = tokio::task::JoinSet::new();
    for n in 0..10_000 {
        let robots = robots.clone();
        storm.spawn(async move { robots.find(&origin(&format!("storm{n}"))).await.is_ok() });
    }
    settle().await;
    let known = tokio::spawn({
        let robots = robots.clone();
        let shop = shop.clone();
        async move { robots.find(&shop).await.is_ok() }
    });
    settle().await;
    let fetched = fetch.script.fetched.lock().unwrap().clone();
    assert_eq!(fetched.last().map(|request| request.resource.origin()), Some(&shop));
    fetch.open_gate(&gate);
    assert!(known.await.unwrap());
    assert!(storm.join_all().await.into_iter().all(|found| found));
}

/// Returns a cache of three origins: `a` has rules, `b` has none, `c` is unreachable.
async fn three_known() -> (ScriptedFetch, RobotsCache, Arc<Metrics>) {
    let fetch = ScriptedFetch::default();
    let (robots, metrics) = start(&fetch, FetchLimits::default());
    fetch.answer(&origin("b"), Answer::Status(404));
    fetch.answer(&origin("c"), Answer::Status(500));
    for name in ["c", "a", "b"] {
        robots.find(&origin(name)).await.unwrap();
    }
    (fetch, robots, metrics)
}

#[tokio::test(start_paused = true)]
async fn entries_are_listed_by_query() {
    let (_, robots, _) = three_known().await;
    let names = |listing: EntryQuery| -> Vec<Origin> {
        let found = robots.list(&listing);
        found.into_iter().map(|(origin, _)| origin).collect()
    };
    let limit = 10;
    let all = names(EntryQuery { limit, ..EntryQuery::default() });
    assert_eq!(all, [origin("a"), origin("b"), origin("c")]);
    let page = names(EntryQuery { limit: 1, after: Some(origin("a")), ..EntryQuery::default() });
    assert_eq!(page, [origin("b")]);
    let unreachable =
        EntryQuery { limit, state: Some(SnapshotState::Unreachable), ..EntryQuery::default() };
    assert_eq!(names(unreachable), [origin("c")]);
    let contains = "//b.".to_owned();
    assert_eq!(names(EntryQuery { limit, contains, ..EntryQuery::default() }), [origin("b")]);
}

#[tokio::test(start_paused = true)]
async fn operators_inspect_refresh_and_forget() {
    let (fetch, robots, metrics) = three_known().await;
    let inspected = robots.inspect(&origin("c")).await.unwrap();
    assert_eq!(inspected.entry.failures.as_ref().map(|failing| failing.count), Some(1));
    assert!(!inspected.is_fetching);
    assert!(robots.inspect(&origin("d")).await.is_none());

    fetch.answer(&origin("c"), Answer::Status(200));
    let refreshed = robots.refresh(&origin("c")).await.unwrap();
    assert_eq!(refreshed.state(robots.clock().now()), SnapshotState::Fresh);
    assert!(robots.forget(&origin("a")).await && !robots.forget(&origin("a")).await);
    assert!(robots.cached(origin("a")).is_none());

    robots.update_metrics();
    let (_, text) = metrics.text().unwrap();
    for (state, count) in [("fresh", 1), ("unavailable", 1), ("stale", 0), ("unreachable", 0)] {
        let line = format!("wayleave_robots_entries{{state=\"{state}\"}} {count}");
        assert!(text.contains(&line), "{line}\n{text}");
    }
}

/// Counts the entries in each state by reading all of them.
fn looked_up(robots: &RobotsCache) -> [(SnapshotState, usize); 4] {
    SnapshotState::ALL.map(|state| {
        let listing = EntryQuery { state: Some(state), limit: 100, ..EntryQuery::default() };
        (state, robots.list(&listing).len())
    })
}

#[tokio::test(start_paused = true)]
async fn gathering_metrics_reads_no_entries() {
    let (_, robots, metrics) = three_known().await;
    robots.store().flush().await;
    let before = WALKED_ENTRIES.get();
    robots.update_metrics();
    assert!(metrics.text().unwrap().1.contains("{state=\"fresh\"} 1"));
    assert_eq!(WALKED_ENTRIES.get() - before, 0, "entries looked at");
    looked_up(&robots);
    assert!(WALKED_ENTRIES.get() > before, "looks at entries are seen here");
}

#[tokio::test(start_paused = true)]
async fn counts_follow_fetches_and_time() {
    let (fetch, robots, _) = three_known().await;
    assert_eq!(robots.count_by_state().map(|(_, count)| count), [1, 0, 1, 1]);
    let mut counts = HashSet::new();
    for round in 0..400 {
        match round {
            20 => fetch.answer(&origin("a"), Answer::Status(500)),
            30 => fetch.answer(&origin("c"), Answer::Status(200)),
            _ => {}
        }
        if round < 60 && round % 10 == 0 {
            robots.refresh(&origin(["a", "b", "c"][round / 10 % 3])).await.unwrap();
        }
        let counted = robots.count_by_state();
        assert_eq!(counted, looked_up(&robots), "round {round}");
        counts.insert(counted.map(|(_, count)| count));
        // The end of a state is counted an hour late at most.
        tokio::time::advance(7 * HOUR + Duration::from_secs(90)).await;
        settle().await;
    }
    assert!(counts.len() > 4, "{counts:?}");
    assert!(counts.contains(&[0; 4]), "in the end they are of no use: {counts:?}");
}

/// Prints how long counts take with a million origins, and how long the initial walk takes.
#[tokio::test]
#[ignore = "takes minutes"]
async fn a_million_are_counted_as_fast_as_one() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::start();
    let metrics = Arc::new(Metrics::new().unwrap());
    let store = || {
        let options = RobotsStoreConfig::default();
        RobotsStore::open(dir.path(), options, clock, metrics.clone()).unwrap()
    };
    let filled = store();
    for n in 0..1_000_000 {
        let origin = Origin::parse(&format!("https://host{n}.test")).unwrap();
        let outcome = FetchOutcome {
            redirects: Vec::new(),
            uri: origin.robots_txt_uri(),
            ending: FetchEnding::RedirectLost(302),
        };
        filled.save(
            &origin,
            Arc::new(
                CacheEntry::default().after_fetch(FinishedFetch::of_proxy(outcome, clock.now())),
            ),
        );
        if n % 10_000 == 0 {
            filled.flush().await;
        }
    }
    filled.flush().await;
    drop(filled);
    let started = std::time::Instant::now();
    let fetch = ScriptedFetch::default();
    let (robots, _task) =
        RobotsCache::start(fetch, store(), &RobotsCacheConfig::default(), clock, metrics.clone());
    while robots.count_by_state().map(|(_, count)| count) != [0, 0, 1_000_000, 0] {}
    println!("counted once in {:?}", started.elapsed());
    for _ in 0..3 {
        let started = std::time::Instant::now();
        robots.update_metrics();
        println!("figures in {:?}", started.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn counts_start_from_disk_and_follow_new_lifetimes() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::start_at(SystemTime::UNIX_EPOCH + 20_000 * DAY);
    let open = || {
        let metrics = Arc::new(Metrics::new().unwrap());
        let store =
            RobotsStore::open(dir.path(), RobotsStoreConfig::default(), clock, metrics.clone());
        (store.unwrap(), metrics)
    };
    let fetch = ScriptedFetch::default();
    let mut options = RobotsCacheConfig::default();
    let (store, metrics) = open();
    let (robots, task) = RobotsCache::start(fetch.clone(), store, &options, clock, metrics);
    for name in ["a", "b", "c"] {
        robots.find(&origin(name)).await.unwrap();
    }
    end(robots).await;
    task.await.unwrap();

    let (store, metrics) = open();
    let (robots, _task) = RobotsCache::start(fetch, store, &options, clock, metrics);
    let counts = || robots.count_by_state().map(|(_, count)| count);
    assert_eq!(counts(), [3, 0, 0, 0]);
    tokio::time::advance(2 * HOUR).await;
    assert_eq!(counts(), [3, 0, 0, 0]);
    options.lifetimes.max_age = HOUR;
    robots.reconfigure(&options).await;
    assert_eq!(counts(), [0, 3, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn the_task_ends_with_the_last_handle() {
    let metrics = Arc::new(Metrics::new().unwrap());
    let clock = Clock::start();
    let fetch = ScriptedFetch::default();
    let store = RobotsStore::in_memory(clock, metrics.clone());
    let (robots, task) =
        RobotsCache::start(fetch, store, &RobotsCacheConfig::default(), clock, metrics);
    let other = robots.clone();
    drop(robots);
    other.find(&origin("shop")).await.unwrap();
    drop(other);
    task.await.unwrap();
}

/// Ends `robots` so that its store can be opened again.
async fn end(robots: RobotsCache) {
    robots.close().await;
    drop(robots);
    settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_forgets_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let fetch = ScriptedFetch::default();
    let memory = RobotsCacheConfig::default().memory_bytes;
    let robots = start_in(dir.path(), &fetch, Duration::ZERO, memory);
    fetch.answer(&origin("down"), Answer::Fails(FetchErrorKind::Timeout));
    robots.find(&origin("shop")).await.unwrap();
    robots.find(&origin("down")).await.unwrap();
    end(robots).await;
    assert_eq!(fetch.fetches(), 2);

    let robots = start_in(dir.path(), &fetch, Duration::from_secs(20), memory);
    assert!(robots.cached(origin("shop")).is_none(), "read when wanted");
    let shop = robots.find(&origin("shop")).await.unwrap().snapshot;
    assert_eq!(private(&robots, &shop), AccessVerdict::Disallow);
    let down = robots.find(&origin("down")).await.unwrap().snapshot;
    assert_eq!(down.failures(), 1);
    assert_eq!(fetch.fetches(), 2, "what is fresh is not fetched again");
    end(robots).await;

    for days in [14, 28] {
        let robots = start_in(dir.path(), &fetch, days * DAY, memory);
        robots.find(&origin("down")).await.unwrap();
        end(robots).await;
    }
    let robots = start_in(dir.path(), &fetch, 30 * DAY, memory);
    let down = robots.find(&origin("down")).await.unwrap().snapshot;
    assert_eq!(down.failures(), 4);
    let now = robots.clock().now();
    assert!(
        matches!(down.access(now), AccessResult::LongUnreachable),
        "seen unreachable for 30 days"
    );
    fetch.answer(&origin("shop"), Answer::Fails(FetchErrorKind::Connect));
    let shop = robots.find(&origin("shop")).await.unwrap().snapshot;
    assert_eq!(shop.failures(), 1);
    assert_eq!(private(&robots, &shop), AccessVerdict::Disallow);
}

#[tokio::test(start_paused = true)]
async fn two_failures_a_month_apart_do_not_open_an_origin() {
    let dir = tempfile::tempdir().unwrap();
    let fetch = ScriptedFetch::default();
    fetch.answer(&origin("down"), Answer::Fails(FetchErrorKind::Timeout));
    for after in [Duration::ZERO, 31 * DAY] {
        let robots = start_in(dir.path(), &fetch, after, RobotsCacheConfig::default().memory_bytes);
        let down = robots.find(&origin("down")).await.unwrap().snapshot;
        assert_eq!(private(&robots, &down), AccessVerdict::Disallow, "{after:?}");
        assert_eq!(down.failures(), 1);
        end(robots).await;
    }
}

#[tokio::test(start_paused = true)]
async fn evicted_entries_come_back_from_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let fetch = ScriptedFetch::default();
    let memory = 100_000;
    let robots = start_in(dir.path(), &fetch, Duration::ZERO, memory);
    for n in 0..1000 {
        robots.find(&origin(&format!("host{n}"))).await.unwrap();
    }
    let in_memory = robots.documents.published.len();
    assert!((50..500).contains(&in_memory), "{in_memory}");
    for n in 0..1000 {
        let snapshot = robots.find(&origin(&format!("host{n}"))).await.unwrap().snapshot;
        assert_eq!(private(&robots, &snapshot), AccessVerdict::Disallow);
    }
    assert_eq!(fetch.fetches(), 1000, "none was fetched twice");
}

#[tokio::test(start_paused = true)]
async fn an_inspection_includes_the_history() {
    let fetch = ScriptedFetch::default();
    let robots = started(&fetch);
    let shop = origin("shop");
    robots.find(&shop).await.unwrap();
    fetch.answer(&shop, Answer::Status(404));
    tokio::time::sleep(HOUR).await;
    robots.refresh(&shop).await.unwrap();
    let inspected = robots.inspect(&shop).await.unwrap();
    let statuses: Vec<_> = inspected.history.iter().map(|version| version.status).collect();
    assert_eq!(statuses, [200, 404]);
    let digest = inspected.history[0].digest.unwrap();
    let body = robots.store().body(digest).await;
    assert_eq!(body.as_deref(), Some(super::http::RULES));
}

#[tokio::test(start_paused = true)]
async fn entries_that_decisions_enlarge_are_evicted() {
    const MEMORY: usize = 30_000;
    let (dir, fetch, shop) =
        (tempfile::tempdir().unwrap(), ScriptedFetch::default(), origin("shop"));
    let rules = (0..1_000).map(|n| format!("Disallow: /{n}\n"));
    let file = format!("User-agent: *\n{}", rules.collect::<String>());
    fetch.answer(&shop, Answer::Says(file));
    let robots = start_in(dir.path(), &fetch, Duration::ZERO, MEMORY);
    let known = robots.find(&shop).await.unwrap();
    settle().await;
    assert!(robots.memory_bytes() > 0, "it fits");
    robots.with_recount(&shop, &FetchIdentity::default(), &known, || {
        private(&robots, &known.snapshot)
    });
    assert!(robots.memory_bytes() > MEMORY, "and has an index now");
    settle().await;
    assert_eq!(robots.memory_bytes(), 0);
    assert!(robots.cached(&shop).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_revalidated_copy_is_fresh_again() {
    let fetch = ScriptedFetch::default();
    let robots = started(&fetch);
    let shop = origin("shop");
    robots.find(&shop).await.unwrap();
    fetch.answer(&shop, Answer::Confirms);
    tokio::time::advance(DAY + HOUR).await;
    for _ in 0..3 {
        let known = robots.find(&shop).await.unwrap();
        assert_eq!(private(&robots, &known.snapshot), AccessVerdict::Disallow);
        settle().await;
    }
    assert_eq!(fetch.fetches(), 2);
}

#[tokio::test(start_paused = true)]
async fn usability_counts_from_the_last_confirmation() {
    let fetch = ScriptedFetch::default();
    let robots = started(&fetch);
    let shop = origin("shop");
    robots.find(&shop).await.unwrap();
    fetch.answer(&shop, Answer::Confirms);
    for _ in 0..2 {
        tokio::time::advance(10 * DAY).await;
        robots.find(&shop).await.unwrap();
    }
    fetch.answer(&shop, Answer::Status(503));
    tokio::time::advance(29 * DAY).await;
    let known = robots.find(&shop).await.unwrap();
    assert!(matches!(known.access(), AccessResult::Successful(_)), "{known:?}");
    assert_eq!(private(&robots, &known.snapshot), AccessVerdict::Disallow);
}

pub(super) fn of(crawler: &str, client: u8) -> Requester<'_> {
    Requester { crawler, client: Some([192, 0, 2, client].into()), ..Requester::default() }
}

/// Makes one client request this many origins that do not answer, from the `first` on, and wait for all of them.
pub(super) fn name_tarpits(
    fetch: &ScriptedFetch,
    robots: &RobotsCache,
    tarpits: std::ops::Range<usize>,
) -> tokio::task::JoinSet<bool> {
    let mut naming = tokio::task::JoinSet::new();
    for n in tarpits {
        let robots = robots.clone();
        let tarpit = origin(&format!("tarpit{n}"));
        fetch.answer(&tarpit, Answer::Hangs);
        naming.spawn(async move { robots.find_for(&tarpit, of("attacker", 1)).await.is_ok() });
    }
    naming
}

#[tokio::test(start_paused = true)]
async fn one_clients_tarpits_delay_nobody_else() {
    let fetch = ScriptedFetch::default();
    let robots = started(&fetch);
    for n in 0..60 {
        robots.find(&origin(&format!("known{n}"))).await.unwrap();
    }
    tokio::time::sleep(2 * DAY).await;
    let mut naming = vec![name_tarpits(&fetch, &robots, 0..3000)];
    for second in 0..60 {
        let first = 3000 + 31 * second;
        naming.push(name_tarpits(&fetch, &robots, first..first + 31));
        tokio::time::sleep(Duration::from_secs(1)).await;
        let started = tokio::time::Instant::now();
        for (name, requester) in [
            ("new", of("news", 2)),
            ("beside", of("news", 1)),
            ("same", of("attacker", 3)),
            ("known", of("news", 2)),
        ] {
            let shop = origin(&format!("{name}{second}"));
            let known = robots.find_for(&shop, requester).await.unwrap();
            assert!(matches!(known.access(), AccessResult::Successful(_)), "{shop}");
        }
        assert!(started.elapsed() < Duration::from_millis(10), "{second}");
    }
    let known = fetch.script.fetched.lock().unwrap();
    let refetched =
        known.iter().filter(|request| request.resource.origin().host().starts_with("known"));
    assert_eq!(refetched.count(), 120, "each twice");
}

#[tokio::test(start_paused = true)]
async fn abandoned_documents_are_not_fetched() {
    let fetch = ScriptedFetch::default();
    let robots = started(&fetch);
    let naming = name_tarpits(&fetch, &robots, 0..3000);
    settle().await;
    assert_eq!(fetch.fetches(), 224);
    drop(naming);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(fetch.fetches(), 224, "all of them left");
    fetch.answer(&origin("tarpit2999"), Answer::Status(200));
    assert!(robots.find(&origin("tarpit2999")).await.is_ok(), "it can be wanted again");
}

#[tokio::test(start_paused = true)]
async fn a_valid_copy_is_served_while_its_refetch_is_queued() {
    let fetch = ScriptedFetch::default();
    let one = FetchLimits { total: 1, per_host: 1, reserved: 0 };
    let (robots, _) = start(&fetch, one);
    let good = origin("good");
    let none = origin("none");
    fetch.answer(&none, Answer::Status(404));
    for known in [&good, &none] {
        robots.find(known).await.unwrap();
    }
    tokio::time::sleep(2 * DAY).await;
    let naming = name_tarpits(&fetch, &robots, 0..1);
    settle().await;
    let started = tokio::time::Instant::now();
    for _ in 0..3 {
        let known = robots.find_for(&good, of("news", 2)).await.unwrap();
        assert_eq!(private(&robots, &known.snapshot), AccessVerdict::Disallow);
        let known = robots.find_for(&none, of("news", 2)).await.unwrap();
        assert!(matches!(known.access(), AccessResult::Unavailable { status: 404 }));
    }
    assert!(started.elapsed() < Duration::from_secs(1), "nobody waited");
    assert_eq!(fetch.fetches(), 3, "the refetches are still queued");
    naming.join_all().await;
    settle().await;
    assert_eq!(fetch.fetches(), 5, "they were made, though nobody waits any more");
    assert!(robots.cached(&good).is_some() && robots.cached(&none).is_some());
}

#[tokio::test(start_paused = true)]
async fn operators_wait_for_the_fetch_despite_a_copy() {
    let fetch = ScriptedFetch::default();
    let one = FetchLimits { total: 1, per_host: 1, reserved: 0 };
    let (robots, _) = start(&fetch, one);
    let shop = origin("shop");
    robots.find(&shop).await.unwrap();
    let naming = name_tarpits(&fetch, &robots, 0..1);
    settle().await;
    fetch.answer(&shop, Answer::Status(404));
    let snapshot = robots.refresh(&shop).await.unwrap();
    assert_eq!(private(&robots, &snapshot), AccessVerdict::Allow);
    naming.join_all().await;
}

#[tokio::test(start_paused = true)]
async fn a_document_is_fetched_for_the_first_key_that_is_next() {
    let fetch = ScriptedFetch::default();
    let robots = started(&fetch);
    let naming = name_tarpits(&fetch, &robots, 0..3000);
    let shop = origin("tarpit2999");
    fetch.answer(&shop, Answer::Status(200));
    settle().await;
    let started = tokio::time::Instant::now();
    assert!(robots.find_for(&shop, of("news", 2)).await.is_ok());
    assert!(started.elapsed() < Duration::from_millis(10));
    drop(naming);
}

#[tokio::test(start_paused = true)]
async fn a_pinned_origin_is_never_fetched_even_while_a_copy_is_in_use() {
    let fetch = ScriptedFetch::default();
    let robots = started(&fetch);
    let shop = origin("shop");
    let other = origin("other");
    for used in [&shop, &other] {
        robots.find(used).await.unwrap();
        assert!(robots.cached(used).is_some());
    }
    assert_eq!(fetch.fetches(), 2);
    let text = PinnedText {
        origin: shop.clone(),
        file: "shop.txt".into(),
        text: b"User-agent: *\nDisallow: /planned\n"[..].into(),
    };
    let pinned = Arc::new(PinnedFiles::new(&[text], robots.clock().now()));
    robots.set_pinned(Arc::clone(&pinned));
    // The other one, which is as old and as much in use, is fetched again meanwhile.
    tokio::time::advance(DAY - HOUR).await;
    settle().await;
    assert_eq!(fetch.fetches(), 3);
    tokio::time::advance(60 * DAY).await;
    settle().await;
    let before = fetch.fetches();
    let known = robots.find(&shop).await.unwrap();
    assert!(known.is_pinned);
    assert!(matches!(known.access(), AccessResult::Successful(_)), "it never ages");
    robots.refresh(&shop).await.unwrap();
    assert!(robots.inspect(&shop).await.is_some_and(|found| found.is_pinned));
    assert_eq!(fetch.fetches(), before);
    // The origin's other documents have no pin.
    robots.find(Resource::at(&shop, "/.well-known/tdmrep.json")).await.unwrap();
    assert_eq!(fetch.fetches(), before + 1);
    robots.set_pinned(Arc::default());
    assert!(!robots.find(&shop).await.unwrap().is_pinned);
    assert_eq!(fetch.fetches(), before + 2);
}
