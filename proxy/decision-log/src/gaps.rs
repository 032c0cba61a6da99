//! The decisions that a reader of the log could not see: missing files, lost decisions, damaged lines.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wayleave_clock::MAX_DRIFT;
use wayleave_evidence::chain::event::{EventKind, LogEvent};
use wayleave_evidence::files::FileBegin;
use wayleave_notation::rfc3339;

use super::files::{LogPlace, OpenLog};
use super::query::TimeRange;

/// Decisions that a reader of the log could not see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogGap {
    /// A phrase that says which.
    #[serde(rename = "what")]
    pub phrase: String,
    /// The time from which decisions may be missing; left out: from the beginning.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "rfc3339::serialize_some",
        deserialize_with = "rfc3339::deserialize_some"
    )]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub from: Option<SystemTime>,
    /// The time until which they may be; left out: to the end.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "rfc3339::serialize_some",
        deserialize_with = "rfc3339::deserialize_some"
    )]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub to: Option<SystemTime>,
}

/// A row of missing files, and the beginnings of those before and after them.
#[derive(Debug)]
struct MissingFiles {
    numbers: RangeInclusive<u64>,
    from: Option<SystemTime>,
    to: SystemTime,
}

/// The parts of a time range of the log that could not be read.
#[derive(Debug, Default)]
pub struct LogGaps {
    /// Complete lines that are too long, or are not a decision.
    pub damaged_lines: u64,
    /// Decisions that could not be written, as the log says.
    lost_decisions: u64,
    /// Places where lines that were signed are missing, or others are among them, as the log says.
    alterations: u64,
    /// The missing files, those in a row together.
    missing_files: Vec<MissingFiles>,
    /// Whether there are rotated files, but no current one.
    is_current_missing: bool,
    /// The beginning of the last file that is there.
    last_begin_at: Option<SystemTime>,
    /// The first and the last event that says that decisions are lost, or that the log was altered.
    events: Option<(SystemTime, SystemTime)>,
    /// Files that retention deleted, as the log says.
    deleted: Vec<u64>,
    /// Sentences about files that were left out.
    findings: Vec<String>,
}

impl LogGaps {
    /// Finds the files of the log at `path` that are missing and may have decisions of the range. Files are numbered from 1, and
    /// each says when it was begun, which is when the one before it ended.
    pub(super) fn of_log(log: &OpenLog, path: &Path, range: TimeRange) -> Self {
        let begins: BTreeMap<u64, SystemTime> = log
            .files
            .iter()
            .filter_map(|(_, file)| FileBegin::read(file.as_ref().ok()?))
            .map(|begin| (begin.number, begin.at))
            .collect();
        let mut missing_files = Vec::new();
        let mut expected = 1;
        let mut previous_at = None;
        for (number, at) in begins {
            let is_before = range.since.is_some_and(|since| at + MAX_DRIFT < since);
            let is_after = range.until.zip(previous_at).is_some_and(|(until, at)| until < at);
            if number > expected && !is_before && !is_after {
                let numbers = expected..=number - 1;
                missing_files.push(MissingFiles { numbers, from: previous_at, to: at });
            }
            expected = number + 1;
            previous_at = Some(at);
        }
        let is_current_missing = !path.exists() && !log.files.is_empty();
        Self {
            missing_files,
            is_current_missing,
            last_begin_at: previous_at,
            findings: log.findings.clone(),
            ..Self::default()
        }
    }

    /// Notes the decisions that are not in the log, according to an event of it.
    pub(super) fn note_event(&mut self, line: &[u8], range: TimeRange) {
        let Some(event) = LogEvent::parse(line) else {
            return;
        };
        match event.kind {
            EventKind::Deleted { file } => return self.deleted.push(file),
            EventKind::Lost { decisions } if range.contains(event.at) => {
                self.lost_decisions += decisions;
            }
            EventKind::Altered { .. } if range.contains(event.at) => self.alterations += 1,
            _ => return,
        }
        let (first, last) = self.events.unwrap_or((event.at, event.at));
        self.events = Some((first.min(event.at), last.max(event.at)));
    }

    /// Logs which lines and files were left out, if any were.
    pub(super) fn warn(&self) {
        let lines = self.damaged_lines;
        if lines > 0 {
            tracing::warn!(lines, "lines of the decision log are damaged and left out");
        }
        for finding in &self.findings {
            tracing::warn!("{finding}");
        }
    }

    /// Returns a phrase for each gap, damaged lines aside. Files that retention deleted count if `counts_deleted`: somebody
    /// who asks for the whole log means the part that is kept.
    pub fn phrases(&self, counts_deleted: bool) -> Vec<String> {
        self.all(counts_deleted).into_iter().map(|gap| gap.phrase).collect()
    }

    /// Returns each gap, damaged lines aside, with its time. Files that retention deleted count if `counts_deleted`.
    pub fn all(&self, counts_deleted: bool) -> Vec<LogGap> {
        let timeless = |phrase: &String| LogGap { phrase: phrase.clone(), from: None, to: None };
        let mut gaps: Vec<_> = self.findings.iter().map(timeless).collect();
        for MissingFiles { numbers, from, to } in &self.missing_files {
            // The oldest are deleted first, and the records of that go with the files that held them.
            let is_deleted = self.deleted.contains(numbers.end());
            if counts_deleted || !is_deleted {
                let last = numbers.end();
                let phrase = match numbers.start() {
                    first if first == last => format!("file {first} of the log is missing"),
                    first => format!("files {first} to {last} of the log are missing"),
                };
                gaps.push(LogGap { phrase, from: *from, to: Some(*to) });
            }
        }
        if self.is_current_missing {
            let phrase = "the current file of the log is missing".to_owned();
            gaps.push(LogGap { phrase, from: self.last_begin_at, to: None });
        }
        let (from, to) = self.events.unzip();
        if self.lost_decisions > 0 {
            let phrase = format!("decisions that could not be written: {}", self.lost_decisions);
            gaps.push(LogGap { phrase, from, to });
        }
        if self.alterations > 0 {
            let phrase = format!("places where the log was altered: {}", self.alterations);
            gaps.push(LogGap { phrase, from, to });
        }
        gaps
    }
}

/// Returns the files of a log that are missing or left out, whatever deleted them. Its lines are not read.
pub fn file_gaps(place: LogPlace<'_>) -> Vec<LogGap> {
    let log = OpenLog::open(place);
    LogGaps::of_log(&log, place.path, TimeRange::default()).all(true)
}

/// Returns a phrase for each part of a log that cannot be opened, is missing, or is left out.
pub fn unread_parts(place: LogPlace<'_>) -> Vec<String> {
    let log = OpenLog::open(place);
    let unopened = log.files.iter().filter_map(|(name, file)| {
        let error = file.as_ref().err()?;
        Some(format!("{}: {error}", name.display()))
    });
    let gaps = LogGaps::of_log(&log, place.path, TimeRange::default());
    unopened.chain(gaps.phrases(true)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::super::tests::decision;
    use super::*;

    fn hour(number: u64) -> SystemTime {
        decision().at + Duration::from_hours(number)
    }

    /// Writes files of a log with these numbers, each begun an hour after the one numbered before it.
    fn write_files(dir: &Path, numbers: &[u64], current: u64) {
        for number in numbers {
            let name = if *number == current {
                "decisions.jsonl".to_owned()
            } else {
                format!("decisions.2026010{number}T000000.000Z.jsonl")
            };
            let kind = EventKind::File { file: *number, program: String::new() };
            let mut line = LogEvent::new(kind, hour(*number)).to_json();
            line.push(b'\n');
            fs::write(dir.join(name), line).unwrap();
        }
    }

    fn phrases(numbers: &[u64], range: TimeRange) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        write_files(dir.path(), numbers, 6);
        let path = dir.path().join("decisions.jsonl");
        let log = OpenLog::open(LogPlace { path: &path, state_dir: dir.path() });
        assert_eq!(log.findings.len(), usize::from(!numbers.is_empty()), "it has no head");
        LogGaps::of_log(&OpenLog { findings: Vec::new(), ..log }, &path, range).phrases(true)
    }

    #[test]
    fn missing_files_are_named_by_their_numbers() {
        for (numbers, expected) in [
            (&[1, 2, 3, 4, 5, 6][..], &[][..]),
            (&[3, 4, 5, 6], &["files 1 to 2 of the log are missing"]),
            (&[1, 3, 6], &["file 2 of the log is missing", "files 4 to 5 of the log are missing"]),
            (&[1, 2], &["the current file of the log is missing"]),
            (&[], &[]),
        ] {
            assert_eq!(phrases(numbers, TimeRange::default()), expected, "{numbers:?}");
        }
    }

    #[test]
    fn a_missing_file_outside_of_the_range_is_no_gap() {
        let range = |since, until| TimeRange { since: Some(hour(since)), until: Some(hour(until)) };
        let file_3 = &["file 3 of the log is missing"][..];
        for (since, until, expected) in [
            (1, 9, file_3),
            (3, 3, file_3),
            (3, 9, file_3),
            (5, 9, &[]),
            (0, 1, &[]),
            (0, 2, file_3),
        ] {
            let found = phrases(&[1, 2, 4, 5, 6], range(since, until));
            assert_eq!(found, expected, "{since} {until}");
        }
    }

    #[test]
    fn retention_explains_a_gap_to_who_asks_for_the_whole_log() {
        let dir = tempfile::tempdir().unwrap();
        write_files(dir.path(), &[3, 6], 6);
        let path = dir.path().join("decisions.jsonl");
        let log = OpenLog::open(LogPlace { path: &path, state_dir: dir.path() });
        let range = TimeRange::default();
        let log = OpenLog { findings: Vec::new(), ..log };
        let mut gaps = LogGaps::of_log(&log, &path, range);
        for file in [2, 4] {
            let event = LogEvent::new(EventKind::Deleted { file }, hour(7));
            gaps.note_event(&event.to_json(), range);
        }
        assert_eq!(gaps.phrases(false), ["files 4 to 5 of the log are missing"]);
        assert_eq!(gaps.phrases(true).len(), 2);
    }

    #[test]
    fn decisions_that_were_not_written_are_gaps_of_their_time() {
        let range = TimeRange { since: Some(hour(1)), until: None };
        let mut gaps = LogGaps::default();
        for (decisions, at) in [(3, hour(0)), (4, hour(2))] {
            gaps.note_event(&LogEvent::new(EventKind::Lost { decisions }, at).to_json(), range);
        }
        assert_eq!(gaps.phrases(true), ["decisions that could not be written: 4"]);
    }
}
