//! Judging every spelling of a path: against a plain model, in every dialect, and as a table.

#[allow(
    unreachable_pub,
    reason = "shared with the fuzz targets, where it can be reached"
)]
mod model;

use proptest::prelude::*;
use proptest::sample::select;
use wayleave_policy::{
    AccessResult, Dialect, Path, ProductToken, RobotsTxt, Verdict, decide_strictly,
};

const ROBOTS: &str =
    "User-agent: foobot\nDisallow: /private\nDisallow: /deep/page$\nAllow: /private/open\n";

fn allows(body: &[u8], dialect: Dialect, path: &str) -> bool {
    let access = AccessResult::Successful(RobotsTxt::parse(body));
    let tokens = [ProductToken::new("foobot").unwrap()];
    decide_strictly(&access, dialect, &tokens, &Path::parse(path).unwrap()).verdict()
        == Verdict::Allow
}

/// What dialects a decision asks.
fn asked(dialect: Dialect) -> Vec<Dialect> {
    let each = [
        Dialect::Rfc9309,
        Dialect::Google,
        Dialect::Koster1996,
        Dialect::Selfhtml,
    ];
    match dialect {
        Dialect::Strictest => each.to_vec(),
        one => vec![one],
    }
}

/// Fails if the engine and the model differ about a path in any dialect.
fn compare(body: &[u8], path: &str) -> Result<(), TestCaseError> {
    for dialect in Dialect::ALL {
        let expected = model::allows_all_spellings(body, &asked(dialect), &["foobot"], path);
        let found = allows(body, dialect, path);
        prop_assert_eq!(found, expected, "{} {}", dialect, path);
    }
    Ok(())
}

#[test]
fn a_disallowed_path_is_disallowed_however_it_is_spelt() {
    for path in [
        "/private",
        "//private",
        "/.//private",
        "/x//../private",
        "/x/..//private",
        "/%2fprivate",
        "/x/..%2fprivate",
        "/x%2F..%2Fprivate",
        "/x%5cy/..%2fprivate",
        "/x\\y/..%2Fprivate",
        "/x%2fy/..\\private",
        "/x/%2e%2E%2fprivate",
        "/\\private",
        "/x\\..\\private",
        "/%5cprivate",
        "/;x/private",
        "/.;x/private",
        "/x/..;y/private",
        "/..;/private",
        "/;x%2f..//private",
        "/private;x/open",
        "/%70rivate//",
        "/private/open/..%2fsecret",
        "/private/open/..;/secret",
        "//deep/page",
        "/deep//page",
        "/deep//x/../..//page",
        "/deep%2fpage",
        "/deep;x/page",
        "/deep/page;x",
    ] {
        for dialect in [Dialect::Rfc9309, Dialect::Google, Dialect::Selfhtml] {
            let is_allowed = allows(ROBOTS.as_bytes(), dialect, path);
            assert!(!is_allowed, "{dialect} {path}");
        }
    }
}

#[test]
fn another_path_stays_allowed() {
    for path in [
        "/",
        "/x//y",
        "/x?u=//private",
        "/x?/../private",
        "/x;/private",
        "/x%2fprivate",
        "/x\\private",
        "/%2570rivate",
        "/x/%252e%252e/private",
        "/x/%c0%ae%c0%ae/private",
        "/PRIVATE",
        "/x/.../private",
        "/deep/page/x",
        "/deep/page?x",
        "/x/%3f/private",
    ] {
        for dialect in [Dialect::Rfc9309, Dialect::Google] {
            let is_allowed = allows(ROBOTS.as_bytes(), dialect, path);
            assert!(is_allowed, "{dialect} {path}");
        }
    }
}

#[test]
fn an_exception_holds_only_for_paths_that_it_allows_in_all_spellings() {
    let robots = b"User-agent: foobot\nDisallow: /\nAllow: /open\n";
    for (path, expected) in [
        ("/open/x", true),
        ("//open/x", false),
        ("/open/../x", false),
        ("/open/..%2fx", false),
        ("/open%2fx", true),
        ("/open//x", true),
    ] {
        assert_eq!(allows(robots, Dialect::Rfc9309, path), expected, "{path}");
    }
}

/// Pieces of paths and rules: such as have several spellings, and such as they turn into.
fn pieces(count: std::ops::Range<usize>) -> impl Strategy<Value = String> {
    let pieces = vec![
        "/", "/", "//", "a", "b", "ab", "/a", "/a/b", ".", "..", "/./", "/../", "%2e", "%2E%2e",
        "%2F", "%2f", "\\", "%5c", "%5C", ";", ";a", "%3B", "?", "%3f", "%61", "%41", "A", "%",
        "%4", "%%", "%zz", "%25", "%252e", "%252F", "~", "%7E", "\u{e9}", "%C3%A9", "%c3%a9",
        "%2A", "%24",
    ];
    prop::collection::vec(select(pieces), count).prop_map(|pieces| format!("/{}", pieces.concat()))
}

fn rule() -> impl Strategy<Value = String> {
    let special = select(vec!["", "", "", "*", "*/", "*a", "$", "*;", "*$"]);
    let verb = select(vec!["Disallow", "Disallow", "Allow"]);
    (verb, pieces(0..4), special, pieces(0..3), any::<bool>()).prop_map(
        |(verb, start, special, end, has_end)| {
            let end = if has_end { &end[1..] } else { "" };
            format!("{verb}: {start}{special}{end}\n")
        },
    )
}

fn file(rules: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    let rules = prop::collection::vec((rule(), prop::bool::weighted(0.1)), rules);
    rules.prop_map(|rules| {
        let lines = rules.into_iter().map(|(rule, begins)| {
            let agent = if begins { "\nUser-agent: foobot\n" } else { "" };
            agent.to_owned() + &rule
        });
        format!("User-agent: foobot\n{}", lines.collect::<String>()).into_bytes()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn every_spelling_is_judged_as_the_model_does(
        body in file(0..8),
        paths in prop::collection::vec(pieces(0..8), 1..4),
    ) {
        for path in &paths {
            compare(&body, path)?;
        }
    }
}

proptest! {
    // The model takes its time with long paths.
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn spellings_of_long_paths_are_judged_as_those_of_short_ones(
        body in file(40..70),
        start in pieces(0..6),
        filler in "[a-z/]{100,400}",
        end in pieces(0..6),
    ) {
        compare(&body, &format!("{start}{filler}{end}"))?;
    }
}
