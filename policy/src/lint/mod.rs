//! Lint: what an author or reader of a robots.txt should know about it.

mod disagreement;
mod file;
mod finding;
mod rule;
mod statement;

pub use finding::Finding;
use finding::Findings;

/// Finds what is misspelt, misplaced, without effect, out of bounds, or read differently by
/// different dialects. The findings are in the order of their lines.
///
/// ```
/// let findings = wayleave_policy::lint(b"User-agent: *\nDisallow: /a\nDisalow: /b\n");
/// assert_eq!(findings[0].line, 3);
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
    findings.finish()
}
