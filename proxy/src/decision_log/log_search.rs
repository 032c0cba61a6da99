//! Decisions of a time range, read from the log's files.

use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::SystemTime;

use wayleave_evidence::chain::event;

use super::files::{LogLine, UNFINISHED, find_line, open_log_files};
use super::query::DecisionQuery;
use super::record::DecisionRecord;

/// A time range, both ends included; an end that is `None` is open.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimeRange {
    pub(crate) since: Option<SystemTime>,
    pub(crate) until: Option<SystemTime>,
}

impl TimeRange {
    fn contains(&self, at: SystemTime) -> bool {
        self.since.is_none_or(|since| at >= since) && self.until.is_none_or(|until| at <= until)
    }
}

/// The newest decisions of a time range that match a query, the newest first.
#[derive(Debug, Default)]
pub(crate) struct NewestDecisions {
    pub(crate) decisions: Vec<DecisionRecord>,
    /// Whether older ones that match were left out.
    pub(crate) is_truncated: bool,
    /// The number of damaged lines that were skipped.
    pub(crate) damaged_lines: u64,
}

/// Returns the newest decisions of a time range that match `query` in the log at `path`, at most `limit`.
///
/// # Errors
///
/// Returns an error if one of its files cannot be read.
pub(super) fn newest(
    path: &Path,
    range: TimeRange,
    query: &DecisionQuery,
    limit: usize,
) -> io::Result<NewestDecisions> {
    // Lines can only be read forwards, so older decisions give way to newer ones.
    let mut kept = VecDeque::new();
    let mut is_truncated = false;
    let damaged_lines = scan(path, range, query, |decision, _| {
        kept.push_back(decision);
        if kept.len() > limit {
            kept.pop_front();
            is_truncated = true;
        }
        ControlFlow::Continue(())
    })?;
    let decisions = kept.into_iter().rev().collect();
    Ok(NewestDecisions { decisions, is_truncated, damaged_lines })
}

/// Passes the decisions of a time range that match `query`, with their lines and in the order of the log at `path`, to `take`
/// until it breaks. Returns the number of damaged lines on the way: complete lines that are too long, or are not a decision.
///
/// # Errors
///
/// Returns an error if one of the log's files cannot be read.
pub(crate) fn scan(
    path: &Path,
    range: TimeRange,
    query: &DecisionQuery,
    mut take: impl FnMut(DecisionRecord, &[u8]) -> ControlFlow<()>,
) -> io::Result<u64> {
    let mut damaged = 0;
    for (name, file) in open_log_files(path) {
        let in_file =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", name.display()));
        let file = file.map_err(in_file)?;
        // A file that was last written before the range holds none of its decisions.
        let written_at = file.metadata().and_then(|found| found.modified());
        let ends_before = |since| written_at.as_ref().is_ok_and(|at| *at < since);
        if range.since.is_some_and(ends_before) {
            continue;
        }
        let take_matching = |line: LogLine<'_>| {
            let line = match line {
                Ok(line) if line.starts_with(event::EVENT_PREFIX) => return None,
                Ok(line) => line,
                Err(error) => {
                    // Only in the current file may the last line still be being written.
                    damaged += u64::from(error != UNFINISHED || name != path);
                    return None;
                }
            };
            let Ok(decision) = serde_json::from_slice::<DecisionRecord>(line) else {
                damaged += 1;
                return None;
            };
            if !range.contains(decision.at) || !query.matches(&decision) {
                return None;
            }
            take(decision, line).break_value()
        };
        if find_line(&file, take_matching).map_err(in_file)?.is_some() {
            return Ok(damaged);
        }
    }
    Ok(damaged)
}

#[cfg(test)]
mod tests {
    use std::fs;

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
        let (range, query) = (TimeRange::default(), DecisionQuery::default());
        let found = newest(&path, range, &query, 10).unwrap();
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
        let (range, query) = (TimeRange::default(), DecisionQuery::default());
        let found = newest(&path, range, &query, 10).unwrap();
        assert_eq!((found.decisions.len(), found.damaged_lines), (2, 1));
    }
}
