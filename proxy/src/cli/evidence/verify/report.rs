//! What a check came to, for people and for programs.

use std::fmt;
use std::process::ExitCode;

use serde::Serialize;

use super::derive::Derived;
use super::findings::{Findings, Worst};
use crate::cli::terminal::UNUSABLE;

/// The exit status for decisions that come out differently, or that were not signed by who wrote them.
const DIFFERENT: u8 = 1;

/// All that is told of an export that could be read.
#[derive(Serialize)]
pub(super) struct Report<'a> {
    pub(super) result: Worst,
    #[serde(flatten)]
    pub(super) findings: &'a Findings,
    pub(super) decisions: u64,
    pub(super) derived: Derived,
    /// Of the log.
    pub(super) files: usize,
    /// Of all these files.
    pub(super) lines: u64,
    pub(super) key: &'a str,
    /// Whether the key was compared with one that is trusted.
    pub(super) trusted: bool,
    pub(super) exported_at: &'a str,
    pub(super) exported_by: &'a str,
}

impl Report<'_> {
    /// The exit status: nothing if all is well.
    pub(super) fn objection(&self) -> Option<ExitCode> {
        match self.result {
            Worst::Derived => None,
            Worst::Different | Worst::Unsigned => Some(ExitCode::from(DIFFERENT)),
            Worst::Altered => Some(ExitCode::from(UNUSABLE)),
        }
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Derived {
            robots,
            rules,
            identities,
            preferences,
            others,
        } = self.derived;
        let trust = match self.trusted {
            true => "the trusted one",
            false => "not compared: --key",
        };
        let result = match self.result {
            Worst::Derived => "every decision was derived again",
            Worst::Different => "not every decision can be derived again",
            Worst::Unsigned => "not every line was signed by who wrote it (--accept-unsigned)",
            Worst::Altered => "altered",
        };
        write!(
            f,
            "{}decisions  {}: by robots.txt {robots}, by [[rule]] {rules}, by identity {identities}, by preference {preferences}; \
             nothing to derive: {others}\n\
             chain      {} files, {} lines\n\
             key        {} ({trust})\n\
             exported   {} by {}\n\
             result     {result}\n",
            self.findings,
            self.decisions,
            self.files,
            self.lines,
            self.key,
            self.exported_at,
            self.exported_by
        )
    }
}
