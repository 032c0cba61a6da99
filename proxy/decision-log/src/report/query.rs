//! The subject of a report: which requests, and which counts.

use std::time::SystemTime;

use super::super::query::DecisionQuery;
use super::dimension::ReportDimension;

/// The subject of a report.
#[derive(Clone, Debug)]
pub struct ReportQuery {
    pub since: SystemTime,
    /// The end, included.
    pub until: SystemTime,
    /// The requests that count. Its text is not looked for.
    pub requests: DecisionQuery,
    pub contents: ReportContents,
}

/// The tables of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReportContents {
    /// The summary by crawler and by this, every refusal, and the demands for payment.
    Summary(ReportDimension),
    /// The summary by this alone, in less memory.
    Top(ReportDimension),
    /// The summaries by crawler, host, origin, rule and reason, the refusals, the requests over time, and who sends those that match no
    /// `[[crawler]]`; in less memory.
    Overview,
}

/// The most that is counted by name. Whatever is rare is forgotten beyond that.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReportBounds {
    /// The most hosts, rules or crawlers of a summary.
    pub(super) groups: usize,
    /// The most names among which the first of a crawler or a reason is found. There are few of these.
    pub(super) names_of_few: usize,
    /// The most names among which the first of a host or a rule is found.
    pub(super) names_of_many: usize,
    /// The most rows of refusals.
    pub(super) rows: usize,
}

impl ReportContents {
    /// Returns the keys that all requests are counted by.
    pub(super) fn dimensions(self) -> Vec<ReportDimension> {
        use ReportDimension::{Crawler, Host, Origin, Reason, Rule};
        match self {
            Self::Summary(Crawler) => vec![Crawler],
            Self::Summary(by) => vec![Crawler, by],
            Self::Top(by) => vec![by],
            Self::Overview => vec![Crawler, Host, Origin, Rule, Reason],
        }
    }

    pub(super) fn bounds(self) -> ReportBounds {
        match self {
            Self::Summary(_) => {
                ReportBounds { groups: 20_000, names_of_few: 4096, names_of_many: 16, rows: 50_000 }
            }
            // The memory of the proxy itself.
            Self::Top(_) | Self::Overview => {
                ReportBounds { groups: 4096, names_of_few: 256, names_of_many: 8, rows: 4096 }
            }
        }
    }
}
