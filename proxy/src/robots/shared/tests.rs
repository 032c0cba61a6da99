use wayleave_robots_txt::lifecycle::{
    Body, Ending, FetchErrorKind, FetchOutcome, Fields, Response,
};

use super::*;
use crate::fleet::memory::Memory;

const SECOND: Duration = Duration::from_secs(1);

fn shop() -> Resource {
    Resource::parse("https://shop.example").expect("a resource")
}

fn at(millis: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000) + Duration::from_millis(millis)
}

fn response(status: u16, text: &str) -> FetchOutcome {
    FetchOutcome {
        redirects: Vec::new(),
        uri: shop().uri(),
        ending: Ending::Response(Response {
            status,
            fields: Fields::default(),
            body: Body {
                bytes: text.as_bytes().into(),
                is_cut: false,
                digest: Some(Digest::of(text.as_bytes()).0.into()),
            },
        }),
    }
}

fn failure() -> FetchOutcome {
    FetchOutcome::failed(shop().uri(), FetchErrorKind::Timeout, "too slow")
}

/// Returns the entry of an answer at this time.
fn said(text: &str, at: SystemTime) -> Entry {
    Entry::default().after(response(200, text), at)
}

fn snapshot(entry: &Entry) -> Snapshot {
    Cache::default().restored(&shop(), &entry.clone().into())
}

/// Returns a node whose clock shows `now`.
async fn node(memory: &Memory, name: &str, now: SystemTime) -> Shared {
    Shared {
        fleet: memory.joined(name).await,
        clock: Clock::start_at(now),
        parser: Parser::new(),
    }
}

/// Reports an entry from another node, learned this `age` ago and expired since. Its version is 7.
async fn tell(shared: &Shared, entry: &Entry, age: Duration) {
    let settlement = Settlement {
        origin: shop().to_string(),
        token: 7,
        kind: Kind::Changed,
        record: Record {
            bytes: write(&shop(), entry).expect("it can be written"),
            age,
            version: 0,
        },
        fresh_for: Duration::ZERO,
        keep: 60 * SECOND,
    };
    shared.fleet.settle(settlement).await;
}

#[test]
fn older_entries_are_not_newer_whatever_they_contain() {
    let known = snapshot(&said("known", at(10_000)));
    for (text, millis, expected) in [
        ("other", 9_000, false),
        ("known", 9_600, false),
        ("other", 9_600, true),
        ("known", 10_400, false),
        ("other", 10_400, true),
        ("known", 10_500, true),
        ("other", 11_000, true),
    ] {
        let found = is_newer(&said(text, at(millis)), &known);
        assert_eq!(found, expected, "{text} at {millis}");
    }
    assert!(!is_newer(&Entry::default(), &known));
}

#[tokio::test(start_paused = true)]
async fn only_a_later_claim_supersedes_this_nodes_fetch() {
    let memory = Memory::new("");
    let one = node(&memory, "one", at(100_000)).await;
    let other = node(&memory, "other", at(100_000)).await;
    tell(&other, &said("other", at(90_000)), 10 * SECOND).await;
    let known = snapshot(&said("known", at(95_000)));
    for (token, is_adopted) in [(6, true), (7, false), (8, false)] {
        let adopt = Adopt::After(token);
        let found = one.adoptable(&shop(), (&known, 0), adopt).await;
        assert_eq!(found.is_some(), is_adopted, "after {token}");
    }
    // An entry fetched without the engine counts as much as one that was learned later.
    let found = one.adoptable(&shop(), (&known, 0), Adopt::After(0)).await;
    assert!(found.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_fetch_continues_from_the_newest_entry() {
    for (own_age, expected) in [(30, "other"), (10, "own")] {
        let memory = Memory::new("");
        let one = node(&memory, "one", at(100_000)).await;
        let other = node(&memory, "other", at(100_000)).await;
        tell(&other, &said("other", at(80_000)), 20 * SECOND).await;
        let own = said("own", at(100_000 - own_age * 1_000));
        let purpose = (Purpose::Forced, &FetchAs::default());
        let terms = (&Lifetimes::default(), SECOND);
        let Claim::Fetch(lease) = one.claim(&shop(), own, purpose, terms).await else {
            panic!("an operator's fetch is made");
        };
        let answer = lease.before.answer.expect("both were answered");
        let body = answer.outcome.body().expect("both have a body");
        assert_eq!(*body.bytes, *expected.as_bytes(), "{own_age} s");
    }
}

#[test]
fn nodes_are_notified_of_new_content_and_of_recoveries() {
    let known = said("known", at(0));
    let failing = known.after(failure(), at(1_000));
    for (before, after, is_same) in [
        (
            &known,
            &known.after(response(200, "known"), at(2_000)),
            true,
        ),
        (
            &known,
            &known.after(response(200, "other"), at(2_000)),
            false,
        ),
        (
            &known,
            &known.after(response(404, "known"), at(2_000)),
            false,
        ),
        (&known, &failing, true),
        (&failing, &failing.after(failure(), at(2_000)), true),
        (
            &failing,
            &failing.after(response(200, "known"), at(2_000)),
            false,
        ),
    ] {
        assert_eq!(
            says_the_same(before, after),
            is_same,
            "{before:?} {after:?}"
        );
    }
}
