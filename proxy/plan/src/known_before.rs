//! Facts that are known before the crawl: the decision log about its hosts, the rest of the day's budget, and settings that
//! change how long it takes.

use std::time::{Duration, SystemTime};

use wayleave_clock::Clock;
use wayleave_config::Config;
use wayleave_decision::{Crawler, EnforcementMode};
use wayleave_fleet::Fleet;
use wayleave_fleet::engine::BudgetKind;
use wayleave_pacing::CrawlDelayMode;
use wayleave_pacing::budget::{DailyBudgets, until_midnight};

use crate::crawl_time::BudgetLeft;
use crate::history::CrawlHistory;
use crate::origin_plan::OriginPlan;

/// The time for which the decision log is read.
const HISTORY: Duration = Duration::from_hours(24 * 30);

/// Reads the decision log about the hosts of a plan, if there is one, and passes on how many bytes of all were read.
pub fn read_history(
    config: &Config,
    plans: &[OriginPlan],
    now: SystemTime,
    progress: impl FnMut(u64, u64),
) -> CrawlHistory {
    let Some(log) = &config.log.decisions else {
        return CrawlHistory::missing(
            "refusals at the edge: unknown, because log.decisions is empty".to_owned(),
        );
    };
    let hosts = plans.iter().map(|plan| plan.origin.host());
    let since = now.checked_sub(HISTORY).unwrap_or(SystemTime::UNIX_EPOCH);
    let read = CrawlHistory::read(log.place(), since, hosts, progress);
    let name = log.path.display();
    match read {
        Ok(history) if history.hosts.is_empty() && !log.path.exists() => CrawlHistory::missing(
            format!("refusals at the edge: unknown, because there is no decision log {name}"),
        ),
        Ok(history) => history,
        Err(error) => CrawlHistory::missing(format!(
            "refusals at the edge: unknown, because the decision log {name} cannot be read: {error}"
        )),
    }
}

/// Returns the crawler's budget, and what this node knows that it used today. Adds a note if that is unknown.
pub fn budget_left(
    config: &Config,
    crawler: &Crawler,
    clock: Clock,
    notes: &mut Vec<String>,
) -> BudgetLeft {
    let day_left = until_midnight(clock.now());
    let unused = BudgetLeft { limits: crawler.budget, used_requests: 0, used_origins: 0, day_left };
    if !crawler.budget.has_limit() {
        return unused;
    }
    match DailyBudgets::open(&config.state.dir, clock, Fleet::default()) {
        Ok(budgets) => {
            let uses = budgets.usage(crawler);
            let used = |kind| uses.iter().find(|it| it.kind == kind).map_or(0, |it| it.used);
            let used_requests = used(BudgetKind::Requests);
            BudgetLeft { used_requests, used_origins: used(BudgetKind::NewOrigins), ..unused }
        }
        Err(error) => {
            notes.push(format!("today's budget is taken to be unused: {error:#}"));
            unused
        }
    }
}

/// Returns sentences about settings by which the crawl takes longer or shorter than planned.
pub fn remarks(config: &Config, crawler: Option<&Crawler>) -> Vec<String> {
    let mode = crawler.map_or(config.crawlers.mode, |crawler| crawler.mode);
    let bytes = crawler.map_or(0, |crawler| crawler.budget.bytes);
    let mut remarks = Vec::new();
    if mode == EnforcementMode::Observe {
        remarks.push(
            "mode is \"observe\": nothing is held back, and the hours are those of \"enforce\""
                .to_owned(),
        );
    }
    if config.politeness.crawl_delay == CrawlDelayMode::Ignore {
        remarks.push("politeness.crawl_delay is \"ignore\": only min_delay counts".to_owned());
    }
    if config.politeness.adaptive {
        remarks.push(
            "politeness.adaptive: it takes longer where a server asks for a slower pace".to_owned(),
        );
    }
    if bytes > 0 {
        remarks.push("bytes_per_day is left out: sizes are not known before".to_owned());
    }
    remarks
}
