//! Counts of replayed decisions by crawler, host and rule, within a bound of memory.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::Path;
use std::time::SystemTime;

use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};
use utoipa::ToSchema;
use wayleave_decision_log::{DecisionRecord, LogGaps, TimeRange};

use super::replayer::{ReplayChange, Replayed};

/// The most groups of one kind; further hosts are counted together.
const MAX_GROUPS: usize = 2_000;
/// The host of decisions beyond that.
const OTHER_HOSTS: &str = "(other hosts)";
/// The most URLs of one group, and bytes of one.
const MAX_SAMPLES: usize = 10;
const MAX_SAMPLE_BYTES: usize = 256;

/// The limits of a replay, whatever the log has.
pub const NOT_REPLAYED: [&str; 4] = [
    "requests that crawlers would send after another answer, and those that they would not",
    "the pace and the limits: [politeness], proxy.max_connections and the like",
    "when a robots.txt would have been fetched again: [robots] apart from the dialect",
    "upstream.allow_private, parent proxies, and whatever else origins or the way to them answer",
];

/// The result of a replay.
#[derive(Debug, Serialize)]
pub struct ReplaySummary {
    /// The decision log.
    pub log: String,
    /// The time of the oldest decision that counts; none: the whole log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    pub decisions: u64,
    pub damaged_lines: u64,
    /// A phrase for each part that could not be looked at.
    pub missing: Vec<String>,
    pub newly_refused: ChangeSummary,
    pub newly_forwarded: ChangeSummary,
    pub unchanged: ChangeSummary,
    pub undecidable: ChangeSummary,
    not_replayed: [&'static str; NOT_REPLAYED.len()],
}

/// The decisions that changed in one way.
#[derive(Debug, Default)]
pub struct ChangeSummary {
    pub count: u64,
    groups: HashMap<GroupKey, ReplayGroup>,
}

impl Serialize for ChangeSummary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut shown = serializer.serialize_struct("ChangeSummary", 2)?;
        shown.serialize_field("count", &self.count)?;
        shown.serialize_field("groups", &self.rows())?;
        shown.end()
    }
}

/// Crawler, host, and the rule or reason that decides.
type GroupKey = [Box<str>; 3];

#[derive(Debug, Default)]
struct ReplayGroup {
    count: u64,
    samples: Vec<Box<str>>,
}

// A group as it is shown. A doc comment would be its description in the API.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ReplayedGroup)]
pub struct GroupRow<'a> {
    pub crawler: &'a str,
    pub host: &'a str,
    /// The rule that decides: of newly forwarded requests, the one that refused them; of undecidable ones, what is not known.
    pub rule: &'a str,
    pub count: u64,
    /// The first URLs, ten at most.
    #[schema(value_type = Vec<String>)]
    pub samples: &'a [Box<str>],
}

impl ReplaySummary {
    pub(super) fn new(log: &Path, since: Option<SystemTime>) -> Self {
        Self {
            log: log.display().to_string(),
            since: since.map(|since| humantime::format_rfc3339_seconds(since).to_string()),
            decisions: 0,
            damaged_lines: 0,
            missing: Vec::new(),
            newly_refused: ChangeSummary::default(),
            newly_forwarded: ChangeSummary::default(),
            unchanged: ChangeSummary::default(),
            undecidable: ChangeSummary::default(),
            not_replayed: NOT_REPLAYED,
        }
    }

    pub(super) fn add(&mut self, decision: &DecisionRecord, replayed: &Replayed) {
        self.decisions += 1;
        let summary = match replayed.change {
            ReplayChange::NewlyRefused => &mut self.newly_refused,
            ReplayChange::NewlyForwarded => &mut self.newly_forwarded,
            ReplayChange::Unchanged => &mut self.unchanged,
            ReplayChange::Undecidable => &mut self.undecidable,
        };
        summary.add(decision, replayed);
    }

    /// Notes the gaps of the result, after the last decision.
    pub(super) fn note_missing(&mut self, gaps: &LogGaps, span: TimeRange) {
        self.damaged_lines = gaps.damaged_lines;
        self.missing = gaps.phrases(span.since.is_some());
        if self.undecidable.count > 0 {
            self.missing
                .push(format!("requests that cannot be decided: {}", self.undecidable.count));
        }
        if self.decisions == 0 {
            self.missing.push("the log has no decision in this span".to_owned());
        }
    }

    /// Returns whether a request would be decided differently.
    pub fn has_differences(&self) -> bool {
        self.newly_refused.count + self.newly_forwarded.count > 0
    }
}

impl ChangeSummary {
    fn add(&mut self, decision: &DecisionRecord, replayed: &Replayed) {
        self.count += 1;
        let host = decision.host().unwrap_or_default();
        let mut key: GroupKey = [&*replayed.crawler, host, &*replayed.rule].map(Box::from);
        if self.groups.len() >= MAX_GROUPS && !self.groups.contains_key(&key) {
            let [crawler, ..] = key;
            // Rules are many, too: each site has its own.
            key = [crawler, OTHER_HOSTS.into(), "".into()];
        }
        let group = self.groups.entry(key).or_default();
        group.count += 1;
        if group.samples.len() < MAX_SAMPLES {
            let end = decision.url.floor_char_boundary(MAX_SAMPLE_BYTES);
            let url = &decision.url[..end];
            if !group.samples.iter().any(|sample| **sample == *url) {
                group.samples.push(url.into());
            }
        }
    }

    /// Returns the groups, the largest first.
    pub fn rows(&self) -> Vec<GroupRow<'_>> {
        let groups = self.groups.iter();
        let mut rows: Vec<_> = groups
            .map(|([crawler, host, rule], group)| GroupRow {
                crawler,
                host,
                rule,
                count: group.count,
                samples: &group.samples,
            })
            .collect();
        rows.sort_unstable_by_key(|row| (Reverse(row.count), row.crawler, row.host, row.rule));
        rows
    }
}
