//! The counts of one crawler's day.

use std::collections::HashSet;
use std::sync::Arc;

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
    #[serde(default, skip_serializing_if = "HashSet::is_empty")]
    unreported_origins: HashSet<u64>,
    /// The state when the engine last answered; all 0 without a fleet.
    #[serde(default)]
    last_answer: LastAnswer,
    /// Whether the engine has answered this process, which may have lost counts that the engine knows.
    #[serde(skip)]
    pub(super) is_synced: bool,
    /// Referred to by each request that the engine is asked about, which neither counts nor is refused yet.
    #[serde(skip)]
    pub(super) in_question: Arc<()>,
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
            BudgetKind::Requests => last.requests.saturating_sub(last.own_requests) + self.requests,
            BudgetKind::Bytes => last.bytes.saturating_sub(last.own_bytes) + self.bytes,
            BudgetKind::NewOrigins => {
                let unreported = self.unreported_origins.len() as u64;
                (last.origins + unreported).max(self.origins.len() as u64)
            }
        }
    }

    /// Returns the part of the budget that leaves no room for a request, as far as this node knows without asking its fleet, if
    /// it is in one.
    pub(super) fn spent(
        &self,
        budget: DailyBudget,
        origin: u64,
        is_in_fleet: bool,
    ) -> Option<BudgetKind> {
        let is_spent = |limit: u64, kind| limit > 0 && self.used(kind) >= limit;
        if is_spent(budget.requests, BudgetKind::Requests) {
            Some(BudgetKind::Requests)
        } else if is_spent(budget.bytes, BudgetKind::Bytes) {
            Some(BudgetKind::Bytes)
        } else if !self.origins.contains(&origin)
            && is_spent(budget.new_origins, BudgetKind::NewOrigins)
        {
            // Another node may have counted this origin: only the engine knows.
            let is_alone = !is_in_fleet || self.last_answer == LastAnswer::default();
            is_alone.then_some(BudgetKind::NewOrigins)
        } else {
            None
        }
    }

    /// Returns whether the engine has counted more requests of this node than count or are in question. A client may have left
    /// before the engine's answer, or the answer was lost and the request refused.
    pub(super) fn has_spare(&self) -> bool {
        let in_question = Arc::strong_count(&self.in_question) as u64 - 1;
        self.last_answer.own_requests > self.requests + in_question
    }

    /// Returns the part of the budget of which this node has used its share of the rest at the engine's last answer, so that
    /// there is no room for another request.
    pub(super) fn spent_alone(
        &self,
        budget: DailyBudget,
        origin: u64,
        nodes: u64,
    ) -> Option<BudgetKind> {
        let last = &self.last_answer;
        let share = |limit: u64, used: u64| limit.saturating_sub(used) / nodes;
        let is_over = |limit: u64, used: u64, since: u64| limit > 0 && since > share(limit, used);
        // The engine may have counted more requests of this node than count.
        let requests = (self.requests + 1).saturating_sub(last.own_requests);
        let bytes = self.bytes.saturating_sub(last.own_bytes) + 1;
        if is_over(budget.requests, last.requests, requests) {
            Some(BudgetKind::Requests)
        } else if is_over(budget.bytes, last.bytes, bytes) {
            Some(BudgetKind::Bytes)
        } else if !self.origins.contains(&origin)
            && is_over(budget.new_origins, last.origins, self.unreported_origins.len() as u64 + 1)
        {
            Some(BudgetKind::NewOrigins)
        } else {
            None
        }
    }

    /// Counts a request, and its origin if origins are limited.
    pub(super) fn count(&mut self, budget: DailyBudget, origin: u64) {
        self.requests += 1;
        if budget.new_origins > 0 && self.origins.insert(origin) {
            self.unreported_origins.insert(origin);
        }
    }

    /// Returns whether the engine does not know all that this node has counted.
    pub(super) fn has_unreported(&self) -> bool {
        let last = &self.last_answer;
        self.requests > last.own_requests
            || self.bytes > last.own_bytes
            || !self.unreported_origins.is_empty()
    }

    /// Returns all that this node has counted, for the engine. Requests in question are not among it.
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
            origins: self.unreported_origins.iter().copied().collect(),
            request,
        }
    }

    /// Adds the engine's answer to a report.
    pub(super) fn add_answer(&mut self, report: &BudgetReport, answer: BudgetAnswer) {
        for origin in &report.origins {
            self.unreported_origins.remove(origin);
        }
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
        // A crash may have lost counts that the engine still knows. Later, what it knows may include requests in question.
        if !self.is_synced {
            self.requests = self.requests.max(last.own_requests);
            self.bytes = self.bytes.max(last.own_bytes);
        }
        self.is_synced = true;
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

    /// The answer to one request, which counts another whose answer was lost, and then both are decided alone.
    #[test]
    fn the_engine_may_know_more_requests_than_count() {
        let budget = DailyBudget { requests: 100, bytes: 0, new_origins: 1 };
        let mut usage = CrawlerUsage::of(1);
        usage.is_synced = true;
        usage.origins.insert(1);
        usage.requests = 10;
        let request = BudgetRequest { origin: 1, limits: budget, is_covered: false };
        let report = usage.report("news", String::new(), Some(request));
        let answer =
            BudgetAnswer { requests: 13, origins: 1, own_requests: 13, ..BudgetAnswer::default() };
        usage.add_answer(&report, answer);
        assert_eq!((usage.requests, usage.used(BudgetKind::Requests)), (10, 10));
        for origin in [2, 3] {
            assert_eq!(usage.spent_alone(budget, origin, 1), Some(BudgetKind::NewOrigins));
        }
        assert_eq!(usage.spent_alone(budget, 1, 1), None);
        assert!(usage.has_spare());
        let in_question = [Arc::clone(&usage.in_question), Arc::clone(&usage.in_question)];
        assert!(usage.has_spare());
        let third = Arc::clone(&usage.in_question);
        assert!(!usage.has_spare());
        drop((in_question, third));
        assert!(usage.has_spare());
    }

    #[test]
    fn origins_counted_alone_are_reported_until_answered() {
        let budget = DailyBudget { new_origins: 100_000, ..DailyBudget::default() };
        let mut usage = CrawlerUsage::of(1);
        for origin in 0..50_000 {
            usage.count(budget, origin);
        }
        let first = usage.report("news", String::new(), None);
        assert_eq!(first.origins.len(), 50_000);
        usage.count(budget, 50_000);
        let second = usage.report("news", String::new(), None);
        for report in [&first, &first] {
            usage.add_answer(report, BudgetAnswer::default());
            assert_eq!(usage.report("news", String::new(), None).origins, [50_000]);
        }
        usage.add_answer(
            &second,
            BudgetAnswer { requests: 50_001, own_requests: 50_001, ..BudgetAnswer::default() },
        );
        assert!(!usage.has_unreported());
    }
}
