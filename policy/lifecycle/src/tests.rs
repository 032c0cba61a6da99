use std::collections::HashMap;
use std::time::Duration;

use super::*;
use wayleave_robots_txt::{AccessResult, AccessVerdict, Dialect, ProductToken, UrlPath, decide};
use wayleave_usage_preferences::DocumentKind;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

const RULES: &[u8] = b"User-agent: *\nDisallow: /private\n";
const OTHER_RULES: &[u8] = b"User-agent: *\nDisallow: /\n";

fn origin() -> Resource {
    Resource::parse("https://shop.example").expect("a resource")
}

/// Returns the time `seconds` after the start of every test.
fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000 + seconds)
}

fn response(status: u16, body: &[u8], fields: ResponseFields) -> FetchOutcome {
    FetchOutcome {
        redirects: Vec::new(),
        uri: origin().uri(),
        ending: FetchEnding::Response(FetchedResponse {
            status,
            fields,
            body: FetchedBody { bytes: body.into(), is_cut: false, digest: None },
        }),
    }
}

fn ending(ending: FetchEnding) -> FetchOutcome {
    FetchOutcome { ending, ..response(200, b"", ResponseFields::default()) }
}

fn status(status: u16) -> FetchOutcome {
    response(status, RULES, ResponseFields::default())
}

fn timeout() -> FetchOutcome {
    FetchOutcome::failed(origin().uri(), FetchErrorKind::Timeout, "")
}

fn tagged(body: &[u8]) -> FetchOutcome {
    let fields = ResponseFields { etag: Some("\"v1\"".into()), ..ResponseFields::default() };
    response(200, body, fields)
}

/// Returns whether a crawler may fetch `/` and `/private` in a dialect; `+` allow, `-` disallow.
fn verdicts(access: &AccessResult, dialect: Dialect) -> String {
    let tokens = [ProductToken::new("ExampleBot").expect("a token")];
    let verdict =
        |path| match decide(access, dialect, &tokens, &UrlPath::parse(path).unwrap()).verdict() {
            AccessVerdict::Allow => '+',
            AccessVerdict::Disallow => '-',
        };
    ["/", "/private"].map(verdict).iter().collect()
}

/// The event of a step of a scenario.
#[expect(clippy::large_enum_variant, reason = "scenarios are short, and read better without boxes")]
enum FetchEvent {
    /// A request for the origin; whether it starts a fetch.
    Requested(bool),
    /// The end of the fetch in flight.
    Fetched(FetchOutcome),
    /// A call of `due` while the entry is or is not in use; whether it starts a fetch.
    Due(bool, bool),
    /// Only time has passed.
    Nothing,
}
use FetchEvent::{Due as DueEvent, Fetched, Nothing, Requested};

/// A time, its event, and the result: state, usability, and verdicts in rfc9309, google, koster1996, selfhtml and
/// strictest.
type FetchStep = (u64, FetchEvent, Option<(SnapshotState, Usability, [&'static str; 5])>);

const BY_RULES: [&str; 5] = ["+-"; 5];
const ALLOWED: [&str; 5] = ["++"; 5];
const DISALLOWED: [&str; 5] = ["--"; 5];
const ALLOWED_BUT_KOSTER: [&str; 5] = ["++", "++", "--", "++", "--"];

/// A scheduler with the entries and snapshots that its callers keep.
#[derive(Default)]
struct FetchWorld {
    cache: RefreshScheduler,
    kept: HashMap<Resource, (CacheEntry, Arc<Snapshot>)>,
}

impl FetchWorld {
    fn snapshot(&self, host: &Resource) -> Option<Arc<Snapshot>> {
        Some(self.kept.get(host)?.1.clone())
    }

    fn entry(&self, host: &Resource) -> CacheEntry {
        self.kept.get(host).map(|kept| kept.0.clone()).unwrap_or_default()
    }

    fn request(&mut self, host: &Resource, now: SystemTime) -> Option<FetchRequest> {
        let known = self.snapshot(host);
        let starts = self.cache.request_fetch(host, known.as_deref(), now);
        starts.then(|| self.entry(host).request(host, FetchIdentity::proxy()))
    }

    fn fetched(
        &mut self,
        host: &Resource,
        outcome: FetchOutcome,
        now: SystemTime,
    ) -> Arc<Snapshot> {
        let known = self.snapshot(host);
        let before = (&self.entry(host), known.as_deref());
        let learned = ParsedEntry::after_fetch(
            DocumentKind::RobotsTxt,
            before,
            FinishedFetch::of_proxy(outcome, now),
            self.cache.lifetimes(),
        );
        let snapshot = Arc::new(self.cache.fetch_finished(host, &learned, known.as_deref()));
        self.kept.insert(host.clone(), (learned.into_entry(), snapshot.clone()));
        snapshot
    }

    fn due(&mut self, now: SystemTime, is_in_use: bool) -> DueRefreshes {
        let kept = &self.kept;
        let due = self.cache.take_due(now, |host| Some((kept.get(host)?.1.clone(), is_in_use)));
        for host in &due.forgotten {
            self.kept.remove(host);
        }
        due
    }
}

fn run(name: &str, steps: Vec<FetchStep>) {
    let mut cache = FetchWorld::default();
    let host = origin();
    for (seconds, event, expected) in steps {
        let now = at(seconds);
        let step = format!("{name} at {seconds}");
        match event {
            Requested(starts) => assert_eq!(cache.request(&host, now).is_some(), starts, "{step}"),
            Fetched(outcome) => {
                cache.fetched(&host, outcome, now);
            }
            DueEvent(in_use, starts) => {
                let due = cache.due(now, in_use);
                assert_eq!(!due.refetch.is_empty(), starts, "{step}");
            }
            Nothing => {}
        }
        let snapshot = cache.snapshot(&host);
        let found = snapshot.map(|snapshot| {
            let access = snapshot.access(now);
            let by_dialect = [
                Dialect::Rfc9309,
                Dialect::Google,
                Dialect::Koster1996,
                Dialect::Selfhtml,
                Dialect::Strictest,
            ]
            .map(|dialect| verdicts(access, dialect));
            (snapshot.state(now), snapshot.usability(now), by_dialect)
        });
        let expected = expected
            .map(|(state, usable, by_dialect)| (state, usable, by_dialect.map(str::to_owned)));
        assert_eq!(found, expected, "{step}");
    }
}

fn fresh() -> Option<(SnapshotState, Usability, [&'static str; 5])> {
    Some((SnapshotState::Fresh, Usability::Immediate, BY_RULES))
}

fn stale(usable: Usability) -> Option<(SnapshotState, Usability, [&'static str; 5])> {
    Some((SnapshotState::Stale, usable, BY_RULES))
}

/// Returns the result after `max_stale`: only `google` still applies the last copy.
fn lapsed(usable: Usability) -> Option<(SnapshotState, Usability, [&'static str; 5])> {
    Some((SnapshotState::Unreachable, usable, ["--", "+-", "--", "--", "--"]))
}

fn unreachable(usable: Usability) -> Option<(SnapshotState, Usability, [&'static str; 5])> {
    Some((SnapshotState::Unreachable, usable, DISALLOWED))
}

#[test]
fn concurrent_requests_for_an_absent_entry_share_a_fetch() {
    run(
        "absent",
        vec![
            (0, Requested(true), None),
            (0, Requested(false), None),
            (1, Requested(false), None),
            (2, Fetched(status(200)), fresh()),
            (3, Requested(false), fresh()),
        ],
    );
}

#[test]
fn an_answer_is_fresh_for_a_day_and_then_fetched_first() {
    run(
        "fresh to stale",
        vec![
            (0, Requested(true), None),
            (0, Fetched(status(200)), fresh()),
            (DAY - 1, Requested(false), fresh()),
            (DAY, Nothing, stale(Usability::AfterRefetch)),
            (DAY, Requested(true), stale(Usability::AfterRefetch)),
            (DAY + 1, Requested(false), stale(Usability::AfterRefetch)),
            (DAY + 2, Fetched(status(200)), fresh()),
            (2 * DAY + 1, Requested(false), fresh()),
        ],
    );
}

#[test]
fn an_answer_in_use_is_fetched_again_while_it_is_fresh() {
    run(
        "in use",
        vec![
            (0, Requested(true), None),
            (0, Fetched(status(200)), fresh()),
            (DAY / 2, DueEvent(true, false), fresh()),
            (DAY - HOUR, DueEvent(true, true), fresh()),
            (DAY - HOUR, Requested(false), fresh()),
            (DAY - HOUR, Fetched(status(200)), fresh()),
            (2 * DAY - HOUR - 1, Nothing, fresh()),
        ],
    );
}

#[test]
fn an_unused_answer_turns_stale_and_is_dropped() {
    run(
        "not in use",
        vec![
            (0, Requested(true), None),
            (0, Fetched(status(200)), fresh()),
            (DAY - HOUR, DueEvent(false, false), fresh()),
            (2 * DAY, DueEvent(false, false), stale(Usability::AfterRefetch)),
            (30 * DAY - 1, DueEvent(false, false), stale(Usability::AfterRefetch)),
            (30 * DAY, DueEvent(false, false), None),
            (30 * DAY, Requested(true), None),
        ],
    );
}

#[test]
fn a_stale_answer_decides_while_the_origin_is_unreachable() {
    run(
        "stale while unreachable",
        vec![
            (0, Requested(true), None),
            (0, Fetched(status(200)), fresh()),
            (DAY, Requested(true), stale(Usability::AfterRefetch)),
            (DAY, Fetched(status(503)), stale(Usability::Immediate)),
            (DAY + 30, Requested(false), stale(Usability::Immediate)),
            (DAY + 90, Nothing, stale(Usability::ImmediateAndRefetch)),
            (DAY + 90, Requested(true), stale(Usability::ImmediateAndRefetch)),
            (DAY + 90, Fetched(timeout()), stale(Usability::Immediate)),
            (DAY + 180, Requested(false), stale(Usability::Immediate)),
            (30 * DAY - 1, Requested(true), stale(Usability::ImmediateAndRefetch)),
            (30 * DAY, Nothing, lapsed(Usability::AfterRefetch)),
            (31 * DAY, Fetched(timeout()), lapsed(Usability::Immediate)),
            (31 * DAY + HOUR, Requested(true), lapsed(Usability::AfterRefetch)),
            (31 * DAY + HOUR, Fetched(status(200)), fresh()),
        ],
    );
}

#[test]
fn a_fresh_answer_decides_when_its_early_refetch_fails() {
    run(
        "early refetch fails",
        vec![
            (0, Requested(true), None),
            (0, Fetched(status(200)), fresh()),
            (DAY - HOUR, DueEvent(true, true), fresh()),
            (DAY - HOUR, Fetched(status(500)), fresh()),
            (DAY - HOUR + 120, Requested(false), fresh()),
            (DAY, Requested(true), stale(Usability::ImmediateAndRefetch)),
        ],
    );
}

#[test]
fn a_never_reached_origin_is_unavailable_after_30_days() {
    let given_up = |usable| Some((SnapshotState::Unreachable, usable, ALLOWED_BUT_KOSTER));
    for failure in [status(429), status(500), status(503), status(599), timeout()] {
        run(
            "never reached",
            vec![
                (0, Requested(true), None),
                (0, Fetched(failure.clone()), unreachable(Usability::Immediate)),
                (30, Requested(false), unreachable(Usability::Immediate)),
                (90, Requested(true), unreachable(Usability::AfterRefetch)),
                (90, Fetched(failure.clone()), unreachable(Usability::Immediate)),
                (12 * DAY, Fetched(failure.clone()), unreachable(Usability::Immediate)),
                (24 * DAY, Fetched(failure.clone()), unreachable(Usability::Immediate)),
                (30 * DAY - 1, Nothing, unreachable(Usability::AfterRefetch)),
                (30 * DAY, Requested(true), given_up(Usability::AfterRefetch)),
                (30 * DAY, Fetched(failure), given_up(Usability::Immediate)),
                (31 * DAY, Requested(true), given_up(Usability::AfterRefetch)),
                (31 * DAY, Fetched(status(200)), fresh()),
            ],
        );
    }
}

#[test]
fn a_copy_lapsed_for_long_decides_again() {
    let by_last_copy =
        Some((SnapshotState::Unreachable, Usability::AfterRefetch, ["+-", "+-", "--", "+-", "--"]));
    run(
        "copy lapsed",
        vec![
            (0, Requested(true), None),
            (0, Fetched(status(200)), fresh()),
            (DAY, Requested(true), stale(Usability::AfterRefetch)),
            (DAY, Fetched(timeout()), stale(Usability::Immediate)),
            (60 * DAY - 1, Nothing, lapsed(Usability::AfterRefetch)),
            (60 * DAY, Nothing, by_last_copy),
        ],
    );
}

#[test]
fn longer_lifetimes_take_effect_at_the_next_fetch() {
    let mut world = FetchWorld::default();
    let host = origin();
    let hours = |count: u64| Duration::from_secs(count * 3600);
    let change = |world: &mut FetchWorld, max_age, max_stale| {
        let lifetimes = LifetimeSettings { max_age, max_stale, ..LifetimeSettings::default() };
        let known = [(host.clone(), world.kept[&host].1.clone())].into_iter();
        let mut renewed = world.cache.change_lifetimes(lifetimes, known);
        let (_, snapshot) = renewed.pop().expect("one is known");
        world.kept.get_mut(&host).expect("it is known").1 = snapshot.into();
        (world.kept[&host].1.clone(), world.cache.reminders())
    };
    world.request(&origin(), at(0));
    let fetched_at = at(0);
    world.fetched(&origin(), status(200), fetched_at);
    let (shorter, reminders) = change(&mut world, hours(1), hours(48));
    assert_eq!(reminders, 1);
    assert_eq!(shorter.fresh_until(), Some(fetched_at + hours(1)));
    assert_eq!(shorter.usable_until(), Some(fetched_at + hours(48)));
    let (longer, _) = change(&mut world, hours(24), hours(72));
    assert_eq!(longer.fresh_until(), Some(fetched_at + hours(1)));
    assert_eq!(longer.usable_until(), Some(fetched_at + hours(72)));
    world.request(&origin(), at(3600));
    let failing = world.fetched(&origin(), timeout(), at(3600));
    let (still_failing, _) = change(&mut world, hours(24), hours(24));
    assert_eq!(still_failing.retry_at(), failing.retry_at());
    let given_up = at(2 * 24 * 3600);
    let access =
        |snapshot: &Snapshot| matches!(snapshot.access(given_up), AccessResult::LongLapsed(_));
    assert_eq!((access(&failing), access(&still_failing)), (false, true));
}

#[test]
fn an_answer_is_usable_for_as_long_as_it_is_fresh() {
    let mut world = FetchWorld::default();
    let lifetimes = LifetimeSettings {
        max_age: Duration::from_secs(2 * DAY),
        max_stale: Duration::from_secs(DAY / 2),
        ..LifetimeSettings::default()
    };
    world.cache.change_lifetimes(lifetimes, std::iter::empty());
    world.request(&origin(), at(0));
    let answered = world.fetched(&origin(), status(200), at(0));
    assert_eq!(answered.fresh_until(), Some(at(2 * DAY)));
    assert_eq!(answered.usable_until(), answered.fresh_until());
}

#[test]
fn other_lifetimes_do_not_prolong_an_unavailable_answer() {
    let mut world = FetchWorld::default();
    let host = origin();
    world.request(&host, at(0));
    world.fetched(&host, status(404), at(0));
    world.request(&host, at(DAY));
    world.fetched(&host, timeout(), at(DAY));
    let allows = |snapshot: &Snapshot, seconds| {
        verdicts(snapshot.access(at(seconds)), Dialect::Rfc9309) == "++"
    };
    for max_age in [DAY, 2 * DAY, DAY / 2] {
        let lifetimes = LifetimeSettings {
            max_age: Duration::from_secs(max_age),
            max_stale: Duration::from_secs(20 * DAY),
            ..LifetimeSettings::default()
        };
        let known = [(host.clone(), world.kept[&host].1.clone())].into_iter();
        let mut renewed = world.cache.change_lifetimes(lifetimes, known);
        let (_, snapshot) = renewed.pop().expect("one is known");
        assert!(allows(&snapshot, max_age - 1), "{max_age}");
        assert!(!allows(&snapshot, max_age), "{max_age}");
        assert!(!allows(&snapshot, 19 * DAY), "{max_age}");
    }
}

#[test]
fn access_results_follow_the_status() {
    let unavailable =
        |by_dialect| Some((SnapshotState::Unavailable, Usability::Immediate, by_dialect));
    let cases = [
        (status(200), fresh()),
        (status(205), fresh()),
        (status(207), fresh()),
        (status(299), fresh()),
        (
            response(204, b"", ResponseFields::default()),
            Some((SnapshotState::Fresh, Usability::Immediate, ALLOWED)),
        ),
        (status(400), unavailable(ALLOWED)),
        (status(401), unavailable(ALLOWED_BUT_KOSTER)),
        (status(403), unavailable(ALLOWED_BUT_KOSTER)),
        (status(404), unavailable(ALLOWED)),
        (status(410), unavailable(ALLOWED)),
        (status(451), unavailable(ALLOWED)),
        (status(499), unavailable(ALLOWED)),
        (status(206), unreachable(Usability::Immediate)),
        (status(429), unreachable(Usability::Immediate)),
        (status(500), unreachable(Usability::Immediate)),
        (status(600), unreachable(Usability::Immediate)),
        (status(999), unreachable(Usability::Immediate)),
        (status(300), unreachable(Usability::Immediate)),
        (status(304), unreachable(Usability::Immediate)),
        (status(305), unreachable(Usability::Immediate)),
        (ending(FetchEnding::RedirectLost(301)), unavailable(ALLOWED_BUT_KOSTER)),
    ];
    for (outcome, expected) in cases {
        let name = format!("{:?}", outcome.status());
        run(&name, vec![(0, Requested(true), None), (0, Fetched(outcome), expected)]);
    }
    for kind in FetchErrorKind::ALL {
        let outcome = FetchOutcome::failed(origin().uri(), kind, "");
        let expected = unreachable(Usability::Immediate);
        run(kind.as_str(), vec![(0, Requested(true), None), (0, Fetched(outcome), expected)]);
    }
}

#[test]
fn an_expired_unavailable_answer_is_not_used_as_a_copy() {
    let none = |usable| Some((SnapshotState::Unavailable, usable, ALLOWED));
    let given_up = Some((SnapshotState::Unreachable, Usability::AfterRefetch, ALLOWED_BUT_KOSTER));
    run(
        "unavailable",
        vec![
            (0, Requested(true), None),
            (0, Fetched(status(404)), none(Usability::Immediate)),
            (DAY - 1, Requested(false), none(Usability::Immediate)),
            (DAY, Requested(true), none(Usability::AfterRefetch)),
            (DAY, Fetched(timeout()), unreachable(Usability::Immediate)),
            (DAY + 120, Requested(true), unreachable(Usability::AfterRefetch)),
            (DAY + 120, Fetched(status(404)), none(Usability::Immediate)),
            (2 * DAY - 60, Fetched(status(500)), none(Usability::Immediate)),
            (2 * DAY + 119, Nothing, none(Usability::Immediate)),
            (2 * DAY + 120, Nothing, unreachable(Usability::AfterRefetch)),
            (32 * DAY + 119, Nothing, unreachable(Usability::AfterRefetch)),
            (32 * DAY + 120, Nothing, given_up),
        ],
    );
}

#[test]
fn a_304_makes_the_copy_fresh_again_and_keeps_its_rules() {
    let mut cache = FetchWorld::default();
    let host = origin();
    cache.request(&host, at(0));
    let first = cache.fetched(&host, tagged(RULES), at(0));
    let request = cache.request(&host, at(DAY)).expect("stale");
    let validators = request.validators.expect("an etag was given");
    assert_eq!(validators.etag.as_deref(), Some("\"v1\""));
    assert_eq!(validators.uri, host.uri());

    let fields =
        ResponseFields { cache_control: Some("max-age=600".into()), ..ResponseFields::default() };
    let again = cache.fetched(&host, ending(FetchEnding::NotModified(fields)), at(DAY));
    assert_eq!(again.state(at(DAY + 599)), SnapshotState::Fresh);
    assert_eq!(again.state(at(DAY + 600)), SnapshotState::Stale);
    let (AccessResult::Successful(before), AccessResult::Successful(after)) =
        (first.access(at(0)), again.access(at(DAY)))
    else {
        panic!("both have rules");
    };
    assert!(before.is_same_handle(after), "the body was parsed again");
    let answer = cache.entry(&host).answer.expect("an answer");
    assert_eq!(answer.outcome.status(), Some(200));
    assert_eq!(answer.validators().expect("kept").etag.as_deref(), Some("\"v1\""));
}

#[test]
fn an_answer_ages_from_the_age_with_which_it_arrived() {
    let fields = |age: &str| ResponseFields { age: Some(age.into()), ..ResponseFields::default() };
    for (age, on_arrival) in [("30", 30), ("", 0), ("-1", 0), ("30, 40", 0)] {
        let fetched = CacheEntry::default()
            .after_fetch(FinishedFetch::of_proxy(response(200, RULES, fields(age)), at(10)));
        let age_at =
            |entry: &CacheEntry, now| entry.answer.as_ref().map(|answer| answer.age(now).as_secs());
        assert_eq!(age_at(&fetched, at(10 + HOUR)), Some(on_arrival + HOUR));
        assert_eq!(age_at(&fetched, at(0)), Some(on_arrival), "the clock was set back");
        let confirmed = fetched.after_fetch(FinishedFetch::of_proxy(
            ending(FetchEnding::NotModified(fields("5"))),
            at(10 + HOUR),
        ));
        assert_eq!(age_at(&confirmed, at(12 + HOUR)), Some(7));
    }
}

#[test]
fn a_304_ends_unreachability() {
    let mut cache = FetchWorld::default();
    let host = origin();
    cache.request(&host, at(0));
    cache.fetched(&host, tagged(RULES), at(0));
    cache.request(&host, at(DAY));
    cache.fetched(&host, timeout(), at(DAY));
    let request = cache.request(&host, at(DAY + 90)).expect("retried");
    assert!(request.validators.is_some());
    let not_modified = ending(FetchEnding::NotModified(ResponseFields::default()));
    let snapshot = cache.fetched(&host, not_modified, at(DAY + 90));
    assert_eq!(snapshot.state(at(DAY + 91)), SnapshotState::Fresh);
    assert_eq!(snapshot.unreachable_since(), None);
}

#[test]
fn a_304_for_a_dropped_copy_is_a_failure() {
    let mut cache = FetchWorld::default();
    let host = origin();
    cache.request(&host, at(0));
    cache.fetched(&host, tagged(RULES), at(0));
    cache.request(&host, at(DAY));
    cache.kept.remove(&host);
    assert!(cache.cache.is_in_flight(&host), "the fetch goes on");
    assert_eq!(cache.request(&host, at(DAY)), None);
    let not_modified = ending(FetchEnding::NotModified(ResponseFields::default()));
    let snapshot = cache.fetched(&host, not_modified, at(DAY));
    assert_eq!(snapshot.state(at(DAY)), SnapshotState::Unreachable);
    assert_eq!(snapshot.error_kind(), Some(FetchErrorKind::Internal));
}

#[test]
fn new_rules_replace_old_ones() {
    let mut cache = FetchWorld::default();
    let host = origin();
    cache.request(&host, at(0));
    let old = cache.fetched(&host, status(200), at(0));
    assert!(cache.cache.start_fetch(&host));
    let new = cache.fetched(&host, response(200, OTHER_RULES, ResponseFields::default()), at(5));
    assert_eq!(verdicts(old.access(at(6)), Dialect::Rfc9309), "+-");
    assert_eq!(verdicts(new.access(at(6)), Dialect::Rfc9309), "--");
    assert!(cache.cache.start_fetch(&host));
    let gone = cache.fetched(&host, status(404), at(7));
    assert_eq!(verdicts(gone.access(at(8)), Dialect::Rfc9309), "++");
}

#[test]
fn rules_with_a_failure_status_are_ignored() {
    let mut cache = FetchWorld::default();
    let host = origin();
    cache.request(&host, at(0));
    let snapshot = cache.fetched(&host, response(500, b"", ResponseFields::default()), at(0));
    assert_eq!(snapshot.error_status(), Some(500));
    assert_eq!(snapshot.failures(), 1);
    assert_eq!(snapshot.fetched_at(), None);
}

#[test]
fn retry_after_delays_the_next_attempt() {
    let mut cache = FetchWorld::default();
    let host = origin();
    let fields = ResponseFields { retry_at: Some(at(1000)), ..ResponseFields::default() };
    cache.request(&host, at(0));
    let snapshot = cache.fetched(&host, response(503, b"", fields), at(0));
    assert_eq!(snapshot.retry_after(at(0)), Some(Duration::from_secs(1000)));
    assert_eq!(snapshot.retry_after(at(5000)), Some(Duration::from_secs(1)));
    assert_eq!(cache.request(&host, at(999)), None);
    assert!(cache.request(&host, at(1000)).is_some());
}

#[test]
fn failures_in_a_row_are_counted_from_the_first() {
    let mut cache = FetchWorld::default();
    let host = origin();
    for (round, seconds) in [(1, 0), (2, 100), (3, 400)] {
        assert!(cache.request(&host, at(seconds)).is_some(), "{round}");
        let snapshot = cache.fetched(&host, timeout(), at(seconds));
        assert_eq!(snapshot.failures(), round);
        assert_eq!(snapshot.unreachable_since(), Some(at(0)));
    }
}

#[test]
fn snapshots_are_restored_after_a_restart() {
    let mut before = FetchWorld::default();
    let host = origin();
    before.request(&host, at(0));
    before.fetched(&host, timeout(), at(0));

    let mut after = RefreshScheduler::new(LifetimeSettings::default());
    assert!(after.request_fetch(&host, None, at(30)));
    let snapshot = after.restore(&host, &before.entry(&host).into());
    after.cancel_fetch(&host);
    assert_eq!(snapshot.unreachable_since(), Some(at(0)));
    let known = before.snapshot(&host).expect("known");
    assert_eq!(snapshot.retry_at(), known.retry_at());
    assert!(!after.request_fetch(&host, Some(&snapshot), at(30)), "the back-off goes on");
    assert_eq!(snapshot.state(at(30 * DAY - 1)), SnapshotState::Unreachable);
    assert_eq!(verdicts(snapshot.access(at(30 * DAY)), Dialect::Rfc9309), "++");
}

#[test]
fn an_answer_that_could_not_be_stored_still_decides() {
    let mut cache = RefreshScheduler::default();
    let host = origin();
    let mut fetched = |before: &CacheEntry, known: Option<&Snapshot>, outcome, now| {
        cache.start_fetch(&host);
        let learned = ParsedEntry::after_fetch(
            DocumentKind::RobotsTxt,
            (before, known),
            FinishedFetch::of_proxy(outcome, now),
            &LifetimeSettings::default(),
        );
        let snapshot = cache.fetch_finished(&host, &learned, known);
        (learned.entry().clone(), snapshot)
    };
    let lost = CacheEntry::default();
    let (_, known) = fetched(&lost, None, status(200), at(0));
    let (entry, snapshot) = fetched(&lost, Some(&known), timeout(), at(DAY));
    assert_eq!(entry.answer, None);
    assert_eq!(snapshot.state(at(DAY)), SnapshotState::Stale);

    let older = CacheEntry::default().after_fetch(FinishedFetch::of_proxy(
        response(200, OTHER_RULES, ResponseFields::default()),
        at(5),
    ));
    let not_modified = ending(FetchEnding::NotModified(ResponseFields::default()));
    let (_, snapshot) = fetched(&older, Some(&known), not_modified, at(DAY));
    let access = snapshot.access(at(DAY));
    assert_eq!(verdicts(access, Dialect::Rfc9309), "--", "what was confirmed is the older entry");
}

#[test]
fn a_clock_set_back_makes_nothing_fresh_for_longer() {
    let mut cache = FetchWorld::default();
    let host = origin();
    cache.request(&host, at(10 * DAY));
    cache.fetched(&host, status(200), at(10 * DAY));
    let snapshot = cache.snapshot(&host).expect("known");
    assert_eq!(snapshot.usability(at(9 * DAY)), Usability::AfterRefetch);
    assert!(cache.request(&host, at(9 * DAY)).is_some());
    let snapshot = cache.fetched(&host, timeout(), at(9 * DAY));
    assert_eq!(verdicts(snapshot.access(at(9 * DAY)), Dialect::Rfc9309), "+-");

    let snapshot = cache.fetched(&host, timeout(), at(2 * DAY));
    assert_eq!(snapshot.unreachable_since(), Some(at(2 * DAY)));
    assert_eq!(
        snapshot.usability(at(DAY)),
        Usability::ImmediateAndRefetch,
        "the back-off is not of this time"
    );
    assert_eq!(cache.due(at(0), true), DueRefreshes::default());
}

#[test]
fn a_clock_set_back_does_not_prolong_a_back_off() {
    let mut cache = FetchWorld::default();
    let host = origin();
    cache.request(&host, at(10 * DAY));
    cache.fetched(&host, timeout(), at(10 * DAY));
    assert!(cache.request(&host, at(0)).is_some());
}

#[test]
fn due_times_come_in_order_and_only_once() {
    let mut cache = FetchWorld::default();
    let hosts = ["a", "b", "c"].map(|name| {
        let host = Resource::parse(&format!("https://{name}.example")).expect("a resource");
        cache.request(&host, at(0));
        cache.fetched(&host, status(200), at(0));
        host
    });
    let first = cache.cache.next_due().expect("three are due");
    assert!(first > at(DAY / 2) && first < at(DAY));
    assert_eq!(cache.due(first - Duration::from_millis(1), true), DueRefreshes::default());
    let mut refetched = cache.due(at(DAY), true).refetch;
    refetched.sort_by_key(Resource::to_string);
    assert_eq!(refetched, hosts);
    assert_eq!(cache.due(at(DAY), true), DueRefreshes::default());
    assert_eq!(cache.cache.next_due(), None);
}

#[test]
fn an_origin_has_one_reminder_however_often_it_is_fetched() {
    let mut cache = FetchWorld::default();
    let host = origin();
    let outcomes = [status(200), timeout(), timeout(), status(404), timeout(), status(200)];
    for (hours, outcome) in (0..).zip(outcomes) {
        cache.cache.start_fetch(&host);
        cache.fetched(&host, outcome, at(hours * HOUR));
        assert_eq!(cache.cache.reminders(), 1, "after {hours} hours");
    }
    cache.due(at(2 * DAY), false);
    assert_eq!(cache.cache.reminders(), 1, "of its last use");
    let known = cache.snapshot(&host).expect("known");
    cache.cache.evict(&host, &known);
    assert_eq!(cache.cache.reminders(), 0);
}

#[test]
fn a_reminder_of_an_older_answer_is_skipped() {
    let mut cache = FetchWorld::default();
    let host = origin();
    cache.request(&host, at(0));
    cache.fetched(&host, status(200), at(0));
    cache.cache.start_fetch(&host);
    cache.fetched(&host, status(200), at(12 * HOUR));
    assert_eq!(cache.due(at(DAY), true), DueRefreshes::default());
    assert_eq!(cache.due(at(DAY + 12 * HOUR), true).refetch, [host]);
}

#[test]
fn a_cut_body_does_not_allow_by_its_last_line() {
    // The whole line may have been `Allow: /private/open`. As it stands it would outweigh the rule before it.
    let bytes: &[u8] = b"User-agent: *\nDisallow: /private\nAllow: /private";
    for (is_cut, expected) in [(false, "++"), (true, "+-")] {
        let body = FetchedBody { bytes: bytes.into(), is_cut, digest: None };
        let access = AccessResult::Successful(body.parse());
        assert_eq!(verdicts(&access, Dialect::Rfc9309), expected, "cut: {is_cut}");
    }
}

#[test]
fn web_pages_are_recognised() {
    let typed = |content_type: &str, body: &[u8]| {
        let fields =
            ResponseFields { content_type: Some(content_type.into()), ..ResponseFields::default() };
        response(200, body, fields).looks_like_html()
    };
    assert!(typed("text/html; charset=utf-8", RULES));
    assert!(typed("application/xhtml+xml", RULES));
    assert!(typed("text/plain", b"\r\n <!DOCTYPE HTML><title>wait</title>"));
    assert!(typed("text/plain", b"<html lang=en>"));
    assert!(!typed("text/plain", RULES));
    assert!(!typed("text/plain", b"<!"));
    assert!(!status(404).looks_like_html());
}

#[test]
fn a_document_is_usable_until_max_stale_if_unreachable() {
    for path in ["/.well-known/tdmrep.json", "/licence.xml"] {
        let resource = Resource::parse(&format!("https://shop.example{path}")).expect("one");
        let mut cache = RefreshScheduler::default();
        cache.change_lifetimes(
            LifetimeSettings {
                max_stale: Duration::from_secs(3 * DAY),
                ..LifetimeSettings::default()
            },
            std::iter::empty(),
        );
        let mut fetched = |before: &CacheEntry, known: Option<&Snapshot>, outcome, now| {
            cache.start_fetch(&resource);
            let kind = resource.kind();
            let learned = ParsedEntry::after_fetch(
                kind,
                (before, known),
                FinishedFetch::of_proxy(outcome, now),
                cache.lifetimes(),
            );
            let snapshot = cache.fetch_finished(&resource, &learned, known);
            (learned.entry().clone(), snapshot)
        };
        let body = response(200, b"[]", ResponseFields::default());
        let (entry, snapshot) = fetched(&CacheEntry::default(), None, body, at(0));
        let (_, failing) = fetched(&entry, Some(&snapshot), timeout(), at(DAY));
        for (seconds, serves) in [(DAY, true), (3 * DAY - 1, true), (3 * DAY, false)] {
            let is_served = failing.document(at(seconds)).is_some();
            assert_eq!(is_served, serves, "{path} after {seconds} s");
        }
    }
}

/// Returns the outcomes of fetches that did not reach the origin, for each reason on this side.
fn postponed() -> impl Iterator<Item = FetchOutcome> {
    let kinds = FetchErrorKind::ALL.into_iter().filter(|kind| kind.is_own_fault());
    kinds.map(|kind| FetchOutcome::failed(origin().uri(), kind, "as scripted"))
}

#[test]
fn a_postponed_fetch_pauses_for_a_constant_time() {
    for outcome in postponed() {
        let mut cache = FetchWorld::default();
        let host = origin();
        for attempt in 0..20 {
            let now = at(attempt * 2);
            assert!(cache.request(&host, now).is_some(), "{attempt}: {outcome:?}");
            let snapshot = cache.fetched(&host, outcome.clone(), now);
            assert_eq!(snapshot.retry_at(), Some(at(attempt * 2 + 2)), "{attempt}: {outcome:?}");
            assert_eq!(snapshot.access(now).as_str(), "unreachable", "nothing is allowed");
            assert_eq!((snapshot.failures(), snapshot.unreachable_since()), (0, None));
            assert_eq!(cache.entry(&host), CacheEntry::default(), "no fact about the origin");
        }
    }
}

#[test]
fn postponed_fetches_never_make_an_origin_unavailable() {
    for outcome in postponed() {
        let mut cache = FetchWorld::default();
        let host = origin();
        for day in 0..70 {
            cache.request(&host, at(day * DAY));
            let snapshot = cache.fetched(&host, outcome.clone(), at(day * DAY));
            let later = at((day + 40) * DAY);
            assert_eq!(verdicts(snapshot.access(later), Dialect::Rfc9309), "--", "{outcome:?}");
        }
    }
}

#[test]
fn a_postponed_fetch_leaves_the_copy_in_use() {
    let outcome = postponed().next().expect("there are some");
    run(
        "postponed",
        vec![
            (0, Requested(true), None),
            (0, Fetched(status(200)), fresh()),
            (DAY - 10, DueEvent(true, true), fresh()),
            (DAY - 9, Fetched(outcome.clone()), fresh()),
            (DAY, Requested(true), stale(Usability::ImmediateAndRefetch)),
            (DAY, Fetched(outcome), stale(Usability::Immediate)),
            (DAY + 1, Requested(false), stale(Usability::Immediate)),
            (DAY + 2, Requested(true), stale(Usability::ImmediateAndRefetch)),
            (DAY + 2, Fetched(status(200)), fresh()),
        ],
    );
}

#[test]
fn a_postponed_fetch_neither_ends_nor_lengthens_a_back_off() {
    let outcome = postponed().next().expect("there are some");
    let mut cache = FetchWorld::default();
    let host = origin();
    cache.request(&host, at(0));
    let failed = cache.fetched(&host, timeout(), at(0));
    assert!(cache.cache.start_fetch(&host), "an operator asks");
    let snapshot = cache.fetched(&host, outcome, at(1));
    assert_eq!(snapshot.retry_at(), failed.retry_at());
    assert_eq!((snapshot.failures(), snapshot.unreachable_since()), (1, Some(at(0))));
}

#[test]
fn an_unused_origin_is_forgotten_soon_after_a_postponed_fetch() {
    let outcome = postponed().next().expect("there are some");
    let mut cache = FetchWorld::default();
    let host = origin();
    cache.request(&host, at(0));
    cache.fetched(&host, outcome, at(0));
    assert!(cache.due(at(3), true).refetch.is_empty(), "the pause is kept");
    assert_eq!(cache.due(at(4), false).forgotten, [host]);
}
