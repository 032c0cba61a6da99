//! The counts of a report in the making.

use std::time::SystemTime;

use wayleave_decision::{ASSERTED, RequestOutcome};

use super::super::query::DecisionQuery;
use super::dimension::ReportDimension;
use super::edge::EdgeCounts;
use super::entry::ReportEntry;
use super::payments::PaymentCounts;
use super::query::{ReportContents, ReportQuery};
use super::rows::RowCounts;
use super::summary::Summary;
use super::timeline::Timeline;

/// The start of a line, up to the value of `at`: its ID has 32 digits.
const BEFORE_AT: usize = "{\"id\":\"0123456789abcdef0123456789abcdef\",\"at\":\"".len();

/// The counts while the log is read.
pub(super) struct ReportCounts {
    requests: DecisionQuery,
    /// The first instant, as the log writes it.
    since: String,
    needs_rules: bool,
    pub(super) rows: RowCounts,
    pub(super) failures: RowCounts,
    pub(super) payments: PaymentCounts,
    /// The answers of hosts by name; not in the memory of the proxy itself, which counts them as they come.
    pub(super) edge: Option<EdgeCounts>,
    pub(super) summaries: Vec<Summary>,
    /// Those of requests that match no `[[crawler]]` only.
    pub(super) unnamed: Vec<Summary>,
    pub(super) timeline: Option<Timeline>,
}

impl ReportCounts {
    pub(super) fn new(query: &ReportQuery) -> Self {
        let contents = query.contents;
        let bounds = query.contents.bounds();
        let dimensions = contents.dimensions();
        let is_overview = contents == ReportContents::Overview;
        let senders = [ReportDimension::Token, ReportDimension::UserAgent, ReportDimension::Client];
        let unnamed = senders.into_iter().filter(|_| is_overview);
        Self {
            requests: query.requests.clone(),
            since: humantime::format_rfc3339_micros(query.since).to_string(),
            needs_rules: dimensions.contains(&ReportDimension::Rule),
            rows: RowCounts::new(bounds.rows),
            failures: RowCounts::new(bounds.names_of_few),
            payments: PaymentCounts::new(),
            edge: matches!(contents, ReportContents::Summary(_)).then(EdgeCounts::new),
            summaries: dimensions.into_iter().map(|by| Summary::new(by, bounds)).collect(),
            unnamed: unnamed.map(|by| Summary::new(by, bounds)).collect(),
            timeline: is_overview.then(|| Timeline::new(query.since, query.until)),
        }
    }

    /// Returns whether a line is older than the range, as far as that can be seen without parsing it.
    pub(super) fn is_surely_before(&self, line: &[u8]) -> bool {
        // Times of the same length and in UTC are in the order of their digits.
        let end = BEFORE_AT + self.since.len();
        let at = line.get(BEFORE_AT..end).filter(|_| line.get(end) == Some(&b'"'));
        let is_at = line.get(..BEFORE_AT).is_some_and(|start| start.ends_with(b"\",\"at\":\""));
        is_at && at.is_some_and(|at| at.ends_with(b"Z") && at < self.since.as_bytes())
    }

    /// Counts a decision of the range. Returns whether it is one of the requests that are counted.
    pub(super) fn count(&mut self, entry: &ReportEntry<'_>, at: SystemTime) -> bool {
        if !entry.matches(&self.requests) {
            return false;
        }
        let is_needed = entry.is_refusal() || self.needs_rules;
        let rule = is_needed.then(|| entry.rule()).flatten();
        let name = rule.as_deref().unwrap_or(&entry.reason);
        for summary in &mut self.summaries {
            summary.count(entry, name);
        }
        if entry.crawler == ASSERTED {
            for summary in &mut self.unnamed {
                summary.count(entry, name);
            }
        }
        if let Some(timeline) = &mut self.timeline {
            timeline.count(entry, at);
        }
        if entry.is_refusal() {
            self.rows.count(entry, rule, at);
        } else if entry.outcome == RequestOutcome::Failed {
            self.failures.count(entry, None, at);
        }
        if let Some(edge) = &mut self.edge {
            edge.count(entry, at);
        }
        if entry.asks_for_payment() {
            self.payments.count(entry);
        }
        true
    }
}
