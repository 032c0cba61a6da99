//! The behaviour of every engine: the operations of two or three nodes. Time passes on the engine's clock; a test waits for as
//! long as the engine told it to.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use wayleave::fleet::engine::{
    ChangeNote, ClaimAnswer, FetchClaim, LogPositions, NoteKind, PacingResponse, QueueId,
    RecordChange, SettleAnswer, Settlement, SharedEngine, SharedRecord, SlotAnswer, SlotRequest,
};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(100);

pub type Node = Arc<dyn SharedEngine>;

/// Everything, by the nodes that `join` makes by their names.
pub async fn conforms(join: impl AsyncFn(&str) -> Node) {
    let nodes = [join("a").await, join("b").await, join("c").await];
    one_of_many_fetches(&nodes).await;
    a_lease_ends_and_its_token_counts_no_more(&nodes).await;
    what_is_known_serves_while_it_is_new_enough(&nodes).await;
    what_was_learned_alone_is_kept_if_it_is_newer(&nodes).await;
    a_version_is_given_once(&nodes).await;
    what_is_kept_goes_after_its_time(&nodes).await;
    changes_reach_the_others(&nodes).await;
    turns_are_a_delay_apart_and_in_order(&nodes).await;
    requests_that_cannot_wait_get_the_time_to_wait(&nodes).await;
    a_turn_that_nobody_keeps_ends(&nodes).await;
    a_turn_goes_on_while_it_is_kept(&nodes).await;
    so_many_at_a_time(&nodes).await;
    who_leaves_the_queue_holds_up_nobody(&nodes).await;
    who_asks_no_more_holds_up_nobody(&nodes).await;
    an_origin_rests_for_all(&nodes).await;
    refusals_in_a_row_lengthen_a_rest(&nodes).await;
    nodes_see_each_other(&nodes).await;
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
        other => panic!("not told to fetch: {other:?}"),
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
    node.claim(claim).await.expect("the engine answers")
}

async fn settle(node: &Node, settlement: &Settlement) -> SettleAnswer {
    node.settle(settlement).await.expect("the engine answers")
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
    assert!(token(claimed(a, &claim).await) >= lease, "asked again");
    let settlement = settlement("https://one.test", lease + SECOND.as_micros() as u64, "rules");
    assert_eq!(settle(a, &settlement).await, SettleAnswer::Kept);
    for node in [a, b, c] {
        let record = known(claimed(node, &claim).await);
        assert_eq!(record.bytes, b"rules");
        assert!(record.age < 60 * SECOND, "{:?}", record.age);
        let record = node.record("https://one.test").await.expect("an answer");
        assert_eq!(record.expect("it is kept").bytes, b"rules");
    }
    assert_eq!(b.record("https://none.test").await, Ok(None));
}

async fn a_lease_ends_and_its_token_counts_no_more([a, b, _]: &[Node; 3]) {
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

async fn what_is_known_serves_while_it_is_new_enough([a, b, _]: &[Node; 3]) {
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

async fn what_was_learned_alone_is_kept_if_it_is_newer([a, b, _]: &[Node; 3]) {
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

async fn a_version_is_given_once([a, b, _]: &[Node; 3]) {
    let origin = "https://version.test";
    let told = |version, seconds: u32| Settlement {
        record: SharedRecord { bytes: b"rules".to_vec(), age: seconds * SECOND, version },
        ..settlement(origin, 0, "")
    };
    assert_eq!(settle(a, &told(7, 60)).await, SettleAnswer::Kept);
    for version in [6, 7] {
        assert_eq!(settle(b, &told(version, 30)).await, SettleAnswer::VersionTooLow(7));
    }
    assert_eq!(settle(b, &told(8, 30)).await, SettleAnswer::Kept);
    assert_eq!(known(claimed(a, &claim(origin)).await).version, 8);
}

async fn what_is_kept_goes_after_its_time([a, b, _]: &[Node; 3]) {
    let origin = "https://short.test";
    let short = Settlement { retention: SHORT, ..settlement(origin, 0, "gone soon") };
    assert_eq!(settle(a, &short).await, SettleAnswer::Kept);
    let started = Instant::now();
    while b.record(origin).await.expect("an answer").is_some() {
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
            let begun = node.changes(&LogPositions::new()).await.expect("an answer");
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
    let note = |what| ChangeNote { origin: origin.to_owned(), kind: what };
    let heard = b.changes(&of_b).await.expect("an answer");
    assert_eq!(heard.notes, [note(NoteKind::Changed), note(NoteKind::Forgotten)]);
    assert_eq!(heard.gaps, Vec::<usize>::new());
    of_b = heard.positions;
    let nothing = b.changes(&of_b).await.expect("an answer");
    assert_eq!((nothing.notes.len(), nothing.positions == of_b), (0, true));
    let own = a.changes(&of_a).await.expect("an answer");
    assert_eq!(own.notes, [], "nobody hears of itself");
    of_a = own.positions;
    assert_eq!(of_a, of_b);
}

fn turn(origin: &str, number: u64, delay: Duration) -> SlotRequest {
    SlotRequest {
        queue: QueueId { origin: origin.to_owned(), name: "pace".to_owned() },
        number,
        max_concurrent: 1,
        delay,
        lease: 10 * SECOND,
        timeout: 60 * SECOND,
        is_held: false,
    }
}

fn begun(turn: &SlotRequest) -> SlotRequest {
    SlotRequest { is_held: true, ..turn.clone() }
}

/// Asks until its turn has come.
async fn go(node: &Node, turn: &SlotRequest) {
    loop {
        match node.take(turn).await.expect("the engine answers") {
            SlotAnswer::Granted => return,
            SlotAnswer::Queued(again) => sleep(again).await,
            SlotAnswer::NotInTime(wait) => panic!("{turn:?} would wait for {wait:?}"),
        }
    }
}

async fn turns_are_a_delay_apart_and_in_order([a, b, c]: &[Node; 3]) {
    let turn = turn("https://pace.test", 1, SHORT);
    go(a, &turn).await;
    for later in [b, c, a] {
        let number = if Arc::ptr_eq(later, a) { 2 } else { 1 };
        let turn = SlotRequest { number, ..turn.clone() };
        let answer = later.take(&turn).await.expect("an answer");
        assert!(matches!(answer, SlotAnswer::Queued(_)), "{answer:?}");
    }
    let mut under_way = (a, begun(&turn));
    for (next, number) in [(b, 1), (c, 1), (a, 2)] {
        let left_at = Instant::now();
        let (node, turn) = under_way;
        node.leave(&turn).await.expect("an answer");
        let turn = SlotRequest { number, is_held: false, ..turn };
        let (last, last_turn) = (a, SlotRequest { number: 2, ..turn.clone() });
        // The node that came last asks first, and must wait all the same.
        if number == 1 {
            let answer = last.take(&last_turn).await.expect("an answer");
            assert!(matches!(answer, SlotAnswer::Queued(_)), "{answer:?}");
        }
        go(next, &turn).await;
        assert!(left_at.elapsed() >= SHORT, "{:?}", left_at.elapsed());
        under_way = (next, begun(&turn));
    }
    let (node, turn) = under_way;
    node.leave(&turn).await.expect("an answer");
    node.leave(&turn).await.expect("said twice counts once");
}

async fn requests_that_cannot_wait_get_the_time_to_wait([a, b, _]: &[Node; 3]) {
    let first = turn("https://reject.test", 1, 20 * SECOND);
    // An engine that has just begun waits for a delay: nobody knows what was before.
    let begin = SlotRequest { delay: SHORT, ..first.clone() };
    go(a, &begin).await;
    let hurried = SlotRequest { timeout: Duration::ZERO, ..first.clone() };
    let answer = b.take(&hurried).await.expect("an answer");
    assert_eq!(answer, SlotAnswer::NotInTime(20 * SECOND), "at least the delay");
    a.leave(&begun(&first)).await.expect("an answer");
    let answer = b.take(&hurried).await.expect("an answer");
    assert!(
        matches!(answer, SlotAnswer::NotInTime(wait) if wait <= 20 * SECOND && wait > SECOND),
        "{answer:?}"
    );
    let patient = SlotRequest { timeout: SECOND, ..hurried.clone() };
    let answer = b.take(&patient).await.expect("an answer");
    assert!(matches!(answer, SlotAnswer::NotInTime(_)), "{answer:?}");
    let another = SlotRequest {
        queue: QueueId { name: "another".to_owned(), ..first.queue.clone() },
        delay: SHORT,
        ..first
    };
    go(b, &another).await;
}

async fn a_turn_that_nobody_keeps_ends([a, b, _]: &[Node; 3]) {
    let short = SlotRequest { lease: 2 * SHORT, ..turn("https://term.test", 1, SHORT) };
    go(a, &short).await;
    let taken_at = Instant::now();
    go(b, &short).await;
    // Its term, counted from before it was told to go, and the delay.
    assert!(taken_at.elapsed() + SHORT >= 3 * SHORT, "{:?}", taken_at.elapsed());
}

async fn a_turn_goes_on_while_it_is_kept([a, b, _]: &[Node; 3]) {
    let long = turn("https://keep.test", 1, SHORT);
    let short = SlotRequest { lease: SHORT, ..long.clone() };
    go(a, &short).await;
    assert_eq!(a.take(&begun(&long)).await, Ok(SlotAnswer::Granted));
    sleep(2 * SHORT).await;
    let answer = b.take(&long).await.expect("an answer");
    assert!(matches!(answer, SlotAnswer::Queued(_)), "{answer:?}");
    b.leave(&long).await.expect("an answer");
    a.leave(&begun(&long)).await.expect("an answer");
}

async fn so_many_at_a_time([a, b, c]: &[Node; 3]) {
    let two = SlotRequest { max_concurrent: 2, ..turn("https://two.test", 1, Duration::ZERO) };
    go(a, &two).await;
    go(b, &two).await;
    let third = c.take(&two).await.expect("an answer");
    assert!(matches!(third, SlotAnswer::Queued(_)), "{third:?}");
    let fourth = SlotRequest { number: 2, ..two.clone() };
    let answer = a.take(&fourth).await.expect("an answer");
    assert!(matches!(answer, SlotAnswer::Queued(_)), "{answer:?}");
    b.leave(&begun(&two)).await.expect("an answer");
    let answer = a.take(&fourth).await.expect("an answer");
    assert!(matches!(answer, SlotAnswer::Queued(_)), "c came first: {answer:?}");
    assert_eq!(c.take(&two).await, Ok(SlotAnswer::Granted));
    a.leave(&begun(&two)).await.expect("an answer");
    assert_eq!(a.take(&fourth).await, Ok(SlotAnswer::Granted));
}

async fn who_leaves_the_queue_holds_up_nobody([a, b, c]: &[Node; 3]) {
    let turn = turn("https://leave.test", 1, SHORT);
    go(a, &turn).await;
    for node in [b, c] {
        let answer = node.take(&turn).await.expect("an answer");
        assert!(matches!(answer, SlotAnswer::Queued(_)), "{answer:?}");
    }
    a.leave(&begun(&turn)).await.expect("an answer");
    b.leave(&turn).await.expect("an answer");
    go(c, &turn).await;
}

async fn who_asks_no_more_holds_up_nobody([a, b, c]: &[Node; 3]) {
    let turn = turn("https://silent.test", 1, SHORT);
    go(a, &turn).await;
    for node in [b, c] {
        let answer = node.take(&turn).await.expect("an answer");
        assert!(matches!(answer, SlotAnswer::Queued(_)), "{answer:?}");
    }
    a.leave(&begun(&turn)).await.expect("an answer");
    // Its node was killed, and says nothing any more.
    let gone = timeout(60 * SECOND, go(c, &turn)).await;
    assert_eq!(gone, Ok(()), "it still waits");
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
    let resting = resting.expect("the engine answers").into_iter();
    resting.filter(|(other, _)| other == origin).map(|(_, rest)| rest).next()
}

async fn an_origin_rests_for_all([a, b, _]: &[Node; 3]) {
    let origin = "https://rest.test";
    let begun = b.changes(&LogPositions::new()).await.expect("an answer");
    let rests = a.answered(&answer(origin, 503, Some(120))).await;
    assert_eq!(rests, Ok(Some(120 * SECOND)));
    let left = rest(b, origin).await.expect("it rests");
    assert!(left <= 120 * SECOND && left > 60 * SECOND, "{left:?}");
    let goes_on = b.answered(&answer(origin, 200, None)).await;
    let goes_on = goes_on.expect("the engine answers");
    assert!(goes_on.is_some_and(|left| left > 60 * SECOND), "{goes_on:?}");
    assert!(rest(a, origin).await.is_some());
    let long = a.answered(&answer(origin, 429, Some(86_400))).await;
    assert_eq!(long, Ok(Some(300 * SECOND)), "never longer than may be");
    let heard = b.changes(&begun.positions).await.expect("an answer");
    let heard: Vec<_> = heard.notes.iter().map(|note| note.kind).collect();
    assert_eq!(heard, [NoteKind::RestStarted, NoteKind::RestStarted], "its own it knows");
}

async fn refusals_in_a_row_lengthen_a_rest([a, b, _]: &[Node; 3]) {
    let origin = "https://refusals.test";
    let seconds = async |node: &Node, status| {
        let rest = node.answered(&answer(origin, status, None)).await;
        let rest = rest.expect("the engine answers").expect("it rests");
        rest.as_secs_f64().round() as u64
    };
    assert_eq!(seconds(a, 429).await, 1);
    assert_eq!(seconds(b, 429).await, 2);
    let good = answer(origin, 200, None);
    let begun = b.changes(&LogPositions::new()).await.expect("an answer");
    while let Some(left) = a.answered(&good).await.expect("the engine answers") {
        sleep(left.max(Duration::from_millis(1))).await;
    }
    assert_eq!(a.answered(&good).await, Ok(None));
    let heard = b.changes(&begun.positions).await.expect("an answer");
    let rested = ChangeNote { origin: origin.to_owned(), kind: NoteKind::RestEnded };
    assert_eq!(heard.notes, [rested], "once");
    assert_eq!(seconds(b, 503).await, 0, "one alone may be a page's");
    assert_eq!(seconds(a, 503).await, 1);
}

async fn nodes_see_each_other([a, b, c]: &[Node; 3]) {
    for node in [a, b, c] {
        node.beat("0.1.0").await.expect("the engine answers");
    }
    let beat = b.beat("0.2.0").await.expect("the engine answers");
    let members = beat.members.iter();
    let members: Vec<_> =
        members.map(|member| (member.node.as_str(), member.version.as_str())).collect();
    assert_eq!(members, [("a", "0.1.0"), ("b", "0.2.0"), ("c", "0.1.0")]);
}
