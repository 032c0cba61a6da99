use std::collections::BTreeMap;
use std::time::Duration;

use wayleave_fleet::pace_turn::{PaceBook, PaceTurnAnswer};

use super::*;

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// A time, or the cause to slow down that is known after it.
type Answer = (Duration, Option<SlowDownCause>);

/// Sends requests as fast as the pace permits, a hundred at a time, each answered as `answer` says. Returns the numbers of
/// requests and of refusals.
fn crawl(
    pace: &mut AdaptivePace,
    now: &mut Duration,
    span: Duration,
    mut answer: impl FnMut(Duration) -> Answer,
) -> (u32, u32) {
    let end = *now + span;
    let mut sent = 0;
    let mut refused = 0;
    let mut pending = BTreeMap::new();
    while *now < end {
        let next_at = pace.next_at().max(*now);
        let is_due = |at: Duration| at <= next_at || pending.len() >= 100;
        if let Some((&(at, _), _)) = pending.first_key_value()
            && is_due(at)
        {
            let Some((_, (sent_at, cause))) = pending.pop_first() else { break };
            *now = at.max(*now);
            match cause {
                None => drop(pace.record_answer(*now, sent_at, Some(*now - sent_at))),
                Some(cause) => {
                    refused += 1;
                    pace.record_refusal(*now, sent_at, cause);
                }
            }
            continue;
        }
        *now = next_at;
        pace.record_sent(*now);
        sent += 1;
        let (took, cause) = answer(*now);
        pending.insert((*now + took, sent), (*now, cause));
    }
    (sent, refused)
}

fn after(seconds: f64) -> impl FnMut(Duration) -> Answer {
    move |_| (Duration::from_secs_f64(seconds), None)
}

/// Returns a server that refuses what comes faster than `rate`.
fn limited(rate: f64) -> impl FnMut(Duration) -> Answer {
    let mut tokens = 5.0;
    let mut at = Duration::ZERO;
    move |now| {
        tokens = f64::min(tokens + now.saturating_sub(at).as_secs_f64() * rate, 5.0);
        at = now;
        if tokens < 1.0 {
            return (seconds(0.01), Some(SlowDownCause::TooManyRequests));
        }
        tokens -= 1.0;
        (seconds(0.01), None)
    }
}

#[test]
fn a_limit_is_found_and_nearly_used() {
    for rate in [0.5, 2.0, 30.0, 300.0] {
        let mut pace = AdaptivePace::default();
        let mut now = Duration::ZERO;
        let mut server = limited(rate);
        let warm_up = seconds(60.0 + 60.0 / rate);
        crawl(&mut pace, &mut now, warm_up, &mut server);
        let span = seconds(600.0 + 600.0 / rate);
        let (sent, refused) = crawl(&mut pace, &mut now, span, &mut server);
        let used = f64::from(sent - refused) / span.as_secs_f64() / rate;
        assert!((0.9..=1.01).contains(&used), "{used} of {rate}");
        assert!(f64::from(refused) < 0.02 * f64::from(sent), "{refused} of {sent}");
    }
}

#[test]
fn a_server_without_a_limit_is_not_slowed_down() {
    let mut pace = AdaptivePace::default();
    let mut now = Duration::ZERO;
    crawl(&mut pace, &mut now, seconds(20.0), after(0.01));
    assert_eq!((pace.rate(now), pace.last_cause()), (None, None));
}

#[test]
fn one_burst_of_refusals_counts_once() {
    let mut pace = AdaptivePace::default();
    let mut now = Duration::ZERO;
    crawl(&mut pace, &mut now, seconds(20.0), after(0.01));
    let sent_at = now;
    now += seconds(0.01);
    let cause = SlowDownCause::TooManyRequests;
    assert_eq!(pace.record_refusal(now, sent_at, cause), Some(cause));
    let rate = pace.rate(now);
    for _ in 0..100 {
        assert_eq!(pace.record_refusal(now, sent_at, cause), None);
    }
    assert_eq!(pace.rate(now), rate);
    assert_eq!(pace.record_refusal(now + seconds(1.0), now + seconds(0.5), cause), Some(cause));
    assert!(pace.rate(now) < rate);
}

#[test]
fn a_rising_response_time_slows_down_until_it_falls() {
    let mut pace = AdaptivePace::default();
    let mut now = Duration::ZERO;
    crawl(&mut pace, &mut now, seconds(10.0), after(0.1));
    // Beyond 100 requests per second a queue grows.
    let mut free_at = Duration::ZERO;
    let mut slow = 0;
    let mut server = |now: Duration| {
        let begun_at = free_at.max(now);
        free_at = begun_at + seconds(0.01);
        let took = begun_at - now + seconds(0.1);
        slow += u32::from(took > seconds(0.15));
        (took, None)
    };
    crawl(&mut pace, &mut now, seconds(120.0), &mut server);
    let (sent, _) = crawl(&mut pace, &mut now, seconds(300.0), &mut server);
    assert!((27_000..=30_100).contains(&sent), "{sent}");
    assert!(slow < 3000, "{slow}, the first queue included");
    assert_eq!(pace.last_cause(), Some(SlowDownCause::ResponseTime));
}

#[test]
fn slower_pages_become_usual() {
    let mut pace = AdaptivePace::default();
    let mut now = Duration::ZERO;
    crawl(&mut pace, &mut now, seconds(10.0), after(0.01));
    let (sent, _) = crawl(&mut pace, &mut now, seconds(600.0), after(0.5));
    assert!(sent > 600 * 10, "{sent}: the pace does not matter to it");
}

#[test]
fn an_announced_quota_is_spread_over_its_time() {
    let mut pace = AdaptivePace::default();
    let mut now = Duration::ZERO;
    crawl(&mut pace, &mut now, seconds(20.0), after(0.01));
    assert_eq!(pace.note_remaining(now, 30, seconds(60.0)), Some(SlowDownCause::RateLimit));
    let (sent, _) = crawl(&mut pace, &mut now, seconds(59.0), after(0.01));
    assert!((29..=31).contains(&sent), "{sent}");
    assert_eq!(pace.note_remaining(now, 0, seconds(9.0)), Some(SlowDownCause::RateLimit));
    assert!(pace.next_at() >= now + seconds(9.0));
    now += seconds(10.0);
    assert_eq!(pace.rate(now), None, "it was for that time only");
}

#[test]
fn of_an_announced_pace_and_its_own_the_slower_counts() {
    let mut pace = AdaptivePace::default();
    let mut now = Duration::ZERO;
    crawl(&mut pace, &mut now, seconds(60.0), limited(20.0));
    let own = pace.rate(now);
    assert_eq!(pace.note_remaining(now, 1000, seconds(1.0)), None);
    assert_eq!(pace.rate(now), own);
    assert_eq!(pace.note_remaining(now, 30, seconds(60.0)), Some(SlowDownCause::RateLimit));
    assert_eq!(pace.rate(now), Some(0.5));
}

#[test]
fn a_pace_that_limits_nothing_is_not_raised_and_then_forgotten() {
    let mut pace = AdaptivePace::default();
    let mut now = Duration::ZERO;
    crawl(&mut pace, &mut now, seconds(60.0), limited(20.0));
    let found = pace.rate(now);
    for second in 0..700 {
        now += seconds(1.0);
        pace.record_sent(now);
        pace.record_answer(now + seconds(0.01), now, Some(seconds(0.01)));
        if second == 500 {
            assert_eq!(pace.rate(now), found);
        }
    }
    assert_eq!(pace.rate(now), None);
}

#[test]
fn a_rest_is_no_slower_pace() {
    let mut pace = AdaptivePace::default();
    let mut now = Duration::ZERO;
    crawl(&mut pace, &mut now, seconds(60.0), limited(20.0));
    let before = pace.rate(now).unwrap();
    pace.note_rest(now, now + seconds(100.0));
    assert!(pace.next_at() >= now + seconds(100.0));
    now += seconds(101.0);
    pace.record_refusal(now, now, SlowDownCause::Unavailable);
    assert!(pace.rate(now).unwrap() > 0.25 * before, "{:?} {before}", pace.rate(now));
}

#[test]
fn a_found_pace_round_trips_through_its_text() {
    let slow = FoundPace {
        rate: Some(0.1),
        ceiling: Some(1.0 / 3.0),
        signs_at_ceiling: 3,
        rounds_above: -1,
        last_cause: Some(SlowDownCause::TooManyRequests),
    };
    let free = FoundPace { rate: None, last_cause: None, ..slow };
    for found in [slow, free, FoundPace::default()] {
        assert_eq!(FoundPace::parse(&found.to_string()), Some(found), "{found}");
    }
    assert_eq!(slow.to_string(), "0.1 0.3333333333333333 3 -1 429");
    for text in ["", "1", "1 1 0 0", "1 1 0 0 429 1", "0 1 0 0 429", "NaN 1 0 0 429", "1 1 0 0 x"] {
        assert_eq!(FoundPace::parse(text), None, "{text}");
    }
}

/// The nodes of a fleet before one server, and what they share.
struct SharedCrawl {
    paces: [AdaptivePace; 3],
    book: PaceBook,
    now: Duration,
}

impl SharedCrawl {
    fn new() -> Self {
        Self { paces: Default::default(), book: PaceBook::default(), now: Duration::ZERO }
    }

    fn ask(&mut self, node: usize) -> PaceTurnAnswer {
        let turn = self.paces[node].turn(self.now, String::new(), Duration::MAX);
        let answer = self.book.take(self.now, Duration::ZERO, &turn);
        self.paces[node].record_turn(self.now, &turn, &answer);
        answer
    }

    fn refuse(&mut self, node: usize) {
        let cause = SlowDownCause::TooManyRequests;
        self.paces[node].record_refusal(self.now, self.now, cause);
    }
}

#[test]
fn nodes_take_over_what_another_found() {
    let mut crawl = SharedCrawl::new();
    for _ in 0..3 {
        for node in 0..3 {
            let wait = crawl.ask(node).wait;
            crawl.now += wait;
        }
    }
    assert!(crawl.now >= seconds(0.75), "together at one pace: {:?}", crawl.now);
    crawl.refuse(0);
    assert!(crawl.paces[0].has_slowed_down());
    let rate = crawl.paces[0].rate(crawl.now);
    for node in 0..3 {
        crawl.ask(node);
        assert_eq!(crawl.paces[node].rate(crawl.now), rate);
        assert!(!crawl.paces[node].has_slowed_down());
    }
    // A refusal of a request that another node sent before is the same sign.
    let sent_at = crawl.now - seconds(0.1);
    let cause = SlowDownCause::TooManyRequests;
    assert_eq!(crawl.paces[1].record_refusal(crawl.now, sent_at, cause), None);
}

#[test]
fn of_what_two_nodes_found_the_slower_counts() {
    for nodes in [[0, 1, 2], [1, 0, 2]] {
        let mut crawl = SharedCrawl::new();
        for node in nodes {
            crawl.ask(node);
        }
        crawl.refuse(0);
        crawl.refuse(1);
        crawl.now += seconds(0.1);
        crawl.refuse(1);
        let slower = crawl.paces[1].rate(crawl.now);
        assert!(slower < crawl.paces[0].rate(crawl.now));
        for node in nodes.into_iter().chain(nodes).chain(nodes) {
            crawl.ask(node);
        }
        assert_eq!(
            crawl.paces.each_ref().map(|pace| pace.rate(crawl.now)),
            [slower; 3],
            "{nodes:?}"
        );
    }
}

#[test]
fn an_engine_that_lost_the_pace_learns_the_slowest_again() {
    let mut crawl = SharedCrawl::new();
    for node in [0, 1, 2, 0, 1, 2] {
        crawl.ask(node);
    }
    crawl.refuse(2);
    for node in [2, 1, 0, 2] {
        crawl.ask(node);
    }
    // Meanwhile one of them was refused again.
    crawl.refuse(1);
    let slowest = crawl.paces[1].rate(crawl.now);
    crawl.book = PaceBook::default();
    for node in [0, 2, 1, 0, 2, 1, 0, 2] {
        crawl.ask(node);
    }
    assert_eq!(crawl.paces.each_ref().map(|pace| pace.rate(crawl.now)), [slowest; 3]);
}

#[test]
fn without_the_engine_a_node_has_its_part() {
    let mut pace = AdaptivePace::default();
    let mut now = seconds(1.0);
    pace.record_sent_without_engine(now, 3);
    // A third of ten a second.
    assert_eq!(pace.next_at_without_engine(now, 3), now + seconds(0.3));
    now += seconds(0.3);
    let mut book = PaceBook::default();
    let mut other = AdaptivePace::default();
    other.record_refusal(now, now, SlowDownCause::Unavailable);
    for pace in [&mut other, &mut pace] {
        for _ in 0..2 {
            let turn = pace.turn(now, String::new(), Duration::MAX);
            let answer = book.take(now, Duration::ZERO, &turn);
            pace.record_turn(now, &turn, &answer);
        }
    }
    assert_eq!(pace.rate(now), other.rate(now), "of what both found, the slower");
}

#[test]
fn answers_to_all_nodes_end_a_round() {
    let mut crawl = SharedCrawl::new();
    let first = crawl.paces[0].rate(crawl.now);
    for node in (0..3).cycle() {
        let wait = crawl.ask(node).wait;
        crawl.now += wait;
        // Of ten requests this node has sent three or four.
        if crawl.now > seconds(1.15) {
            break;
        }
        let took = seconds(0.01);
        let sent_at = crawl.now.saturating_sub(took);
        crawl.paces[node].record_answer(crawl.now, sent_at, Some(took));
    }
    let rates = crawl.paces.each_ref().map(|pace| pace.rate(crawl.now));
    assert!(rates.iter().any(|rate| *rate > first), "{rates:?}");
}

#[test]
fn a_far_reset_does_not_stop_the_crawl() {
    let mut pace = AdaptivePace::default();
    for remaining in [0, 1, 5] {
        pace.note_remaining(Duration::ZERO, remaining, Duration::from_secs(90_000_000));
        let rate = pace.rate(Duration::ZERO).unwrap();
        assert!((rate * 300.0 - 1.0).abs() < 1e-9, "{rate}: one in five minutes");
    }
}
