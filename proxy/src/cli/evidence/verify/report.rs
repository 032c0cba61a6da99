//! The report of a check, as text and as JSON.

use std::fmt;
use std::process::ExitCode;

use serde::Serialize;
use wayleave_audit::verify::DerivedCounts;
use wayleave_evidence::verify::{ExportFindings, VerifyResult};

use crate::cli::terminal::{UNUSABLE, counted};

/// The exit status for decisions that come out differently, or were not signed by the process that wrote them.
const DIFFERENT: u8 = 1;

/// The report about an export that could be read.
#[derive(Serialize)]
pub(super) struct VerifyReport<'a> {
    pub(super) result: VerifyResult,
    #[serde(flatten)]
    pub(super) findings: &'a ExportFindings,
    pub(super) decisions: u64,
    pub(super) derived: DerivedCounts,
    /// The number of log files.
    pub(super) files: usize,
    /// The number of lines in these files.
    pub(super) lines: u64,
    /// The number of decisions that could not be written, as the log says.
    pub(super) lost: u64,
    pub(super) key: &'a str,
    /// Whether the key was compared with a trusted one.
    pub(super) trusted: bool,
    pub(super) exported_at: &'a str,
    pub(super) exported_by: &'a str,
}

impl VerifyReport<'_> {
    /// Returns the exit status of a failed check; `None` if nothing is wrong.
    pub(super) fn failure_status(&self) -> Option<ExitCode> {
        match self.result {
            VerifyResult::Derived => None,
            VerifyResult::Different | VerifyResult::Unsigned => Some(ExitCode::from(DIFFERENT)),
            VerifyResult::Altered => Some(ExitCode::from(UNUSABLE)),
        }
    }
}

impl fmt::Display for VerifyReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DerivedCounts { robots, rules, identities, preferences, others } = self.derived;
        let trust = if self.trusted { "the trusted one" } else { "not compared: --key" };
        let result = match self.result {
            VerifyResult::Derived => "every decision was derived again",
            VerifyResult::Different => "not every decision can be derived again",
            VerifyResult::Unsigned => "not every line was signed by its writer (--accept-unsigned)",
            VerifyResult::Altered => "altered",
        };
        let lost = match self.lost {
            0 => String::new(),
            lost => format!("; not written: {}", counted(lost, "decision")),
        };
        write!(
            f,
            "{}decisions  {}: by robots.txt {robots}, by [[rule]] {rules}, by identity {identities}, by preference {preferences}; \
             nothing to derive: {others}\n\
             chain      {}, {}{}\n\
             key        {} ({trust})\n\
             exported   {} by {}\n\
             result     {result}\n",
            self.findings,
            self.decisions,
            counted(self.files, "file"),
            counted(self.lines, "line"),
            lost,
            self.key,
            self.exported_at,
            self.exported_by
        )
    }
}
