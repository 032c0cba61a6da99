use wayleave_fairness::WorkPool;
use wayleave_fleet::memory::MemoryEngine;
use wayleave_lifecycle::{
    FetchEnding, FetchErrorKind, FetchOutcome, FetchedBody, FetchedResponse, FinishedFetch,
    ResponseFields,
};

use super::*;
use crate::record::tests::{EARLIER, identity};

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
        ending: FetchEnding::Response(FetchedResponse {
            status,
            fields: ResponseFields::default(),
            body: FetchedBody {
                bytes: text.as_bytes().into(),
                is_cut: false,
                digest: Some(Sha256Digest::of(text.as_bytes()).0.into()),
            },
        }),
    }
}

fn failure() -> FetchOutcome {
    FetchOutcome::failed(shop().uri(), FetchErrorKind::Timeout, "too slow")
}

/// Returns the entry of an answer at this time.
fn answered(text: &str, at: SystemTime) -> CacheEntry {
    CacheEntry::default().after_fetch(FinishedFetch::of_proxy(response(200, text), at))
}

fn snapshot(entry: &CacheEntry) -> Snapshot {
    RefreshScheduler::default().restore(&shop(), &entry.clone().into())
}

/// Returns a node whose clock shows `now`.
async fn node(memory: &MemoryEngine, name: &str, now: SystemTime) -> FleetEntries {
    FleetEntries {
        fleet: memory.join(name).await,
        clock: Clock::start_at(now),
        parser: WorkPool::new(),
    }
}

/// Reports an entry from another node, learned this `age` ago and expired since. Its version is 7.
async fn tell(shared: &FleetEntries, entry: &CacheEntry, age: Duration) {
    let settlement = Settlement {
        origin: shop().to_string(),
        token: 7,
        change: RecordChange::Changed,
        record: SharedRecord {
            bytes: encode(&shop(), entry).expect("it can be written"),
            age,
            version: 0,
        },
        fresh_for: Duration::ZERO,
        retention: 60 * SECOND,
    };
    shared.fleet.settle(settlement).await;
}

#[test]
fn older_entries_are_not_newer_whatever_they_contain() {
    let known = snapshot(&answered("known", at(10_000)));
    for (text, millis, expected) in [
        ("other", 9_000, false),
        ("known", 9_600, false),
        ("other", 9_600, true),
        ("known", 10_400, false),
        ("other", 10_400, true),
        ("known", 10_500, true),
        ("other", 11_000, true),
    ] {
        let found = is_newer(&answered(text, at(millis)), &known);
        assert_eq!(found, expected, "{text} at {millis}");
    }
    assert!(!is_newer(&CacheEntry::default(), &known));
}

#[tokio::test(start_paused = true)]
async fn only_a_later_claim_supersedes_this_nodes_fetch() {
    let memory = MemoryEngine::new("");
    let one = node(&memory, "one", at(100_000)).await;
    let other = node(&memory, "other", at(100_000)).await;
    tell(&other, &answered("other", at(90_000)), 10 * SECOND).await;
    let known = snapshot(&answered("known", at(95_000)));
    for (token, is_adopted) in [(6, true), (7, false), (8, false)] {
        let adopt = AdoptionRule::After(token);
        let found = one.find_adoptable(&shop(), (&known, 0), adopt).await;
        assert_eq!(found.is_some(), is_adopted, "after {token}");
    }
    // An entry fetched without the engine counts as much as one that was learned later.
    let found = one.find_adoptable(&shop(), (&known, 0), AdoptionRule::After(0)).await;
    assert!(found.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_fetch_continues_from_the_newest_entry() {
    for (own_age, expected) in [(30, "other"), (10, "own")] {
        let memory = MemoryEngine::new("");
        let one = node(&memory, "one", at(100_000)).await;
        let other = node(&memory, "other", at(100_000)).await;
        tell(&other, &answered("other", at(80_000)), 20 * SECOND).await;
        let own = answered("own", at(100_000 - own_age * 1_000));
        let purpose = (FetchPurpose::Forced, None);
        let limits = (&LifetimeSettings::default(), SECOND);
        let ClaimDecision::Fetch(lease) = one.claim(&shop(), own, purpose, limits).await else {
            panic!("an operator's fetch is made");
        };
        let answer = lease.before.answer.expect("both were answered");
        let body = answer.outcome.body().expect("both have a body");
        assert_eq!(*body.bytes, *expected.as_bytes(), "{own_age} s");
    }
}

#[test]
fn nodes_are_notified_of_new_content_and_of_recoveries() {
    let known = answered("known", at(0));
    let failing = known.after_fetch(FinishedFetch::of_proxy(failure(), at(1_000)));
    for (before, after, is_same) in [
        (
            &known,
            &known.after_fetch(FinishedFetch::of_proxy(response(200, "known"), at(2_000))),
            true,
        ),
        (
            &known,
            &known.after_fetch(FinishedFetch::of_proxy(response(200, "other"), at(2_000))),
            false,
        ),
        (
            &known,
            &known.after_fetch(FinishedFetch::of_proxy(response(404, "known"), at(2_000))),
            false,
        ),
        (&known, &failing, true),
        (&failing, &failing.after_fetch(FinishedFetch::of_proxy(failure(), at(2_000))), true),
        (
            &failing,
            &failing.after_fetch(FinishedFetch::of_proxy(response(200, "known"), at(2_000))),
            false,
        ),
    ] {
        assert_eq!(is_unchanged(before, after), is_same, "{before:?} {after:?}");
    }
}

/// Returns the record with these bytes before compression.
fn packed(whole: &[u8]) -> SharedRecord {
    let mut bytes = u32::try_from(whole.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend(zstd::bulk::compress(whole, ZSTD_LEVEL).unwrap());
    SharedRecord { bytes, age: SECOND, version: 1 }
}

#[test]
fn identities_pass_from_node_to_node() {
    let finished = FinishedFetch {
        fetched_as: identity().into(),
        ..FinishedFetch::of_proxy(response(403, ""), at(0))
    };
    let entry = CacheEntry::default().after_fetch(finished);
    let record = SharedRecord { bytes: encode(&shop(), &entry).unwrap(), age: SECOND, version: 1 };
    let passed = decode(&shop(), &record, at(1_000)).unwrap();
    assert_eq!(passed.fetched_as(), entry.fetched_as());
    assert!(passed.counts_for(&identity()) && !passed.counts_for(&FetchIdentity::default()));
    // A node of an earlier version wrote neither the identity nor anything after the body.
    let earlier = decode(&shop(), &packed(&[&EARLIER[..], &[0]].concat()), at(1_000)).unwrap();
    assert_eq!(earlier.fetched_as(), Some(&FetchIdentity::proxy()));
    assert!(!earlier.counts_for(&identity()));
}
