//! Decisions of a time range, read from the log's files.

use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::SystemTime;

use super::decision::Decision;
use super::files::{Line, files, find_line};
use super::query::Query;
use crate::observe::chain::event;

/// A time range, both ends included; an end that is `None` is open.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    pub(crate) since: Option<SystemTime>,
    pub(crate) until: Option<SystemTime>,
}

impl Span {
    fn contains(&self, at: SystemTime) -> bool {
        self.since.is_none_or(|since| at >= since) && self.until.is_none_or(|until| at <= until)
    }
}

/// The newest decisions of a time range that match a query, the newest first.
#[derive(Debug, Default)]
pub(crate) struct Newest {
    pub(crate) decisions: Vec<Decision>,
    /// Whether there are older ones.
    pub(crate) is_cut: bool,
}

/// Returns the newest decisions of the log at `path`, at most `limit`.
///
/// # Errors
///
/// Returns an error if one of its files cannot be read.
pub(super) fn newest(path: &Path, span: Span, query: &Query, limit: usize) -> io::Result<Newest> {
    let mut found = VecDeque::new();
    let mut is_cut = false;
    each(path, span, query, |decision, _| {
        found.push_back(decision);
        if found.len() > limit {
            found.pop_front();
            is_cut = true;
        }
        ControlFlow::Continue(())
    })?;
    let decisions = found.into_iter().rev().collect();
    Ok(Newest { decisions, is_cut })
}

/// Passes the decisions of a time range that match `query`, with their lines and in the order of the log at `path`, to `take`
/// until it breaks.
///
/// # Errors
///
/// Returns an error if one of the log's files cannot be read.
pub(super) fn each(
    path: &Path,
    span: Span,
    query: &Query,
    mut take: impl FnMut(Decision, &[u8]) -> ControlFlow<()>,
) -> io::Result<()> {
    for (_, file) in files(path) {
        let file = file?;
        // A file that was last written before the range has no decision of it.
        let written_at = file.metadata().and_then(|found| found.modified());
        let ends_before = |since| written_at.as_ref().is_ok_and(|at| *at < since);
        if span.since.is_some_and(ends_before) {
            continue;
        }
        let wanted = |line: Line<'_>| {
            let line = line.ok().filter(|line| !line.starts_with(event::START))?;
            let decision: Decision = serde_json::from_slice(line).ok()?;
            let is_wanted = span.contains(decision.at) && query.takes(&decision);
            match is_wanted.then(|| take(decision, line))? {
                ControlFlow::Continue(()) => None,
                ControlFlow::Break(()) => Some(()),
            }
        };
        if find_line(&file, wanted)?.is_some() {
            return Ok(());
        }
    }
    Ok(())
}
