//! Evaluates the decision log over a time range: requests that were refused, or would have been, and the prices that origins
//! asked for.
//!
//! A log may hold a year of decisions. It is read once, and the counts are bounded: names that are rare are forgotten, and
//! the report says so.

mod costs;
mod counts;
mod dimension;
mod edge;
mod entry;
mod payments;
mod query;
mod rows;
#[cfg(test)]
mod size;
mod summary;
#[cfg(test)]
mod tests;
mod timeline;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Serialize;
use wayleave_decision::RequestOutcome;
use wayleave_evidence::chain::event;
use wayleave_notation::rfc3339;

use self::costs::add_costs;
use self::counts::ReportCounts;
pub use self::dimension::ReportDimension;
use self::edge::EdgeCounts;
use self::entry::ReportEntry;
pub use self::payments::PaymentRow;
pub use self::query::{ReportContents, ReportQuery};
pub use self::rows::ReportRow;
pub use self::summary::SummaryRow;
pub use self::timeline::Timeline;
use super::edge_names::SignedEdge;
use super::files::{LogLine, LogPlace, OpenLog, UNFINISHED, are_older, find_line};
use super::gaps::LogGaps;
use super::query::TimeRange;

/// The number of unreadable lines that are listed; further ones are only counted.
const MAX_LISTED: usize = 20;
/// The number of lines between two reports of progress.
const LINES_PER_UPDATE: u64 = 8192;

/// The part of a log that has been read.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReportProgress {
    pub lines: u64,
    /// The bytes that were read of the files, as they are on the disk.
    pub bytes: u64,
    pub total_bytes: u64,
}

/// Statistics of the log in a time range, and how much of the log was read.
#[derive(Debug, Serialize)]
pub struct LogReport {
    #[serde(serialize_with = "rfc3339::serialize")]
    pub since: SystemTime,
    #[serde(serialize_with = "rfc3339::serialize")]
    pub until: SystemTime,
    /// The files that were read to their end, the oldest first.
    pub files: Vec<ReportFile>,
    /// The number of files that were not read because they ended before `since`.
    pub older_files: usize,
    /// The number of lines that are older than `since`.
    pub lines_before: u64,
    /// The number of lines that are newer than `until`.
    pub lines_after: u64,
    /// The number of lines, or whole files, that could not be read.
    pub unreadable: u64,
    /// The first of them.
    pub unreadable_lines: Vec<UnreadableLine>,
    /// The number of complete lines that could not be read.
    #[serde(skip)]
    pub damaged_lines: u64,
    /// The errors of files, or of the directory, that could not be read.
    #[serde(skip)]
    pub failures: Vec<String>,
    /// The decisions of the range that are missing from the log.
    #[serde(skip)]
    pub gaps: LogGaps,
    /// The time of the first decision.
    #[serde(serialize_with = "rfc3339::serialize_some")]
    pub first_at: Option<SystemTime>,
    /// The time of the last decision.
    #[serde(serialize_with = "rfc3339::serialize_some")]
    pub last_at: Option<SystemTime>,
    /// The number of decisions with each outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// The summary by crawler.
    pub by_crawler: Vec<SummaryRow>,
    /// The other summary that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_host: Option<Vec<SummaryRow>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_origin: Option<Vec<SummaryRow>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_rule: Option<Vec<SummaryRow>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_reason: Option<Vec<SummaryRow>>,
    /// By product token, User-Agent and client: in an overview, only of requests that match no `[[crawler]]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_token: Option<Vec<SummaryRow>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_user_agent: Option<Vec<SummaryRow>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_client: Option<Vec<SummaryRow>>,
    /// The requests over time, in an overview.
    #[serde(skip)]
    pub timeline: Option<Timeline>,
    /// The requests that were refused, or would have been: first those only observed, then by frequency.
    pub rows: Vec<ReportRow>,
    /// The requests that failed, by frequency.
    pub failed: Vec<ReportRow>,
    /// The demands for payment, none of which was met, by frequency.
    pub payments: Vec<PaymentRow>,
    /// The answers of hosts to signed and unsigned requests, in a summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edge: Option<SignedEdge>,
    /// The number of rows, and of names in summaries, that were left out because they are rare and there are too many.
    pub left_out: u64,
}

/// A file of the log.
#[derive(Debug, Serialize)]
pub struct ReportFile {
    pub path: PathBuf,
    /// The number of lines that are, or should be, decisions.
    pub lines: u64,
}

/// A line that cannot be read; line 0 is the file itself.
#[derive(Debug, Serialize)]
pub struct UnreadableLine {
    pub path: PathBuf,
    pub line: u64,
    pub error: String,
}

/// Receives the progress of a report, which ends early if this breaks.
pub(crate) type ProgressSink<'a> = &'a mut dyn FnMut(ReportProgress) -> ControlFlow<()>;

impl LogReport {
    /// Evaluates a log with all its files. `on_progress` is called every few thousand lines.
    pub fn read(log: LogPlace<'_>, query: &ReportQuery, on_progress: ProgressSink<'_>) -> Self {
        let mut report = Self::empty(query);
        let mut counts = ReportCounts::new(query);
        let mut progress = ReportProgress::default();
        let files = report.files_in_range(log);
        progress.total_bytes = files.iter().map(|(.., bytes)| bytes).sum();
        for (name, file, bytes) in files {
            let done = progress.bytes + bytes;
            let read = report.read_file(name, file, &mut counts, &mut progress, on_progress);
            progress.bytes = done;
            if read.is_break() || on_progress(progress).is_break() {
                break;
            }
        }
        report.finish(counts)
    }

    /// Evaluates decisions that are in memory, given as lines of the log.
    pub(super) fn of_lines(
        query: &ReportQuery,
        each_line: impl FnOnce(&mut dyn FnMut(&[u8])),
    ) -> Self {
        let mut report = Self::empty(query);
        let mut counts = ReportCounts::new(query);
        each_line(&mut |line| {
            // This process has written them, so they can be read.
            let _ = report.read_line(Ok(line), &mut counts);
        });
        report.finish(counts)
    }

    fn empty(query: &ReportQuery) -> Self {
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
            gaps: LogGaps::default(),
            first_at: None,
            last_at: None,
            outcomes: BTreeMap::new(),
            by_crawler: Vec::new(),
            by_host: None,
            by_origin: None,
            by_rule: None,
            by_reason: None,
            by_token: None,
            by_user_agent: None,
            by_client: None,
            timeline: None,
            rows: Vec::new(),
            failed: Vec::new(),
            payments: Vec::new(),
            edge: None,
            left_out: 0,
        }
    }

    /// Returns the files that may hold decisions of the range, each with its size.
    fn files_in_range(&mut self, log: LogPlace<'_>) -> Vec<(PathBuf, io::Result<File>, u64)> {
        let mut files = Vec::new();
        let opened = OpenLog::open(log);
        let older = are_older(&opened.files, self.since);
        self.gaps = LogGaps::of_log(&opened, log.path, self.range());
        for ((name, file), is_older) in opened.files.into_iter().zip(older) {
            if is_older {
                self.older_files += 1;
            } else {
                let metadata = file.as_ref().ok().and_then(|file| file.metadata().ok());
                files.push((name, file, metadata.map_or(0, |found| found.len())));
            }
        }
        files
    }

    fn range(&self) -> TimeRange {
        TimeRange { since: Some(self.since), until: Some(self.until) }
    }

    fn read_file(
        &mut self,
        name: PathBuf,
        file: io::Result<File>,
        counts: &mut ReportCounts,
        progress: &mut ReportProgress,
        on_progress: ProgressSink<'_>,
    ) -> ControlFlow<()> {
        let mut lines = 0;
        let mut number = 0;
        let before = progress.bytes;
        let read = file.and_then(|file| {
            find_line(&file, |line| {
                number += 1;
                if let Ok(line) = line
                    && line.starts_with(event::EVENT_PREFIX)
                {
                    self.gaps.note_event(line, self.range());
                    return None;
                }
                lines += 1;
                progress.lines += 1;
                if progress.lines.is_multiple_of(LINES_PER_UPDATE) {
                    // The reader shares the file's position.
                    progress.bytes = before + (&file).stream_position().unwrap_or_default();
                    if on_progress(*progress).is_break() {
                        return Some(());
                    }
                }
                if let Err(error) = self.read_line(line, counts) {
                    // The last line may still be being written.
                    self.damaged_lines += u64::from(line != Err(UNFINISHED));
                    self.note_unreadable(&name, number, error);
                }
                None
            })
        });
        progress.bytes = before;
        match read {
            Ok(Some(())) => return ControlFlow::Break(()),
            Ok(None) => self.files.push(ReportFile { path: name, lines }),
            Err(error) => self.note_failure(&name, &error),
        }
        ControlFlow::Continue(())
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

    fn read_line(&mut self, line: LogLine<'_>, counts: &mut ReportCounts) -> Result<(), String> {
        let line = line?;
        // Most lines of a log may be older than the time range: those are not parsed.
        if counts.is_surely_before(line) {
            self.lines_before += 1;
            return Ok(());
        }
        let entry = serde_json::from_slice::<ReportEntry<'_>>(line)
            .map_err(|error| format!("is not a decision: {error}"))?;
        let at = humantime::parse_rfc3339(&entry.at)
            .map_err(|error| format!("is not a decision: at: {error}"))?;
        if at < self.since {
            self.lines_before += 1;
            return Ok(());
        }
        if at > self.until {
            self.lines_after += 1;
            return Ok(());
        }
        if !counts.count(&entry, at) {
            return Ok(());
        }
        self.first_at = Some(self.first_at.map_or(at, |first| first.min(at)));
        self.last_at = Some(self.last_at.map_or(at, |last| last.max(at)));
        // Without `entry`, which would allocate a key for every line of a log of millions.
        match self.outcomes.get_mut(&*entry.outcome) {
            Some(count) => *count += 1,
            None => drop(self.outcomes.insert(entry.outcome.to_string(), 1)),
        }
        Ok(())
    }

    fn finish(mut self, counts: ReportCounts) -> Self {
        let (left_out_payments, payments) = counts.payments.into_rows();
        (self.left_out, self.rows) = counts.rows.into_rows();
        let (left_out_failures, failed) = counts.failures.into_rows();
        self.left_out += left_out_payments + left_out_failures;
        self.failed = failed;
        self.payments = payments;
        if let Some((left_out, edge)) = counts.edge.map(EdgeCounts::into_answers) {
            self.left_out += left_out;
            self.edge = Some(edge);
        }
        self.timeline = counts.timeline;
        for summary in counts.summaries.into_iter().chain(counts.unnamed) {
            let by = summary.by();
            let (left_out, mut rows) = summary.into_rows();
            add_costs(&mut rows, by, &self.payments);
            self.left_out += left_out;
            match by {
                ReportDimension::Crawler => self.by_crawler = rows,
                ReportDimension::Host => self.by_host = Some(rows),
                ReportDimension::Origin => self.by_origin = Some(rows),
                ReportDimension::Rule => self.by_rule = Some(rows),
                ReportDimension::Reason => self.by_reason = Some(rows),
                ReportDimension::Token => self.by_token = Some(rows),
                ReportDimension::UserAgent => self.by_user_agent = Some(rows),
                ReportDimension::Client => self.by_client = Some(rows),
            }
        }
        self
    }

    /// Leaves out all but the first rows of the long tables.
    pub(super) fn shorten(&mut self, rows: usize) {
        let summaries = [
            &mut self.by_host,
            &mut self.by_origin,
            &mut self.by_rule,
            &mut self.by_reason,
            &mut self.by_token,
            &mut self.by_user_agent,
            &mut self.by_client,
        ];
        for summary in summaries.into_iter().flatten() {
            summary.truncate(rows);
            summary.shrink_to_fit();
        }
        for rows_of_all in [&mut self.rows, &mut self.failed] {
            rows_of_all.truncate(rows);
            rows_of_all.shrink_to_fit();
        }
    }

    /// Returns the number of requests with this outcome.
    pub fn count_of(&self, outcome: RequestOutcome) -> u64 {
        self.outcomes.get(outcome.as_str()).copied().unwrap_or_default()
    }

    /// Returns the summary by a dimension; none if it was not asked for.
    pub fn summary(&self, by: ReportDimension) -> &[SummaryRow] {
        let other = match by {
            ReportDimension::Crawler => return &self.by_crawler,
            ReportDimension::Host => &self.by_host,
            ReportDimension::Origin => &self.by_origin,
            ReportDimension::Rule => &self.by_rule,
            ReportDimension::Reason => &self.by_reason,
            ReportDimension::Token => &self.by_token,
            ReportDimension::UserAgent => &self.by_user_agent,
            ReportDimension::Client => &self.by_client,
        };
        other.as_deref().unwrap_or_default()
    }
}
