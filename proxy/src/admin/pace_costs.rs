//! The cost of the pace to crawlers: how long their requests waited for it lately, and how many pages a day it leaves.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use utoipa::ToSchema;
use wayleave_decision::Reason;

use super::state::AdminState;
use crate::decision_log::DecisionQuery;

/// The time for which waits are added up.
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
    /// Its requests of the last hour, as far as they are in memory.
    requests: u64,
    /// The time for which they waited for their slots, all together.
    waited_seconds: f64,
    /// The number of them that came too soon, and were refused or would have been.
    too_soon: u64,
}

/// Returns the paces with a delay of the last hour, the dearest first.
pub(super) fn pace_costs(admin: &AdminState, now: SystemTime) -> Vec<PaceCost> {
    let since = now.checked_sub(LATELY).unwrap_or(SystemTime::UNIX_EPOCH);
    let settings = admin.decider.settings();
    let recent = admin.decisions.list_recent(&DecisionQuery::default(), usize::MAX);
    let mut costs: HashMap<(&str, &str), PaceCost> = HashMap::new();
    // The newest come first, so the first one of a pace has its delay.
    for decision in recent.iter().filter(|decision| decision.at >= since) {
        let Some(origin) = decision.origin.as_deref() else { continue };
        let cost = costs.entry((&decision.crawler, origin)).or_insert_with(|| {
            let crawler = settings.crawlers.named(&decision.crawler);
            let of_origin = decision.robots_delay_us.map(Duration::from_micros);
            let asked = of_origin.or_else(|| crawler.as_ref()?.default_delay);
            let least = crawler.as_ref().map_or(Duration::ZERO, |crawler| crawler.min_delay);
            let delay = settings.pacing.delay(asked, least);
            PaceCost {
                crawler: decision.crawler.clone().into_owned(),
                origin: origin.to_owned(),
                delay_seconds: delay.as_secs_f64(),
                pages_a_day: if delay.is_zero() {
                    0
                } else {
                    (DAY.as_secs_f64() / delay.as_secs_f64()) as u64
                },
                requests: 0,
                waited_seconds: 0.0,
                too_soon: 0,
            }
        });
        cost.requests += 1;
        cost.waited_seconds += Duration::from_micros(decision.waited_us).as_secs_f64();
        cost.too_soon += u64::from(decision.reason == Reason::CrawlDelay.as_str());
    }
    let mut costs: Vec<_> = costs.into_values().filter(|cost| cost.pages_a_day > 0).collect();
    costs.sort_by(|one, other| {
        (other.too_soon.cmp(&one.too_soon))
            .then(other.waited_seconds.total_cmp(&one.waited_seconds))
            .then_with(|| (&one.crawler, &one.origin).cmp(&(&other.crawler, &other.origin)))
    });
    costs
}
