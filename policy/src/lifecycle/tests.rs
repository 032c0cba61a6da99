use std::collections::HashMap;
use std::time::Duration;

use super::*;
use crate::{AccessResult, Dialect, Kind, Path, ProductToken, Verdict, decide};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

const RULES: &[u8] = b"User-agent: *\nDisallow: /private\n";
const OTHER_RULES: &[u8] = b"User-agent: *\nDisallow: /\n";

fn origin() -> Resource {
    Resource::parse("https://shop.example").expect("a resource")
}

/// `seconds` after the first moment of every test.
fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000 + seconds)
}

fn response(status: u16, body: &[u8], fields: Fields) -> FetchOutcome {
    FetchOutcome {
        redirects: Vec::new(),
        uri: origin().uri(),
        ending: Ending::Response(Response {
            status,
            fields,
            body: Body {
                bytes: body.into(),
                is_cut: false,
                digest: None,
            },
        }),
    }
}

fn ending(ending: Ending) -> FetchOutcome {
    FetchOutcome {
        ending,
        ..response(200, b"", Fields::default())
    }
}

fn status(status: u16) -> FetchOutcome {
    response(status, RULES, Fields::default())
}

fn timeout() -> FetchOutcome {
    FetchOutcome::failed(origin().uri(), FetchErrorKind::Timeout, "")
}

fn tagged(body: &[u8]) -> FetchOutcome {
    let fields = Fields {
        etag: Some("\"v1\"".into()),
        ..Fields::default()
    };
    response(200, body, fields)
}

/// What a crawler may do with `/` and `/private`, by dialect; `+` allow, `-` disallow.
fn verdicts(access: &AccessResult, dialect: Dialect) -> String {
    let tokens = [ProductToken::new("ExampleBot").expect("a token")];
    let verdict =
        |path| match decide(access, dialect, &tokens, &Path::parse(path).unwrap()).verdict() {
            Verdict::Allow => '+',
            Verdict::Disallow => '-',
        };
    ["/", "/private"].map(verdict).iter().collect()
}

/// What happens in a step of a scenario.
#[expect(
    clippy::large_enum_variant,
    reason = "scenarios are short, and read better without boxes"
)]
enum Event {
    /// Someone wants the origin; whether a fetch starts.
    Wanted(bool),
    /// The fetch under way ends.
    Fetched(FetchOutcome),
    /// `due` is asked while the entry was or was not in use; whether a fetch starts.
    Due(bool, bool),
    /// Time passes.
    Nothing,
}
use Event::{Due as DueEvent, Fetched, Nothing, Wanted};

/// A moment, what happens, and what holds then: state, use, and verdicts in rfc9309, google, koster1996, selfhtml and
/// strictest.
type Step = (u64, Event, Option<(State, Use, [&'static str; 5])>);

const BY_RULES: [&str; 5] = ["+-"; 5];
const ALLOWED: [&str; 5] = ["++"; 5];
const DISALLOWED: [&str; 5] = ["--"; 5];
const ALLOWED_BUT_KOSTER: [&str; 5] = ["++", "++", "--", "++", "--"];

/// A cache with everything around it that keeps entries and publishes snapshots.
#[derive(Default)]
struct World {
    cache: Cache,
    kept: HashMap<Resource, (Entry, Arc<Snapshot>)>,
}

impl World {
    fn snapshot(&self, host: &Resource) -> Option<Arc<Snapshot>> {
        Some(self.kept.get(host)?.1.clone())
    }

    fn entry(&self, host: &Resource) -> Entry {
        self.kept
            .get(host)
            .map(|kept| kept.0.clone())
            .unwrap_or_default()
    }

    fn wanted(&mut self, host: &Resource, now: SystemTime) -> Option<FetchRequest> {
        let known = self.snapshot(host);
        let starts = self.cache.wanted(host, known.as_deref(), now);
        starts.then(|| self.entry(host).request(host))
    }

    fn fetched(
        &mut self,
        host: &Resource,
        outcome: FetchOutcome,
        now: SystemTime,
    ) -> Arc<Snapshot> {
        let known = self.snapshot(host);
        let before = (&self.entry(host), known.as_deref());
        let learned = Learned::after(
            Kind::RobotsTxt,
            before,
            outcome,
            now,
            self.cache.lifetimes(),
        );
        let snapshot = self.cache.fetched(host, &learned, known.as_deref());
        let snapshot = Arc::new(snapshot);
        let entry = learned.entry().clone();
        self.kept.insert(host.clone(), (entry, snapshot.clone()));
        snapshot
    }

    fn due(&mut self, now: SystemTime, is_in_use: bool) -> Due {
        let kept = &self.kept;
        let due = self
            .cache
            .due(now, |host| Some((kept.get(host)?.1.clone(), is_in_use)));
        for host in &due.forgotten {
            self.kept.remove(host);
        }
        due
    }
}

fn run(name: &str, steps: Vec<Step>) {
    let mut cache = World::default();
    let host = origin();
    for (seconds, event, expected) in steps {
        let now = at(seconds);
        let step = format!("{name} at {seconds}");
        match event {
            Wanted(starts) => assert_eq!(cache.wanted(&host, now).is_some(), starts, "{step}"),
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
        let found = snapshot.as_ref().map(|snapshot| {
            let access = snapshot.access(now);
            let by_dialect = [
                Dialect::Rfc9309,
                Dialect::Google,
                Dialect::Koster1996,
                Dialect::Selfhtml,
                Dialect::Strictest,
            ]
            .map(|dialect| verdicts(access, dialect));
            (snapshot.state(now), snapshot.usable(now), by_dialect)
        });
        let expected = expected
            .map(|(state, usable, by_dialect)| (state, usable, by_dialect.map(str::to_owned)));
        assert_eq!(found, expected, "{step}");
    }
}

fn fresh() -> Option<(State, Use, [&'static str; 5])> {
    Some((State::Fresh, Use::AtOnce, BY_RULES))
}

fn stale(usable: Use) -> Option<(State, Use, [&'static str; 5])> {
    Some((State::Stale, usable, BY_RULES))
}

/// Past `max_stale`: only `google` goes on by the last copy.
fn lapsed(usable: Use) -> Option<(State, Use, [&'static str; 5])> {
    Some((State::Unreachable, usable, ["--", "+-", "--", "--", "--"]))
}

fn unreachable(usable: Use) -> Option<(State, Use, [&'static str; 5])> {
    Some((State::Unreachable, usable, DISALLOWED))
}

#[test]
fn concurrent_requests_for_an_absent_entry_share_a_fetch() {
    run(
        "absent",
        vec![
            (0, Wanted(true), None),
            (0, Wanted(false), None),
            (1, Wanted(false), None),
            (2, Fetched(status(200)), fresh()),
            (3, Wanted(false), fresh()),
        ],
    );
}

#[test]
fn an_answer_is_fresh_for_a_day_and_then_fetched_first() {
    run(
        "fresh to stale",
        vec![
            (0, Wanted(true), None),
            (0, Fetched(status(200)), fresh()),
            (DAY - 1, Wanted(false), fresh()),
            (DAY, Nothing, stale(Use::AfterRefetch)),
            (DAY, Wanted(true), stale(Use::AfterRefetch)),
            (DAY + 1, Wanted(false), stale(Use::AfterRefetch)),
            (DAY + 2, Fetched(status(200)), fresh()),
            (2 * DAY + 1, Wanted(false), fresh()),
        ],
    );
}

#[test]
fn an_answer_in_use_is_fetched_again_while_it_is_fresh() {
    run(
        "in use",
        vec![
            (0, Wanted(true), None),
            (0, Fetched(status(200)), fresh()),
            (DAY / 2, DueEvent(true, false), fresh()),
            (DAY - HOUR, DueEvent(true, true), fresh()),
            (DAY - HOUR, Wanted(false), fresh()),
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
            (0, Wanted(true), None),
            (0, Fetched(status(200)), fresh()),
            (DAY - HOUR, DueEvent(false, false), fresh()),
            (2 * DAY, DueEvent(false, false), stale(Use::AfterRefetch)),
            (
                30 * DAY - 1,
                DueEvent(false, false),
                stale(Use::AfterRefetch),
            ),
            (30 * DAY, DueEvent(false, false), None),
            (30 * DAY, Wanted(true), None),
        ],
    );
}

#[test]
fn a_stale_answer_decides_while_the_origin_is_unreachable() {
    run(
        "stale while unreachable",
        vec![
            (0, Wanted(true), None),
            (0, Fetched(status(200)), fresh()),
            (DAY, Wanted(true), stale(Use::AfterRefetch)),
            (DAY, Fetched(status(503)), stale(Use::AtOnce)),
            (DAY + 30, Wanted(false), stale(Use::AtOnce)),
            (DAY + 90, Nothing, stale(Use::AtOnceAndRefetch)),
            (DAY + 90, Wanted(true), stale(Use::AtOnceAndRefetch)),
            (DAY + 90, Fetched(timeout()), stale(Use::AtOnce)),
            (DAY + 180, Wanted(false), stale(Use::AtOnce)),
            (30 * DAY - 1, Wanted(true), stale(Use::AtOnceAndRefetch)),
            (30 * DAY, Nothing, lapsed(Use::AfterRefetch)),
            (31 * DAY, Fetched(timeout()), lapsed(Use::AtOnce)),
            (31 * DAY + HOUR, Wanted(true), lapsed(Use::AfterRefetch)),
            (31 * DAY + HOUR, Fetched(status(200)), fresh()),
        ],
    );
}

#[test]
fn a_fresh_answer_decides_when_its_early_refetch_fails() {
    run(
        "early refetch fails",
        vec![
            (0, Wanted(true), None),
            (0, Fetched(status(200)), fresh()),
            (DAY - HOUR, DueEvent(true, true), fresh()),
            (DAY - HOUR, Fetched(status(500)), fresh()),
            (DAY - HOUR + 120, Wanted(false), fresh()),
            (DAY, Wanted(true), stale(Use::AtOnceAndRefetch)),
        ],
    );
}

#[test]
fn a_never_reached_origin_is_unavailable_after_30_days() {
    let given_up = |usable| Some((State::Unreachable, usable, ALLOWED_BUT_KOSTER));
    for failure in [
        status(429),
        status(500),
        status(503),
        status(599),
        timeout(),
    ] {
        run(
            "never reached",
            vec![
                (0, Wanted(true), None),
                (0, Fetched(failure.clone()), unreachable(Use::AtOnce)),
                (30, Wanted(false), unreachable(Use::AtOnce)),
                (90, Wanted(true), unreachable(Use::AfterRefetch)),
                (90, Fetched(failure.clone()), unreachable(Use::AtOnce)),
                (12 * DAY, Fetched(failure.clone()), unreachable(Use::AtOnce)),
                (24 * DAY, Fetched(failure.clone()), unreachable(Use::AtOnce)),
                (30 * DAY - 1, Nothing, unreachable(Use::AfterRefetch)),
                (30 * DAY, Wanted(true), given_up(Use::AfterRefetch)),
                (30 * DAY, Fetched(failure), given_up(Use::AtOnce)),
                (31 * DAY, Wanted(true), given_up(Use::AfterRefetch)),
                (31 * DAY, Fetched(status(200)), fresh()),
            ],
        );
    }
}

#[test]
fn a_copy_lapsed_for_long_decides_again() {
    let by_last_copy = Some((
        State::Unreachable,
        Use::AfterRefetch,
        ["+-", "+-", "--", "+-", "--"],
    ));
    run(
        "copy lapsed",
        vec![
            (0, Wanted(true), None),
            (0, Fetched(status(200)), fresh()),
            (DAY, Wanted(true), stale(Use::AfterRefetch)),
            (DAY, Fetched(timeout()), stale(Use::AtOnce)),
            (60 * DAY - 1, Nothing, lapsed(Use::AfterRefetch)),
            (60 * DAY, Nothing, by_last_copy),
        ],
    );
}

#[test]
fn longer_lifetimes_take_effect_at_the_next_fetch() {
    let mut world = World::default();
    let host = origin();
    let hours = |count: u64| Duration::from_secs(count * 3600);
    let change = |world: &mut World, max_age, max_stale| {
        let lifetimes = Lifetimes {
            max_age,
            max_stale,
            ..Lifetimes::default()
        };
        let known = [(host.clone(), world.kept[&host].1.clone())].into_iter();
        let mut renewed = world.cache.change_lifetimes(lifetimes, known);
        let (_, snapshot) = renewed.pop().expect("one is known");
        world.kept.get_mut(&host).expect("it is known").1 = snapshot.into();
        (world.kept[&host].1.clone(), world.cache.reminders())
    };
    world.wanted(&origin(), at(0));
    let fetched_at = at(0);
    world.fetched(&origin(), status(200), fetched_at);
    let (shorter, reminders) = change(&mut world, hours(1), hours(48));
    assert_eq!(reminders, 1);
    assert_eq!(shorter.fresh_until(), Some(fetched_at + hours(1)));
    assert_eq!(shorter.usable_until(), Some(fetched_at + hours(48)));
    let (longer, _) = change(&mut world, hours(24), hours(72));
    assert_eq!(longer.fresh_until(), Some(fetched_at + hours(1)));
    assert_eq!(longer.usable_until(), Some(fetched_at + hours(72)));
    world.wanted(&origin(), at(3600));
    let failing = world.fetched(&origin(), timeout(), at(3600));
    let (still_failing, _) = change(&mut world, hours(24), hours(24));
    assert_eq!(still_failing.retry_at(), failing.retry_at());
    let given_up = at(2 * 24 * 3600);
    let access =
        |snapshot: &Snapshot| matches!(snapshot.access(given_up), AccessResult::LongLapsed(_));
    assert_eq!((access(&failing), access(&still_failing)), (false, true));
}

#[test]
fn access_results_follow_the_status() {
    let unavailable = |by_dialect| Some((State::Unavailable, Use::AtOnce, by_dialect));
    let cases = [
        (status(200), fresh()),
        (status(205), fresh()),
        (status(207), fresh()),
        (status(299), fresh()),
        (
            response(204, b"", Fields::default()),
            Some((State::Fresh, Use::AtOnce, ALLOWED)),
        ),
        (status(400), unavailable(ALLOWED)),
        (status(401), unavailable(ALLOWED_BUT_KOSTER)),
        (status(403), unavailable(ALLOWED_BUT_KOSTER)),
        (status(404), unavailable(ALLOWED)),
        (status(410), unavailable(ALLOWED)),
        (status(451), unavailable(ALLOWED)),
        (status(499), unavailable(ALLOWED)),
        (status(206), unreachable(Use::AtOnce)),
        (status(429), unreachable(Use::AtOnce)),
        (status(500), unreachable(Use::AtOnce)),
        (status(600), unreachable(Use::AtOnce)),
        (status(999), unreachable(Use::AtOnce)),
        (status(300), unreachable(Use::AtOnce)),
        (status(304), unreachable(Use::AtOnce)),
        (status(305), unreachable(Use::AtOnce)),
        (
            ending(Ending::RedirectLost(301)),
            unavailable(ALLOWED_BUT_KOSTER),
        ),
    ];
    for (outcome, expected) in cases {
        let name = format!("{:?}", outcome.status());
        run(
            &name,
            vec![(0, Wanted(true), None), (0, Fetched(outcome), expected)],
        );
    }
    for kind in FetchErrorKind::ALL {
        let outcome = FetchOutcome::failed(origin().uri(), kind, "");
        let expected = unreachable(Use::AtOnce);
        run(
            kind.as_str(),
            vec![(0, Wanted(true), None), (0, Fetched(outcome), expected)],
        );
    }
}

#[test]
fn an_expired_unavailable_answer_is_not_used_as_a_copy() {
    let none = |usable| Some((State::Unavailable, usable, ALLOWED));
    let given_up = Some((State::Unreachable, Use::AfterRefetch, ALLOWED_BUT_KOSTER));
    run(
        "unavailable",
        vec![
            (0, Wanted(true), None),
            (0, Fetched(status(404)), none(Use::AtOnce)),
            (DAY - 1, Wanted(false), none(Use::AtOnce)),
            (DAY, Wanted(true), none(Use::AfterRefetch)),
            (DAY, Fetched(timeout()), unreachable(Use::AtOnce)),
            (DAY + 120, Wanted(true), unreachable(Use::AfterRefetch)),
            (DAY + 120, Fetched(status(404)), none(Use::AtOnce)),
            (2 * DAY - 60, Fetched(status(500)), none(Use::AtOnce)),
            (2 * DAY + 119, Nothing, none(Use::AtOnce)),
            (2 * DAY + 120, Nothing, unreachable(Use::AfterRefetch)),
            (32 * DAY + 119, Nothing, unreachable(Use::AfterRefetch)),
            (32 * DAY + 120, Nothing, given_up),
        ],
    );
}

#[test]
fn a_request_for_a_signature_is_no_answer_to_signers() {
    let mut cache = World::default();
    let host = origin();
    let asking = |asks_for_signature| {
        let mut outcome = status(401);
        if let Ending::Response(response) = &mut outcome.ending {
            response.fields.asks_for_signature = asks_for_signature;
        }
        outcome
    };
    cache.wanted(&host, at(0));
    let told = cache.fetched(&host, asking(true), at(0));
    assert_eq!(told.state(at(1)), State::Unavailable);
    let to_signers = told.to_signers();
    assert_eq!(to_signers.usable(at(1)), Use::AfterRefetch);
    assert_eq!(to_signers.state(at(1)), State::Unreachable);

    // While a fetch with a signature fails, it is not sent again and again.
    assert!(cache.cache.start(&host));
    let failed = cache.fetched(&host, timeout(), at(2));
    assert_eq!(failed.state(at(3)), State::Unavailable);
    let to_signers = failed.to_signers();
    assert_eq!(to_signers.state(at(3)), State::Unreachable);
    assert_eq!(to_signers.usable(at(3)), Use::AtOnce);

    assert!(cache.cache.start(&host));
    let refused = cache.fetched(&host, asking(false), at(200));
    let to_signers = refused.to_signers();
    assert!(
        Arc::ptr_eq(&refused, &to_signers),
        "it was said to one of them"
    );
}

#[test]
fn a_304_makes_the_copy_fresh_again_and_keeps_its_rules() {
    let mut cache = World::default();
    let host = origin();
    cache.wanted(&host, at(0));
    let first = cache.fetched(&host, tagged(RULES), at(0));
    let request = cache.wanted(&host, at(DAY)).expect("stale");
    let validators = request.validators.expect("an etag was given");
    assert_eq!(validators.etag.as_deref(), Some("\"v1\""));
    assert_eq!(validators.uri, host.uri());

    let fields = Fields {
        cache_control: Some("max-age=600".into()),
        ..Fields::default()
    };
    let again = cache.fetched(&host, ending(Ending::NotModified(fields)), at(DAY));
    assert_eq!(again.state(at(DAY + 599)), State::Fresh);
    assert_eq!(again.state(at(DAY + 600)), State::Stale);
    let (AccessResult::Successful(before), AccessResult::Successful(after)) =
        (first.access(at(0)), again.access(at(DAY)))
    else {
        panic!("both have rules");
    };
    assert!(before.is_same_handle(after), "the body was parsed again");
    let answer = cache.entry(&host).answer.expect("an answer");
    assert_eq!(answer.outcome.status(), Some(200));
    assert_eq!(
        answer.validators().expect("kept").etag.as_deref(),
        Some("\"v1\"")
    );
}

#[test]
fn a_304_ends_unreachability() {
    let mut cache = World::default();
    let host = origin();
    cache.wanted(&host, at(0));
    cache.fetched(&host, tagged(RULES), at(0));
    cache.wanted(&host, at(DAY));
    cache.fetched(&host, timeout(), at(DAY));
    let request = cache.wanted(&host, at(DAY + 90)).expect("retried");
    assert!(request.validators.is_some());
    let not_modified = ending(Ending::NotModified(Fields::default()));
    let snapshot = cache.fetched(&host, not_modified, at(DAY + 90));
    assert_eq!(snapshot.state(at(DAY + 91)), State::Fresh);
    assert_eq!(snapshot.unreachable_since(), None);
}

#[test]
fn a_304_for_a_dropped_copy_is_a_failure() {
    let mut cache = World::default();
    let host = origin();
    cache.wanted(&host, at(0));
    cache.fetched(&host, tagged(RULES), at(0));
    cache.wanted(&host, at(DAY));
    cache.kept.remove(&host);
    assert!(cache.cache.is_under_way(&host), "the fetch goes on");
    assert_eq!(cache.wanted(&host, at(DAY)), None);
    let not_modified = ending(Ending::NotModified(Fields::default()));
    let snapshot = cache.fetched(&host, not_modified, at(DAY));
    assert_eq!(snapshot.state(at(DAY)), State::Unreachable);
    assert_eq!(snapshot.error_kind(), Some(FetchErrorKind::Internal));
}

#[test]
fn new_rules_replace_old_ones() {
    let mut cache = World::default();
    let host = origin();
    cache.wanted(&host, at(0));
    let old = cache.fetched(&host, status(200), at(0));
    assert!(cache.cache.start(&host));
    let new = cache.fetched(&host, response(200, OTHER_RULES, Fields::default()), at(5));
    assert_eq!(verdicts(old.access(at(6)), Dialect::Rfc9309), "+-");
    assert_eq!(verdicts(new.access(at(6)), Dialect::Rfc9309), "--");
    assert!(cache.cache.start(&host));
    let gone = cache.fetched(&host, status(404), at(7));
    assert_eq!(verdicts(gone.access(at(8)), Dialect::Rfc9309), "++");
}

#[test]
fn rules_with_a_failure_status_are_ignored() {
    let mut cache = World::default();
    let host = origin();
    cache.wanted(&host, at(0));
    let snapshot = cache.fetched(&host, response(500, b"", Fields::default()), at(0));
    assert_eq!(snapshot.error_status(), Some(500));
    assert_eq!(snapshot.failures(), 1);
    assert_eq!(snapshot.fetched_at(), None);
}

#[test]
fn retry_after_delays_the_next_attempt() {
    let mut cache = World::default();
    let host = origin();
    let fields = Fields {
        retry_at: Some(at(1000)),
        ..Fields::default()
    };
    cache.wanted(&host, at(0));
    let snapshot = cache.fetched(&host, response(503, b"", fields), at(0));
    assert_eq!(snapshot.retry_after(at(0)), Some(Duration::from_secs(1000)));
    assert_eq!(snapshot.retry_after(at(5000)), Some(Duration::from_secs(1)));
    assert_eq!(cache.wanted(&host, at(999)), None);
    assert!(cache.wanted(&host, at(1000)).is_some());
}

#[test]
fn failures_in_a_row_are_counted_from_the_first() {
    let mut cache = World::default();
    let host = origin();
    for (round, seconds) in [(1, 0), (2, 100), (3, 400)] {
        assert!(cache.wanted(&host, at(seconds)).is_some(), "{round}");
        let snapshot = cache.fetched(&host, timeout(), at(seconds));
        assert_eq!(snapshot.failures(), round);
        assert_eq!(snapshot.unreachable_since(), Some(at(0)));
    }
}

#[test]
fn snapshots_are_restored_after_a_restart() {
    let mut before = World::default();
    let host = origin();
    before.wanted(&host, at(0));
    before.fetched(&host, timeout(), at(0));

    let mut after = Cache::new(Lifetimes::default());
    assert!(after.wanted(&host, None, at(30)));
    let snapshot = after.restored(&host, &before.entry(&host).into());
    after.stop(&host);
    assert_eq!(snapshot.unreachable_since(), Some(at(0)));
    let known = before.snapshot(&host).expect("known");
    assert_eq!(snapshot.retry_at(), known.retry_at());
    assert!(
        !after.wanted(&host, Some(&snapshot), at(30)),
        "the back-off goes on"
    );
    assert_eq!(snapshot.state(at(30 * DAY - 1)), State::Unreachable);
    assert_eq!(
        verdicts(snapshot.access(at(30 * DAY)), Dialect::Rfc9309),
        "++"
    );
}

#[test]
fn an_answer_that_could_not_be_stored_still_decides() {
    let mut cache = Cache::default();
    let host = origin();
    let mut fetched = |before: &Entry, known: Option<&Snapshot>, outcome, now| {
        cache.start(&host);
        let learned = Learned::after(
            Kind::RobotsTxt,
            (before, known),
            outcome,
            now,
            &Lifetimes::default(),
        );
        let snapshot = cache.fetched(&host, &learned, known);
        (learned.entry().clone(), snapshot)
    };
    let lost = Entry::default();
    let (_, known) = fetched(&lost, None, status(200), at(0));
    let (entry, snapshot) = fetched(&lost, Some(&known), timeout(), at(DAY));
    assert_eq!(entry.answer, None);
    assert_eq!(snapshot.state(at(DAY)), State::Stale);

    let older = Entry::default().after(response(200, OTHER_RULES, Fields::default()), at(5));
    let not_modified = ending(Ending::NotModified(Fields::default()));
    let (_, snapshot) = fetched(&older, Some(&known), not_modified, at(DAY));
    let access = snapshot.access(at(DAY));
    assert_eq!(
        verdicts(access, Dialect::Rfc9309),
        "--",
        "what was confirmed is the older entry"
    );
}

#[test]
fn a_clock_set_back_makes_nothing_fresh_for_longer() {
    let mut cache = World::default();
    let host = origin();
    cache.wanted(&host, at(10 * DAY));
    cache.fetched(&host, status(200), at(10 * DAY));
    let snapshot = cache.snapshot(&host).expect("known");
    assert_eq!(snapshot.usable(at(9 * DAY)), Use::AfterRefetch);
    assert!(cache.wanted(&host, at(9 * DAY)).is_some());
    let snapshot = cache.fetched(&host, timeout(), at(9 * DAY));
    assert_eq!(
        verdicts(snapshot.access(at(9 * DAY)), Dialect::Rfc9309),
        "+-"
    );

    let snapshot = cache.fetched(&host, timeout(), at(2 * DAY));
    assert_eq!(snapshot.unreachable_since(), Some(at(2 * DAY)));
    assert_eq!(
        snapshot.usable(at(DAY)),
        Use::AtOnceAndRefetch,
        "the back-off is not of this time"
    );
    assert_eq!(cache.due(at(0), true), Due::default());
}

#[test]
fn a_clock_set_back_does_not_prolong_a_back_off() {
    let mut cache = World::default();
    let host = origin();
    cache.wanted(&host, at(10 * DAY));
    cache.fetched(&host, timeout(), at(10 * DAY));
    assert!(cache.wanted(&host, at(0)).is_some());
}

#[test]
fn due_times_come_in_order_and_only_once() {
    let mut cache = World::default();
    let hosts = ["a", "b", "c"].map(|name| {
        let host = Resource::parse(&format!("https://{name}.example")).expect("a resource");
        cache.wanted(&host, at(0));
        cache.fetched(&host, status(200), at(0));
        host
    });
    let first = cache.cache.next_due().expect("three are due");
    assert!(first > at(DAY / 2) && first < at(DAY));
    assert_eq!(
        cache.due(first - Duration::from_millis(1), true),
        Due::default()
    );
    let mut refetched = cache.due(at(DAY), true).refetch;
    refetched.sort_by_key(Resource::to_string);
    assert_eq!(refetched, hosts);
    assert_eq!(cache.due(at(DAY), true), Due::default());
    assert_eq!(cache.cache.next_due(), None);
}

#[test]
fn an_origin_has_one_reminder_however_often_it_is_fetched() {
    let mut cache = World::default();
    let host = origin();
    let outcomes = [
        status(200),
        timeout(),
        timeout(),
        status(404),
        timeout(),
        status(200),
    ];
    for (hours, outcome) in (0..).zip(outcomes) {
        cache.cache.start(&host);
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
    let mut cache = World::default();
    let host = origin();
    cache.wanted(&host, at(0));
    cache.fetched(&host, status(200), at(0));
    cache.cache.start(&host);
    cache.fetched(&host, status(200), at(12 * HOUR));
    assert_eq!(cache.due(at(DAY), true), Due::default());
    assert_eq!(cache.due(at(DAY + 12 * HOUR), true).refetch, [host]);
}

#[test]
fn web_pages_are_recognised() {
    let typed = |content_type: &str, body: &[u8]| {
        let fields = Fields {
            content_type: Some(content_type.into()),
            ..Fields::default()
        };
        response(200, body, fields).looks_like_a_page()
    };
    assert!(typed("text/html; charset=utf-8", RULES));
    assert!(typed("application/xhtml+xml", RULES));
    assert!(typed(
        "text/plain",
        b"\r\n <!DOCTYPE HTML><title>wait</title>"
    ));
    assert!(typed("text/plain", b"<html lang=en>"));
    assert!(!typed("text/plain", RULES));
    assert!(!typed("text/plain", b"<!"));
    assert!(!status(404).looks_like_a_page());
}

#[test]
fn a_document_is_usable_until_max_stale_if_unreachable() {
    for path in ["/.well-known/tdmrep.json", "/licence.xml"] {
        let resource = Resource::parse(&format!("https://shop.example{path}")).expect("one");
        let mut cache = Cache::default();
        cache.change_lifetimes(
            Lifetimes {
                max_stale: Duration::from_secs(3 * DAY),
                ..Lifetimes::default()
            },
            std::iter::empty(),
        );
        let mut fetched = |before: &Entry, known: Option<&Snapshot>, outcome, now| {
            cache.start(&resource);
            let kind = resource.kind();
            let learned = Learned::after(kind, (before, known), outcome, now, cache.lifetimes());
            let snapshot = cache.fetched(&resource, &learned, known);
            (learned.entry().clone(), snapshot)
        };
        let body = response(200, b"[]", Fields::default());
        let (entry, snapshot) = fetched(&Entry::default(), None, body, at(0));
        let (_, failing) = fetched(&entry, Some(&snapshot), timeout(), at(DAY));
        for (seconds, serves) in [(DAY, true), (3 * DAY - 1, true), (3 * DAY, false)] {
            let is_served = failing.document(at(seconds)).is_some();
            assert_eq!(is_served, serves, "{path} after {seconds} s");
        }
    }
}
