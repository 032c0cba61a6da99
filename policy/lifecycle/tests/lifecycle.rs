//! The lifecycle day by day, as a table; and invariants of any events in any order, even if the clock is set back.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use wayleave_lifecycle::{
    CacheEntry, FetchEnding, FetchErrorKind, FetchIdentity, FetchOutcome, FetchedBody,
    FetchedResponse, FinishedFetch, LifetimeSettings, ParsedEntry, RefreshScheduler, Resource,
    ResponseFields, Snapshot, Usability,
};
use wayleave_robots_txt::{AccessResult, AccessVerdict, Dialect, ProductToken, UrlPath, decide};
use wayleave_usage_preferences::DocumentKind;

const HOUR: u64 = 60 * 60;
const DAY: u64 = 24 * HOUR;

#[derive(Clone, Copy, Debug)]
enum TableEvent {
    Requested(usize),
    Due(bool),
    Fetched(usize, TableAnswer),
    Restarted,
    Forgotten(usize),
}

#[derive(Clone, Copy, Debug)]
enum TableAnswer {
    Rules(Option<u32>),
    NotModified,
    Status(u16),
    RedirectLost,
    Fails,
    /// A redirect that may not be followed.
    RedirectRefused,
    /// A body that broke off, or could not be decoded.
    BodyFails,
}

fn answers() -> impl Strategy<Value = TableAnswer> {
    prop_oneof![
        prop::option::of(0..200_000_u32).prop_map(TableAnswer::Rules),
        Just(TableAnswer::NotModified),
        prop::sample::select(vec![401, 404, 429, 500, 503, 304, 300]).prop_map(TableAnswer::Status),
        Just(TableAnswer::RedirectLost),
        Just(TableAnswer::Fails),
    ]
}

/// Generates events, each with the seconds since the previous one, which may be negative.
fn events() -> impl Strategy<Value = Vec<(i64, TableEvent)>> {
    let event = prop_oneof![
        4 => (0..3_usize).prop_map(TableEvent::Requested),
        2 => any::<bool>().prop_map(TableEvent::Due),
        4 => (0..3_usize, answers()).prop_map(|(origin, answer)| TableEvent::Fetched(origin, answer)),
        1 => Just(TableEvent::Restarted),
        1 => (0..3_usize).prop_map(TableEvent::Forgotten),
    ];
    let day = DAY.cast_signed();
    let later = prop_oneof![4 => 0..2 * day, 2 => 0..60_i64, 1 => 0..40 * day, 1 => -day..0];
    prop::collection::vec((later, event), 1..60)
}

fn outcome(origin: &Resource, answer: TableAnswer) -> FetchOutcome {
    let response = |status, cache_control| {
        FetchEnding::Response(FetchedResponse {
            status,
            fields: ResponseFields {
                cache_control,
                etag: Some("\"v\"".into()),
                ..ResponseFields::default()
            },
            body: FetchedBody {
                bytes: b"User-agent: *\nDisallow: /private\n".as_slice().into(),
                is_cut: false,
                digest: None,
            },
        })
    };
    let uri = origin.uri();
    let ending = match answer {
        TableAnswer::Rules(age) => response(200, age.map(|age| format!("max-age={age}").into())),
        TableAnswer::NotModified => FetchEnding::NotModified(ResponseFields::default()),
        TableAnswer::Status(status) => response(status, None),
        TableAnswer::RedirectLost => FetchEnding::RedirectLost(301),
        TableAnswer::Fails => return FetchOutcome::failed(uri, FetchErrorKind::Connect, ""),
        TableAnswer::RedirectRefused => {
            return FetchOutcome::failed(uri, FetchErrorKind::RedirectProhibited, "");
        }
        TableAnswer::BodyFails => return FetchOutcome::failed(uri, FetchErrorKind::Body, ""),
    };
    FetchOutcome { redirects: Vec::new(), uri, ending }
}

/// A scheduler with the entries and snapshots that its callers keep.
struct TableWorld {
    cache: RefreshScheduler,
    now: SystemTime,
    kept: HashMap<Resource, CacheEntry>,
    published: HashMap<Resource, Arc<Snapshot>>,
    in_flight: HashMap<Resource, CacheEntry>,
}

impl TableWorld {
    fn new() -> Self {
        Self {
            cache: RefreshScheduler::new(LifetimeSettings::default()),
            now: SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000),
            kept: HashMap::new(),
            published: HashMap::new(),
            in_flight: HashMap::new(),
        }
    }

    fn start(&mut self, origin: &Resource) {
        let entry = self.kept.get(origin).cloned().unwrap_or_default();
        let other = self.in_flight.insert(origin.clone(), entry);
        assert!(other.is_none(), "two fetches of {origin} at a time");
    }

    fn apply(&mut self, event: TableEvent, origins: &[Resource]) {
        match event {
            TableEvent::Requested(n) => {
                let known = self.published.get(&origins[n]).cloned();
                if self.cache.request_fetch(&origins[n], known.as_deref(), self.now) {
                    self.start(&origins[n]);
                }
            }
            TableEvent::Due(is_in_use) => {
                let published = &self.published;
                let look = |origin: &Resource| Some((published.get(origin)?.clone(), is_in_use));
                let due = self.cache.take_due(self.now, look);
                due.refetch.iter().for_each(|origin| self.start(origin));
                for origin in &due.forgotten {
                    self.published.remove(origin);
                }
            }
            TableEvent::Fetched(n, answer) => self.fetched(&origins[n], answer),
            TableEvent::Restarted => {
                self.cache = RefreshScheduler::new(LifetimeSettings::default());
                self.in_flight.clear();
                self.published.clear();
                for (origin, entry) in &self.kept {
                    let snapshot = self.cache.restore(origin, &entry.clone().into());
                    self.published.insert(origin.clone(), Arc::new(snapshot));
                }
            }
            TableEvent::Forgotten(n) => {
                self.published.remove(&origins[n]);
                self.kept.remove(&origins[n]);
            }
        }
    }

    fn fetched(&mut self, origin: &Resource, answer: TableAnswer) {
        let Some(before) = self.in_flight.remove(origin) else {
            return;
        };
        let known = self.published.get(origin).cloned();
        let outcome = outcome(origin, answer);
        let lifetimes = self.cache.lifetimes();
        let learned = ParsedEntry::after_fetch(
            DocumentKind::RobotsTxt,
            (&before, known.as_deref()),
            FinishedFetch::of_proxy(outcome, self.now),
            lifetimes,
        );
        let snapshot = self.cache.fetch_finished(origin, &learned, known.as_deref());
        let usable = snapshot.usability(self.now);
        assert!(usable == Usability::Immediate, "{usable:?} right after {answer:?}");
        let restored = RefreshScheduler::new(LifetimeSettings::default()).restore(origin, &learned);
        if known.is_none() {
            assert_eq!(restored.retry_at(), snapshot.retry_at());
            assert_eq!(restored.fresh_until(), snapshot.fresh_until());
        }
        self.kept.insert(origin.clone(), learned.entry().clone());
        self.published.insert(origin.clone(), Arc::new(snapshot));
    }

    fn check_invariants(&self) {
        for snapshot in self.published.values() {
            let now = self.now;
            let age = snapshot.fetched_at().and_then(|at| now.duration_since(at).ok());
            let within = |seconds| age.is_some_and(|age| age < Duration::from_secs(seconds));
            match snapshot.access(now) {
                AccessResult::Successful(_)
                    if snapshot.usability(now) != Usability::AfterRefetch =>
                {
                    assert!(
                        age.is_none() || within(30 * DAY),
                        "older than max_stale: {snapshot:?}"
                    );
                    let has_failed = snapshot.failures() > 0;
                    assert!(
                        within(DAY) || has_failed,
                        "stale, not known to be unreachable: {snapshot:?}"
                    );
                }
                AccessResult::Unavailable { .. } | AccessResult::RedirectLost
                    if snapshot.usability(now) != Usability::AfterRefetch =>
                {
                    assert!(
                        age.is_none() || within(DAY),
                        "no copy, and older than max_age: {snapshot:?}"
                    );
                }
                AccessResult::LongUnreachable | AccessResult::LongLapsed(_) => {
                    let since = snapshot.unreachable_since().expect("it has failed");
                    let waited = now.duration_since(since).unwrap_or_default();
                    assert!(
                        waited >= Duration::from_secs(30 * DAY),
                        "given up early: {snapshot:?}"
                    );
                }
                _ => {}
            }
            if let Some(wait) = snapshot.retry_after(now)
                && snapshot.usability(now) == Usability::Immediate
                && age.is_none()
            {
                assert!(wait <= Duration::from_secs(2 * HOUR), "{wait:?}");
            }
        }
    }
}

/// A name, fetches on some days, and whether a crawler may fetch `/` and `/private` in rfc9309, google, koster1996 and
/// selfhtml after the last of them: `+` allow, `-` disallow.
type TableRow = (&'static str, &'static [(u64, TableAnswer)], [&'static str; 4]);

const DISALLOWED: [&str; 4] = ["--"; 4];
const BY_COPY: [&str; 4] = ["+-"; 4];
/// Past `max_stale`, see disagreements.md.
const LAPSED: [&str; 4] = ["--", "+-", "--", "--"];
const BY_LAST_COPY: [&str; 4] = ["+-", "+-", "--", "+-"];
const NO_RULES: [&str; 4] = ["++", "++", "--", "++"];

const TABLE: &[TableRow] = &[
    ("never reached", &[(0, TableAnswer::Fails)], DISALLOWED),
    (
        "never reached for 29 days",
        &[(0, TableAnswer::Fails), (14, TableAnswer::Fails), (29, TableAnswer::Fails)],
        DISALLOWED,
    ),
    (
        "never reached for 30 days",
        &[
            (0, TableAnswer::Fails),
            (14, TableAnswer::Fails),
            (28, TableAnswer::Fails),
            (30, TableAnswer::Fails),
        ],
        NO_RULES,
    ),
    (
        "two failures 31 days apart",
        &[(0, TableAnswer::Fails), (31, TableAnswer::Fails)],
        DISALLOWED,
    ),
    (
        "two days of failures, then 31 days later",
        &[(0, TableAnswer::Fails), (1, TableAnswer::Fails), (32, TableAnswer::Fails)],
        DISALLOWED,
    ),
    (
        "the failures after a gap count",
        &[
            (0, TableAnswer::Fails),
            (31, TableAnswer::Fails),
            (45, TableAnswer::Fails),
            (60, TableAnswer::Fails),
            (61, TableAnswer::Fails),
        ],
        NO_RULES,
    ),
    (
        "failures every other week but one",
        &[
            (0, TableAnswer::Fails),
            (14, TableAnswer::Fails),
            (30, TableAnswer::Fails),
            (31, TableAnswer::Fails),
        ],
        DISALLOWED,
    ),
    (
        "an answer ends the failures",
        &[
            (0, TableAnswer::Fails),
            (14, TableAnswer::Fails),
            (28, TableAnswer::Status(404)),
            (30, TableAnswer::Fails),
        ],
        DISALLOWED,
    ),
    (
        "no file, then one failure",
        &[(0, TableAnswer::Status(404)), (1, TableAnswer::Fails)],
        DISALLOWED,
    ),
    (
        "redirects without end, then one failure",
        &[(0, TableAnswer::RedirectLost), (1, TableAnswer::Fails)],
        DISALLOWED,
    ),
    (
        "a copy, then one failure",
        &[(0, TableAnswer::Rules(None)), (1, TableAnswer::Fails)],
        BY_COPY,
    ),
    (
        "a copy, and failures to its end",
        &[(0, TableAnswer::Rules(None)), (15, TableAnswer::Fails), (29, TableAnswer::Fails)],
        BY_COPY,
    ),
    (
        "a copy that lapsed",
        &[
            (0, TableAnswer::Rules(None)),
            (15, TableAnswer::Fails),
            (29, TableAnswer::Fails),
            (31, TableAnswer::Fails),
        ],
        LAPSED,
    ),
    (
        "a copy that lapsed, nobody asking",
        &[(0, TableAnswer::Rules(None)), (31, TableAnswer::Fails)],
        LAPSED,
    ),
    (
        "two failures 31 days apart after a copy",
        &[(0, TableAnswer::Rules(None)), (31, TableAnswer::Fails), (62, TableAnswer::Fails)],
        LAPSED,
    ),
    (
        "a copy that lapsed for as long again",
        &[
            (0, TableAnswer::Rules(None)),
            (29, TableAnswer::Fails),
            (40, TableAnswer::Fails),
            (50, TableAnswer::Fails),
            (60, TableAnswer::Fails),
        ],
        BY_LAST_COPY,
    ),
    (
        "for ever",
        &[
            (0, TableAnswer::Rules(None)),
            (29, TableAnswer::Fails),
            (40, TableAnswer::Fails),
            (50, TableAnswer::Fails),
            (60, TableAnswer::Fails),
            (70, TableAnswer::Fails),
            (80, TableAnswer::Fails),
            (95, TableAnswer::Fails),
        ],
        BY_LAST_COPY,
    ),
    (
        "its age counts from the last 304",
        &[
            (0, TableAnswer::Rules(None)),
            (10, TableAnswer::NotModified),
            (20, TableAnswer::NotModified),
            (49, TableAnswer::Fails),
        ],
        BY_COPY,
    ),
    (
        "and ends there",
        &[
            (0, TableAnswer::Rules(None)),
            (10, TableAnswer::NotModified),
            (20, TableAnswer::NotModified),
            (49, TableAnswer::Fails),
            (50, TableAnswer::Fails),
        ],
        LAPSED,
    ),
    (
        "no file, then lapsed",
        &[(0, TableAnswer::Status(404)), (29, TableAnswer::Fails), (31, TableAnswer::Fails)],
        DISALLOWED,
    ),
    (
        "no file, then lapsed for as long again",
        &[
            (0, TableAnswer::Status(404)),
            (29, TableAnswer::Fails),
            (40, TableAnswer::Fails),
            (50, TableAnswer::Fails),
            (60, TableAnswer::Fails),
        ],
        NO_RULES,
    ),
    ("a redirect that may not be followed", &[(0, TableAnswer::RedirectRefused)], DISALLOWED),
    (
        "the same with a copy",
        &[(0, TableAnswer::Rules(None)), (1, TableAnswer::RedirectRefused)],
        BY_COPY,
    ),
    ("a body that cannot be decoded", &[(0, TableAnswer::BodyFails)], DISALLOWED),
    (
        "the same with a copy",
        &[(0, TableAnswer::Rules(None)), (1, TableAnswer::BodyFails)],
        BY_COPY,
    ),
];

#[test]
fn the_deciding_answer_after_days_of_failures() {
    for (name, days, expected) in TABLE {
        let origin = Resource::parse("https://shop.example").expect("a resource");
        let mut world = TableWorld::new();
        let start = world.now;
        for (day, answer) in *days {
            world.now = start + Duration::from_secs(day * DAY);
            if !world.in_flight.contains_key(&origin) {
                assert!(world.cache.start_fetch(&origin), "{name}");
                world.start(&origin);
            }
            world.fetched(&origin, *answer);
            world.check_invariants();
        }
        let access = world.published[&origin].access(world.now);
        let dialects = [Dialect::Rfc9309, Dialect::Google, Dialect::Koster1996, Dialect::Selfhtml];
        assert_eq!(dialects.map(|dialect| verdicts(access, dialect)), *expected, "{name}");
        let worst = verdicts(access, Dialect::Strictest);
        assert!(worst.contains('-') || *expected == ["++"; 4], "{name}: {worst}");
    }
}

fn verdicts(access: &AccessResult, dialect: Dialect) -> String {
    let tokens = [ProductToken::new("ExampleBot").expect("a token")];
    let verdict =
        |path| match decide(access, dialect, &tokens, &UrlPath::parse(path).unwrap()).verdict() {
            AccessVerdict::Allow => '+',
            AccessVerdict::Disallow => '-',
        };
    ["/", "/private"].map(verdict).iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn unusable_snapshots_are_never_used(events in events()) {
        let origins = ["a", "b", "c"].map(|name| {
            Resource::parse(&format!("https://{name}.example")).expect("a resource")
        });
        let mut world = TableWorld::new();
        for (later, event) in events {
            let span = Duration::from_secs(later.unsigned_abs());
            world.now = if later < 0 { world.now - span } else { world.now + span };
            world.apply(event, &origins);
            world.check_invariants();
        }
    }
}

#[test]
fn a_dropped_copy_decides_only_after_a_new_fetch() {
    let origin = Resource::parse("https://a.example").expect("a resource");
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let mut cache = RefreshScheduler::new(LifetimeSettings::default());
    let fetched = |cache: &mut RefreshScheduler, before: &CacheEntry, now| {
        let rules = outcome(&origin, TableAnswer::Rules(None));
        let learned = ParsedEntry::after_fetch(
            DocumentKind::RobotsTxt,
            (before, None),
            FinishedFetch::of_proxy(rules, now),
            &LifetimeSettings::default(),
        );
        let known = cache.fetch_finished(&origin, &learned, None);
        (learned.into_entry(), known)
    };
    assert!(cache.request_fetch(&origin, None, now));
    let (kept, known) = fetched(&mut cache, &CacheEntry::default(), now);
    assert!(kept.request(&origin, FetchIdentity::proxy()).validators.is_some());

    // It was evicted from memory, and its entry in the store was damaged.
    cache.evict(&origin, &known);
    let dropped = CacheEntry::default();
    let later = now + Duration::from_secs(60);
    assert!(cache.request_fetch(&origin, None, later), "it is fetched");
    assert!(!cache.request_fetch(&origin, None, later), "once");
    assert_eq!(dropped.request(&origin, FetchIdentity::proxy()).validators, None, "and in full");
    let unknown = cache.restore(&origin, &dropped.clone().into());
    assert!(matches!(unknown.access(later), AccessResult::Unreachable));
    assert_eq!(unknown.usability(later), Usability::AfterRefetch);

    let (kept, known) = fetched(&mut cache, &dropped, later);
    assert!(matches!(known.access(later), AccessResult::Successful(_)));
    assert_eq!(known.fetched_at(), Some(later));
    assert!(kept.answer.is_some() && kept.failures.is_none());
}
