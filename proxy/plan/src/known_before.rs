//! Facts that are known before the crawl: the decision log about its hosts, the rest of the day's budget, and settings that
//! change how long it takes.

use std::time::{Duration, SystemTime};

use wayleave_clock::Clock;
use wayleave_config::Config;
use wayleave_decision::{Crawler, EnforcementMode};
use wayleave_decision_log::LogPlace;
use wayleave_fleet::Fleet;
use wayleave_fleet::engine::BudgetKind;
use wayleave_pacing::CrawlDelayMode;
use wayleave_pacing::budget::{DailyBudgets, until_midnight};

use crate::crawl_time::BudgetLeft;
use crate::history::{CrawlHistory, HISTORY_DAYS};
use crate::origin_plan::OriginPlan;

/// Reads the decision log about the hosts of a plan, if there is one, and passes on how many bytes of all were read. Adds a note if
/// it does not have all of that time.
pub fn read_history(
    config: &Config,
    plans: &[OriginPlan],
    now: SystemTime,
    notes: &mut Vec<String>,
    progress: impl FnMut(u64, u64),
) -> CrawlHistory {
    let history = match &config.log.decisions {
        Some(log) => read_log(log.place(), plans, now, progress),
        None => Err("log.decisions is empty".to_owned()),
    };
    let history = history.unwrap_or_else(|why| {
        CrawlHistory::missing(format!("refusals at the edge: unknown, because {why}"))
    });
    notes.extend(history.missing.clone());
    if !history.gaps.is_empty() {
        let gaps = history.gaps.join("; ");
        notes.push(format!(
            "refusals at the edge: perhaps more, because decisions of the last {HISTORY_DAYS} days are missing ({gaps})"
        ));
    }
    history
}

/// Reads the log. Returns why it is unknown, if it is.
fn read_log(
    log: LogPlace<'_>,
    plans: &[OriginPlan],
    now: SystemTime,
    progress: impl FnMut(u64, u64),
) -> Result<CrawlHistory, String> {
    let hosts = plans.iter().map(|plan| plan.origin.host());
    let since = now.checked_sub(Duration::from_hours(24 * HISTORY_DAYS));
    let read = CrawlHistory::read(log, since.unwrap_or(SystemTime::UNIX_EPOCH), hosts, progress);
    let name = log.path.display();
    match read {
        // With rotated files, a current one that is missing would be a gap.
        Ok(history) if history.gaps.is_empty() && !log.path.exists() => {
            Err(format!("there is no decision log {name}"))
        }
        Ok(history) => Ok(history),
        Err(error) => Err(format!("the decision log {name} cannot be read: {error}")),
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
        remarks.push("bytes_per_day is not planned for: sizes are unknown".to_owned());
    }
    remarks
}
