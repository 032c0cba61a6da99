//! Counts of replayed decisions by crawler, host and rule, within a bound of memory.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::Path;
use std::time::SystemTime;

use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use wayleave_decision_log::{DecisionRecord, LogGaps, TimeRange};

use super::replayer::{ReplayChange, Replayed};
use super::unknown::NOT_REPLAYED;

/// The most groups of one kind; further hosts are counted together.
const MAX_GROUPS: usize = 2_000;
/// The most groups of one kind that the API shows.
const MAX_SHOWN_GROUPS: usize = 100;
/// The host of decisions beyond that.
const OTHER_HOSTS: &str = "(other hosts)";
/// The most URLs of one group, and bytes of one.
const MAX_SAMPLES: usize = 10;
const MAX_SAMPLE_BYTES: usize = 256;

/// The result of a replay.
#[derive(Debug, Serialize)]
pub(super) struct ReplaySummary {
    /// The decision log.
    pub(super) log: String,
    /// The time of the oldest decision that counts; none: the whole log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<String>,
    pub(super) decisions: u64,
    pub(super) damaged_lines: u64,
    /// A phrase for each part that could not be looked at.
    pub(super) missing: Vec<String>,
    pub(super) newly_refused: ChangeSummary,
    pub(super) newly_forwarded: ChangeSummary,
    pub(super) unchanged: ChangeSummary,
    pub(super) undecidable: ChangeSummary,
    not_replayed: [&'static str; NOT_REPLAYED.len()],
}

/// The decisions that changed in one way.
#[derive(Debug, Default)]
pub(super) struct ChangeSummary {
    pub(super) count: u64,
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

/// Crawler, host, and what decides.
type GroupKey = [Box<str>; 3];

#[derive(Debug, Default)]
struct ReplayGroup {
    count: u64,
    samples: Vec<Box<str>>,
}

/// A group as it is shown.
#[derive(Debug, Serialize)]
pub(super) struct GroupRow<'a> {
    pub(super) crawler: &'a str,
    pub(super) host: &'a str,
    /// The rule that decides: of newly forwarded requests, the one that refused them; of undecidable ones, what is not known.
    pub(super) rule: &'a str,
    pub(super) count: u64,
    /// The first URLs.
    pub(super) samples: &'a [Box<str>],
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

    /// Notes after the last decision what the result leaves open.
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

    /// Returns the summary as the API shows it: the largest groups, and not where the log is.
    pub(super) fn for_operators(&self, is_cut: bool) -> Value {
        let kind = |summary: &ChangeSummary| {
            let mut rows = summary.rows();
            let left_out = rows.len().saturating_sub(MAX_SHOWN_GROUPS);
            rows.truncate(MAX_SHOWN_GROUPS);
            json!({ "count": summary.count, "groups": rows, "groups_left_out": left_out })
        };
        json!({
            "decisions": self.decisions,
            "damaged_lines": self.damaged_lines,
            "missing": self.missing,
            "is_cut": is_cut,
            "newly_refused": kind(&self.newly_refused),
            "newly_forwarded": kind(&self.newly_forwarded),
            "unchanged": kind(&self.unchanged),
            "undecidable": kind(&self.undecidable),
            "not_replayed": NOT_REPLAYED,
        })
    }

    pub(super) fn has_differences(&self) -> bool {
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
    pub(super) fn rows(&self) -> Vec<GroupRow<'_>> {
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
