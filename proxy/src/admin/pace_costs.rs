//! The cost of the pace to crawlers: how long their requests waited for it lately, and how many pages a day it leaves.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use utoipa::ToSchema;
use wayleave_decision::{Reason, RequestOutcome};
use wayleave_decision_log::{DecisionQuery, DecisionRecord};

use super::robots_view::format_instant;
use super::state::AdminState;

/// The time for which decisions count, if they are in memory for so long.
const LATELY: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

/// The pace of a crawler at an origin.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PaceCost {
    crawler: String,
    origin: String,
    /// The delay between two requests, in seconds, by robots.txt and the configuration in use.
    delay_seconds: f64,
    /// The most pages that one crawler gets in a day with this delay.
    pages_a_day: u64,
    /// Its requests that were forwarded.
    requests: u64,
    /// The time for which its requests waited for their slots, all together.
    waited_seconds: f64,
    /// The time for which enforcement would have held those of its requests that were only observed, all together.
    would_wait_seconds: f64,
    /// The number of requests that came too soon, and were refused or would have been.
    too_soon: u64,
}

/// The paces with a delay, and the decisions from which they are added up.
pub(super) struct CountedCosts {
    /// The dearest first.
    pub(super) costs: Vec<PaceCost>,
    /// The number of decisions: those in memory of at most an hour.
    pub(super) decisions: usize,
    /// The time of the oldest of them; `None` without one.
    pub(super) since: Option<String>,
}

/// The sums of a pace, without its delay.
#[derive(Default)]
struct PaceSum {
    /// The delay that robots.txt asked for last. A refused request may have none, which does not change the pace.
    asked_us: Option<u64>,
    requests: u64,
    waited: Duration,
    would_wait: Duration,
    too_soon: u64,
}

impl PaceSum {
    /// Adds a decision that is older than all before.
    fn add(&mut self, decision: &DecisionRecord) {
        let outcome = decision.request_outcome();
        let is_forwarded =
            matches!(outcome, Some(RequestOutcome::Forwarded | RequestOutcome::Observed));
        self.asked_us = self.asked_us.or(decision.robots_delay_us);
        self.requests += u64::from(is_forwarded);
        self.waited += Duration::from_micros(decision.waited_us);
        if let Some(wait_us) =
            decision.would_wait_us.filter(|_| !outcome.is_some_and(RequestOutcome::is_refusal))
        {
            self.would_wait += Duration::from_micros(wait_us);
        }
        self.too_soon += u64::from(decision.reason == Reason::CrawlDelay);
    }
}

/// Adds up the paces with a delay, from the decisions of the last hour that are in memory.
pub(super) fn pace_costs(admin: &AdminState, now: SystemTime) -> CountedCosts {
    let since = now.checked_sub(LATELY).unwrap_or(SystemTime::UNIX_EPOCH);
    let mut recent = admin.decisions.list_recent(&DecisionQuery::default(), usize::MAX);
    recent.retain(|decision| decision.at >= since);
    let mut sums: HashMap<(&str, &str), PaceSum> = HashMap::new();
    for decision in &recent {
        if let Some(origin) = decision.origin.as_deref() {
            sums.entry((&decision.crawler, origin)).or_default().add(decision);
        }
    }
    let settings = admin.decider.settings();
    let cost = |((name, origin), sum): ((&str, &str), PaceSum)| {
        let crawler = settings.crawlers.named(name);
        let of_origin = sum.asked_us.map(Duration::from_micros);
        let crawl_delay = of_origin.or_else(|| crawler.as_ref()?.default_delay);
        let min_delay = crawler.as_ref().map_or(Duration::ZERO, |crawler| crawler.min_delay);
        let delay = settings.pacing.delay(crawl_delay, min_delay);
        (!delay.is_zero()).then(|| PaceCost {
            crawler: name.to_owned(),
            origin: origin.to_owned(),
            delay_seconds: delay.as_secs_f64(),
            pages_a_day: (DAY.as_secs_f64() / delay.as_secs_f64()) as u64,
            requests: sum.requests,
            waited_seconds: sum.waited.as_secs_f64(),
            would_wait_seconds: sum.would_wait.as_secs_f64(),
            too_soon: sum.too_soon,
        })
    };
    let mut costs: Vec<_> = sums.into_iter().filter_map(cost).collect();
    costs.sort_by(|one, other| {
        (other.too_soon.cmp(&one.too_soon))
            .then(other.waited_seconds.total_cmp(&one.waited_seconds))
            .then(other.would_wait_seconds.total_cmp(&one.would_wait_seconds))
            .then_with(|| (&one.crawler, &one.origin).cmp(&(&other.crawler, &other.origin)))
    });
    let oldest = recent.iter().map(|decision| decision.at).min();
    CountedCosts { costs, decisions: recent.len(), since: oldest.map(format_instant) }
}
