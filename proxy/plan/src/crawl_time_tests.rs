//! The time of a crawl, compared with a count of its requests one by one.

use std::collections::VecDeque;
use std::time::Duration;

use wayleave_decision::{Crawler, DailyBudget};
use wayleave_pacing::{CrawlDelayMode, PaceUnit, PacingConfig};
use wayleave_robots_txt::{Origin, ProductToken};

use crate::crawl_time::{BudgetLeft, CrawlLimit, CrawlTime};
use crate::origin_plan::OriginPlan;

const DAY: Duration = Duration::from_hours(24);
const MIDNIGHT: BudgetLeft = BudgetLeft {
    limits: DailyBudget { requests: 0, bytes: 0, new_origins: 0 },
    used_requests: 0,
    used_origins: 0,
    day_left: DAY,
};

/// Returns the plan of an origin in a unit, with this delay in seconds and so many requests.
fn origin(number: usize, unit: &str, delay: u64, requests: u64) -> OriginPlan {
    let origin = Origin::parse(&format!("https://h{number}.test")).unwrap();
    let mut plan = OriginPlan::new(origin);
    plan.forwarded = requests;
    let mut crawler = Crawler::new("news", vec![ProductToken::new("NewsBot").unwrap()]);
    crawler.default_delay = Some(Duration::from_secs(delay));
    let pacing = PacingConfig {
        crawl_delay: CrawlDelayMode::Wait,
        max_delay: Duration::MAX,
        ..PacingConfig::default()
    };
    plan.set_pace(&pacing, Some(&crawler), PaceUnit::Domain(unit.into()));
    plan
}

fn budget(requests: u64, new_origins: u64) -> BudgetLeft {
    BudgetLeft { limits: DailyBudget { requests, bytes: 0, new_origins }, ..MIDNIGHT }
}

/// Returns the time of one unit, whose origins send one request each in turn.
fn in_turns(origins: &[OriginPlan]) -> f64 {
    let mut waiting: VecDeque<_> = origins.iter().map(|it| (it.delay, it.forwarded)).collect();
    waiting.retain(|origin| origin.1 > 0);
    let mut sent = Vec::new();
    while let Some((delay, requests)) = waiting.pop_front() {
        sent.push(delay);
        if requests > 1 {
            waiting.push_back((delay, requests - 1));
        }
    }
    let gaps = sent.windows(2).map(|pair| pair[0].max(pair[1]).as_secs_f64());
    gaps.sum::<f64>() + sent.last().map_or(0.0, Duration::as_secs_f64)
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

#[test]
fn origins_that_share_a_pace_take_turns() {
    let mut random = Random(88_172_645_463_325_252);
    for _ in 0..300 {
        let count = 1 + random.below(9) as usize;
        let origins: Vec<_> = (0..count)
            .map(|number| origin(number, "shop.test", random.below(12), random.below(40)))
            .collect();
        let expected = in_turns(&origins);
        let found = CrawlTime::new(&origins, &MIDNIGHT).seconds;
        // The gap from the last request of a round to the first of the next depends on who is left.
        let longest = 12.0 * count as f64;
        assert!((found - expected).abs() <= longest, "{found} instead of {expected}: {origins:?}");
    }
    let alike: Vec<_> = (0..9).map(|number| origin(number, "shop.test", 7, 100)).collect();
    assert_eq!(CrawlTime::new(&alike, &MIDNIGHT).seconds, 6300.0);
}

#[test]
fn units_run_side_by_side() {
    let origins =
        [origin(0, "a.test", 10, 1800), origin(1, "b.test", 1, 1800), origin(2, "c.test", 0, 9999)];
    let time = CrawlTime::new(&origins, &MIDNIGHT);
    assert_eq!((time.seconds, time.limit), (18_000.0, CrawlLimit::Pace));
    let units: Vec<_> = time.units.iter().map(|unit| (unit.requests, unit.seconds)).collect();
    assert_eq!(units, [(1800, 18_000.0), (1800, 1800.0), (9999, 0.0)]);
    let none = CrawlTime::new(&origins[2..], &MIDNIGHT);
    assert_eq!((none.seconds, none.limit), (0.0, CrawlLimit::None));
    assert_eq!(CrawlTime::new(&[], &MIDNIGHT).seconds, 0.0);
}

#[test]
fn a_budget_is_spent_from_midnight_on() {
    let day = DAY.as_secs_f64();
    let fast = [origin(0, "a.test", 1, 1000)];
    let at_once = [origin(0, "a.test", 0, 1000)];
    let evening = BudgetLeft { day_left: DAY / 12, ..budget(300, 0) };
    let spent = BudgetLeft { used_requests: 300, ..evening };
    for (origins, budget, expected, limit) in [
        (&fast, budget(1000, 0), 1000.0, "pace"),
        (&fast, budget(0, 0), 1000.0, "pace"),
        // 300, 300, 300, and 100 of the fourth day.
        (&fast, budget(300, 0), 3.0 * day + 100.0, "requests_per_day"),
        (&at_once, budget(300, 0), 3.0 * day, "requests_per_day"),
        (&fast, evening, day / 12.0 + 2.0 * day + 100.0, "requests_per_day"),
        (&fast, spent, day / 12.0 + 3.0 * day + 100.0, "requests_per_day"),
        (&at_once, budget(1, 0), 999.0 * day, "requests_per_day"),
        // One that was used up by more than its limit, after a reload.
        (
            &fast,
            BudgetLeft { used_requests: 5000, ..budget(1000, 0) },
            day + 1000.0,
            "requests_per_day",
        ),
    ] {
        let time = CrawlTime::new(origins, &budget);
        assert!((time.seconds - expected).abs() < 1.0, "{} {expected} {budget:?}", time.seconds);
        assert_eq!(time.limit.as_str(), limit, "{budget:?}");
    }
    // A slow host gets little of a budget that fast ones spend, until these have sent all.
    let mixed = [origin(0, "slow.test", 600, 200), origin(1, "fast.test", 1, 10_000)];
    let time = CrawlTime::new(&mixed, &budget(1000, 0));
    assert!(time.seconds > 10.0 * day, "{}", time.seconds / day);
    assert!(time.seconds < 12.0 * day, "{}", time.seconds / day);
    assert_eq!(time.limit, CrawlLimit::RequestsPerDay);
}

#[test]
fn new_origins_of_a_day_go_on_the_next() {
    let day = DAY.as_secs_f64();
    let origins: Vec<_> = (0..7).map(|it| origin(it, &format!("u{it}.test"), 2, 100)).collect();
    let time = CrawlTime::new(&origins, &budget(0, 3));
    assert!((time.seconds - (2.0 * day + 200.0)).abs() < 1.0, "{}", time.seconds);
    assert_eq!(time.limit, CrawlLimit::NewOriginsPerDay);
    let used = BudgetLeft { used_origins: 3, ..budget(0, 3) };
    let time = CrawlTime::new(&origins, &used);
    assert!((time.seconds - (3.0 * day + 200.0)).abs() < 1.0, "{}", time.seconds);
    // One that takes days counts on each of them.
    let long: Vec<_> = (0..2).map(|it| origin(it, &format!("u{it}.test"), 60, 1500)).collect();
    let time = CrawlTime::new(&long, &budget(0, 1));
    assert!((time.seconds - (3.0 * day + 3600.0)).abs() < 70.0, "{}", time.seconds);
}

#[test]
fn millions_of_requests_are_planned_at_once() {
    let mut random = Random(7);
    let origins: Vec<_> = (0..4_000)
        .map(|it| origin(it, &format!("u{}.test", it % 1000), random.below(20), random.below(100)))
        .collect();
    for budget in [MIDNIGHT, budget(1000, 0), budget(1, 0), budget(0, 3), budget(500, 10)] {
        let time = CrawlTime::new(&origins, &budget);
        assert!(time.seconds.is_finite() && time.seconds >= time.pace_seconds, "{time:?}");
    }
    let sent: u64 = origins.iter().map(OriginPlan::sent).sum();
    let days = CrawlTime::new(&origins, &budget(1000, 0)).seconds / DAY.as_secs_f64();
    assert!((days - (sent / 1000) as f64).abs() <= 1.0, "{days} for {sent}");
    let endless = [origin(0, "a.test", 31_536_000, 1_000_000)];
    assert_eq!(CrawlTime::new(&endless, &MIDNIGHT).seconds, 31_536_000.0 * 1e6);
}
