//! Properties of arbitrary files, names and paths.

#[allow(unreachable_pub, reason = "shared with the fuzz targets, where it can be reached")]
mod model;

use proptest::prelude::*;
use proptest::sample::select;
use wayleave_robots_txt::{
    AccessResult, AccessVerdict, Dialect, ProductToken, RobotsTxt, UrlPath, decide,
    decide_all_spellings, decide_whole_site, decide_write_all_spellings,
};

const DIALECTS: [Dialect; 4] =
    [Dialect::Rfc9309, Dialect::Google, Dialect::Koster1996, Dialect::Selfhtml];

const NAMES: [&str; 8] =
    ["foobot", "Foo", "foobot-news", "MJ12bot", "archive.org_bot", "bot", "foobot/1.2", "x"];

/// Pieces of lines, chosen so that they meet what they are near to.
fn name() -> impl Strategy<Value = String> {
    let others = ["*", "* x", "", "FOOBOT", "foo", "foobot*", "foo bot", "MJ12", "1foo", "a/b"];
    prop_oneof![
        select(NAMES.to_vec()).prop_map(str::to_owned),
        select(others.to_vec()).prop_map(str::to_owned),
    ]
}

fn pattern() -> impl Strategy<Value = String> {
    let pieces = [
        "/",
        "a",
        "b",
        "ab",
        "*",
        "$",
        "?",
        "%",
        "%2F",
        "%2f",
        "%61",
        "%2A",
        "%24",
        "%E9",
        "é",
        " ",
        "#",
        "//",
        "/index.html",
        "index.htm",
        ".",
        "..",
        "%41",
        "4",
        "1",
        "~",
        "&",
        "<",
    ];
    let body =
        prop::collection::vec(select(pieces.to_vec()), 0..7).prop_map(|pieces| pieces.concat());
    (prop::bool::weighted(0.9), body).prop_map(
        |(rooted, body)| {
            if rooted { format!("/{body}") } else { body }
        },
    )
}

fn field() -> impl Strategy<Value = &'static str> {
    select(vec![
        "Disallow",
        "disallow",
        "Allow",
        "ALLOW",
        "Disalow",
        "Disallow-all",
        "User-agent",
        "useragent",
        "user agent",
        "Allowed",
        "Sitemap",
        "Crawl-delay",
        "nonsense",
        "Dis allow",
        "\u{FEFF}Allow",
        "<a",
        "",
    ])
}

fn line() -> impl Strategy<Value = String> {
    let separator = select(vec![":", ": ", " : ", " ", "\t", "::", "", ":\u{B}"]);
    prop_oneof![
        4 => (select(vec!["User-agent: ", "user-agent:"]), name()).prop_map(|(f, v)| f.to_owned() + &v),
        8 => (select(vec!["Disallow: ", "Allow: "]), pattern()).prop_map(|(f, v)| f.to_owned() + &v),
        2 => (field(), separator, prop_oneof![name(), pattern()])
            .prop_map(|(field, separator, value)| format!("{field}{separator}{value}")),
        1 => select(vec!["", " ", "\t", "# c", "  # c", "x", "\0", "Disallow: /a\0b", "Sitemap: /s"])
            .prop_map(str::to_owned),
        1 => ("[ \t]{0,3}[<{=]", 0usize..80).prop_map(|(start, octets)| start + &".".repeat(octets)),
    ]
}

fn file(lines: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    let ending = select(vec!["\n", "\n", "\n", "\r\n", "\r", "\n\n", "\r\r\n", "  \n", "\0\n"]);
    let start: Vec<&[u8]> = vec![b"", b"", b"", b"\xEF\xBB\xBF", b"\xEF\xBB", b"\n"];
    let lines = prop::collection::vec((line(), ending), lines);
    (select(start), lines).prop_map(|(start, lines)| {
        let text: String = lines.into_iter().map(|(line, end)| line + end).collect();
        [start, text.as_bytes()].concat()
    })
}

/// A file whose one group is so large that it gets an index.
fn large_file() -> impl Strategy<Value = Vec<u8>> {
    let rule = (select(vec!["Disallow: ", "Allow: "]), pattern());
    let rules = prop::collection::vec(rule.prop_map(|(f, v)| format!("{f}{v}\n")), 34..80);
    (rules, 0usize..40).prop_map(|(rules, at)| {
        let (before, after) = rules.split_at(at.min(rules.len()));
        let agent = ["User-agent: foobot\n".to_owned()];
        [&agent, before, &agent, after].concat().concat().into_bytes()
    })
}

/// The parts of rules with stars, over few letters so that pieces of them are all over the paths.
fn parts() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[0-9a-f]{1,24}|[ab]{1,12}", 1..5)
}

/// A crawler's rules with stars, in so many groups that none gets an index, and what each rule is made of.
fn file_of_small_groups() -> impl Strategy<Value = (Vec<u8>, Vec<Vec<String>>)> {
    prop::collection::vec(parts(), 30..90).prop_map(|rules| {
        let groups = rules.chunks(3).map(|rules| {
            let lines = rules.iter().enumerate().map(|(number, parts)| {
                let verb = if number == 1 { "Allow" } else { "Disallow" };
                format!("{verb}: /*{}\n", parts.join("*"))
            });
            format!("User-agent: foobot\n{}", lines.collect::<String>())
        });
        (groups.collect::<String>().into_bytes(), rules)
    })
}

fn path() -> impl Strategy<Value = String> {
    pattern().prop_map(|path| {
        let path = path.replace(['#', '\0'], "");
        if path.starts_with('/') { path } else { format!("/{path}") }
    })
}

fn successful(body: &[u8]) -> AccessResult {
    AccessResult::Successful(RobotsTxt::parse(body))
}

fn tokens(names: &[&str]) -> Vec<ProductToken> {
    names.iter().map(|name| ProductToken::verbatim(name).unwrap()).collect()
}

fn judged(body: &[u8], dialect: Dialect, names: &[&str], path: &str) -> model::Verdict {
    let access = successful(body);
    let tokens = tokens(names);
    let decision = decide(&access, dialect, &tokens, &UrlPath::parse(path).unwrap());
    (decision.verdict() == AccessVerdict::Allow, decision.line())
}

proptest! {
    // One case is hundreds of decisions.
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn no_matching_rule_among_many_with_stars_is_skipped(
        (body, rules) in file_of_small_groups(),
        chosen in prop::collection::vec((any::<prop::sample::Index>(), "[0-9a-f]{40,80}", 0usize..40), 1..6),
    ) {
        for (chosen, filler, at) in chosen {
            let path = format!("/{}{}{}", &filler[..at], rules[chosen.index(rules.len())].concat(), &filler[at..]);
            for dialect in DIALECTS {
                let expected = model::judge(&body, dialect, &["foobot"], &path);
                let found = judged(&body, dialect, &["foobot"], &path);
                prop_assert_eq!(found, expected, "{} {}", dialect, path);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_engine_agrees_with_the_model(
        body in file(0..24),
        names in prop::collection::vec(select(NAMES.to_vec()), 1..3),
        paths in prop::collection::vec(path(), 1..6),
    ) {
        for (dialect, path) in DIALECTS.iter().flat_map(|dialect| paths.iter().map(move |path| (*dialect, path))) {
            let expected = model::judge(&body, dialect, &names, path);
            let found = judged(&body, dialect, &names, path);
            prop_assert_eq!(found, expected, "{} {}", dialect, path);
        }
    }

    #[test]
    fn an_index_finds_what_a_search_finds(
        body in large_file(),
        paths in prop::collection::vec(path(), 1..20),
    ) {
        for (dialect, path) in DIALECTS.iter().flat_map(|dialect| paths.iter().map(move |path| (*dialect, path))) {
            let expected = model::judge(&body, dialect, &["foobot"], path);
            let found = judged(&body, dialect, &["foobot"], path);
            prop_assert_eq!(found, expected, "{} {}", dialect, path);
        }
    }

    #[test]
    fn any_octets_are_read_as_the_model_reads_them(
        body in prop::collection::vec(any::<u8>(), 0..200),
        path in path(),
    ) {
        let body = [b"User-agent: *\nDisallow: ".as_slice(), &body].concat();
        for dialect in DIALECTS {
            let expected = model::judge(&body, dialect, &["foobot"], &path);
            prop_assert_eq!(judged(&body, dialect, &["foobot"], &path), expected, "{}", dialect);
        }
    }

    #[test]
    fn strictest_disallows_what_any_dialect_disallows(body in file(0..16), path in path()) {
        let access = successful(&body);
        let tokens = tokens(&["foobot"]);
        let verdict = |dialect| decide(&access, dialect, &tokens, &UrlPath::parse(&path).unwrap()).verdict();
        let any = DIALECTS.into_iter().any(|dialect| verdict(dialect) == AccessVerdict::Disallow);
        // Only Google's parser judges /robots.txt itself.
        prop_assert_eq!(verdict(Dialect::Strictest) == AccessVerdict::Disallow, any);
    }

    #[test]
    fn judging_all_spellings_only_adds_refusals(body in file(0..16), path in path()) {
        let access = successful(&body);
        let tokens = tokens(&["foobot"]);
        for &dialect in Dialect::ALL {
            let plain = decide(&access, dialect, &tokens, &UrlPath::parse(&path).unwrap()).verdict();
            let strict = decide_all_spellings(&access, dialect, &tokens, &UrlPath::parse(&path).unwrap()).verdict();
            prop_assert!(path == "/robots.txt" || strict == plain || strict == AccessVerdict::Disallow);
            let any = decide_write_all_spellings(&access, dialect, &tokens, &UrlPath::parse(&path).unwrap()).verdict();
            prop_assert!(any == strict || any == AccessVerdict::Disallow);
        }
        // Google's parser is the one that makes no exception of it either.
        let google = decide(&access, Dialect::Google, &tokens, &UrlPath::parse("/robots.txt").unwrap()).verdict();
        let any = decide_write_all_spellings(&access, Dialect::Google, &tokens, &UrlPath::parse("/robots.txt").unwrap());
        prop_assert_eq!(any.verdict(), google);
    }

    #[test]
    fn an_allowed_site_disallows_no_path(
        body in file(0..10),
        names in prop::collection::vec(select(NAMES.to_vec()), 1..3),
        paths in prop::collection::vec(path(), 1..12),
    ) {
        let access = successful(&body);
        let tokens = tokens(&names);
        for &dialect in Dialect::ALL {
            let every_path = decide_whole_site(&access, dialect, &tokens);
            for path in &paths {
                let one = decide_all_spellings(&access, dialect, &tokens, &UrlPath::parse(path).unwrap()).verdict();
                prop_assert!(one == AccessVerdict::Allow || every_path.verdict() == AccessVerdict::Disallow, "{} {}", dialect, path);
            }
            if let Some(rule) = every_path.rule() {
                prop_assert!(rule.starts_with("Disallow:"), "{}", rule);
            }
        }
    }

    #[test]
    fn a_group_for_another_crawler_changes_nothing(body in file(0..16), path in path()) {
        let other = b"\n\nUser-agent: somebodyelse\nDisallow: /\nAllow: /a\n";
        let both = [&body[..], other].concat();
        for dialect in DIALECTS {
            let names = ["foobot"];
            prop_assert_eq!(
                judged(&both, dialect, &names, &path).0,
                // The added lines may end a group that had no rules, so the model sees them too.
                model::judge(&both, dialect, &names, &path).0
            );
            let ends_in_rule = [&body[..], b"\n\nUser-agent: y\nDisallow:\n"].concat();
            let with_both = [&ends_in_rule[..], other].concat();
            prop_assert_eq!(
                judged(&with_both, dialect, &names, &path),
                judged(&ends_in_rule, dialect, &names, &path)
            );
        }
    }

    #[test]
    fn line_ends_mean_the_same(lines in prop::collection::vec(line(), 0..16), path in path()) {
        let with = |end: &str| lines.iter().map(|line| line.clone() + end).collect::<String>();
        for dialect in DIALECTS {
            let [feed, both, carriage] = ["\n", "\r\n", "\r"]
                .map(|end| judged(with(end).as_bytes(), dialect, &["foobot"], &path));
            prop_assert_eq!((both, carriage), (feed, feed));
        }
    }

    #[test]
    fn an_equivalent_spelling_gets_the_same_verdict(body in file(0..16), path in "/[a-z/?=]{0,12}") {
        let escaped: String = path
            .chars()
            .map(|c| if c.is_ascii_lowercase() { format!("%{:02x}", c as u32) } else { c.into() })
            .collect();
        prop_assume!(path != "/robots.txt");
        for dialect in [Dialect::Rfc9309, Dialect::Koster1996, Dialect::Selfhtml] {
            prop_assert_eq!(
                judged(&body, dialect, &["foobot"], &path),
                judged(&body, dialect, &["foobot"], &escaped)
            );
        }
    }

    #[test]
    fn the_limit_cuts_like_a_shorter_file(body in file(0..16), limit in 0usize..400, path in path()) {
        let (mut cut, rest) = body.split_at(limit.min(body.len()));
        let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
        if !rest.first().is_none_or(is_end) {
            let last = cut.iter().rposition(is_end).map_or(0, |end| end + 1);
            cut = match cut {
                _ if !model::disallows(&cut[last..]) => &cut[..last],
                // The cut splits an escape, or makes a `$` look like the end of a rule.
                [whole @ .., b'%', _] | [whole @ .., b'%' | b'$'] => whole,
                whole => whole,
            };
        }
        let limited = RobotsTxt::parse_with_limit(&body, limit);
        let limited = AccessResult::Successful(limited);
        let tokens = tokens(&["foobot"]);
        for dialect in DIALECTS {
            let decision = decide(&limited, dialect, &tokens, &UrlPath::parse(&path).unwrap());
            let found = (decision.verdict() == AccessVerdict::Allow, decision.line());
            prop_assert_eq!(found, judged(cut, dialect, &["foobot"], &path));
        }
    }

    #[test]
    fn explanations_name_a_line_that_holds_the_rule(body in file(0..24), path in path()) {
        let access = successful(&body);
        let tokens = tokens(&["foobot"]);
        for dialect in DIALECTS {
            let decision = decide(&access, dialect, &tokens, &UrlPath::parse(&path).unwrap());
            let explanation = decision.details();
            let Some(line) = explanation.line else { continue };
            let text = String::from_utf8_lossy(&body).replace("\r\n", "\n").replace('\r', "\n");
            let text = text.split('\n').nth(line as usize - 1).unwrap().to_owned();
            let rule = explanation.rule.unwrap();
            let (_, value) = rule.split_once(':').unwrap();
            prop_assert!(text.contains(value.trim()), "{:?} in {:?}", value, text);
            prop_assert!(!explanation.group.is_empty());
            let group_lines = decision.group_lines();
            prop_assert!(group_lines.contains(&line), "{} in {:?}", line, group_lines);
            prop_assert!(group_lines.is_sorted(), "{:?}", group_lines);
        }
    }
}

proptest! {
    // A case takes the model a while.
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn files_of_too_many_rules_are_judged_as_others(
        rules in prop::collection::vec((select(vec!["Disallow", "Allow"]), pattern()), 40..60),
        path in path(),
        at in 0usize..40,
    ) {
        let lines: Vec<_> = rules.iter().map(|(field, value)| format!("{field}: {value}\n")).collect();
        let filler: String = (0..15_000).map(|number| format!("Disallow: /z/{number}\n")).collect();
        let (before, after) = lines.split_at(at);
        let one_group = ["User-agent: foobot\n", &before.concat(), &filler, &after.concat()].concat();
        let groups = lines.chunks(3).map(|rules| format!("User-agent: foobot\n{}", rules.concat()));
        let many_groups = format!("{}User-agent: other\n{filler}", groups.collect::<String>());
        for body in [one_group, many_groups] {
            for dialect in DIALECTS {
                let expected = model::judge(body.as_bytes(), dialect, &["foobot"], &path);
                let found = judged(body.as_bytes(), dialect, &["foobot"], &path);
                prop_assert_eq!(found, expected, "{}", dialect);
            }
        }
    }
}

proptest! {
    // The model takes its time with long paths.
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn long_paths_are_searched_as_short_ones(
        rules in prop::collection::vec((select(vec!["Disallow", "Allow"]), "/[*][abc]{1,4}[*]?[abc]{0,5}[$]?"), 70..90),
        pieces in prop::collection::vec("[abc/]{1,12}", 90..160),
    ) {
        let body: String = rules.iter().map(|(field, value)| format!("{field}: {value}\n")).collect();
        let body = format!("User-agent: foobot\n{body}").into_bytes();
        let path = format!("/{}", pieces.concat());
        for dialect in DIALECTS {
            let expected = model::judge(&body, dialect, &["foobot"], &path);
            prop_assert_eq!(judged(&body, dialect, &["foobot"], &path), expected, "{}", dialect);
        }
    }

    #[test]
    fn many_small_groups_are_searched_as_few_large_ones(
        rules in prop::collection::vec((select(vec!["Disallow", "Allow"]), "/[ab]{0,2}([*][ab%]{1,14}){1,3}[$]?"), 60..120),
        path in "/[ab]{70,200}(%61|%E9)?[ab]{0,9}",
    ) {
        let group = |rules: &[(&str, String)]| {
            let rules = rules.iter().map(|(field, value)| format!("{field}: {value}\n"));
            format!("User-agent: foobot\n{}", rules.collect::<String>())
        };
        let small: String = rules.chunks(3).map(group).collect();
        for body in [small, group(&rules)] {
            for dialect in DIALECTS {
                let expected = model::judge(body.as_bytes(), dialect, &["foobot"], &path);
                let found = judged(body.as_bytes(), dialect, &["foobot"], &path);
                prop_assert_eq!(found, expected, "{}", dialect);
            }
        }
    }
}
