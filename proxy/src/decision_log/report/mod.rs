//! Evaluates the decision log over a time range: requests that were refused, or would have been, and what origins
//! asked for.
//!
//! A log may hold a year of decisions. It is read once, and what is counted is bounded: names that are rare are forgotten, and
//! the report says so.

mod entry;
mod payments;
mod rows;
#[cfg(test)]
mod size;
mod summary;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Serialize;
use wayleave_evidence::chain::event;
use wayleave_evidence::files::{log_directory, rotated_files};
use wayleave_evidence::rfc3339;

use self::entry::ReportEntry;
use self::payments::PaymentCounts;
pub(crate) use self::payments::PaymentRow;
pub(crate) use self::rows::ReportRow;
use self::rows::RowCounts;
use self::summary::Summary;
pub(crate) use self::summary::{ReportDimension, SummaryRow};
use super::files::{LogLine, UNFINISHED, find_line, open_log_files};

/// The number of unreadable lines that are listed; further ones are only counted.
const MAX_LISTED: usize = 20;
/// The number of lines between two reports of progress.
const LINES_PER_UPDATE: u64 = 8192;

/// The subject of a report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReportQuery<'a> {
    pub(crate) since: SystemTime,
    /// The end, included.
    pub(crate) until: SystemTime,
    /// The only crawler whose requests count.
    pub(crate) crawler: Option<&'a str>,
    /// The keys that requests are counted by, beside the crawler.
    pub(crate) by: ReportDimension,
}

/// The part of a log that has been read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReportProgress {
    pub(crate) lines: u64,
    /// The bytes that were read of the files, as they are on the disk.
    pub(crate) bytes: u64,
    pub(crate) total_bytes: u64,
}

/// Statistics of the log in a time range, and how much of the log was read.
#[derive(Debug, Serialize)]
pub(crate) struct LogReport {
    #[serde(serialize_with = "rfc3339::serialize")]
    pub(crate) since: SystemTime,
    #[serde(serialize_with = "rfc3339::serialize")]
    pub(crate) until: SystemTime,
    /// The files that were read to their end, the oldest first.
    pub(crate) files: Vec<ReportFile>,
    /// The number of files that were not read because they were last written before `since`.
    pub(crate) older_files: usize,
    /// The number of lines that are older than `since`.
    pub(crate) lines_before: u64,
    /// The number of lines that are newer than `until`.
    pub(crate) lines_after: u64,
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
    /// The summary by crawler.
    pub(crate) by_crawler: Vec<SummaryRow>,
    /// The other summary that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) by_host: Option<Vec<SummaryRow>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) by_rule: Option<Vec<SummaryRow>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) by_reason: Option<Vec<SummaryRow>>,
    /// The requests that were refused, or would have been: first those only observed, then by frequency.
    pub(crate) rows: Vec<ReportRow>,
    /// The demands for payment, none of which was met, by frequency.
    pub(crate) payments: Vec<PaymentRow>,
    /// The number of rows, and of names in summaries, that were left out because they are rare and there are too many.
    pub(crate) left_out: u64,
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

/// The counts while the log is read.
struct ReportCounts {
    rows: RowCounts,
    payments: PaymentCounts,
    /// By crawler, and by what else was asked for.
    summaries: Vec<Summary>,
    progress: ReportProgress,
}

impl LogReport {
    /// Evaluates the log at `path` with all its files. `on_progress` is called every few thousand lines.
    pub(crate) fn read(
        path: &Path,
        query: ReportQuery<'_>,
        on_progress: &mut dyn FnMut(ReportProgress),
    ) -> Self {
        let mut report = Self::empty(&query);
        let mut counts = ReportCounts {
            rows: RowCounts::new(),
            payments: PaymentCounts::new(),
            summaries: vec![Summary::new(ReportDimension::Crawler)],
            progress: ReportProgress::default(),
        };
        if query.by != ReportDimension::Crawler {
            counts.summaries.push(Summary::new(query.by));
        }
        if let Err(error) = rotated_files(path) {
            report.note_failure(log_directory(path), &error);
        }
        let files = report.files_in_range(path);
        counts.progress.total_bytes = files.iter().map(|(.., bytes)| bytes).sum();
        for (name, file, bytes) in files {
            let done = counts.progress.bytes + bytes;
            report.read_file(name, file, &query, &mut counts, on_progress);
            counts.progress.bytes = done;
            on_progress(counts.progress);
        }
        report.finish(counts)
    }

    fn empty(query: &ReportQuery<'_>) -> Self {
        Self {
            since: query.since,
            until: query.until,
            files: Vec::new(),
            older_files: 0,
            lines_before: 0,
            lines_after: 0,
            unreadable: 0,
            unreadable_lines: Vec::new(),
            damaged_lines: 0,
            failures: Vec::new(),
            first_at: None,
            last_at: None,
            outcomes: BTreeMap::new(),
            by_crawler: Vec::new(),
            by_host: None,
            by_rule: None,
            by_reason: None,
            rows: Vec::new(),
            payments: Vec::new(),
            left_out: 0,
        }
    }

    /// Returns the files that may hold decisions of the range, each with its size.
    fn files_in_range(&mut self, path: &Path) -> Vec<(PathBuf, io::Result<File>, u64)> {
        let mut files = Vec::new();
        for (name, file) in open_log_files(path) {
            let metadata = file.as_ref().ok().and_then(|file| file.metadata().ok());
            let written_at = metadata.as_ref().and_then(|found| found.modified().ok());
            if written_at.is_some_and(|at| at < self.since) {
                self.older_files += 1;
            } else {
                files.push((name, file, metadata.map_or(0, |found| found.len())));
            }
        }
        files
    }

    fn read_file(
        &mut self,
        name: PathBuf,
        file: io::Result<File>,
        query: &ReportQuery<'_>,
        counts: &mut ReportCounts,
        on_progress: &mut dyn FnMut(ReportProgress),
    ) {
        let (mut lines, mut number) = (0, 0);
        let before = counts.progress.bytes;
        let read = file.and_then(|file| {
            find_line(&file, |line| {
                number += 1;
                if line.is_ok_and(|line| line.starts_with(event::EVENT_PREFIX)) {
                    return None::<()>;
                }
                lines += 1;
                counts.progress.lines += 1;
                if counts.progress.lines.is_multiple_of(LINES_PER_UPDATE) {
                    // The reader shares the file's position.
                    counts.progress.bytes = before + (&file).stream_position().unwrap_or_default();
                    on_progress(counts.progress);
                }
                if let Err(error) = self.read_line(line, query, counts) {
                    // The last line may still be being written.
                    self.damaged_lines += u64::from(line != Err(UNFINISHED));
                    self.note_unreadable(&name, number, error);
                }
                None
            })
        });
        counts.progress.bytes = before;
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
        query: &ReportQuery<'_>,
        counts: &mut ReportCounts,
    ) -> Result<(), String> {
        let entry = serde_json::from_slice::<ReportEntry<'_>>(line?)
            .map_err(|error| format!("is not a decision: {error}"))?;
        let at = humantime::parse_rfc3339(&entry.at)
            .map_err(|error| format!("is not a decision: at: {error}"))?;
        if at < query.since {
            self.lines_before += 1;
            return Ok(());
        }
        if at > query.until {
            self.lines_after += 1;
            return Ok(());
        }
        if query.crawler.is_some_and(|crawler| crawler != entry.crawler) {
            return Ok(());
        }
        self.first_at = Some(self.first_at.map_or(at, |first| first.min(at)));
        self.last_at = Some(self.last_at.map_or(at, |last| last.max(at)));
        // Without `entry`, which would allocate a key for every line of a log of millions.
        match self.outcomes.get_mut(&*entry.outcome) {
            Some(count) => *count += 1,
            None => drop(self.outcomes.insert(entry.outcome.clone().into_owned(), 1)),
        }
        let is_needed = entry.is_refusal() || query.by == ReportDimension::Rule;
        let rule = is_needed.then(|| entry.rule()).flatten();
        let name = rule.as_deref().unwrap_or(&entry.reason);
        for summary in &mut counts.summaries {
            summary.count(&entry, name);
        }
        if entry.is_refusal() {
            counts.rows.count(&entry, rule, at);
        }
        if entry.asks_for_payment() {
            counts.payments.count(&entry);
        }
        Ok(())
    }

    fn finish(mut self, counts: ReportCounts) -> Self {
        let (left_out_payments, payments) = counts.payments.into_rows();
        (self.left_out, self.rows) = counts.rows.into_rows();
        self.left_out += left_out_payments;
        self.payments = payments;
        for summary in counts.summaries {
            let by = summary.by();
            let (left_out, rows) = summary.into_rows();
            self.left_out += left_out;
            match by {
                ReportDimension::Crawler => self.by_crawler = rows,
                ReportDimension::Host => self.by_host = Some(rows),
                ReportDimension::Rule => self.by_rule = Some(rows),
                ReportDimension::Reason => self.by_reason = Some(rows),
            }
        }
        self
    }

    /// Returns the summary by a dimension; none if it was not asked for.
    pub(crate) fn summary(&self, by: ReportDimension) -> &[SummaryRow] {
        let other = match by {
            ReportDimension::Crawler => return &self.by_crawler,
            ReportDimension::Host => &self.by_host,
            ReportDimension::Rule => &self.by_rule,
            ReportDimension::Reason => &self.by_reason,
        };
        other.as_deref().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::super::record::{DecisionRecord, RuleRecord};
    use super::super::tests::decision;
    use super::*;

    /// Asks for everything from a time on.
    fn since(since: SystemTime) -> ReportQuery<'static> {
        let until = decision().at + Duration::from_hours(24 * 400);
        ReportQuery { since, until, crawler: None, by: ReportDimension::Crawler }
    }

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
        let report = LogReport::read(&path, since(at - Duration::from_secs(3600)), &mut |_| ());
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
        let report = LogReport::read(&path, since(SystemTime::UNIX_EPOCH), &mut |_| ());
        let named = report
            .unreadable_lines
            .iter()
            .map(|unreadable| (unreadable.path.clone(), unreadable.line));
        assert_eq!(named.collect::<Vec<_>>(), [(rotated, 2), (path.clone(), 1), (path, 3)]);
        assert_eq!((report.unreadable, report.rows[0].count), (3, 2));
    }

    #[test]
    fn a_summary_counts_every_request_and_names_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("decisions.jsonl");
        let made = |crawler: &'static str, outcome: &'static str, host: &str| DecisionRecord {
            crawler: crawler.into(),
            outcome: outcome.into(),
            owner: (crawler == "news").then(|| "news-team".to_owned()),
            origin: Some(format!("https://{host}")),
            ..decision()
        };
        write(
            &path,
            &[
                made("news", "refused", "a.test"),
                made("news", "observed", "b.test"),
                made("news", "observed", "b.test"),
                made("news", "forwarded", "c.test"),
                made("images", "failed", "c.test"),
            ],
        );
        let query = |by| ReportQuery { by, ..since(SystemTime::UNIX_EPOCH) };
        let report = LogReport::read(&path, query(ReportDimension::Host), &mut |_| ());
        let [news, images] = &report.by_crawler[..] else { panic!("{:?}", report.by_crawler) };
        assert_eq!((&*news.name, news.owner.as_deref()), ("news", Some("news-team")));
        assert_eq!((news.requests, news.refused, news.would_be_refused), (4, 1, 2));
        assert_eq!((news.refused_share, news.would_be_refused_share), (0.25, 0.5));
        assert_eq!(news.first_host.as_deref(), Some("b.test"));
        let rule = news.first_rule.as_deref();
        assert_eq!(rule, Some("Disallow: /a (https://b.test/robots.txt:2)"));
        assert_eq!((images.requests, images.failed, &images.first_host), (1, 1, &None));
        let hosts = report.by_host.as_deref().unwrap_or_default().iter();
        let hosts = hosts.map(|row| (&*row.name, row.requests, row.first_crawler.as_deref()));
        let expected =
            [("b.test", 2, Some("news")), ("a.test", 1, Some("news")), ("c.test", 2, None)];
        assert_eq!(hosts.collect::<Vec<_>>(), expected);

        let one = ReportQuery { crawler: Some("images"), ..query(ReportDimension::Reason) };
        let report = LogReport::read(&path, one, &mut |_| ());
        assert_eq!(report.outcomes, BTreeMap::from([("failed".to_owned(), 1)]));
        assert_eq!(report.by_reason.map(|rows| rows.len()), Some(1));
    }

    #[test]
    fn the_range_includes_its_ends() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("decisions.jsonl");
        let at = decision().at;
        let later =
            |seconds| DecisionRecord { at: at + Duration::from_secs(seconds), ..decision() };
        write(&path, &[later(0), later(1), later(2), later(3)]);
        let file = File::options().write(true).open(&path).unwrap();
        file.set_modified(later(3).at).unwrap();
        let query = ReportQuery { until: later(2).at, ..since(later(1).at) };
        let report = LogReport::read(&path, query, &mut |_| ());
        assert_eq!(
            (report.lines_before, report.outcomes["refused"], report.lines_after),
            (1, 2, 1)
        );
    }
}
