//! The counts of one crawler's day.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use wayleave_decision::DailyBudget;
use wayleave_fleet::engine::{BudgetAnswer, BudgetKind, BudgetReport, BudgetRequest};

/// The counts of one crawler's day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CrawlerUsage {
    /// The day, counted from the epoch.
    pub(super) day: u64,
    /// The requests and bytes that this node has counted.
    pub(super) requests: u64,
    pub(super) bytes: u64,
    /// The digests of the origins that this node has counted.
    pub(super) origins: HashSet<u64>,
    /// The digests of the origins that the engine does not know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unreported_origins: Vec<u64>,
    /// The state when the engine last answered; all 0 without a fleet.
    #[serde(default)]
    last_answer: LastAnswer,
    /// Whether the engine has answered this process, which may have lost counts that the engine knows.
    #[serde(skip)]
    pub(super) is_synced: bool,
}

/// The last total of the engine, and the count of this node at that time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct LastAnswer {
    requests: u64,
    bytes: u64,
    origins: u64,
    own_requests: u64,
    own_bytes: u64,
}

impl CrawlerUsage {
    pub(super) fn of(day: u64) -> Self {
        Self { day, ..Self::default() }
    }

    /// Returns the use of all nodes, as far as this one knows.
    pub(super) fn used(&self, kind: BudgetKind) -> u64 {
        let last = &self.last_answer;
        match kind {
            BudgetKind::Requests => last.requests - last.own_requests + self.requests,
            BudgetKind::Bytes => last.bytes - last.own_bytes + self.bytes,
            BudgetKind::NewOrigins => {
                let unreported = self.unreported_origins.len() as u64;
                (last.origins + unreported).max(self.origins.len() as u64)
            }
        }
    }

    /// Returns the part of the budget that leaves no room for a request.
    pub(super) fn spent(&self, budget: DailyBudget, origin: u64) -> Option<BudgetKind> {
        let is_spent = |limit: u64, kind| limit > 0 && self.used(kind) >= limit;
        if is_spent(budget.requests, BudgetKind::Requests) {
            Some(BudgetKind::Requests)
        } else if is_spent(budget.bytes, BudgetKind::Bytes) {
            Some(BudgetKind::Bytes)
        } else if !self.origins.contains(&origin)
            && is_spent(budget.new_origins, BudgetKind::NewOrigins)
        {
            // Another node may have counted this origin: only the engine knows.
            (self.last_answer == LastAnswer::default()).then_some(BudgetKind::NewOrigins)
        } else {
            None
        }
    }

    /// Returns the part of the budget of which this node has used its share of the rest at the engine's last answer. The
    /// request has been counted already.
    pub(super) fn spent_alone(
        &self,
        budget: DailyBudget,
        origin: u64,
        nodes: u64,
    ) -> Option<BudgetKind> {
        let last = &self.last_answer;
        let share = |limit: u64, used: u64| limit.saturating_sub(used) / nodes;
        let is_over = |limit: u64, used: u64, since: u64| limit > 0 && since > share(limit, used);
        if is_over(budget.requests, last.requests, self.requests - last.own_requests) {
            Some(BudgetKind::Requests)
        } else if is_over(budget.bytes, last.bytes, self.bytes - last.own_bytes + 1) {
            Some(BudgetKind::Bytes)
        } else if !self.origins.contains(&origin)
            && is_over(budget.new_origins, last.origins, self.unreported_origins.len() as u64 + 1)
        {
            Some(BudgetKind::NewOrigins)
        } else {
            None
        }
    }

    /// Counts an origin, if origins are limited.
    pub(super) fn add_origin(&mut self, budget: DailyBudget, origin: u64) {
        if budget.new_origins > 0 && self.origins.insert(origin) {
            self.unreported_origins.push(origin);
        }
    }

    /// Returns whether the engine does not know all that this node has counted.
    pub(super) fn has_unreported(&self) -> bool {
        let last = &self.last_answer;
        self.requests != last.own_requests
            || self.bytes != last.own_bytes
            || !self.unreported_origins.is_empty()
    }

    /// Returns all that this node has counted, for the engine.
    pub(super) fn report(
        &self,
        crawler: &str,
        meter: String,
        request: Option<BudgetRequest>,
    ) -> BudgetReport {
        BudgetReport {
            crawler: crawler.to_owned(),
            day: self.day,
            meter,
            requests: self.requests,
            bytes: self.bytes,
            origins: self.unreported_origins.clone(),
            request,
        }
    }

    /// Adds the engine's answer to a report.
    pub(super) fn add_answer(&mut self, report: &BudgetReport, answer: BudgetAnswer) {
        self.is_synced = true;
        self.unreported_origins.retain(|origin| !report.origins.contains(origin));
        if let Some(request) = report.request
            && answer.spent.is_none()
            && request.limits.new_origins > 0
        {
            self.origins.insert(request.origin);
        }
        // Answers may overtake each other; the totals only grow.
        let last = &mut self.last_answer;
        if answer.requests >= last.requests && answer.bytes >= last.bytes {
            *last = LastAnswer {
                requests: answer.requests,
                bytes: answer.bytes,
                origins: answer.origins.max(last.origins),
                own_requests: answer.own_requests,
                own_bytes: answer.own_bytes,
            };
        }
        // A crash may have lost counts that the engine still knows.
        self.requests = self.requests.max(last.own_requests);
        self.bytes = self.bytes.max(last.own_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The process lost its state, and the engine knows this node's counts.
    #[test]
    fn counts_that_only_the_engine_knows_are_taken_back() {
        let mut usage = CrawlerUsage::of(1);
        let report = usage.report("news", String::new(), None);
        let answer = BudgetAnswer {
            spent: None,
            requests: 7,
            bytes: 3000,
            origins: 2,
            own_requests: 3,
            own_bytes: 1000,
        };
        usage.add_answer(&report, answer);
        assert_eq!((usage.requests, usage.bytes), (3, 1000));
        let used = [BudgetKind::Requests, BudgetKind::Bytes].map(|kind| usage.used(kind));
        assert_eq!(used, [7, 3000]);
        assert!(!usage.has_unreported());
        // The next report has them too, with the counts since.
        usage.bytes += 10;
        assert_eq!(usage.report("news", String::new(), None).bytes, 1010);
        assert_eq!(usage.used(BudgetKind::Bytes), 3010);
    }
}
