//! Slots while the engine is away and soon after, of nodes over the engine in memory.

use super::super::engine::EngineFailure;
use super::super::memory::MemoryEngine;
use super::super::state::FleetState;
use super::super::watch::RETURN_WINDOW;
use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn terms(most: usize, delay: Duration) -> SlotTerms {
    SlotTerms {
        most,
        delay,
        remembered_for: Duration::ZERO,
        is_held: true,
        obeys_rest: false,
        keeps_turn: false,
    }
}

fn queue() -> QueueId {
    QueueId { origin: "https://shop.test".to_owned(), name: "slots".to_owned() }
}

async fn slot(fleet: &Fleet) -> Result<Option<FleetSlot>, NoSlot> {
    fleet.wait_for_slot(queue, terms(6, Duration::ZERO), Instant::now()).await
}

/// Takes all slots that a node can hold at a time.
async fn all(fleet: &Fleet) -> Vec<FleetSlot> {
    let mut held = Vec::new();
    while let Ok(taken) = slot(fleet).await {
        held.extend(taken);
    }
    held
}

#[tokio::test(start_paused = true)]
async fn nodes_share_slots_equally_until_all_have_reconnected() {
    let memory = MemoryEngine::new("");
    let nodes = [memory.join("a").await, memory.join("b").await, memory.join("c").await];
    sleep(3 * SECOND).await;
    assert_eq!(all(&nodes[0]).await.len(), 6, "the engine knows that the others have none");
    memory.fail(Some(EngineFailure::Connection("gone".to_owned())));
    let mut held = Vec::new();
    for node in &nodes {
        held.push(all(node).await);
        assert_eq!(held.last().map(Vec::len), Some(2));
    }
    // It comes back without any slots, and not all nodes reconnect at once.
    memory.fail(None);
    sleep(3 * SECOND).await;
    drop(held.pop());
    assert_eq!(all(&nodes[2]).await.len(), 2);
    assert_eq!(all(&nodes[0]).await.len(), 0);
    sleep(RETURN_WINDOW).await;
    drop(held);
    sleep(SECOND).await;
    assert_eq!(all(&nodes[0]).await.len(), 6);
}

#[tokio::test(start_paused = true)]
async fn each_node_without_engine_has_one_slot_at_least() {
    for count in [4_usize, 7] {
        let memory = MemoryEngine::new("");
        let mut nodes = Vec::new();
        for number in 0..count {
            nodes.push(memory.join(&number.to_string()).await);
        }
        sleep(3 * SECOND).await;
        memory.fail(Some(EngineFailure::Connection("gone".to_owned())));
        for node in &nodes {
            assert_eq!(all(node).await.len(), 1, "6 among {count}");
        }
    }
}

/// Two workers may decide at the same time, before either has got its slot.
#[tokio::test(start_paused = true)]
async fn slot_of_own_share_counts_as_soon_as_it_is_granted() {
    let memory = MemoryEngine::new("");
    let fleet = memory.join("a").await;
    memory.fail(Some(EngineFailure::Connection("gone".to_owned())));
    sleep(SECOND).await;
    let both = [(); 2].map(|()| FleetSlot::new(&fleet.inner, queue(), terms(1, Duration::ZERO)));
    let decide =
        |slot: &FleetSlot| fleet.inner.slot_without_engine(&slot.request, ClockReading::now());
    let refused = Ok(SlotAnswer::NotInTime(SHARE_POLL));
    assert_eq!(both.each_ref().map(decide), [Ok(SlotAnswer::Granted), refused]);
    assert_eq!(both.each_ref().map(decide), [Ok(SlotAnswer::Granted), refused], "it is its own");
    drop(both);
    assert_eq!(lock(&fleet.inner.held_slots).len(), 0);
    let marks_time = SlotTerms { is_held: false, ..terms(1, Duration::ZERO) };
    for _ in 0..2 {
        let marked = fleet.wait_for_slot(queue, marks_time, Instant::now()).await;
        assert!(matches!(marked, Ok(None)), "{marked:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn first_node_to_reconnect_shares_with_the_others() {
    let memory = MemoryEngine::new("");
    let nodes = [memory.join("a").await, memory.join("b").await];
    sleep(3 * SECOND).await;
    memory.fail(Some(EngineFailure::Connection("gone".to_owned())));
    let mut held = Vec::new();
    for node in &nodes {
        held.push(all(node).await);
        assert_eq!(held.last().map(Vec::len), Some(3));
    }
    // Meanwhile the engine drops them.
    sleep(10 * SECOND).await;
    memory.fail(None);
    let first = loop {
        if let Some(first) = nodes.iter().find(|node| node.status().state == FleetState::Up) {
            break first;
        }
        sleep(Duration::from_millis(1)).await;
    };
    assert_eq!(first.status().members.len(), 1);
    assert_eq!(all(first).await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn home_node_waits_until_all_have_noticed_the_loss() {
    let memory = MemoryEngine::new("");
    let home = |options| super::super::handle::FleetSettings { on_loss: OnLoss::Home, ..options };
    let fleet = memory.join_with("a", home).await;
    let slot = async |timeout| {
        let latest = Instant::now() + timeout;
        fleet.wait_for_slot(queue, terms(1, SECOND), latest).await
    };
    let quiet = SECOND + LOSS_NOTICED_WITHIN;
    // The second wait is as long as the first.
    for _ in 0..2 {
        sleep(2 * RETURN_WINDOW).await;
        memory.fail(Some(EngineFailure::Connection("gone".to_owned())));
        let gone_at = Instant::now();
        let impatient = slot(Duration::ZERO).await;
        assert_eq!(impatient.err(), Some(NoSlot::NotInTime(quiet)));
        drop(slot(2 * quiet).await.expect("it goes on"));
        assert!(gone_at.elapsed() >= quiet, "{:?}", gone_at.elapsed());
        memory.fail(None);
    }
}

/// Waits for 20 s, in which no call may time out.
async fn expect_no_timeout(fleet: &Fleet) {
    sleep(20 * SECOND).await;
    let failure = fleet.status().last_error.map(|(failure, _)| failure);
    assert_ne!(failure, Some(EngineFailure::Timeout.to_string()));
    assert!(fleet.is_reachable());
}

/// Takes a slot of each of so many origins.
async fn slots_of(fleet: &Fleet, origins: usize) -> Vec<FleetSlot> {
    let mut held = Vec::new();
    for number in 0..origins {
        let queue = || QueueId { origin: number.to_string(), name: "pace".to_owned() };
        let slot = fleet.wait_for_slot(queue, terms(1, SECOND), Instant::now()).await;
        held.extend(slot.ok().flatten());
    }
    held
}

const SERVICE: Duration = Duration::from_micros(50);
const TIMEOUT: Duration = Duration::from_millis(25);
/// So many that the engine cannot serve a call about each within the timeout.
const MANY: usize = 2000;

#[tokio::test(start_paused = true)]
async fn renewing_many_slots_does_not_time_out() {
    let memory = MemoryEngine::new("");
    let fleet = memory.join("a").await;
    let held = slots_of(&fleet, MANY).await;
    assert_eq!(held.len(), MANY);
    memory.serve_one_at_a_time(SERVICE, TIMEOUT);
    expect_no_timeout(&fleet).await;
    assert!(held.iter().all(|slot| !slot.may_have_expired()));
}

#[tokio::test(start_paused = true)]
async fn slots_that_ended_during_a_loss_are_released_few_at_a_time() {
    let memory = MemoryEngine::new("");
    let fleet = memory.join("a").await;
    let held = slots_of(&fleet, MANY).await;
    memory.fail(Some(EngineFailure::Connection("gone".to_owned())));
    sleep(SECOND).await;
    drop(held);
    memory.serve_one_at_a_time(SERVICE, TIMEOUT);
    memory.fail(None);
    expect_no_timeout(&fleet).await;
}

#[tokio::test(start_paused = true)]
async fn engine_is_not_asked_to_release_slots_that_it_was_not_asked_for() {
    let memory = MemoryEngine::new("");
    let fleet = memory.join("a").await;
    memory.fail(Some(EngineFailure::Connection("gone".to_owned())));
    sleep(2 * SECOND).await;
    assert_eq!(slots_of(&fleet, MANY).await.len(), 0);
    memory.fail(None);
    let before = memory.calls();
    sleep(20 * SECOND).await;
    assert_eq!(memory.calls(), before);
}
