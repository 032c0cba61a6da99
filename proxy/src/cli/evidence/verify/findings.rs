//! The findings of a check: what is wrong with an export, and where.

use std::fmt;

use serde::Serialize;

/// The number of findings that are listed; all are counted.
const NAMED: usize = 20;

/// All findings, in the order of the check.
#[derive(Debug, Default, Serialize)]
pub(super) struct Findings {
    altered: u64,
    different: u64,
    unsigned: u64,
    /// Whether lines that were not signed by the process that wrote them are accepted. They are listed all the same.
    #[serde(skip)]
    accepts_unsigned: bool,
    /// The first findings.
    #[serde(rename = "findings")]
    named: Vec<Finding>,
}

#[derive(Debug, Serialize)]
struct Finding {
    /// A path in the export, with the number of a line if the file has lines.
    place: String,
    kind: &'static str,
    what: String,
}

/// The result of a check: its worst finding. Ordered from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Worst {
    /// Every decision was derived again.
    Derived,
    /// A decision cannot be derived again, or comes out differently.
    Different,
    /// Lines were not signed by the process that wrote them.
    Unsigned,
    /// The export, or the log, was altered.
    Altered,
}

impl Findings {
    pub(super) fn new(accepts_unsigned: bool) -> Self {
        Self {
            accepts_unsigned,
            ..Self::default()
        }
    }

    /// Adds lines that were not signed by the process that wrote them.
    pub(super) fn unsigned(&mut self, place: &str, what: &str) {
        self.unsigned += 1;
        self.name(place, "unsigned", what);
    }

    /// Adds something that was altered.
    pub(super) fn altered(&mut self, place: &str, what: &str) {
        self.altered += 1;
        self.name(place, "altered", what);
    }

    /// Adds a decision that comes out differently, or cannot be derived.
    pub(super) fn differs(&mut self, place: &str, what: &str) {
        self.different += 1;
        self.name(place, "differs", what);
    }

    fn name(&mut self, place: &str, kind: &'static str, what: &str) {
        if self.named.len() < NAMED {
            self.named.push(Finding {
                place: place.to_owned(),
                kind,
                what: what.to_owned(),
            });
        }
    }

    pub(super) fn worst(&self) -> Worst {
        let is_unsigned = self.unsigned > 0 && !self.accepts_unsigned;
        // Alterations outweigh everything: of an altered export, nothing else is certain.
        match (self.altered, self.different) {
            (0, 0) if is_unsigned => Worst::Unsigned,
            (0, 0) => Worst::Derived,
            (0, _) => Worst::Different,
            _ => Worst::Altered,
        }
    }
}

impl fmt::Display for Findings {
    /// Writes a line for each listed finding.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Finding { place, kind, what } in &self.named {
            writeln!(f, "{place}: {kind}: {what}")?;
        }
        let more = self.altered + self.different + self.unsigned - self.named.len() as u64;
        match more {
            0 => Ok(()),
            more => writeln!(f, "and {more} more"),
        }
    }
}
