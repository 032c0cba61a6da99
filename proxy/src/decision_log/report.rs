//! Evaluates the decision log over a time range: requests that were refused, or would have been.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use wayleave_evidence::chain::event;
use wayleave_evidence::files::{log_directory, rotated_files};
use wayleave_evidence::rfc3339;

use super::files::{LogLine, UNFINISHED, find_line, open_log_files};
use super::record::host;

/// The number of unreadable lines that are listed; further ones are only counted.
const MAX_LISTED: usize = 20;

/// Statistics of the log since `since`, and how much of the log was read.
#[derive(Debug, Serialize)]
pub(crate) struct LogReport {
    #[serde(serialize_with = "rfc3339::serialize")]
    pub(crate) since: SystemTime,
    /// The time at which the log was read.
    #[serde(serialize_with = "rfc3339::serialize")]
    pub(crate) until: SystemTime,
    /// The files that were read to their end, the oldest first.
    pub(crate) files: Vec<ReportFile>,
    /// The number of files that were not read because they were last written before `since`.
    pub(crate) older_files: usize,
    /// The number of lines that are older than `since`.
    pub(crate) lines_before: u64,
    /// The number of lines, or whole files, that could not be read.
    pub(crate) unreadable: u64,
    /// The first of them.
    pub(crate) unreadable_lines: Vec<UnreadableLine>,
    /// The number of complete lines that could not be read.
    #[serde(skip)]
    pub(crate) damaged_lines: u64,
    /// The errors of files, or of the directory, that could not be read.
    #[serde(skip)]
    pub(crate) failures: Vec<String>,
    /// The time of the first decision.
    #[serde(serialize_with = "rfc3339::serialize_some")]
    pub(crate) first_at: Option<SystemTime>,
    /// The time of the last decision.
    #[serde(serialize_with = "rfc3339::serialize_some")]
    pub(crate) last_at: Option<SystemTime>,
    /// The number of decisions with each outcome.
    pub(crate) outcomes: BTreeMap<String, u64>,
    /// The requests that were refused, or would have been: first those only observed, then by frequency.
    pub(crate) rows: Vec<ReportRow>,
}

/// A file of the log.
#[derive(Debug, Serialize)]
pub(crate) struct ReportFile {
    pub(crate) path: PathBuf,
    /// The number of lines that are, or should be, decisions.
    pub(crate) lines: u64,
}

/// A line that cannot be read; line 0 is the file itself.
#[derive(Debug, Serialize)]
pub(crate) struct UnreadableLine {
    pub(crate) path: PathBuf,
    pub(crate) line: u64,
    pub(crate) error: String,
}

/// Requests of one crawler to one host that were refused for one reason, or would have been.
#[derive(Debug, Serialize)]
pub(crate) struct ReportRow {
    /// `observed` or `refused`.
    pub(crate) outcome: String,
    pub(crate) crawler: String,
    /// The host, unless the request's target could not be parsed.
    pub(crate) host: Option<String>,
    pub(crate) reason: String,
    /// The deciding line of robots.txt, the `[[rule]]`, or the refused purpose with the family of the statement that refuses
    /// it.
    pub(crate) rule: Option<String>,
    /// The status code that the crawler was sent, or would have been.
    pub(crate) status: u16,
    pub(crate) count: u64,
    #[serde(serialize_with = "rfc3339::serialize")]
    pub(crate) first_at: SystemTime,
    #[serde(serialize_with = "rfc3339::serialize")]
    pub(crate) last_at: SystemTime,
    /// The first of the requests.
    pub(crate) example: String,
}

/// The members of a line that are counted.
// Borrowed from the line where they have no escapes: a log may have millions of lines.
#[derive(Deserialize)]
struct ReportEntry<'a> {
    #[serde(borrow)]
    at: Cow<'a, str>,
    #[serde(borrow)]
    outcome: Cow<'a, str>,
    #[serde(borrow)]
    reason: Cow<'a, str>,
    #[serde(borrow)]
    crawler: Cow<'a, str>,
    #[serde(borrow)]
    url: Cow<'a, str>,
    #[serde(default, borrow)]
    origin: Option<Cow<'a, str>>,
    status: u16,
    #[serde(default)]
    would_be: Option<u16>,
    #[serde(default)]
    line: Option<u32>,
    #[serde(default, borrow)]
    rule: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    policy: Option<PolicyEntry<'a>>,
    #[serde(default, borrow)]
    preferences: Vec<PreferenceEntry<'a>>,
}

/// The usage preference for one purpose.
#[derive(Deserialize)]
struct PreferenceEntry<'a> {
    #[serde(borrow)]
    purpose: Cow<'a, str>,
    #[serde(borrow)]
    preference: Cow<'a, str>,
    #[serde(default, borrow)]
    source: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    stage: Option<Cow<'a, str>>,
}

impl PreferenceEntry<'_> {
    /// Returns the precedence of a preference that can refuse: refusals by the stage at which they are known, then purposes for
    /// which nothing is stated. Lower comes first.
    fn rank(&self) -> Option<usize> {
        let stages = ["before", "head", "body"];
        let stage = stages.iter().position(|it| self.stage.as_deref() == Some(it));
        match &*self.preference {
            "refuse" => Some(stage.unwrap_or_default()),
            "unstated" => Some(stages.len()),
            _ => None,
        }
    }
}

#[derive(Deserialize)]
struct PolicyEntry<'a> {
    number: usize,
    #[serde(default, borrow)]
    reason: Option<Cow<'a, str>>,
}

impl ReportEntry<'_> {
    fn rule(&self) -> Option<String> {
        // By the reason: a line may also name a rule of robots.txt that allowed the request.
        match (&*self.reason, &self.policy, self.line, &self.rule) {
            ("policy-rule", Some(policy), ..) => {
                let reason = (policy.reason.as_deref())
                    .map_or(String::new(), |reason| format!(": {reason}"));
                Some(format!("[[rule]] {}{reason}", policy.number))
            }
            ("rule", _, Some(line), Some(rule)) => {
                let origin = self.origin.as_deref().unwrap_or_default();
                Some(format!("{rule} ({origin}/robots.txt:{line})"))
            }
            ("preference", ..) => self.preference(),
            _ => None,
        }
    }

    /// Returns the deciding preference, such as `train-ai by content-signal`.
    fn preference(&self) -> Option<String> {
        let (_, deciding) = self
            .preferences
            .iter()
            .filter_map(|it| Some((it.rank()?, it)))
            .min_by_key(|(rank, _)| *rank)?;
        let source = deciding.source.as_deref().unwrap_or("nothing said");
        Some(format!("{} by {source}", deciding.purpose))
    }
}

#[derive(PartialEq, Eq, Hash)]
struct RowKey {
    is_observed: bool,
    crawler: String,
    host: Option<String>,
    reason: String,
    rule: Option<String>,
}

impl LogReport {
    /// Evaluates the log at `path` with all its files. `on_line` is called for each line, to show progress.
    pub(crate) fn read(
        path: &Path,
        since: SystemTime,
        until: SystemTime,
        on_line: &mut dyn FnMut(),
    ) -> Self {
        let mut report = Self {
            since,
            until,
            files: Vec::new(),
            older_files: 0,
            lines_before: 0,
            unreadable: 0,
            unreadable_lines: Vec::new(),
            damaged_lines: 0,
            failures: Vec::new(),
            first_at: None,
            last_at: None,
            outcomes: BTreeMap::new(),
            rows: Vec::new(),
        };
        let mut rows = HashMap::new();
        if let Err(error) = rotated_files(path) {
            report.note_failure(log_directory(path), &error);
        }
        for (name, file) in open_log_files(path) {
            report.read_file(name, file, &mut rows, on_line);
        }
        report.rows = rows.into_values().collect();
        // By name after the count, so that two reports of the same log are equal.
        report.rows.sort_unstable_by(|one, other| {
            (one.outcome.cmp(&other.outcome))
                .then(other.count.cmp(&one.count))
                .then_with(|| one.crawler.cmp(&other.crawler))
                .then_with(|| one.host.cmp(&other.host))
                .then_with(|| one.rule.cmp(&other.rule))
        });
        report
    }

    fn read_file(
        &mut self,
        name: PathBuf,
        file: io::Result<File>,
        rows: &mut HashMap<RowKey, ReportRow>,
        on_line: &mut dyn FnMut(),
    ) {
        let written_at = file.as_ref().ok().and_then(|file| file.metadata().ok()?.modified().ok());
        if written_at.is_some_and(|at| at < self.since) {
            self.older_files += 1;
            return;
        }
        let (mut lines, mut number) = (0, 0);
        let read = file.and_then(|file| {
            find_line(&file, |line| {
                number += 1;
                if line.is_ok_and(|line| line.starts_with(event::EVENT_PREFIX)) {
                    return None::<()>;
                }
                lines += 1;
                on_line();
                if let Err(error) = self.read_line(line, rows) {
                    // The last line may still be being written.
                    self.damaged_lines += u64::from(line != Err(UNFINISHED));
                    self.note_unreadable(&name, number, error);
                }
                None
            })
        });
        match read {
            Ok(_) => self.files.push(ReportFile { path: name, lines }),
            Err(error) => self.note_failure(&name, &error),
        }
    }

    fn note_failure(&mut self, path: &Path, error: &io::Error) {
        self.failures.push(format!("{}: {error}", path.display()));
        self.note_unreadable(path, 0, error.to_string());
    }

    fn note_unreadable(&mut self, path: &Path, line: u64, error: String) {
        self.unreadable += 1;
        if self.unreadable_lines.len() < MAX_LISTED {
            self.unreadable_lines.push(UnreadableLine { path: path.to_owned(), line, error });
        }
    }

    fn read_line(
        &mut self,
        line: LogLine<'_>,
        rows: &mut HashMap<RowKey, ReportRow>,
    ) -> Result<(), String> {
        let entry = serde_json::from_slice::<ReportEntry<'_>>(line?)
            .map_err(|error| format!("is not a decision: {error}"))?;
        let at = humantime::parse_rfc3339(&entry.at)
            .map_err(|error| format!("is not a decision: at: {error}"))?;
        if at < self.since {
            self.lines_before += 1;
            return Ok(());
        }
        self.first_at = Some(self.first_at.map_or(at, |first| first.min(at)));
        self.last_at = Some(self.last_at.map_or(at, |last| last.max(at)));
        // Without `entry`, which would allocate a key for every line of a log of millions.
        match self.outcomes.get_mut(&*entry.outcome) {
            Some(count) => *count += 1,
            None => drop(self.outcomes.insert(entry.outcome.clone().into_owned(), 1)),
        }
        if matches!(&*entry.outcome, "observed" | "refused") {
            count_refusal(rows, &entry, at);
        }
        Ok(())
    }
}

fn count_refusal(rows: &mut HashMap<RowKey, ReportRow>, entry: &ReportEntry<'_>, at: SystemTime) {
    let key = RowKey {
        is_observed: entry.outcome == "observed",
        crawler: entry.crawler.clone().into_owned(),
        host: entry.origin.as_deref().and_then(host).map(str::to_owned),
        reason: entry.reason.clone().into_owned(),
        rule: entry.rule(),
    };
    let row = rows.entry(key).or_insert_with_key(|key| ReportRow {
        outcome: entry.outcome.clone().into_owned(),
        crawler: key.crawler.clone(),
        host: key.host.clone(),
        reason: key.reason.clone(),
        rule: key.rule.clone(),
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::super::record::{DecisionRecord, RuleRecord};
    use super::super::tests::decision;
    use super::*;

    fn write(path: &Path, decisions: &[DecisionRecord]) {
        let lines =
            decisions.iter().map(|decision| serde_json::to_string(decision).unwrap() + "\n");
        fs::write(path, lines.collect::<String>()).unwrap();
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(decision().at).unwrap();
    }

    #[test]
    fn requests_are_counted_by_outcome_crawler_host_and_rule() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("decisions.jsonl");
        let at = decision().at;
        let mut observed = decision();
        observed.outcome = "observed".into();
        (observed.status, observed.would_be) = (200, Some(403));
        let mut ruled = decision();
        ruled.reason = "policy-rule".into();
        ruled.policy = Some(RuleRecord {
            number: 3,
            action: "refuse".into(),
            owner: None,
            reason: Some("contract".to_owned()),
        });
        let mut early = decision();
        early.at -= Duration::from_secs(3601);
        let mut forwarded = decision();
        forwarded.outcome = "forwarded".into();
        let all = [decision(), decision(), observed, ruled, early, forwarded];
        write(&path, &all);
        let report = LogReport::read(&path, at - Duration::from_secs(3600), at, &mut || ());
        let rows = report.rows.iter().map(|row| {
            let rule = row.rule.as_deref().unwrap_or_default();
            (row.outcome.as_str(), row.count, row.status, rule)
        });
        let line_2 = "Disallow: /a (https://[::1]:8443/robots.txt:2)";
        let expected = [
            ("observed", 1, 403, line_2),
            ("refused", 2, 403, line_2),
            ("refused", 1, 403, "[[rule]] 3: contract"),
        ];
        assert_eq!(rows.collect::<Vec<_>>(), expected);
        assert_eq!(report.rows[0].host.as_deref(), Some("[::1]"));
        assert_eq!((report.files[0].lines, report.lines_before), (6, 1));
        assert_eq!((report.first_at, report.last_at), (Some(at), Some(at)));
        assert_eq!(report.outcomes["refused"], 3);
    }

    #[test]
    fn unreadable_lines_are_listed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("decisions.jsonl");
        let rotated = dir.path().join("decisions.20270115T080000.000Z.jsonl");
        let line = serde_json::to_string(&decision()).unwrap();
        fs::write(&rotated, format!("{line}\n{}", &line[..40])).unwrap();
        fs::write(&path, format!("no JSON\n{line}\n{{\"id\":1}}\n")).unwrap();
        let at = decision().at;
        let report = LogReport::read(&path, SystemTime::UNIX_EPOCH, at, &mut || ());
        let named = report
            .unreadable_lines
            .iter()
            .map(|unreadable| (unreadable.path.clone(), unreadable.line));
        assert_eq!(named.collect::<Vec<_>>(), [(rotated, 2), (path.clone(), 1), (path, 3)]);
        assert_eq!((report.unreadable, report.rows[0].count), (3, 2));
    }
}
