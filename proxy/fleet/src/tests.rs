//! Records that a node sends to the fleet, and its reactions to the answers, over the engine in memory.

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
        record: SharedRecord { bytes: text.as_bytes().to_vec(), age: Duration::ZERO, version: 0 },
        fresh_for: 60 * MINUTE,
        retention: 60 * MINUTE,
    }
}

/// Claims a fetch, and returns the token and the stale record.
async fn fetch(fleet: &Fleet) -> (u64, Option<SharedRecord>) {
    match fleet.claim(ORIGIN, Some(Duration::ZERO), SECOND).await {
        ClaimOutcome::Fetch { token, older } => (token, older),
        ClaimOutcome::Known(record) => panic!("no fetch needed: {record:?}"),
    }
}

/// Returns the token of another node's claim.
async fn claim(other: &MemoryEngine) -> u64 {
    let claim =
        FetchClaim { origin: ORIGIN.to_owned(), max_age: None, lease: SECOND, rejected_version: 0 };
    match other.claim(&claim).await {
        Ok(ClaimAnswer::Fetch { token, .. }) => token,
        answer => panic!("no fetch granted: {answer:?}"),
    }
}

async fn expect_event(events: &mut UnboundedReceiver<FleetEvent>, expected: &FleetEvent) {
    let received =
        timeout(MINUTE, async { while events.recv().await.expect("a sender").ne(expected) {} });
    assert_eq!(received.await, Ok(()), "{expected:?}");
}

#[tokio::test(start_paused = true)]
async fn stale_record_by_no_node_is_not_revalidated() {
    let memory = MemoryEngine::new("stranger");
    memory.settle(&settlement(0, "Disallow:")).await.unwrap();
    let keyed = |options| FleetSettings { key: Some(FleetKey::new(&[1; 32], "wl")), ..options };
    let fleet = memory.join_with("a", keyed).await;
    let (token, older) = fetch(&fleet).await;
    assert_eq!(older, None, "a 304 would make it valid");
    fleet.settle(settlement(token, "Disallow: /")).await;
    let (_, older) = fetch(&fleet).await;
    assert_eq!(older.expect("its own record").bytes, b"Disallow: /");
}

#[tokio::test(start_paused = true)]
async fn node_is_notified_that_its_record_came_too_late() {
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
async fn node_without_beats_is_dropped_from_the_fleet() {
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
async fn lost_connection_is_replaced_as_soon_as_calls_fail() {
    let memory = MemoryEngine::new("b");
    let fleet = memory.join("a").await;
    sleep(SECOND / 10).await;
    memory.lose_connection();
    for _ in 0..3 {
        fetch(&fleet).await;
    }
    assert!(!fleet.is_reachable());
    // Less than until the next beat, and than the shortest pause after a failure.
    sleep(SECOND / 10).await;
    assert!(fleet.is_reachable());
}

#[tokio::test(start_paused = true)]
async fn node_that_missed_notes_is_notified_of_the_loss() {
    let memory = MemoryEngine::new("b");
    let fleet = memory.join("a").await;
    let mut events = fleet.subscribe();
    sleep(SECOND).await;
    let forgotten = Settlement { change: RecordChange::Forgotten, ..settlement(0, "") };
    // One more than are kept, before the node reads again.
    for _ in 0..=10_000 {
        memory.settle(&forgotten).await.unwrap();
    }
    expect_event(&mut events, &FleetEvent::NotesLost(0)).await;
}

#[tokio::test(start_paused = true)]
async fn record_that_is_sent_late_keeps_its_age() {
    let memory = MemoryEngine::new("b");
    let fleet = memory.join("a").await;
    memory.fail(Some(EngineFailure::Connection("gone".to_owned())));
    let short = Settlement { fresh_for: MINUTE, ..settlement(0, "rules") };
    fleet.settle(short).await;
    sleep(MINUTE).await;
    memory.fail(None);
    sleep(10 * SECOND).await;
    let record = memory.record(ORIGIN).await.unwrap();
    let age = record.expect("it was sent").age;
    assert!(age >= MINUTE + 10 * SECOND, "{age:?}");
    // It is stale by now.
    claim(&memory).await;
}

#[tokio::test(start_paused = true)]
async fn record_that_is_sent_late_wins_if_it_is_newer() {
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
    assert_eq!(record.expect("a record").bytes, b"newer");
}
