//! Judging every spelling of a path: against a plain model, in every dialect, and as a table.

#[allow(unreachable_pub, reason = "shared with the fuzz targets, where it can be reached")]
mod model;

use proptest::prelude::*;
use proptest::sample::select;
use wayleave_robots_txt::{
    AccessResult, AccessVerdict, Dialect, ProductToken, RobotsTxt, UrlPath, decide_all_spellings,
};

const ROBOTS: &str =
    "User-agent: foobot\nDisallow: /private\nDisallow: /deep/page$\nAllow: /private/open\n";

fn allows(body: &[u8], dialect: Dialect, path: &str) -> bool {
    let access = AccessResult::Successful(RobotsTxt::parse(body));
    let tokens = [ProductToken::new("foobot").unwrap()];
    decide_all_spellings(&access, dialect, &tokens, &UrlPath::parse(path).unwrap()).verdict()
        == AccessVerdict::Allow
}

/// Fails if the engine and the model differ about a path in any dialect.
fn compare(body: &[u8], path: &str) -> Result<(), TestCaseError> {
    for &dialect in Dialect::ALL {
        let expected = model::allows_all_spellings(body, dialect.each(), &["foobot"], path);
        let found = allows(body, dialect, path);
        prop_assert_eq!(found, expected, "{} {}", dialect, path);
    }
    Ok(())
}

#[test]
fn a_disallowed_path_is_disallowed_in_every_spelling() {
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
fn an_allow_rule_must_allow_all_spellings() {
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

/// A byte as it is, and as an escape in either case.
fn spellings_of(byte: u8) -> Vec<String> {
    let escapes = [format!("%{byte:02X}"), format!("%{byte:02x}")];
    let raw = (byte != b'#').then(|| char::from(byte).to_string());
    raw.into_iter().chain(escapes).collect()
}

#[test]
fn a_byte_is_one_however_rule_and_path_spell_it() {
    // A `/` or `?` means something else than its escape, and a `%` that escapes nothing has rules of its own.
    let bytes = (b' '..=b'~').filter(|byte| !b"/?%".contains(byte));
    for byte in bytes {
        for (in_rule, in_path) in product(&spellings_of(byte), &spellings_of(byte)) {
            if in_path == "#" || in_rule == "#" || in_rule == "*" {
                continue;
            }
            for (start, end) in [("/a", "b"), ("/a", "$"), ("/*a", "b"), ("/%61", "%62")] {
                let body = format!("User-agent: foobot\nDisallow: {start}{in_rule}{end}\n");
                let end = if end == "$" { "" } else { "b" };
                let path = format!("/a{in_path}{end}");
                for &dialect in Dialect::ALL {
                    // To koster1996 a star, and a dollar sign, are bytes like others.
                    let is_plain = start != "/*a" && !body.ends_with("$\n");
                    if dialect == Dialect::Koster1996 && !is_plain {
                        continue;
                    }
                    // Behind a star they may delimit a query.
                    if start == "/*a" && b"&=+;".contains(&byte) {
                        continue;
                    }
                    let is_allowed = allows(body.as_bytes(), dialect, &path);
                    assert!(!is_allowed, "{dialect}: {body:?} {path}");
                }
            }
        }
    }
}

fn product(one: &[String], other: &[String]) -> Vec<(String, String)> {
    let pairs = one.iter().flat_map(|a| other.iter().map(move |b| (a.clone(), b.clone())));
    pairs.collect()
}

#[test]
fn mixed_spellings_match_a_rule_with_other_mixed_spellings() {
    let rules = ["/%7Ejoe", "/~joe", "/%7ejo%65", "/%7E%6A%6F%65", "/*%7Ej*e$"];
    let paths = [
        "/~joe",
        "/%7Ejoe",
        "/%7ejoe",
        "/%7Ejo%65",
        "/~%6aoe",
        "/%7e%6A%6f%65",
        "//x/..%2f%7ejo%65",
    ];
    for rule in rules {
        let body = format!("User-agent: foobot\nDisallow: {rule}\n");
        for path in paths {
            for &dialect in Dialect::ALL {
                if dialect == Dialect::Koster1996 && rule.contains('*') {
                    continue;
                }
                assert!(!allows(body.as_bytes(), dialect, path), "{dialect} {rule} {path}");
            }
        }
    }
}

/// Go, Node and Python serve `/a.pdf/.` as `/a.pdf`; Python so also `/a.pdf%2f`.
#[test]
fn an_anchored_rule_matches_without_a_final_slash() {
    for end in [
        "",
        "/.",
        "/%2e",
        "/./.",
        "//.",
        "/x/..",
        "/x/%2E.",
        "%2f",
        "%2F",
        "%2f.",
        "%2fx%2f..",
        "/.?",
    ] {
        for (rule, path) in [("/*.pdf$", "/a.pdf"), ("/a.pdf$", "/a.pdf")] {
            let body = format!("User-agent: foobot\nDisallow: {rule}\n");
            for dialect in [Dialect::Rfc9309, Dialect::Google, Dialect::Selfhtml] {
                let path = format!("{path}{end}");
                let is_allowed = allows(body.as_bytes(), dialect, &path);
                let has_query = path.ends_with('?');
                assert_eq!(is_allowed, has_query, "{dialect} {rule} {path}");
            }
        }
    }
    let body = b"User-agent: foobot\nDisallow: /a$\n";
    for path in ["/a/", "/a/./", "/a//", "/a/b", "/a/?.", "/a/../b/.", "/"] {
        assert!(allows(body, Dialect::Rfc9309, path), "{path}");
    }
}

/// One rule judges each spelling of a path, by `rfc9309`, `google`, `koster1996`, `selfhtml` and `strictest`: `-` is refused.
#[test]
fn paths_served_alike_are_refused_alike() {
    for (rule, path, expected) in [
        ("/%7Ejoe", "/~joe", "-----"),
        ("/%7Ejoe", "/%7ejoe", "-----"),
        ("/%7Ejoe", "/%7Ejo%65", "-----"),
        ("/%7Ejoe", "/~jo%65", "-----"),
        ("/%7Ejoe", "/./%7Ejo%65", "-----"),
        ("/a%2Fb", "/a%2fb", "-----"),
        ("/a%2Fb", "/%61%2f%62", "-----"),
        ("/a%2Fb", "/x/../a%2Fb", "-----"),
        ("/a/b", "/a%2Fb", "-----"),
        ("/a%252Fb", "/%61%252Fb", "-----"),
        ("/a%252Fb", "/a%25%32Fb", "-----"),
        ("/\u{e9}", "/\u{e9}", "-----"),
        ("/\u{e9}", "/%C3%A9", "-----"),
        ("/\u{e9}", "/%c3%A9", "-----"),
        ("/%c3%a9x", "/\u{e9}%78", "-----"),
        ("/a;x", "/a%3bx", "-----"),
        ("/a%3bx", "/a;x", "-----"),
        ("/a", "/a;x", "-----"),
        ("/a//b", "/a%2F/%62", "-----"),
        ("/a//b", "/a//%62", "-----"),
        ("/a/b", "/a\\b", "-----"),
        ("/a\\b", "/a%5c%62", "-----"),
        ("/a%5Cb", "/a\\b", "-----"),
        ("/a.", "/a%2e", "-----"),
        ("/a%2E", "/%61.", "-----"),
        ("/a%00b", "/a%00%62", "-----"),
        ("/a%3Fb", "/%61%3fb", "-----"),
        ("/a?b", "/%61?%62", "--a--"),
        ("/a%2Ab", "/a*%62", "-----"),
        ("/a%2Ab", "/a%2a%62", "-----"),
        ("/a%24b", "/a$b", "-----"),
        ("/a$b", "/a%24%62", "-----"),
        ("/a#b", "/a", "-----"),
        ("/a%23b", "/%61%23b", "-----"),
        // Other files: latin-1 is not UTF-8, nothing is decoded twice, and rules are not rewritten beyond bytes.
        ("/\u{e9}", "/%E9", "aaaaa"),
        ("/a%252Fb", "/a%252fb", "aaaaa"),
        ("/a%2Fb", "/a/b", "aaaaa"),
        ("/a//b", "/a/b", "aaaaa"),
        ("/a/./b", "/a/b", "aaaaa"),
        ("/a;x", "/a", "aaaaa"),
        ("/a.", "/a", "aaaaa"),
        ("/a%00b", "/a", "aaaaa"),
        ("/a?b", "/a%3Fb", "aa---"),
    ] {
        let body = format!("User-agent: foobot\nDisallow: {rule}\n");
        let verdict = |dialect: &Dialect| {
            if allows(body.as_bytes(), *dialect, path) { 'a' } else { '-' }
        };
        let found: String = Dialect::ALL.iter().map(verdict).collect();
        assert_eq!(found, expected, "{rule} {path}");
    }
}

#[test]
fn a_page_is_one_however_rule_and_query_spell_its_name() {
    for (rule, path) in [
        ("/index.php?title=Special:", "/index.php?title=Special%3ALog"),
        ("/index.php?title=Special%3A", "/index.php?title=Special:Log"),
        ("/wiki/User%3A", "/wiki/User:X"),
        ("/wiki/Foo_(bar)", "/wiki/Foo_%28bar%29"),
        ("/wiki/Foo_%28bar%29", "/wiki/Foo_(bar%29"),
        ("/a b", "/a%20b"),
        ("/a%20b", "/a%20b"),
        ("/a&b", "/a%26b"),
        ("/a%26b", "/a&b"),
        ("/a+b%3Dc", "/a%2Bb=c"),
        ("/*%26b", "/a?a=1%26b"),
        ("/*%7E%26b", "/a?~%26b"),
        ("/100%", "/100%25"),
        ("/100%25", "/100%"),
        ("/100%25%28", "/100%("),
        ("/\u{e9}%28", "/%c3%a9("),
        ("/a%24b", "/a$b"),
        ("/a$b", "/a%24b"),
    ] {
        let body = format!("User-agent: foobot\nDisallow: {rule}\n");
        for dialect in [Dialect::Rfc9309, Dialect::Google, Dialect::Selfhtml] {
            let is_allowed = allows(body.as_bytes(), dialect, path);
            assert!(!is_allowed, "{dialect} {rule} {path}");
        }
    }
}

#[test]
fn an_escaped_delimiter_differs_from_a_delimiter() {
    for (rule, path) in [
        ("/*?", "/what%3F"),
        ("/*&b=", "/a?u=%26b=1"),
        ("/*;b", "/a?u=%3Bb"),
        ("/a/b", "/a?u=/a%2Fb"),
        ("/a%2Fb", "/a/b"),
        ("/a%3Fb", "/a?b"),
        ("/*%26b=", "/a?u=1&b=1"),
    ] {
        let body = format!("User-agent: foobot\nDisallow: {rule}\n");
        for dialect in [Dialect::Rfc9309, Dialect::Google] {
            let is_allowed = allows(body.as_bytes(), dialect, path);
            assert!(is_allowed, "{dialect} {rule} {path}");
        }
    }
}

#[test]
fn an_allow_rule_applies_in_each_spelling_that_it_names() {
    let robots =
        b"User-agent: foobot\nAllow: /%7Ejoe\nAllow: /wiki/Foo_%28bar%29\nAllow: /a b\nDisallow: /\n";
    for (path, google, rfc9309) in [
        ("/%7Ejoe", false, true),
        ("/~joe", false, true),
        ("/wiki/Foo_%28bar%29", true, true),
        ("/wiki/Foo_(bar)", false, false),
        ("/a%20b", false, true),
    ] {
        assert_eq!(allows(robots, Dialect::Google, path), google, "{path}");
        assert_eq!(allows(robots, Dialect::Rfc9309, path), rfc9309, "{path}");
    }
}

/// The paths that a server makes of `//`, `%2F` or `;` are judged too, so that an exception that spells them opens nothing else.
#[test]
fn an_allow_rule_for_a_rewritten_spelling_needs_the_others() {
    for allow in
        ["//open", "/%2Fopen", "/open;x", "/x//open", "/x%2Fopen", "/x;y/open", "/x/..;/open"]
    {
        for &dialect in Dialect::ALL {
            let body =
                format!("User-agent: foobot\nAllow: {allow}\nDisallow: /open\nDisallow: /x/open\n");
            for path in [allow.to_owned(), format!("{allow}/page")] {
                assert!(!allows(body.as_bytes(), dialect, &path), "{dialect} {allow} {path}");
            }
            let body = format!(
                "User-agent: foobot\nAllow: {allow}\nAllow: /open\nAllow: /x/open\nDisallow: /\n"
            );
            assert!(!allows(body.as_bytes(), dialect, "/x/page"), "{dialect} {allow}");
        }
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

#[test]
fn an_escape_begun_before_a_star_matches_its_completions() {
    for rule in ["/%*", "/%", "/%C*", "/%C"] {
        let body = format!("User-agent: foobot\nAllow: {rule}\nDisallow: /\n");
        compare(body.as_bytes(), "/\u{e9}").expect(rule);
        assert!(allows(body.as_bytes(), Dialect::Rfc9309, "/\u{e9}"), "{rule}");
        assert!(!allows(body.as_bytes(), Dialect::Rfc9309, "/a"), "{rule}");
    }
}

#[test]
fn google_is_also_asked_in_the_form_of_rfc_9309() {
    // To Google's parser neither rule is about the path; to a server that decodes all, the longer one is.
    let rules = "User-agent: foobot\nDisallow: /%7Ea\nAllow: /~a%3A\n";
    let many: String = (0..40).map(|n| format!("Disallow: /{n}\n")).collect();
    for body in [rules.to_owned(), format!("{rules}{many}")] {
        compare(body.as_bytes(), "/~a:").unwrap();
        let access = AccessResult::Successful(RobotsTxt::parse(body.as_bytes()));
        let tokens = [ProductToken::new("foobot").unwrap()];
        let verdict = |dialect, path| {
            let path = UrlPath::parse(path).unwrap();
            decide_all_spellings(&access, dialect, &tokens, &path).verdict()
        };
        for &dialect in Dialect::ALL {
            assert_eq!(verdict(dialect, "/z"), AccessVerdict::Allow, "{dialect}");
        }
        assert_eq!(verdict(Dialect::Google, "/~a:"), AccessVerdict::Disallow);
    }
}

#[test]
fn a_rule_with_a_cut_escape_disallows_the_same_url() {
    for (rule, path) in [
        ("/a%4/%4", "/a%4/%4"),
        ("/a%4/%4", "/a%4/%40"),
        ("/a%4/*%4", "/a%4/b%4"),
        ("/a%4*/%4", "/a%40/%4"),
        ("/a%4/%", "/a%4/%4/"),
        ("/%a", "/%ab"),
        ("/%A", "/%ab"),
        ("/%a", "/%a/b"),
        ("/%a*c", "/%AB/c"),
    ] {
        let body = format!("User-agent: foobot\nDisallow: {rule}\n");
        let many: String = (0..40).map(|n| format!("Disallow: /{n}/x\n")).collect();
        for body in [body.clone(), body + &many] {
            let crawler = RobotsTxt::parse(body.as_bytes()).for_crawler("foobot").unwrap();
            assert_eq!(crawler.allows(path), Ok(false), "{rule} {path}");
            compare(body.as_bytes(), path).unwrap();
        }
    }
}

proptest! {
    #[test]
    fn a_rule_disallows_the_url_spelt_like_it(
        text in "/([a/%4fFz:!+=~.&?\u{e9}]|%4|%[0-9a-fA-F]{2}){0,8}",
        dialect in select(Dialect::ALL.to_vec()),
        length in 0..2usize,
    ) {
        // To koster1996 a path has no query, so that no rule with one is about any.
        prop_assume!(dialect != Dialect::Koster1996 || !text.contains('?'));
        let many = "Disallow: /n/x\n".repeat(40 * length);
        let body = format!("User-agent: foobot\nDisallow: {text}\n{many}");
        prop_assert!(!allows(body.as_bytes(), dialect, &text), "{} {}", dialect, text);
        // Google's parser rewrites rules, and leaves paths alone.
        if dialect != Dialect::Google {
            let crawler = RobotsTxt::parse(body.as_bytes()).for_crawler("foobot").unwrap();
            let url = format!("https://example.com{text}");
            prop_assert_eq!(crawler.dialect(dialect).allows(&url), Ok(false), "{} {}", dialect, text);
        }
    }
}

#[test]
fn a_cut_escape_is_compared_in_the_surrounding_form() {
    let body = b"User-agent: foobot\nDisallow: /:a%4\n";
    let path = "/%3Aa%4";
    compare(body, path).unwrap();
    assert!(!allows(body, Dialect::Rfc9309, path));
    let crawler = RobotsTxt::parse(body).for_crawler("foobot").unwrap();
    assert_eq!(crawler.allows(path), Ok(true), "`:` and `%3A` differ");
}

#[test]
fn a_lone_percent_sign_is_also_judged_escaped() {
    for (allow, path) in [
        ("/%4", "/%4"),
        ("/*%4", "/x/%4~"),
        ("/%4%zz", "/%4%25zz"),
        ("/%4%25zz", "/%4%25zz"),
        ("/100%", "/100%"),
        ("/100%off", "/100%off"),
    ] {
        let body = format!("User-agent: foobot\nAllow: {allow}\nDisallow: /\n");
        compare(body.as_bytes(), path).expect(allow);
    }
    let body = b"User-agent: foobot\nAllow: /%4\nDisallow: /\n";
    assert!(!allows(body, Dialect::Rfc9309, "/%4"));
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
    fn spellings_of_long_paths_get_the_same_verdicts(
        body in file(40..70),
        start in pieces(0..6),
        filler in "[a-z/]{100,400}",
        end in pieces(0..6),
    ) {
        compare(&body, &format!("{start}{filler}{end}"))?;
    }
}
