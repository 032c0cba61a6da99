//! Lints: findings for the author of a robots.txt.

mod disagreement;
mod file;
mod finding;
#[cfg(feature = "preferences")]
mod preference;
mod rule;
mod statement;

use finding::FindingList;
pub use finding::{Finding, Severity};

use crate::Dialect;

/// Finds statements that are misspelt, misplaced, without effect, out of bounds, or read by `dialects` differently from
/// RFC 9309. The findings are in the order of their lines. For a file that is not a robots.txt, such as an HTML page,
/// that is the only finding.
///
/// ```
/// use wayleave_robots_txt::{Dialect, Severity, lint};
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
    #[cfg(feature = "preferences")]
    preference::check(&statements, &mut findings);
    disagreement::check(body, &statements, dialects, &mut findings);
    findings.finish()
}
