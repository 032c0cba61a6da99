//! The findings of a check: each fault of an export, and its place.

use std::fmt;

use serde::Serialize;

/// The number of findings that are listed; all are counted.
const MAX_LISTED: usize = 20;

/// All findings, in the order of the check.
#[derive(Debug, Default, Serialize)]
pub struct ExportFindings {
    altered: u64,
    different: u64,
    unsigned: u64,
    /// Whether lines that were not signed by the process that wrote them are accepted. They are listed all the same.
    #[serde(skip)]
    accepts_unsigned: bool,
    /// The first findings.
    #[serde(rename = "findings")]
    listed: Vec<ExportFinding>,
}

#[derive(Debug, Serialize)]
struct ExportFinding {
    /// A path in the export, with the number of a line if the file has lines.
    place: String,
    kind: &'static str,
    what: String,
}

/// The result of a check: its worst finding. Ordered from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum VerifyResult {
    /// Every decision was derived again.
    Derived,
    /// A decision cannot be derived again, or comes out differently.
    Different,
    /// Lines were not signed by the process that wrote them.
    Unsigned,
    /// The export, or the log, was altered.
    Altered,
}

impl ExportFindings {
    pub fn new(accepts_unsigned: bool) -> Self {
        Self { accepts_unsigned, ..Self::default() }
    }

    /// Adds lines that were not signed by the process that wrote them.
    pub fn add_unsigned(&mut self, place: &str, what: &str) {
        self.unsigned += 1;
        self.add(place, "unsigned", what);
    }

    /// Adds something that was altered.
    pub fn add_altered(&mut self, place: &str, what: &str) {
        self.altered += 1;
        self.add(place, "altered", what);
    }

    /// Adds a decision that comes out differently, or cannot be derived.
    pub fn add_different(&mut self, place: &str, what: &str) {
        self.different += 1;
        self.add(place, "differs", what);
    }

    fn add(&mut self, place: &str, kind: &'static str, what: &str) {
        // An export may be altered in every line.
        if self.listed.len() < MAX_LISTED {
            let place = place.to_owned();
            let what = what.to_owned();
            self.listed.push(ExportFinding { place, kind, what });
        }
    }

    pub fn result(&self) -> VerifyResult {
        let is_unsigned = self.unsigned > 0 && !self.accepts_unsigned;
        // Alterations outweigh everything: of an altered export, nothing else is certain.
        match (self.altered, self.different) {
            (0, 0) if is_unsigned => VerifyResult::Unsigned,
            (0, 0) => VerifyResult::Derived,
            (0, _) => VerifyResult::Different,
            _ => VerifyResult::Altered,
        }
    }
}

impl fmt::Display for ExportFindings {
    /// Writes a line for each listed finding.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ExportFinding { place, kind, what } in &self.listed {
            writeln!(f, "{place}: {kind}: {what}")?;
        }
        match self.altered + self.different + self.unsigned - self.listed.len() as u64 {
            0 => Ok(()),
            more => writeln!(f, "and {more} more"),
        }
    }
}
