//! The refusals and the failures of a log, one row for each crawler, host, reason and rule.

use std::time::SystemTime;

use serde::Serialize;
use utoipa::ToSchema;
use wayleave_decision::RequestOutcome;
use wayleave_notation::rfc3339;
use wayleave_record::Word;

use super::entry::ReportEntry;
use crate::bounded_map::BoundedMap;

/// Requests of one crawler to one host that were refused for one reason, or would have been, or that failed for it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Refusals)]
pub struct ReportRow {
    /// `observed`, `refused` or `failed`.
    #[schema(value_type = String)]
    pub outcome: Word<RequestOutcome>,
    pub crawler: String,
    /// The host, unless the request's target could not be parsed.
    pub host: Option<String>,
    pub reason: String,
    /// The deciding line of robots.txt, the `[[rule]]`, or the refused purpose with the family of the statement that refuses
    /// it.
    pub rule: Option<String>,
    /// The status code that the crawler was sent, or would have been.
    pub status: u16,
    pub count: u64,
    #[serde(serialize_with = "rfc3339::serialize")]
    #[schema(value_type = String, format = DateTime)]
    pub first_at: SystemTime,
    #[serde(serialize_with = "rfc3339::serialize")]
    #[schema(value_type = String, format = DateTime)]
    pub last_at: SystemTime,
    /// The first of the requests.
    pub example: String,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct RowKey {
    outcome: Word<RequestOutcome>,
    crawler: String,
    host: Option<String>,
    reason: String,
    rule: Option<String>,
}

#[derive(Debug)]
struct Row {
    status: u16,
    count: u64,
    first_at: SystemTime,
    last_at: SystemTime,
    example: String,
}

/// The rows in the making.
#[derive(Debug)]
pub(super) struct RowCounts(BoundedMap<RowKey, Row>);

impl RowCounts {
    pub(super) fn new(max_rows: usize) -> Self {
        Self(BoundedMap::new(max_rows, |row| (row.count, 0)))
    }

    /// Counts a request that was refused, or would have been, or that failed.
    pub(super) fn count(&mut self, entry: &ReportEntry<'_>, rule: Option<String>, at: SystemTime) {
        let key = RowKey {
            outcome: entry.outcome.clone(),
            crawler: entry.crawler.clone().into_owned(),
            host: entry.host().map(str::to_owned),
            reason: entry.reason.to_string(),
            rule,
        };
        let row = self.0.entry(key, || Row {
            status: entry.would_be.unwrap_or(entry.status),
            count: 0,
            first_at: at,
            last_at: at,
            example: entry.url.clone().into_owned(),
        });
        row.count += 1;
        // Lines are in the order in which exchanges ended, and `at` is their beginning.
        row.last_at = row.last_at.max(at);
        if at < row.first_at {
            row.first_at = at;
            row.example = entry.url.clone().into_owned();
        }
    }

    /// Returns the number of rows that were left out, and the rows.
    pub(super) fn into_rows(self) -> (u64, Vec<ReportRow>) {
        let left_out = self.0.forgotten();
        let rows = self.0.into_entries().map(|(key, row)| ReportRow {
            outcome: key.outcome,
            crawler: key.crawler,
            host: key.host,
            reason: key.reason,
            rule: key.rule,
            status: row.status,
            count: row.count,
            first_at: row.first_at,
            last_at: row.last_at,
            example: row.example,
        });
        let mut rows: Vec<_> = rows.collect();
        // By name after the count, so that two reports of the same log are equal.
        rows.sort_unstable_by(|one, other| {
            (one.outcome.cmp(&other.outcome))
                .then(other.count.cmp(&one.count))
                .then_with(|| one.crawler.cmp(&other.crawler))
                .then_with(|| one.host.cmp(&other.host))
                .then_with(|| one.rule.cmp(&other.rule))
        });
        (left_out, rows)
    }
}
