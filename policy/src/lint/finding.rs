//! Findings: a line and what to know about it.

use std::fmt;

/// Something worth knowing about a robots.txt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The line it is about, from 1.
    pub line: u32,
    /// One sentence, in lower case and without a full stop.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.message)
    }
}

/// What was found so far.
#[derive(Debug, Default)]
pub(super) struct Findings(Vec<Finding>);

impl Findings {
    /// All findings, in the order of their lines, each once.
    pub(super) fn finish(mut self) -> Vec<Finding> {
        self.0.sort();
        self.0.dedup();
        self.0
    }

    pub(super) fn add(&mut self, line: u32, message: impl Into<String>) {
        self.0.push(Finding {
            line,
            message: message.into(),
        });
    }
}

/// Octets as they can be shown.
pub(super) fn show(text: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(text))
}
