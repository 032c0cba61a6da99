//! The time that a crawl takes: pace units side by side, the requests of one unit in sequence, and the budgets of days.
//!
//! A request takes the delay that follows it, as if it were answered at once. Origins that share a pace take turns, and between
//! two requests in a row lies the longer of their delays (`wayleave_pacing::time_between`). Within a day's budget, units spend
//! at their own rates, and those without a delay first.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::Duration;

use wayleave_decision::DailyBudget;
use wayleave_pacing::{PaceUnit, time_between};

use crate::origin_plan::OriginPlan;

const DAY: f64 = 24.0 * 60.0 * 60.0;
/// The most days that are looked at one by one; those after them are as the average. Days that are alike count as one.
const MAX_STEPS: usize = 10_000;
/// The remainder that counts as no request: sums of fractions are not exact.
const NO_REQUEST: f64 = 1e-6;

/// The daily budget of the crawler, and how much of today is left.
#[derive(Clone, Copy, Debug, Default)]
pub struct BudgetLeft {
    /// The limits; 0: none.
    pub limits: DailyBudget,
    /// The requests that were sent today.
    pub used_requests: u64,
    /// The origins that requests were sent to today.
    pub used_origins: u64,
    /// The time until midnight UTC.
    pub day_left: Duration,
}

/// The time that a crawl takes.
#[derive(Clone, Debug)]
pub struct CrawlTime {
    /// The time in seconds, if it begins now.
    pub seconds: f64,
    /// The time in seconds at the pace alone, without a budget.
    pub pace_seconds: f64,
    pub limit: CrawlLimit,
    /// The pace units, in the order of their first origins.
    pub units: Vec<UnitTime>,
}

/// The limit that decides how long a crawl takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrawlLimit {
    /// None: no site sets a pace.
    None,
    Pace,
    RequestsPerDay,
    NewOriginsPerDay,
}

impl CrawlLimit {
    /// Returns the limit as the configuration names it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Pace => "pace",
            Self::RequestsPerDay => "requests_per_day",
            Self::NewOriginsPerDay => "new_origins_per_day",
        }
    }
}

/// The time that the requests of a pace unit take.
#[derive(Clone, Debug)]
pub struct UnitTime {
    pub unit: PaceUnit,
    /// The number of origins that have requests.
    pub origins: u64,
    pub requests: u64,
    pub seconds: f64,
}

impl UnitTime {
    /// Returns the average time for a request, in seconds.
    fn per_request(&self) -> f64 {
        self.seconds / self.requests.max(1) as f64
    }
}

impl CrawlTime {
    pub fn new(origins: &[OriginPlan], budget: &BudgetLeft) -> Self {
        let mut numbers = HashMap::new();
        let mut members: Vec<Vec<&OriginPlan>> = Vec::new();
        let sent = origins.iter().filter(|plan| plan.sent() > 0);
        for plan in sent {
            let number = *numbers.entry(&plan.unit).or_insert_with(|| {
                members.push(Vec::new());
                members.len() - 1
            });
            members[number].push(plan);
        }
        let units: Vec<_> = members.iter().map(|members| unit_time(members)).collect();
        let pace_seconds = units.iter().map(|unit| unit.seconds).fold(0.0, f64::max);
        let mut days = BudgetDays::new(&members, &units);
        let is_limited = budget.limits.requests > 0 || budget.limits.new_origins > 0;
        let seconds = if is_limited { days.simulate(budget) } else { 0.0 }.max(pace_seconds);
        let limit = if seconds > pace_seconds * 1.0001 + 1.0 {
            if days.has_spent_requests {
                CrawlLimit::RequestsPerDay
            } else {
                CrawlLimit::NewOriginsPerDay
            }
        } else if pace_seconds > 0.0 {
            CrawlLimit::Pace
        } else {
            CrawlLimit::None
        };
        Self { seconds, pace_seconds, limit, units }
    }
}

/// Returns the time that the requests of one unit take, one after the other, its origins in turn.
fn unit_time(origins: &[&OriginPlan]) -> UnitTime {
    let count = origins.len();
    let gap = |one: usize, next: usize| {
        time_between(origins[one].delay, origins[next].delay).as_secs_f64()
    };
    // The origins that have requests left stand in a ring; a round is one request of each.
    let mut before: Vec<_> = (0..count).map(|index| (index + count - 1) % count).collect();
    let mut after: Vec<_> = (0..count).map(|index| (index + 1) % count).collect();
    let mut round: f64 = (0..count).map(|index| gap(index, after[index])).sum();
    let mut by_requests: Vec<_> = (0..count).collect();
    by_requests.sort_by_key(|index| origins[*index].sent());
    let mut seconds = 0.0;
    let mut rounds = 0;
    for index in by_requests {
        let requests = origins[index].sent();
        seconds += (requests - rounds) as f64 * round;
        rounds = requests;
        let [previous, next] = [before[index], after[index]];
        round = (round + gap(previous, next) - gap(previous, index) - gap(index, next)).max(0.0);
        after[previous] = next;
        before[next] = previous;
    }
    UnitTime {
        unit: origins[0].unit.clone(),
        origins: count as u64,
        requests: origins.iter().map(|plan| plan.sent()).sum(),
        seconds,
    }
}

/// The requests that are left, day by day.
struct BudgetDays {
    /// The origins that have requests left, in the order of the plan: the number of the unit, and the requests.
    origins: Vec<(usize, f64)>,
    /// The average time of a request of each unit, in seconds.
    per_request: Vec<f64>,
    has_spent_requests: bool,
}

impl BudgetDays {
    fn new(members: &[Vec<&OriginPlan>], units: &[UnitTime]) -> Self {
        let numbered = members.iter().enumerate();
        let origins = numbered
            .flat_map(|(unit, members)| members.iter().map(move |plan| (unit, plan.sent() as f64)));
        Self {
            origins: origins.collect(),
            per_request: units.iter().map(UnitTime::per_request).collect(),
            has_spent_requests: false,
        }
    }

    /// Returns the time until nothing is left, in seconds.
    fn simulate(&mut self, budget: &BudgetLeft) -> f64 {
        let limit = |limit: u64, used: u64| match limit {
            0 => f64::INFINITY,
            limit => limit.saturating_sub(used) as f64,
        };
        let most = |used: u64| limit(budget.limits.requests, used);
        let most_origins = |used: u64| limit(budget.limits.new_origins, used);
        let mut elapsed = 0.0;
        let mut rest_of_day = budget.day_left.as_secs_f64();
        let mut may_send = most(budget.used_requests);
        let mut may_visit = most_origins(budget.used_origins);
        for _ in 0..MAX_STEPS {
            if self.origins.is_empty() {
                return elapsed;
            }
            let is_last = self.origins.len() as f64 <= may_visit;
            let is_whole_day = elapsed > 0.0;
            let alike = self.spend_day(may_send, may_visit, rest_of_day, is_whole_day);
            match alike {
                ControlFlow::Break(finished_after) if is_last => return elapsed + finished_after,
                ControlFlow::Break(_) => elapsed += rest_of_day,
                ControlFlow::Continue(days) => elapsed += rest_of_day + days * DAY,
            }
            rest_of_day = DAY;
            may_send = most(0);
            may_visit = most_origins(0);
        }
        let left: f64 = self.origins.iter().map(|origin| origin.1).sum();
        elapsed + DAY * (left / most(0)).max(self.origins.len() as f64 / most_origins(0))
    }

    /// Sends the requests of a day. Breaks with the time in seconds after which its origins have no requests left, or goes on with
    /// the number of days after it that are alike, whose requests are sent, too.
    fn spend_day(
        &mut self,
        may_send: f64,
        may_visit: f64,
        rest_of_day: f64,
        may_repeat: bool,
    ) -> ControlFlow<f64, f64> {
        let visited = self.origins.len().min(may_visit as usize);
        let mut loads = vec![0.0; self.per_request.len()];
        for (unit, requests) in &self.origins[..visited] {
            loads[*unit] += requests;
        }
        let spent_after = self.time_to_send(&loads, may_send);
        let sent = self.sent_within(&loads, may_send, spent_after.min(rest_of_day));
        let all: f64 = loads.iter().sum();
        let is_finished = sent.iter().sum::<f64>() > all - NO_REQUEST;
        self.has_spent_requests |= !is_finished && spent_after < rest_of_day;
        // As long as no unit has sent all, each day is like this one.
        let shares = loads.iter().zip(&sent).filter(|(_, sent)| **sent > 0.0);
        let days = shares.map(|(load, sent)| load / sent).fold(f64::INFINITY, f64::min);
        let alike = if may_repeat && days.is_finite() { (days.ceil() - 2.0).max(0.0) } else { 0.0 };
        for (unit, requests) in &mut self.origins[..visited] {
            if loads[*unit] > 0.0 {
                *requests -= *requests / loads[*unit] * sent[*unit] * (1.0 + alike);
            }
        }
        self.origins.retain(|origin| origin.1 > NO_REQUEST);
        if is_finished { ControlFlow::Break(spent_after) } else { ControlFlow::Continue(alike) }
    }

    /// Returns the time in seconds after which this many requests are sent, or all, by units that begin together.
    fn time_to_send(&self, loads: &[f64], requests: f64) -> f64 {
        let mut ends: Vec<_> = loads.iter().zip(&self.per_request).collect();
        ends.retain(|(load, _)| **load > 0.0);
        ends.sort_by(|one, other| (one.0 * one.1).total_cmp(&(other.0 * other.1)));
        let mut rate: f64 =
            ends.iter().map(|end| end.1).filter(|time| **time > 0.0).map(|time| 1.0 / time).sum();
        let mut now = 0.0;
        let mut sent = 0.0;
        for (load, per_request) in ends {
            if *per_request == 0.0 {
                sent += load;
                continue;
            }
            let end = load * per_request;
            if sent + rate * (end - now) > requests {
                return now + (requests - sent).max(0.0) / rate;
            }
            sent += rate * (end - now);
            now = end;
            rate -= 1.0 / per_request;
        }
        now
    }

    /// Returns the requests that each unit sends within a time, at most `requests` together.
    fn sent_within(&self, loads: &[f64], requests: f64, seconds: f64) -> Vec<f64> {
        let without_delay = loads.iter().zip(&self.per_request).filter(|(_, time)| **time == 0.0);
        let at_once: f64 = without_delay.map(|(load, _)| load).sum();
        let share = if at_once > requests { requests / at_once } else { 1.0 };
        let sent = loads.iter().zip(&self.per_request).map(|(load, per_request)| {
            if *per_request == 0.0 { load * share } else { load.min(seconds / per_request) }
        });
        sent.collect()
    }
}
