//! Lints: findings for the author of a robots.txt.

mod disagreement;
mod file;
mod finding;
mod rule;
mod statement;
mod unusual;

pub use finding::{Finding, Severity};
#[doc(hidden)]
pub use finding::{FindingList, quoted};
#[doc(hidden)]
pub use statement::is_near;

use crate::Dialect;
#[doc(hidden)]
pub use crate::robots_txt::{LineField, ParsedLine};

/// Finds statements that are misspelt, misplaced, without effect, out of bounds, or read by `dialects` differently from
/// RFC 9309. The findings are in the order of their lines. For a file that is not a robots.txt, such as an HTML page,
/// that is the only finding.
///
/// ```
/// use wayleave_robots_txt::Dialect;
/// use wayleave_robots_txt::lint::{Severity, lint};
///
/// let findings = lint(b"User-agent: *\nDisallow: /a\nDisalow: /b\n", &[Dialect::Google]);
/// assert_eq!((findings[0].line, findings[0].severity), (3, Severity::Error));
/// assert!(findings[0].message.contains("did you mean \"Disallow\"?"));
/// ```
#[must_use]
pub fn lint(body: &[u8], dialects: &[Dialect]) -> Vec<Finding> {
    let mut findings = FindingList::default();
    if file::is_foreign(body, &mut findings) {
        return findings.finish();
    }
    let reads_google = dialects.contains(&Dialect::Google);
    file::check(body, reads_google, &mut findings);
    let statements = statement::read(body, reads_google);
    statement::check(&statements, &mut findings);
    rule::check(&statements, &mut findings);
    disagreement::check(body, &statements, dialects, &mut findings);
    findings.finish()
}

/// Returns the statements of a file as RFC 9309 parses them, with their line numbers; none of a file that is not a
/// robots.txt.
#[doc(hidden)]
#[must_use]
pub fn statements(body: &[u8]) -> Vec<(u32, ParsedLine<'_>)> {
    if file::is_foreign(body, &mut FindingList::default()) {
        return Vec::new();
    }
    let lines = statement::read(body, false).into_iter();
    lines.filter_map(|line| Some((line.number, line.exact?))).collect()
}
