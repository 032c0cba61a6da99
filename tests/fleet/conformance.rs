//! The behaviour of every engine: the operations of two or three nodes. Tests sleep until a time has passed on the engine's
//! clock, mostly for as long as the engine returned.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use wayleave_decision::DailyBudget;
use wayleave_fleet::engine::{
    BudgetAnswer, BudgetKind, BudgetReport, BudgetRequest, ChangeNote, ClaimAnswer, FetchClaim,
    LogPositions, NoteKind, PacingResponse, QueueId, RecordChange, SettleAnswer, Settlement,
    SharedEngine, SharedRecord, SlotAnswer, SlotRequest,
};

use super::pace_conformance::paces_conform;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(100);

pub type Node = Arc<dyn SharedEngine>;

/// Checks everything, with nodes that `join` makes by their names.
pub async fn conforms(join: impl AsyncFn(&str) -> Node) {
    let nodes = [join("a").await, join("b").await, join("c").await];
    one_of_many_fetches(&nodes).await;
    an_ended_lease_invalidates_its_token(&nodes).await;
    a_record_is_used_while_it_is_new_enough(&nodes).await;
    a_record_fetched_alone_is_kept_if_it_is_newer(&nodes).await;
    a_version_is_used_once(&nodes).await;
    a_record_expires_after_its_retention(&nodes).await;
    changes_reach_the_others(&nodes).await;
    slots_are_a_delay_apart_and_in_order(&nodes).await;
    requests_that_cannot_wait_get_the_time_to_wait(&nodes).await;
    a_refused_request_keeps_the_turn_of_its_node(&nodes).await;
    a_slot_that_is_not_renewed_ends(&nodes).await;
    a_renewed_slot_is_held(&nodes).await;
    no_more_slots_than_allowed_are_held(&nodes).await;
    a_request_that_leaves_delays_no_other(&nodes).await;
    a_request_that_is_not_repeated_delays_no_other(&nodes).await;
    the_longer_of_two_delays_counts(&nodes).await;
    a_slot_that_is_not_held_ends_at_once(&nodes).await;
    an_end_is_remembered_only_if_asked_for(&nodes).await;
    requests_ahead_count_from_now(&nodes).await;
    a_waiting_request_keeps_its_own_place(&nodes).await;
    no_slot_is_granted_during_a_rest(&nodes).await;
    an_origin_rests_for_all(&nodes).await;
    refusals_in_a_row_lengthen_a_rest(&nodes).await;
    nodes_see_each_other(&nodes).await;
    a_budget_is_one_for_all(&nodes).await;
    a_report_counts_once(&nodes).await;
    each_request_is_counted_by_its_own_question(&nodes).await;
    a_head_is_replaced_by_who_knows_it(&nodes).await;
    paces_conform(&nodes).await;
}

async fn a_head_is_replaced_by_who_knows_it([a, b, _]: &[Node; 3]) {
    let replace = async |node: &Node, expected: &[u8], head: &[u8]| {
        node.replace_head("log", expected, head, HOUR).await.expect("the engine responds")
    };
    assert_eq!(replace(a, b"", b"one\xff").await, None);
    assert_eq!(replace(b, b"", b"two").await, Some(b"one\xff".to_vec()));
    assert_eq!(replace(b, b"one\xff", b"two").await, None);
    let heads = || async { a.heads().await.expect("the engine responds") };
    assert_eq!(heads().await, [("log".to_owned(), b"two".to_vec())]);
    assert_eq!(replace(a, b"two", b"").await, None);
    assert_eq!(heads().await, []);
    assert_eq!(replace(a, b"two", b"three").await, Some(Vec::new()));
}

/// Returns a report of a meter that has counted some requests and asks for another one to an origin, with three limits.
fn asking(meter: &str, requests: u64, origin: u64, limits: [u64; 3]) -> BudgetReport {
    let [requests_limit, bytes, new_origins] = limits;
    let limits = DailyBudget { requests: requests_limit, bytes, new_origins };
    BudgetReport {
        crawler: format!("{limits:?}"),
        day: 20_000,
        meter: meter.to_owned(),
        requests,
        bytes: 0,
        origins: Vec::new(),
        request: Some(BudgetRequest { origin, limits, is_covered: false }),
    }
}

async fn spend(node: &Node, report: &BudgetReport) -> BudgetAnswer {
    node.spend(report).await.expect("the engine responds")
}

async fn a_budget_is_one_for_all([a, b, _]: &[Node; 3]) {
    let limits = [3, 0, 0];
    assert_eq!(spend(a, &asking("a", 0, 1, limits)).await.spent, None);
    assert_eq!(spend(b, &asking("b", 0, 1, limits)).await.spent, None);
    let third = spend(a, &asking("a", 1, 2, limits)).await;
    assert_eq!((third.spent, third.requests, third.own_requests), (None, 3, 2));
    let fourth = spend(b, &asking("b", 1, 2, limits)).await;
    assert_eq!((fourth.spent, fourth.requests), (Some(BudgetKind::Requests), 3));
    assert_eq!(fourth.own_requests, 1);
    let tomorrow = BudgetReport { day: 20_001, ..asking("b", 0, 1, limits) };
    assert_eq!(spend(b, &tomorrow).await.spent, None);
    let limits = [0, 100, 0];
    let received = BudgetReport { bytes: 100, request: None, ..asking("a", 0, 0, limits) };
    assert_eq!(spend(a, &received).await.bytes, 100);
    let refused = spend(b, &asking("b", 0, 1, limits)).await;
    assert_eq!((refused.spent, refused.requests), (Some(BudgetKind::Bytes), 0));
    let limits = [0, 0, 2];
    assert_eq!(spend(a, &asking("a", 0, 1, limits)).await.spent, None);
    assert_eq!(spend(b, &asking("b", 0, u64::MAX, limits)).await.spent, None);
    let refused = spend(a, &asking("a", 1, 3, limits)).await;
    assert_eq!((refused.spent, refused.origins), (Some(BudgetKind::NewOrigins), 2));
    assert_eq!(spend(a, &asking("a", 1, u64::MAX, limits)).await.spent, None, "b's origin");
    // What a node counted while it was alone counts, however much that is.
    let alone = BudgetReport { origins: vec![4, 5], ..asking("a", 2, 5, limits) };
    let told = spend(a, &alone).await;
    assert_eq!((told.spent, told.origins), (None, 4));
}

async fn a_report_counts_once([a, b, _]: &[Node; 3]) {
    let limits = [5, 1000, 0];
    let asked = BudgetReport { bytes: 10, ..asking("a", 1, 1, limits) };
    assert_eq!(spend(a, &asked).await.requests, 2);
    let report = BudgetReport { request: None, ..asked };
    for _ in 0..3 {
        let answer = spend(a, &report).await;
        assert_eq!((answer.spent, answer.requests, answer.bytes), (None, 2, 10));
    }
    let earlier = BudgetReport { bytes: 5, request: None, ..asking("a", 0, 1, limits) };
    let answer = spend(a, &earlier).await;
    assert_eq!((answer.requests, answer.own_requests, answer.own_bytes), (2, 2, 10));
    let other = spend(b, &asking("b", 2, 1, limits)).await;
    assert_eq!((other.spent, other.requests, other.own_requests), (None, 5, 3));
}

/// Requests in question are counted one by one, and one that was never sent gives its place to another.
async fn each_request_is_counted_by_its_own_question([a, b, _]: &[Node; 3]) {
    let limits = [4, 0, 7];
    // Neither knows the other's answer yet.
    for own_requests in [1, 2] {
        let answer = spend(a, &asking("a", 0, 1, limits)).await;
        assert_eq!((answer.spent, answer.own_requests), (None, own_requests));
    }
    let mut covered = asking("a", 1, 1, limits);
    covered.request.as_mut().expect("it asks").is_covered = true;
    let answer = spend(a, &covered).await;
    assert_eq!((answer.spent, answer.requests, answer.own_requests), (None, 2, 2));
    // What was counted without asking counts, even in the report of a request that is refused.
    let refused = spend(b, &asking("b", 2, 1, limits)).await;
    assert_eq!((refused.spent, refused.own_requests), (Some(BudgetKind::Requests), 2));
    assert_eq!(spend(a, &covered).await.spent, None, "it needs no room");
    let answer = spend(b, &asking("b", 3, 1, limits)).await;
    assert_eq!((answer.spent, answer.requests), (Some(BudgetKind::Requests), 5));
    assert_eq!(spend(a, &covered).await.spent, Some(BudgetKind::Requests), "it is over the limit");
}

fn claim(origin: &str) -> FetchClaim {
    FetchClaim { origin: origin.to_owned(), max_age: None, lease: 10 * SECOND, rejected_version: 0 }
}

fn settlement(origin: &str, token: u64, text: &str) -> Settlement {
    Settlement {
        origin: origin.to_owned(),
        token,
        change: RecordChange::Changed,
        record: SharedRecord { bytes: text.as_bytes().to_vec(), age: Duration::ZERO, version: 0 },
        fresh_for: HOUR,
        retention: HOUR,
    }
}

#[track_caller]
fn token(claimed: ClaimAnswer) -> u64 {
    match claimed {
        ClaimAnswer::Fetch { token, .. } => token,
        other => panic!("not to be fetched: {other:?}"),
    }
}

#[track_caller]
fn known(claimed: ClaimAnswer) -> SharedRecord {
    match claimed {
        ClaimAnswer::Known(record) => record,
        other => panic!("nothing known: {other:?}"),
    }
}

async fn claimed(node: &Node, claim: &FetchClaim) -> ClaimAnswer {
    node.claim(claim).await.expect("the engine responds")
}

async fn settle(node: &Node, settlement: &Settlement) -> SettleAnswer {
    node.settle(settlement).await.expect("the engine responds")
}

async fn one_of_many_fetches([a, b, c]: &[Node; 3]) {
    let claim = claim("https://one.test");
    let lease = token(claimed(a, &claim).await);
    for other in [b, c, b] {
        let answer = claimed(other, &claim).await;
        assert!(
            matches!(answer, ClaimAnswer::Wait(left) if left <= claim.lease && left > SECOND),
            "{answer:?}"
        );
    }
    assert!(token(claimed(a, &claim).await) >= lease, "claimed again");
    let settlement = settlement("https://one.test", lease + SECOND.as_micros() as u64, "rules");
    assert_eq!(settle(a, &settlement).await, SettleAnswer::Kept);
    for node in [a, b, c] {
        let record = known(claimed(node, &claim).await);
        assert_eq!(record.bytes, b"rules");
        assert!(record.age < 60 * SECOND, "{:?}", record.age);
        let record = node.record("https://one.test").await.expect("the engine responds");
        assert_eq!(record.expect("it is kept").bytes, b"rules");
    }
    assert_eq!(b.record("https://none.test").await, Ok(None));
}

async fn an_ended_lease_invalidates_its_token([a, b, _]: &[Node; 3]) {
    let origin = "https://lapse.test";
    let short = FetchClaim { lease: SHORT, ..claim(origin) };
    let first = token(claimed(a, &short).await);
    let second = loop {
        match claimed(b, &short).await {
            ClaimAnswer::Wait(left) => sleep(left.max(Duration::from_millis(1))).await,
            other => break token(other),
        }
    };
    assert!(second > first, "{second} after {first}");
    assert_eq!(settle(b, &settlement(origin, second, "newer")).await, SettleAnswer::Kept);
    assert_eq!(settle(a, &settlement(origin, first, "older")).await, SettleAnswer::Outdated);
    assert_eq!(known(claimed(a, &short).await).bytes, b"newer");
}

async fn a_record_is_used_while_it_is_new_enough([a, b, _]: &[Node; 3]) {
    let origin = "https://new.test";
    let lease = token(claimed(a, &claim(origin)).await);
    let old = Settlement {
        record: SharedRecord { bytes: b"old".to_vec(), age: 60 * SECOND, version: 0 },
        ..settlement(origin, lease, "")
    };
    assert_eq!(settle(a, &old).await, SettleAnswer::Kept);
    let than = |age| FetchClaim { max_age: Some(age), ..claim(origin) };
    let record = known(claimed(b, &than(HOUR)).await);
    assert!(record.age >= 60 * SECOND && record.age < HOUR, "{record:?}");
    let answer = claimed(b, &than(30 * SECOND)).await;
    let ClaimAnswer::Fetch { older, token } = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(older.expect("what is known comes along").bytes, b"old");
    let stale = Settlement { fresh_for: Duration::ZERO, ..settlement(origin, token, "stale") };
    assert_eq!(settle(b, &stale).await, SettleAnswer::Kept);
    let answer = claimed(a, &claim(origin)).await;
    assert!(
        matches!(&answer, ClaimAnswer::Fetch { older: Some(older), .. } if older.bytes == b"stale"),
        "{answer:?}"
    );
}

async fn a_record_fetched_alone_is_kept_if_it_is_newer([a, b, _]: &[Node; 3]) {
    let origin = "https://alone.test";
    let aged = |seconds: u32, text| Settlement {
        record: SharedRecord { age: seconds * SECOND, ..settlement("", 0, text).record },
        ..settlement(origin, 0, text)
    };
    assert_eq!(settle(a, &aged(60, "first")).await, SettleAnswer::Kept);
    assert_eq!(settle(b, &aged(120, "older")).await, SettleAnswer::Outdated);
    assert_eq!(settle(b, &aged(30, "newer")).await, SettleAnswer::Kept);
    assert_eq!(known(claimed(a, &claim(origin)).await).bytes, b"newer");
}

async fn a_version_is_used_once([a, b, _]: &[Node; 3]) {
    let origin = "https://version.test";
    let versioned = |version, seconds: u32| Settlement {
        record: SharedRecord { bytes: b"rules".to_vec(), age: seconds * SECOND, version },
        ..settlement(origin, 0, "")
    };
    assert_eq!(settle(a, &versioned(7, 60)).await, SettleAnswer::Kept);
    for version in [6, 7] {
        assert_eq!(settle(b, &versioned(version, 30)).await, SettleAnswer::VersionTooLow(7));
    }
    assert_eq!(settle(b, &versioned(8, 30)).await, SettleAnswer::Kept);
    assert_eq!(known(claimed(a, &claim(origin)).await).version, 8);
}

async fn a_record_expires_after_its_retention([a, b, _]: &[Node; 3]) {
    let origin = "https://short.test";
    let short = Settlement { retention: SHORT, ..settlement(origin, 0, "gone soon") };
    assert_eq!(settle(a, &short).await, SettleAnswer::Kept);
    let started = Instant::now();
    while b.record(origin).await.expect("the engine responds").is_some() {
        assert!(started.elapsed() < 60 * SECOND, "it is still there");
        sleep(SHORT).await;
    }
    assert!(matches!(claimed(b, &claim(origin)).await, ClaimAnswer::Fetch { older: None, .. }));
}

async fn changes_reach_the_others([a, b, _]: &[Node; 3]) {
    let origin = "https://change.test";
    let start = |node: &Node| {
        let node = Arc::clone(node);
        async move {
            let begun = node.changes(&LogPositions::new()).await.expect("the engine responds");
            assert_eq!((begun.notes.len(), begun.gaps.len()), (0, 0));
            begun.positions
        }
    };
    let (mut of_a, mut of_b) = (start(a).await, start(b).await);
    assert_eq!(settle(a, &settlement(origin, 0, "one")).await, SettleAnswer::Kept);
    let same =
        Settlement { change: RecordChange::Same, ..settlement(origin, u64::MAX >> 12, "one") };
    assert_eq!(settle(a, &same).await, SettleAnswer::Kept);
    let forgotten = Settlement { change: RecordChange::Forgotten, ..same };
    assert_eq!(settle(a, &forgotten).await, SettleAnswer::Kept);
    assert_eq!(a.record(origin).await, Ok(None));
    let note = |kind| ChangeNote { origin: origin.to_owned(), kind };
    let changes = b.changes(&of_b).await.expect("the engine responds");
    assert_eq!(changes.notes, [note(NoteKind::Changed), note(NoteKind::Forgotten)]);
    assert_eq!(changes.gaps, Vec::<usize>::new());
    of_b = changes.positions;
    let nothing = b.changes(&of_b).await.expect("the engine responds");
    assert_eq!((nothing.notes.len(), nothing.positions == of_b), (0, true));
    let own = a.changes(&of_a).await.expect("the engine responds");
    assert_eq!(own.notes, [], "no node is notified of its own changes");
    of_a = own.positions;
    assert_eq!(of_a, of_b);
}

fn slot_request(origin: &str, number: u64, delay: Duration) -> SlotRequest {
    SlotRequest {
        queue: QueueId { origin: origin.to_owned(), name: "pace".to_owned() },
        number,
        max_concurrent: 1,
        delay,
        remembered_for: Duration::ZERO,
        lease: 10 * SECOND,
        timeout: 60 * SECOND,
        obeys_rest: false,
        keeps_turn: false,
        is_held: false,
    }
}

fn begun(slot: &SlotRequest) -> SlotRequest {
    SlotRequest { is_held: true, ..slot.clone() }
}

/// Requests a slot until it is granted. Returns when that request was sent.
async fn wait_for_slot(node: &Node, slot: &SlotRequest) -> Instant {
    loop {
        let asked_at = Instant::now();
        match node.take_slot(slot).await.expect("the engine responds") {
            SlotAnswer::Granted => return asked_at,
            SlotAnswer::Queued(again) => sleep(again).await,
            refused => panic!("{slot:?} would wait: {refused:?}"),
        }
    }
}

/// Fails unless `least` has passed since `sent_at`, when the request was sent from which the engine counts. Its response may
/// have taken any time.
#[track_caller]
fn assert_waited(sent_at: Instant, least: Duration) {
    let waited = sent_at.elapsed();
    assert!(waited >= least, "{waited:?} instead of {least:?}");
}

async fn slots_are_a_delay_apart_and_in_order([a, b, c]: &[Node; 3]) {
    let slot = slot_request("https://pace.test", 1, SHORT);
    wait_for_slot(a, &slot).await;
    for later in [b, c, a] {
        let number = if Arc::ptr_eq(later, a) { 2 } else { 1 };
        let slot = SlotRequest { number, ..slot.clone() };
        let answer = later.take_slot(&slot).await.expect("the engine responds");
        assert!(matches!(answer, SlotAnswer::Queued(_)), "{answer:?}");
    }
    let mut holder = (a, begun(&slot));
    for (next, number) in [(b, 1), (c, 1), (a, 2)] {
        let left_at = Instant::now();
        let (node, slot) = holder;
        node.release_slot(&slot).await.expect("the engine responds");
        let slot = SlotRequest { number, is_held: false, ..slot };
        let (last, last_slot) = (a, SlotRequest { number: 2, ..slot.clone() });
        // The last in the queue requests first, and must wait all the same.
        if number == 1 {
            let answer = last.take_slot(&last_slot).await.expect("the engine responds");
            assert!(matches!(answer, SlotAnswer::Queued(_)), "{answer:?}");
        }
        wait_for_slot(next, &slot).await;
        assert_waited(left_at, SHORT);
        holder = (next, begun(&slot));
    }
    let (node, slot) = holder;
    node.release_slot(&slot).await.expect("the engine responds");
    node.release_slot(&slot).await.expect("released twice counts once");
}

async fn requests_that_cannot_wait_get_the_time_to_wait([a, b, _]: &[Node; 3]) {
    let first = slot_request("https://reject.test", 1, 20 * SECOND);
    // An engine without data waits for a delay: there may have been a request before.
    let begin = SlotRequest { delay: SHORT, ..first.clone() };
    wait_for_slot(a, &begin).await;
    let no_wait = SlotRequest { timeout: Duration::ZERO, ..first.clone() };
    let answer = b.take_slot(&no_wait).await.expect("the engine responds");
    assert_eq!(answer, SlotAnswer::NotInTime(20 * SECOND), "at least the delay");
    a.release_slot(&begun(&first)).await.expect("the engine responds");
    let answer = b.take_slot(&no_wait).await.expect("the engine responds");
    assert!(
        matches!(answer, SlotAnswer::NotInTime(wait) if wait <= 20 * SECOND && wait > SECOND),
        "{answer:?}"
    );
    let short_wait = SlotRequest { timeout: SECOND, ..no_wait.clone() };
    let answer = b.take_slot(&short_wait).await.expect("the engine responds");
    assert!(matches!(answer, SlotAnswer::NotInTime(_)), "{answer:?}");
    let another = SlotRequest {
        queue: QueueId { name: "another".to_owned(), ..first.queue.clone() },
        delay: SHORT,
        ..first
    };
    wait_for_slot(b, &another).await;
}

async fn a_refused_request_keeps_the_turn_of_its_node([a, b, c]: &[Node; 3]) {
    let slot = slot_request("https://turns.test", 1, SHORT);
    wait_for_slot(a, &slot).await;
    let refused =
        SlotRequest { number: 2, timeout: Duration::ZERO, keeps_turn: true, ..slot.clone() };
    let is_granted = async |node: &Node, number| {
        let request = SlotRequest { number, ..refused.clone() };
        node.take_slot(&request).await.expect("the engine responds") == SlotAnswer::Granted
    };
    for node in [b, c, b] {
        assert!(!is_granted(node, 2).await);
    }
    a.release_slot(&begun(&slot)).await.expect("the engine responds");
    sleep(2 * SHORT).await;
    assert!(!is_granted(a, 3).await, "the others come first");
    assert!(!is_granted(c, 3).await, "it is the turn of b");
    assert!(is_granted(b, 3).await, "whatever the number of its request");
    let held = SlotRequest { number: 3, ..begun(&refused) };
    b.release_slot(&held).await.expect("the engine responds");
    sleep(2 * SHORT).await;
    assert!(!is_granted(b, 4).await);
    assert!(is_granted(c, 4).await);
    let held = SlotRequest { number: 4, ..begun(&refused) };
    c.release_slot(&held).await.expect("the engine responds");
    // Neither of the others comes back.
    let waiting = SlotRequest { number: 5, ..slot };
    let granted = timeout(60 * SECOND, wait_for_slot(c, &waiting)).await;
    assert!(granted.is_ok(), "c still waits");
}

async fn a_slot_that_is_not_renewed_ends([a, b, _]: &[Node; 3]) {
    let short = SlotRequest { lease: 2 * SHORT, ..slot_request("https://term.test", 1, SHORT) };
    let asked_at = wait_for_slot(a, &short).await;
    wait_for_slot(b, &short).await;
    assert_waited(asked_at, short.lease + short.delay);
}

async fn a_renewed_slot_is_held([a, b, _]: &[Node; 3]) {
    let long = slot_request("https://keep.test", 1, SHORT);
    let short = SlotRequest { lease: SECOND, ..long.clone() };
    wait_for_slot(a, &short).await;
    assert_eq!(a.take_slot(&begun(&long)).await, Ok(SlotAnswer::Granted));
    sleep(2 * SECOND).await;
    let answer = b.take_slot(&long).await.expect("the engine responds");
    assert!(matches!(answer, SlotAnswer::Queued(_)), "{answer:?}");
    b.release_slot(&long).await.expect("the engine responds");
    a.release_slot(&begun(&long)).await.expect("the engine responds");
}

async fn no_more_slots_than_allowed_are_held([a, b, c]: &[Node; 3]) {
    let two =
        SlotRequest { max_concurrent: 2, ..slot_request("https://two.test", 1, Duration::ZERO) };
    wait_for_slot(a, &two).await;
    wait_for_slot(b, &two).await;
    let third = c.take_slot(&two).await.expect("the engine responds");
    assert!(matches!(third, SlotAnswer::Queued(_)), "{third:?}");
    let fourth = SlotRequest { number: 2, ..two.clone() };
    let answer = a.take_slot(&fourth).await.expect("the engine responds");
    assert!(matches!(answer, SlotAnswer::Queued(_)), "{answer:?}");
    b.release_slot(&begun(&two)).await.expect("the engine responds");
    let answer = a.take_slot(&fourth).await.expect("the engine responds");
    assert!(matches!(answer, SlotAnswer::Queued(_)), "c came first: {answer:?}");
    assert_eq!(c.take_slot(&two).await, Ok(SlotAnswer::Granted));
    a.release_slot(&begun(&two)).await.expect("the engine responds");
    assert_eq!(a.take_slot(&fourth).await, Ok(SlotAnswer::Granted));
}

async fn a_request_that_leaves_delays_no_other([a, b, c]: &[Node; 3]) {
    let slot = slot_request("https://leave.test", 1, SHORT);
    wait_for_slot(a, &slot).await;
    for node in [b, c] {
        let answer = node.take_slot(&slot).await.expect("the engine responds");
        assert!(matches!(answer, SlotAnswer::Queued(_)), "{answer:?}");
    }
    a.release_slot(&begun(&slot)).await.expect("the engine responds");
    b.release_slot(&slot).await.expect("the engine responds");
    wait_for_slot(c, &slot).await;
}

async fn a_request_that_is_not_repeated_delays_no_other([a, b, c]: &[Node; 3]) {
    let slot = slot_request("https://silent.test", 1, SHORT);
    wait_for_slot(a, &slot).await;
    for node in [b, c] {
        let answer = node.take_slot(&slot).await.expect("the engine responds");
        assert!(matches!(answer, SlotAnswer::Queued(_)), "{answer:?}");
    }
    a.release_slot(&begun(&slot)).await.expect("the engine responds");
    // b was killed: it neither requests again nor leaves.
    let granted = timeout(60 * SECOND, wait_for_slot(c, &slot)).await;
    assert!(granted.is_ok(), "c still waits");
}

async fn the_longer_of_two_delays_counts([a, b, _]: &[Node; 3]) {
    let short = SlotRequest {
        remembered_for: 60 * SECOND,
        ..slot_request("https://longer.test", 1, Duration::from_millis(1))
    };
    let long = SlotRequest { delay: 10 * SHORT, number: 2, ..short.clone() };
    wait_for_slot(a, &short).await;
    // A request that only asks for a longer delay does not set it for others.
    let impatient = SlotRequest { timeout: Duration::ZERO, delay: 30 * SECOND, ..long.clone() };
    let answer = b.take_slot(&impatient).await.expect("the engine responds");
    assert!(matches!(answer, SlotAnswer::NotInTime(_)), "{answer:?}");
    let mut ended_at = Instant::now();
    a.release_slot(&begun(&short)).await.expect("the engine responds");
    for (node, slot) in [(b, &long), (a, &short)] {
        wait_for_slot(node, slot).await;
        assert_waited(ended_at, long.delay);
        assert!(ended_at.elapsed() < 20 * SECOND, "{:?}", ended_at.elapsed());
        ended_at = Instant::now();
        node.release_slot(&begun(slot)).await.expect("the engine responds");
    }
}

async fn a_slot_that_is_not_held_ends_at_once([a, b, c]: &[Node; 3]) {
    let passing = SlotRequest {
        lease: Duration::ZERO,
        remembered_for: 60 * SECOND,
        ..slot_request("https://passing.test", 1, Duration::ZERO)
    };
    for node in [a, b, a] {
        assert_eq!(node.take_slot(&passing).await, Ok(SlotAnswer::Granted));
    }
    let passed_at = Instant::now();
    assert_eq!(c.take_slot(&passing).await, Ok(SlotAnswer::Granted));
    let delayed = slot_request("https://passing.test", 2, 5 * SHORT);
    let answer = b.take_slot(&delayed).await.expect("the engine responds");
    assert!(matches!(answer, SlotAnswer::Queued(_)), "{answer:?}");
    wait_for_slot(b, &delayed).await;
    assert_waited(passed_at, delayed.delay);
    let no_wait = SlotRequest { timeout: Duration::ZERO, ..passing.clone() };
    let answer = a.take_slot(&no_wait).await.expect("the engine responds");
    assert!(matches!(answer, SlotAnswer::NotInTime(_)), "held by b: {answer:?}");
    let released_at = Instant::now();
    b.release_slot(&begun(&delayed)).await.expect("the engine responds");
    wait_for_slot(c, &passing).await;
    assert_waited(released_at, delayed.delay);
}

async fn an_end_is_remembered_only_if_asked_for([a, b, _]: &[Node; 3]) {
    let long = slot_request("https://forgotten.test", 1, SECOND);
    // An engine without data waits for a delay: there may have been a request before.
    wait_for_slot(a, &long).await;
    let short = SlotRequest { delay: SHORT, ..long.clone() };
    let release = async |slot: &SlotRequest| {
        a.release_slot(&begun(slot)).await.expect("the engine responds");
        sleep(2 * SHORT).await;
    };
    release(&short).await;
    let no_wait = SlotRequest { timeout: Duration::ZERO, ..long };
    assert_eq!(b.take_slot(&no_wait).await, Ok(SlotAnswer::Granted));
    b.release_slot(&begun(&short)).await.expect("the engine responds");
    // Nor is the end of one that expires.
    let expiring = SlotRequest { number: 2, lease: SHORT, ..short.clone() };
    wait_for_slot(a, &expiring).await;
    sleep(3 * SHORT).await;
    wait_for_slot(b, &short).await;
    b.release_slot(&begun(&short)).await.expect("the engine responds");
    sleep(2 * SHORT).await;
    let after = SlotRequest { number: 3, ..no_wait };
    assert_eq!(b.take_slot(&after).await, Ok(SlotAnswer::Granted));
}

async fn requests_ahead_count_from_now([a, b, c]: &[Node; 3]) {
    let first = slot_request("https://ahead.test", 1, SHORT);
    let two = SlotRequest { max_concurrent: 2, remembered_for: SECOND, ..first };
    let second = SlotRequest { number: 2, ..two.clone() };
    for slot in [&two, &second] {
        wait_for_slot(a, slot).await;
    }
    let no_wait = SlotRequest { timeout: Duration::ZERO, ..two };
    let refused = SlotRequest { keeps_turn: true, ..no_wait.clone() };
    let answer = c.take_slot(&refused).await.expect("the engine responds");
    assert!(matches!(answer, SlotAnswer::NotInTime(_)), "{answer:?}");
    a.release_slot(&begun(&second)).await.expect("the engine responds");
    // The next slot has been free for a while, but it is the turn of c.
    sleep(2 * SHORT).await;
    assert_eq!(b.take_slot(&no_wait).await, Ok(SlotAnswer::NotInTime(SHORT)));
}

async fn a_waiting_request_keeps_its_own_place([a, b, _]: &[Node; 3]) {
    let slot = slot_request("https://place.test", 1, SHORT);
    wait_for_slot(a, &slot).await;
    let refused =
        SlotRequest { number: 2, timeout: Duration::ZERO, keeps_turn: true, ..slot.clone() };
    let answer = b.take_slot(&refused).await.expect("the engine responds");
    assert!(matches!(answer, SlotAnswer::NotInTime(_)), "{answer:?}");
    let mut waiting = SlotRequest { number: 3, ..slot.clone() };
    let answer = b.take_slot(&waiting).await.expect("the engine responds");
    assert!(matches!(answer, SlotAnswer::Queued(_)), "{answer:?}");
    a.release_slot(&begun(&slot)).await.expect("the engine responds");
    sleep(2 * SHORT).await;
    // The turn that is kept for the node comes first.
    waiting.keeps_turn = true;
    let answer = b.take_slot(&waiting).await.expect("the engine responds");
    assert!(matches!(answer, SlotAnswer::Queued(_)), "{answer:?}");
    // Without a place of its own, a request takes that turn.
    let another = SlotRequest { number: 4, ..waiting };
    assert_eq!(b.take_slot(&another).await, Ok(SlotAnswer::Granted));
}

async fn no_slot_is_granted_during_a_rest([a, b, _]: &[Node; 3]) {
    let origin = "https://resting.test";
    let free = SlotRequest { lease: Duration::ZERO, ..slot_request(origin, 1, Duration::ZERO) };
    let obedient = SlotRequest { obeys_rest: true, timeout: Duration::ZERO, ..free.clone() };
    assert_eq!(b.take_slot(&obedient).await, Ok(SlotAnswer::Granted));
    a.answered(&answer(origin, 429, Some(120))).await.expect("the engine responds");
    let resting = b.take_slot(&obedient).await.expect("the engine responds");
    assert!(
        matches!(resting, SlotAnswer::Resting(left) if left <= 120 * SECOND && left > 60 * SECOND),
        "{resting:?}"
    );
    assert_eq!(b.take_slot(&free).await, Ok(SlotAnswer::Granted), "it obeys no rest");
}

fn answer(origin: &str, status: u16, retry_after: Option<u32>) -> PacingResponse {
    PacingResponse {
        origin: origin.to_owned(),
        status,
        retry_after: retry_after.map(|seconds| seconds * SECOND),
        max_rest: 300 * SECOND,
    }
}

async fn rest(node: &Node, origin: &str) -> Option<Duration> {
    let resting = node.resting(node.partition(origin)).await;
    let resting = resting.expect("the engine responds").into_iter();
    resting.filter(|(other, _)| other == origin).map(|(_, rest)| rest).next()
}

async fn an_origin_rests_for_all([a, b, _]: &[Node; 3]) {
    let origin = "https://rest.test";
    let begun = b.changes(&LogPositions::new()).await.expect("the engine responds");
    let rests = a.answered(&answer(origin, 503, Some(120))).await;
    assert_eq!(rests, Ok(Some(120 * SECOND)));
    let left = rest(b, origin).await.expect("it rests");
    assert!(left <= 120 * SECOND && left > 60 * SECOND, "{left:?}");
    let remains = b.answered(&answer(origin, 200, None)).await;
    let remains = remains.expect("the engine responds");
    assert!(remains.is_some_and(|left| left > 60 * SECOND), "{remains:?}");
    assert!(rest(a, origin).await.is_some());
    let long = a.answered(&answer(origin, 429, Some(86_400))).await;
    assert_eq!(long, Ok(Some(300 * SECOND)), "never longer than the maximum");
    let changes = b.changes(&begun.positions).await.expect("the engine responds");
    let kinds: Vec<_> = changes.notes.iter().map(|note| note.kind).collect();
    assert_eq!(kinds, [NoteKind::RestStarted, NoteKind::RestStarted], "of the other node only");
}

async fn refusals_in_a_row_lengthen_a_rest([a, b, _]: &[Node; 3]) {
    let origin = "https://refusals.test";
    let seconds = async |node: &Node, status| {
        let rest = node.answered(&answer(origin, status, None)).await;
        let rest = rest.expect("the engine responds").expect("it rests");
        rest.as_secs_f64().round() as u64
    };
    assert_eq!(seconds(a, 429).await, 1);
    assert_eq!(seconds(b, 429).await, 2);
    let good = answer(origin, 200, None);
    let begun = b.changes(&LogPositions::new()).await.expect("the engine responds");
    while let Some(left) = a.answered(&good).await.expect("the engine responds") {
        sleep(left.max(Duration::from_millis(1))).await;
    }
    assert_eq!(a.answered(&good).await, Ok(None));
    let changes = b.changes(&begun.positions).await.expect("the engine responds");
    let rested = ChangeNote { origin: origin.to_owned(), kind: NoteKind::RestEnded };
    assert_eq!(changes.notes, [rested], "once");
    assert_eq!(seconds(b, 503).await, 0, "a single one may concern only that page");
    assert_eq!(seconds(a, 503).await, 1);
}

async fn nodes_see_each_other([a, b, c]: &[Node; 3]) {
    for node in [a, b, c] {
        node.beat("0.1.0").await.expect("the engine responds");
    }
    let beat = b.beat("0.2.0").await.expect("the engine responds");
    let members = beat.members.iter();
    let members: Vec<_> =
        members.map(|member| (member.node.as_str(), member.version.as_str())).collect();
    assert_eq!(members, [("a", "0.1.0"), ("b", "0.2.0"), ("c", "0.1.0")]);
}
