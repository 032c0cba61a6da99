//! The behaviour of every engine: the turns at a server whose pace the nodes find together.

use std::time::Duration;

use wayleave_fleet::engine::PacingResponse;
use wayleave_fleet::pace_turn::{PaceTurn, PaceTurnAnswer};

use super::conformance::Node;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(100);

/// Checks everything.
pub async fn paces_conform(nodes: &[Node; 3]) {
    turns_of_a_pace_follow_one_another(nodes).await;
    the_first_of_two_proposals_counts(nodes).await;
    no_turn_comes_within_a_rest(nodes).await;
}

/// Returns the question for a turn, of a node that knows no pace.
fn turn(unit: &str) -> PaceTurn {
    PaceTurn {
        unit: unit.to_owned(),
        version: 0,
        proposal: None,
        interval: Duration::ZERO,
        requests: 1,
        timeout: HOUR,
        kept_for: HOUR,
        obeys_rest: true,
    }
}

fn proposing(unit: &str, version: u64, pace: &str, interval: Duration) -> PaceTurn {
    PaceTurn { version, proposal: Some((pace.to_owned(), interval)), ..turn(unit) }
}

async fn take_turn(node: &Node, turn: &PaceTurn) -> PaceTurnAnswer {
    node.take_pace_turn(turn).await.expect("the engine responds")
}

/// Returns whether this wait ends at the expected time, of which some may have passed on a busy machine.
fn is_about(found: Duration, expected: Duration) -> bool {
    found <= expected && found + SECOND / 2 > expected
}

async fn turns_of_a_pace_follow_one_another([a, b, c]: &[Node; 3]) {
    let unit = "http://paced.test";
    // After a time without requests, the first has its turn at once.
    let first = take_turn(a, &proposing(unit, 0, "slow", SECOND)).await;
    let known = (first.version, first.pace.as_str(), first.total, first.is_granted);
    assert_eq!((known, first.wait), ((1, "slow", 1, true), Duration::ZERO));
    let second = take_turn(b, &turn(unit)).await;
    assert_eq!((second.version, second.pace.as_str(), second.total), (1, "slow", 2));
    assert!(is_about(second.wait, SECOND), "{second:?}");
    let third = take_turn(c, &PaceTurn { interval: 2 * SECOND, ..turn(unit) }).await;
    assert!(is_about(third.wait, 3 * SECOND), "its own interval is longer: {third:?}");
    // A turn that is not in time is not taken, and a question without a request takes none.
    let late = take_turn(a, &PaceTurn { timeout: SECOND, ..turn(unit) }).await;
    assert!(!late.is_granted && is_about(late.wait, 4 * SECOND), "{late:?}");
    let asked = take_turn(a, &PaceTurn { requests: 0, ..turn(unit) }).await;
    assert!(!asked.is_granted && asked.total == 3, "{asked:?}");
    let next = take_turn(b, &PaceTurn { requests: 5, ..turn(unit) }).await;
    assert!(next.total == 8 && is_about(next.wait, 4 * SECOND), "{next:?}");
    let other = take_turn(b, &turn("http://other.test")).await;
    assert_eq!((other.version, other.pace.as_str(), other.total), (0, "", 1));
}

async fn the_first_of_two_proposals_counts([a, b, _]: &[Node; 3]) {
    let unit = "http://found.test";
    take_turn(a, &proposing(unit, 0, "one", SHORT)).await;
    let second = take_turn(b, &proposing(unit, 1, "two", SECOND)).await;
    assert_eq!((second.version, second.pace.as_str()), (2, "two"));
    let outdated = take_turn(a, &proposing(unit, 1, "three", SHORT)).await;
    assert_eq!((outdated.version, outdated.pace.as_str()), (2, "two"));
    let repeated = take_turn(a, &proposing(unit, 2, "four", SHORT)).await;
    assert_eq!((repeated.version, repeated.pace.as_str()), (3, "four"));
    // An engine that has none begins after the version that the node knew.
    let lost = take_turn(a, &proposing("http://lost.test", 7, "one", SHORT)).await;
    assert_eq!((lost.version, lost.pace.as_str()), (8, "one"));
}

async fn no_turn_comes_within_a_rest([a, b, _]: &[Node; 3]) {
    let unit = "http://paced-and-resting.test";
    let refused = PacingResponse {
        origin: unit.to_owned(),
        status: 429,
        retry_after: Some(2 * SECOND),
        max_rest: HOUR,
    };
    a.answered(&refused).await.expect("the engine responds");
    let ignoring = take_turn(b, &PaceTurn { obeys_rest: false, ..turn(unit) }).await;
    assert_eq!(ignoring.wait, Duration::ZERO);
    let first = take_turn(b, &proposing(unit, 0, "slow", SECOND)).await;
    assert!(is_about(first.wait, 2 * SECOND), "{first:?}");
    let second = take_turn(a, &turn(unit)).await;
    assert!(is_about(second.wait, 3 * SECOND), "not together after it: {second:?}");
}
