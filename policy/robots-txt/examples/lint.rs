//! Lists the mistakes in a file: `cargo run --example lint`.

#![allow(clippy::disallowed_macros, reason = "an example prints")]

use wayleave_robots_txt::lint::Finding;
use wayleave_robots_txt::{Dialect, lint};

const ROBOTS_TXT: &[u8] = b"User-agent: *
Disalow: /private
Disallow: drafts
Sitemap: /sitemap.xml
";

fn main() {
    for finding in findings() {
        println!("{finding}");
    }
}

/// Also reports lines that Google reads differently from RFC 9309.
fn findings() -> Vec<Finding> {
    lint(ROBOTS_TXT, &[Dialect::Google])
}

#[test]
fn every_mistake_is_found() {
    use wayleave_robots_txt::lint::Severity::{Error, Warning};
    let found: Vec<_> = findings().iter().map(|finding| (finding.line, finding.severity)).collect();
    let expected = [(2, Error), (3, Error), (4, Warning)];
    assert_eq!(found, expected);
}
