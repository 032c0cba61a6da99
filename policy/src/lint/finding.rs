//! Findings: a line, how bad it is, and what to know about it.

use std::fmt;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Level {
    /// The line does not do what it was evidently written to do.
    Error,
    /// Some crawlers read it differently from others, or it is close to a mistake.
    Warning,
    /// Nothing is wrong: what a careful author may want to know.
    Note,
}

impl Level {
    /// `error`, `warning` or `note`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Something worth knowing about a robots.txt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Finding {
    /// The line it is about, from 1.
    pub line: u32,
    /// How bad it is.
    pub level: Level,
    /// One sentence, in lower case and without a full stop.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.line, self.level, self.message)
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

    pub(super) fn error(&mut self, line: u32, message: impl Into<String>) {
        self.add(Level::Error, line, message.into());
    }

    pub(super) fn warning(&mut self, line: u32, message: impl Into<String>) {
        self.add(Level::Warning, line, message.into());
    }

    pub(super) fn note(&mut self, line: u32, message: impl Into<String>) {
        self.add(Level::Note, line, message.into());
    }

    fn add(&mut self, level: Level, line: u32, message: String) {
        self.0.push(Finding {
            line,
            level,
            message,
        });
    }
}

/// Bytes as they can be shown.
pub(super) fn show(text: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(text))
}
