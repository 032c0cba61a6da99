//! Decisions of a time range, read from the log's files.

use std::collections::VecDeque;
use std::io::{self, Seek as _};
use std::ops::ControlFlow;

use tokio_util::sync::CancellationToken;
use wayleave_evidence::chain::event;
use wayleave_record::DecisionRecord;

use super::files::{LogFile, LogLine, LogPlace, OpenLog, UNFINISHED, are_older, find_line};
use super::gaps::LogGaps;
use super::query::{DecisionQuery, TimeRange};

/// The newest decisions of a time range that match a query, the newest first.
#[derive(Debug, Default)]
pub struct NewestDecisions {
    pub decisions: Vec<DecisionRecord>,
    /// Whether older ones that match were left out.
    pub is_truncated: bool,
    /// The number of damaged lines that were skipped.
    pub damaged_lines: u64,
}

/// Returns the newest decisions of a time range that match `query` in a log, at most `limit`. Ends early if nobody
/// waits for them any more.
///
/// # Errors
///
/// Returns an error if one of its files cannot be read.
pub(super) fn newest(
    log: LogPlace<'_>,
    range: TimeRange,
    query: &DecisionQuery,
    limit: usize,
    is_given_up: &CancellationToken,
) -> io::Result<NewestDecisions> {
    // Lines can only be read forwards, so older decisions give way to newer ones.
    let mut kept = VecDeque::new();
    let mut is_truncated = false;
    let gaps = scan(log, range, query, |step| {
        if let ScanStep::Decision(decision, _) = step {
            kept.push_back(decision);
        }
        if kept.len() > limit {
            kept.pop_front();
            is_truncated = true;
        }
        if is_given_up.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    gaps.warn();
    let decisions = kept.into_iter().rev().collect();
    Ok(NewestDecisions { decisions, is_truncated, damaged_lines: gaps.damaged_lines })
}

/// The number of lines between two reports of progress.
const LINES_PER_UPDATE: u64 = 500;

/// A finding of a scan, or its progress.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a step is passed on at once, and never kept")]
pub enum ScanStep<'l> {
    /// A decision that matches, with its line.
    Decision(DecisionRecord, &'l [u8]),
    /// So many bytes of all files have been read, whether anything in them matches or not.
    Progress { bytes: u64, total_bytes: u64 },
}

/// Passes the decisions of a time range that match `query`, in the order of the log, to `take` until it breaks, and the
/// progress every few hundred lines. Returns the gaps in the files that it read.
///
/// # Errors
///
/// Returns an error if one of the log's files cannot be read.
pub fn scan(
    log: LogPlace<'_>,
    range: TimeRange,
    query: &DecisionQuery,
    mut take: impl FnMut(ScanStep<'_>) -> ControlFlow<()>,
) -> io::Result<LogGaps> {
    let path = log.path;
    let opened = OpenLog::open(log);
    let mut gaps = LogGaps::of_log(&opened, path, range);
    let mut files = opened.files;
    if let Some(since) = range.since {
        let mut older = are_older(&files, since).into_iter();
        files.retain(|_| older.next() != Some(true));
    }
    let length = |(_, file): &LogFile| {
        file.as_ref().ok().and_then(|file| file.metadata().ok()).map_or(0, |found| found.len())
    };
    let total_bytes = files.iter().map(length).sum();
    let mut bytes = 0;
    let mut lines = 0_u64;
    for opened in files {
        let begin = bytes;
        bytes += length(&opened);
        let (name, file) = opened;
        let in_file =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", name.display()));
        let file = file.map_err(in_file)?;
        let take_matching = |line: LogLine<'_>| {
            lines += 1;
            if lines.is_multiple_of(LINES_PER_UPDATE) {
                // The reader shares the file's position.
                let bytes = begin + (&file).stream_position().unwrap_or_default();
                let is_over = take(ScanStep::Progress { bytes, total_bytes }).is_break();
                if is_over {
                    return Some(());
                }
            }
            let (decision, line) = read_decision(line, name == path, range, &mut gaps)?;
            if !range.contains(decision.at) || !query.matches(&decision) {
                return None;
            }
            take(ScanStep::Decision(decision, line)).break_value()
        };
        if find_line(&file, take_matching).map_err(in_file)?.is_some() {
            return Ok(gaps);
        }
    }
    Ok(gaps)
}

/// Reads the decision of a line; `None` for an event and for a line that cannot be read, which are noted.
fn read_decision<'l>(
    line: LogLine<'l>,
    is_current_file: bool,
    range: TimeRange,
    gaps: &mut LogGaps,
) -> Option<(DecisionRecord, &'l [u8])> {
    let line = match line {
        Ok(line) if line.starts_with(event::EVENT_PREFIX) => {
            gaps.note_event(line, range);
            return None;
        }
        Ok(line) => line,
        Err(error) => {
            // Only in the current file may the last line still be being written.
            gaps.damaged_lines += u64::from(error != UNFINISHED || !is_current_file);
            return None;
        }
    };
    match serde_json::from_slice(line) {
        Ok(decision) => Some((decision, line)),
        Err(_) => {
            gaps.damaged_lines += 1;
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    use wayleave_evidence::chain::event::{EventKind, LogEvent};

    use super::super::tests::decision;
    use super::*;

    #[test]
    fn damaged_lines_are_counted_and_hide_no_decision() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("decisions.jsonl");
        let line = serde_json::to_vec(&decision()).unwrap();
        let too_long = vec![b'x'; 5 << 20];
        let event = b"{\"event\":\"stop\"}";
        let lines: [&[u8]; 6] = [&line, &too_long, event, b"{\"id\":1}", &line, b"{\"id\""];
        fs::write(&path, lines.join(&b'\n')).unwrap();
        let range = TimeRange::default();
        let query = DecisionQuery::default();
        let found =
            newest(LogPlace::alone(&path), range, &query, 10, &CancellationToken::new()).unwrap();
        assert_eq!((found.decisions.len(), found.damaged_lines), (2, 2));
    }

    #[test]
    fn only_the_current_file_may_end_within_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("decisions.jsonl");
        let line = serde_json::to_vec(&decision()).unwrap();
        let cut = [&line[..], b"\n", &line[..9]].concat();
        fs::write(&path, &cut).unwrap();
        fs::write(dir.path().join("decisions.20260101T000000.000Z.jsonl"), &cut).unwrap();
        let range = TimeRange::default();
        let query = DecisionQuery::default();
        let found =
            newest(LogPlace::alone(&path), range, &query, 10, &CancellationToken::new()).unwrap();
        assert_eq!((found.decisions.len(), found.damaged_lines), (2, 1));
    }

    /// Writes a file of the chain that began at this time, with one decision.
    fn write_file(path: &Path, number: u64, began_at: SystemTime, decision_at: SystemTime) {
        let kind = EventKind::File { file: number, program: String::new() };
        let mut text = LogEvent::new(kind, began_at).to_json();
        text.push(b'\n');
        text.extend(serde_json::to_vec(&DecisionRecord { at: decision_at, ..decision() }).unwrap());
        text.push(b'\n');
        fs::write(path, text).unwrap();
    }

    fn touch(path: &Path, at: SystemTime) {
        fs::File::options().append(true).open(path).unwrap().set_modified(at).unwrap();
    }

    #[test]
    fn whether_a_file_is_too_old_is_told_by_its_contents() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("decisions.jsonl");
        let hour = |number| decision().at + Duration::from_hours(number);
        let rotated = |name: &str| dir.path().join(format!("decisions.2027{name}.jsonl"));
        let first = rotated("0115T090000.000Z");
        let second = rotated("0115T100000.000Z");
        write_file(&first, 1, hour(0), hour(0));
        // A request that began before its file did.
        write_file(&second, 2, hour(1), hour(0) + Duration::from_mins(59));
        write_file(&path, 3, hour(2), hour(2));
        let count = |since| {
            let range = TimeRange { since: Some(since), until: None };
            let query = DecisionQuery::default();
            newest(LogPlace::alone(&path), range, &query, 10, &CancellationToken::new())
                .unwrap()
                .decisions
                .len()
        };
        for modified_at in [SystemTime::UNIX_EPOCH, hour(1000)] {
            for file in [&first, &second, &path] {
                touch(file, modified_at);
            }
            assert_eq!((count(hour(0)), count(hour(0) + Duration::from_mins(1))), (3, 2));
            assert_eq!((count(hour(1)), count(hour(2)), count(hour(3))), (1, 1, 0));
        }
        let names = |since| {
            let files = OpenLog::open(LogPlace::alone(&path)).files;
            are_older(&files, since).iter().filter(|is_older| **is_older).count()
        };
        assert_eq!(names(hour(1)), 0, "a clock may have been off by a minute");
        assert_eq!((names(hour(1) + Duration::from_mins(2)), names(hour(1000))), (1, 2));
        // The clock was an hour ahead at first: the first file has decisions that are later than the second's begin.
        write_file(&second, 2, hour(0), hour(0));
        write_file(&first, 1, hour(1), hour(1));
        assert_eq!(count(hour(1)), 2);
    }
}
