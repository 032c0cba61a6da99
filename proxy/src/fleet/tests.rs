//! What a node tells the fleet and what it makes of the answers, over the engine in memory.

use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{sleep, timeout};

use super::engine::{
    ClaimAnswer, EngineFailure, FetchClaim, RecordChange, SettleAnswer, Settlement,
    SharedEngine as _, SharedRecord,
};
use super::memory::MemoryEngine;
use super::{ClaimOutcome, Fleet, FleetEvent, FleetKey, FleetSettings};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const ORIGIN: &str = "https://shop.test";

fn settlement(token: u64, text: &str) -> Settlement {
    Settlement {
        origin: ORIGIN.to_owned(),
        token,
        change: RecordChange::Changed,
        record: SharedRecord {
            bytes: text.as_bytes().to_vec(),
            age: Duration::ZERO,
            version: 0,
        },
        fresh_for: 60 * MINUTE,
        retention: 60 * MINUTE,
    }
}

/// Has the fleet tell its node to fetch: the token and what is known.
async fn fetch(fleet: &Fleet) -> (u64, Option<SharedRecord>) {
    match fleet.claim(ORIGIN, Some(Duration::ZERO), SECOND).await {
        ClaimOutcome::Fetch { token, older } => (token, older),
        ClaimOutcome::Known(record) => panic!("not told to fetch: {record:?}"),
    }
}

/// The token of another node's claim.
async fn claim(other: &MemoryEngine) -> u64 {
    let claim = FetchClaim {
        origin: ORIGIN.to_owned(),
        max_age: None,
        lease: SECOND,
        rejected_version: 0,
    };
    match other.claim(&claim).await {
        Ok(ClaimAnswer::Fetch { token, .. }) => token,
        answer => panic!("not told to fetch: {answer:?}"),
    }
}

async fn expect_event(events: &mut UnboundedReceiver<FleetEvent>, expected: &FleetEvent) {
    let heard = async { while events.recv().await.expect("it goes on").ne(expected) {} };
    let heard = timeout(MINUTE, heard).await;
    assert_eq!(heard, Ok(()), "{expected:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_too_old_and_by_no_node_is_not_held_to() {
    let memory = MemoryEngine::new("stranger");
    memory.settle(&settlement(0, "Disallow:")).await.unwrap();
    let keyed = |options| FleetSettings {
        key: Some(FleetKey::new(&[1; 32], "wl")),
        ..options
    };
    let fleet = memory.join_with("a", keyed).await;
    let (token, older) = fetch(&fleet).await;
    assert_eq!(older, None, "a 304 would make it the rules");
    fleet.settle(settlement(token, "Disallow: /")).await;
    let (_, older) = fetch(&fleet).await;
    assert_eq!(older.expect("its own is").bytes, b"Disallow: /");
}

#[tokio::test(start_paused = true)]
async fn a_node_hears_that_it_came_too_late() {
    let memory = MemoryEngine::new("b");
    let fleet = memory.join("a").await;
    let mut events = fleet.subscribe();
    let (first, _) = fetch(&fleet).await;
    sleep(2 * SECOND).await;
    let second = claim(&memory).await;
    let settled = memory.settle(&settlement(second, "newer")).await;
    assert_eq!(settled, Ok(SettleAnswer::Kept));
    fleet.settle(settlement(first, "older")).await;
    let late = FleetEvent::Superseded(ORIGIN.to_owned(), first);
    expect_event(&mut events, &late).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_not_heard_of_for_long_is_none_of_the_fleet() {
    let memory = MemoryEngine::new("b");
    let fleet = memory.join("a").await;
    memory.beat("0.1.0").await.unwrap();
    for expected in [&["a", "b"][..], &["a"]] {
        sleep(3 * SECOND).await;
        let members = fleet.status().members.into_iter();
        let members: Vec<_> = members.map(|member| member.node).collect();
        assert_eq!(members, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_read_all_notes_suspects_what_it_holds() {
    let memory = MemoryEngine::new("b");
    let fleet = memory.join("a").await;
    let mut events = fleet.subscribe();
    sleep(SECOND).await;
    let forgotten = Settlement {
        change: RecordChange::Forgotten,
        ..settlement(0, "")
    };
    // One more than are kept, before the node looks again.
    for _ in 0..=10_000 {
        memory.settle(&forgotten).await.unwrap();
    }
    expect_event(&mut events, &FleetEvent::NotesLost(0)).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_told_late_is_as_old_as_it_is() {
    let memory = MemoryEngine::new("b");
    let fleet = memory.join("a").await;
    memory.fail(Some(EngineFailure::Connection("gone".to_owned())));
    let short = Settlement {
        fresh_for: MINUTE,
        ..settlement(0, "rules")
    };
    fleet.settle(short).await;
    sleep(MINUTE).await;
    memory.fail(None);
    sleep(10 * SECOND).await;
    let record = memory.record(ORIGIN).await.unwrap();
    let age = record.expect("it was told").age;
    assert!(age >= MINUTE + 10 * SECOND, "{age:?}");
    // It is stale by now.
    claim(&memory).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_told_late_is_judged_by_its_age() {
    let memory = MemoryEngine::new("b");
    let fleet = memory.join("a").await;
    let (first, _) = fetch(&fleet).await;
    memory.fail(Some(EngineFailure::Connection("gone".to_owned())));
    fleet.settle(settlement(first, "newer")).await;
    sleep(2 * SECOND).await;
    memory.fail(None);
    // The lease has ended, but what the next one brought is older.
    let mut older = settlement(claim(&memory).await, "older");
    older.record.age = MINUTE;
    assert_eq!(memory.settle(&older).await, Ok(SettleAnswer::Kept));
    sleep(10 * SECOND).await;
    let record = memory.record(ORIGIN).await.unwrap();
    assert_eq!(record.expect("it is known").bytes, b"newer");
}
