//! Lint: what an author or reader of a robots.txt should know about it.

mod disagreement;
mod file;
mod rule;
mod statement;

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

/// Finds what is misspelt, misplaced, without effect, out of bounds, or read differently by
/// different dialects. The findings are in the order of their lines.
///
/// ```
/// let findings = wayleave_policy::lint(b"User-agent: *\nDisalow: /private\n");
/// assert_eq!(findings[0].line, 2);
/// assert!(findings[0].message.contains("did you mean \"Disallow\"?"));
/// ```
#[must_use]
pub fn lint(body: &[u8]) -> Vec<Finding> {
    let mut findings = Findings::default();
    file::check(body, &mut findings);
    let statements = statement::read(body);
    statement::check(&statements, &mut findings);
    rule::check(&statements, &mut findings);
    disagreement::check(body, &statements, &mut findings);
    findings.0.sort();
    findings.0.dedup();
    findings.0
}

/// What was found so far.
#[derive(Debug, Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, line: u32, message: impl Into<String>) {
        self.0.push(Finding {
            line,
            message: message.into(),
        });
    }
}

/// Octets as they can be shown.
fn show(text: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(text))
}
