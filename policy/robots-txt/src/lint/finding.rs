//! Findings: a line, a severity and a message.

use std::fmt;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum Severity {
    /// The line does not do what it was evidently meant to do.
    Error,
    /// Some crawlers read it differently from others, or it looks like a mistake.
    Warning,
    /// Nothing is wrong, but a careful author may want to know.
    Note,
}

impl Severity {
    /// Returns `error`, `warning` or `note`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A finding about a robots.txt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Finding {
    /// The line it is about, from 1.
    pub line: u32,
    /// Its severity.
    pub severity: Severity,
    /// One sentence, in lower case and without a full stop.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.line, self.severity, self.message)
    }
}

/// The findings so far.
#[derive(Debug, Default)]
pub struct FindingList(Vec<Finding>);

impl FindingList {
    /// Returns all findings in the order of their lines, each once.
    #[must_use]
    pub fn finish(mut self) -> Vec<Finding> {
        self.0.sort();
        self.0.dedup();
        self.0
    }

    /// Adds an error.
    pub fn error(&mut self, line: u32, message: impl Into<String>) {
        self.add(Severity::Error, line, message.into());
    }

    /// Adds a warning.
    pub fn warning(&mut self, line: u32, message: impl Into<String>) {
        self.add(Severity::Warning, line, message.into());
    }

    /// Adds a note.
    pub fn note(&mut self, line: u32, message: impl Into<String>) {
        self.add(Severity::Note, line, message.into());
    }

    fn add(&mut self, severity: Severity, line: u32, message: String) {
        self.0.push(Finding { line, severity, message });
    }
}

impl From<Vec<Finding>> for FindingList {
    fn from(findings: Vec<Finding>) -> Self {
        Self(findings)
    }
}

/// Returns bytes as a quoted string for display.
#[must_use]
pub fn quoted(text: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(text))
}
