//! Preferences are matched as rules are: in every spelling, form and dialect, and within one budget.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::SystemTime;

use proptest::prelude::*;
use proptest::sample::select;
use wayleave_robots_txt::{
    AccessResult, AccessVerdict, Dialect, ProductToken, RobotsTxt, UrlPath, decide_all_spellings,
};
use wayleave_usage_preferences::{
    CrawlerDeclaration, Preference, PreferenceJudgement, PreferenceQuery, PreferenceSettings,
    PreferenceSource, PreferenceStage, PreferenceState, Purpose, PurposeSet, RslLicence, SourceSet,
    TdmrepFile,
};

const LICENCE: &str = "https://site.test/licence.xml";

fn training() -> CrawlerDeclaration {
    CrawlerDeclaration {
        purposes: PurposeSet::of(&[Purpose::TrainAi]),
        purpose_tokens: vec![(Purpose::TrainAi, ProductToken::new("A-Extended").unwrap())],
        ..CrawlerDeclaration::default()
    }
}

fn settings() -> PreferenceSettings {
    PreferenceSettings {
        sources: PreferenceSource::OPTIONAL.into_iter().collect::<SourceSet>(),
        ..PreferenceSettings::default()
    }
}

/// Judges a path for a crawler that trains.
fn judge(
    dialect: Dialect,
    path: &str,
    add: impl FnOnce(PreferenceQuery<'_>, &mut PreferenceState),
) -> PreferenceJudgement {
    let declaration = training();
    let settings = settings();
    let tokens = [ProductToken::new("foobot").unwrap()];
    let query = PreferenceQuery {
        declaration: &declaration,
        settings: &settings,
        tokens: &tokens,
        dialect,
        all_spellings: true,
        now: SystemTime::UNIX_EPOCH,
    };
    let mut state = PreferenceState::new(query, &format!("https://site.test{path}"), path);
    add(query, &mut state);
    state.judge(query)
}

fn by_robots_txt(dialect: Dialect, path: &str, robots: &str) -> PreferenceJudgement {
    let robots = RobotsTxt::parse(robots.as_bytes());
    judge(dialect, path, |query, state| state.add_robots_txt(query, &robots))
}

fn by_tdmrep(dialect: Dialect, path: &str, file: &str) -> PreferenceJudgement {
    let file = TdmrepFile::parse(file.as_bytes());
    judge(dialect, path, |query, state| state.add_tdmrep(query, &file))
}

fn by_licences(dialect: Dialect, path: &str, contents: &str, count: usize) -> PreferenceJudgement {
    let text = format!("<rsl xmlns='https://rslstandard.org/rsl'>{contents}</rsl>");
    let document = Arc::new(RslLicence::parse(text.as_bytes()));
    judge(dialect, path, |query, state| {
        for number in 0..count {
            let url = format!("{LICENCE}?{number}");
            state.add_named_licence(query, &url, &document, PreferenceStage::Before);
        }
    })
}

fn content(pattern: &str) -> String {
    let mut url = String::new();
    for c in pattern.chars() {
        let _ = write!(url, "&#x{:x};", u32::from(c));
    }
    format!(
        "<content url='{url}'><license><prohibits type='usage'>ai-train</prohibits></license></content>"
    )
}

/// Returns the preference of each family with paths that states a pattern.
fn each_family(dialect: Dialect, path: &str, pattern: &str) -> Vec<(&'static str, Preference)> {
    let group = |line: String| {
        let robots = format!("User-agent: *\n{line}\n");
        by_robots_txt(dialect, path, &robots).preference
    };
    let location = serde_json::json!([{ "location": pattern, "tdm-reservation": 1 }]);
    vec![
        ("Content-Usage", group(format!("Content-Usage: {pattern} train-ai=n"))),
        ("Content-Signal", group(format!("Content-Signal: {pattern} ai-train=no"))),
        ("DisallowAITraining", group(format!("DisallowAITraining: {pattern}"))),
        ("policy token", group(format!("\nUser-agent: A-Extended\nDisallow: {pattern}"))),
        ("tdmrep.json", by_tdmrep(dialect, path, &location.to_string()).preference),
        ("RSL", by_licences(dialect, path, &content(pattern), 1).preference),
    ]
}

fn disallows(dialect: Dialect, path: &str, pattern: &str) -> bool {
    let body = format!("User-agent: *\nDisallow: {pattern}\n");
    let access = AccessResult::Successful(RobotsTxt::parse(body.as_bytes()));
    let tokens = [ProductToken::new("foobot").unwrap()];
    let path = UrlPath::parse(path).unwrap();
    decide_all_spellings(&access, dialect, &tokens, &path).verdict() == AccessVerdict::Disallow
}

/// A path and a pattern made of the same bytes, each spelt in its own way.
fn path_and_pattern() -> impl Strategy<Value = (String, String)> {
    let bytes = "/aB!$*+=&;:@,'()~.\\?%2fFé".chars().collect::<Vec<_>>();
    let unit = (select(bytes), 0..4u8, 0..4u8);
    let spelt = |c: char, how: u8| match (how, c) {
        (0, _) | (_, 'é') => c.to_string(),
        (1, _) => format!("%{:02x}", u32::from(c)),
        (2, _) => format!("%{:02X}", u32::from(c)),
        _ => c.to_string(),
    };
    let end = select(vec!["", "", "", "*", "$", "*b", "*4", "/", "%", "%2", "*%", "*%2"]);
    (prop::collection::vec(unit, 0..8), 0..3usize, end, any::<bool>()).prop_map(
        move |(units, cut, end, starred)| {
            let mut path = "/".to_owned();
            let mut pattern = "/".to_owned();
            let length = units.len() - cut.min(units.len());
            for (at, (c, in_path, in_pattern)) in units.iter().enumerate() {
                path += &spelt(*c, *in_path);
                if at < length {
                    pattern +=
                        &if starred && at == 1 { "*".to_owned() } else { spelt(*c, *in_pattern) };
                }
            }
            (path, pattern + end)
        },
    )
}

proptest! {
    #[test]
    fn a_preference_refuses_wherever_disallow_would(
        (path, pattern) in path_and_pattern(),
        dialect in select(Dialect::ALL.to_vec()),
    ) {
        if disallows(dialect, &path, &pattern) {
            for (family, preference) in each_family(dialect, &path, &pattern) {
                prop_assert_eq!(preference, Preference::Refuse, "{}: {}", dialect, family);
            }
        }
    }
}

#[test]
fn use_is_judged_in_the_same_spellings_as_disallow() {
    for (path, pattern) in
        [("/%21", "/!"), ("/+", "/%2B"), ("/%3D", "/="), ("/=", "/%3D"), ("/a%4/%4", "/a%4/%4")]
    {
        assert!(disallows(Dialect::Rfc9309, path, pattern), "{pattern}");
        for (family, preference) in each_family(Dialect::Rfc9309, path, pattern) {
            assert_eq!(preference, Preference::Refuse, "{family}: {path} {pattern}");
        }
    }
}

#[test]
fn an_escape_begun_by_a_pattern_matches_no_literal_wildcard() {
    for (path, pattern, is_matched) in [
        ("/a$b", "/*%", false),
        ("/a*b", "/*%2", false),
        ("/a$b", "/*4b", false),
        ("/a$b", "/a%2", false),
        ("/a%24b", "/*%", true),
        ("/a%2Ab", "/*%2", true),
        ("/a%24b", "/*4b", true),
        ("/a$b%20", "/a%24b*%", true),
        ("/a$b%24", "/a%24b*%2", true),
        ("/a%24b$", "/a$b%24", true),
    ] {
        assert_eq!(disallows(Dialect::Rfc9309, path, pattern), is_matched, "{path} {pattern}");
        for (family, preference) in each_family(Dialect::Rfc9309, path, pattern) {
            let is_refused = preference == Preference::Refuse;
            assert_eq!(is_refused, is_matched, "{family}: {path} {pattern}");
        }
    }
}

#[test]
fn a_permission_holds_only_for_the_path_as_it_was_received() {
    let robots = "User-agent: *\nContent-Usage: /! train-ai=y\n";
    let at = |path| by_robots_txt(Dialect::Rfc9309, path, robots).preference;
    assert_eq!(at("/!"), Preference::Allow);
    assert_eq!(at("/%21"), Preference::Unstated);
}

/// Patterns that are searched for in all of a path of `a`, and not in it.
fn slow(number: usize) -> String {
    format!("/{}*b{number}", "*a".repeat(20))
}

#[track_caller]
fn expect_too_costly(judgement: &PreferenceJudgement, source: PreferenceSource) {
    assert_eq!(judgement.preference, Preference::Refuse);
    let statement = judgement.statement().expect("one that refuses");
    assert!(statement.is_too_costly(), "{statement:?}");
    assert_eq!(statement.source, source);
}

#[test]
fn preferences_that_take_too_long_to_match_refuse() {
    let path = format!("/{}", "a".repeat(60_000));
    let lines: String =
        (0..5_000).map(|n| format!("Content-Usage: {} train-ai=n\n", slow(n))).collect();
    let robots = format!("User-agent: *\n{lines}");
    expect_too_costly(
        &by_robots_txt(Dialect::Rfc9309, &path, &robots),
        PreferenceSource::ContentUsage,
    );
    let entries: Vec<_> = (0..5_000)
        .map(|n| serde_json::json!({ "location": slow(n), "tdm-reservation": 1 }))
        .collect();
    let file = serde_json::Value::Array(entries).to_string();
    expect_too_costly(&by_tdmrep(Dialect::Rfc9309, &path, &file), PreferenceSource::Tdmrep);
    let contents: String = (0..1_000).map(|n| content(&slow(n))).collect();
    expect_too_costly(&by_licences(Dialect::Rfc9309, &path, &contents, 8), PreferenceSource::Rsl);
    let rules: String = (0..5_000).map(|n| format!("Disallow: {}\n", slow(n))).collect();
    let robots = format!("User-agent: A-Extended\n{rules}");
    expect_too_costly(
        &by_robots_txt(Dialect::Rfc9309, &path, &robots),
        PreferenceSource::PolicyToken,
    );
}

#[test]
fn all_families_share_one_budget() {
    let path = format!("/{}", "a".repeat(8_000));
    let lines = |count: usize| -> String {
        let lines = (0..count).map(|n| format!("Content-Usage: {} train-ai=n\n", slow(n)));
        format!("User-agent: *\n{}", lines.collect::<String>())
    };
    let entries = |count: usize| {
        let entries = 0..count;
        let entries =
            entries.map(|n| serde_json::json!({ "location": slow(n), "tdm-reservation": 1 }));
        serde_json::Value::Array(entries.collect()).to_string()
    };
    let robots = RobotsTxt::parse(lines(600).as_bytes());
    let file = TdmrepFile::parse(entries(600).as_bytes());
    for (with_robots, with_file) in [(true, false), (false, true), (true, true)] {
        let judgement = judge(Dialect::Rfc9309, &path, |query, state| {
            if with_robots {
                state.add_robots_txt(query, &robots);
            }
            if with_file {
                state.add_tdmrep(query, &file);
            }
        });
        if with_robots && with_file {
            expect_too_costly(&judgement, PreferenceSource::Tdmrep);
        } else {
            assert_eq!(judgement.preference, Preference::Unstated);
        }
    }
}

#[test]
fn a_path_with_too_many_long_spellings_is_too_costly() {
    let spelt = |bytes: usize| format!("/{}//;x/%61/./\\%2f%5c", "a".repeat(bytes));
    let short = spelt(256);
    let long = spelt(8 * 1024);
    assert!(!disallows(Dialect::Rfc9309, &short, "/x"));
    let robots = "User-agent: *\nContent-Usage: /x train-ai=n\n";
    let judged = by_robots_txt(Dialect::Rfc9309, &short, robots);
    assert_eq!(judged.preference, Preference::Unstated);
    let access = AccessResult::Successful(RobotsTxt::parse(b"User-agent: *\nDisallow: /x\n"));
    let path = UrlPath::parse(&long).unwrap();
    let decision = decide_all_spellings(&access, Dialect::Rfc9309, &[], &path);
    assert_eq!(
        (decision.verdict(), decision.reason().as_str()),
        (AccessVerdict::Disallow, "too-costly")
    );
    let judged = by_robots_txt(Dialect::Rfc9309, &long, robots);
    expect_too_costly(&judged, PreferenceSource::ContentUsage);
}

#[test]
fn usage_lines_are_found_in_one_pass_over_many_agents() {
    // To compare each of them with all others would take a minute and more.
    let agents = "User-agent:*\n".repeat(200_000);
    let body = format!("{agents}Content-Usage: train-ai=n\n");
    let robots = RobotsTxt::parse_with_limit(body.as_bytes(), body.len());
    let judged = judge(Dialect::Rfc9309, "/", |query, state| state.add_robots_txt(query, &robots));
    assert_eq!(judged.preference, Preference::Refuse);
    assert!(!judged.statement().expect("the line").is_too_costly());
}

#[test]
fn strictest_refuses_the_use_that_any_dialect_refuses() {
    // Each group is the crawler's to one dialect alone: by a misspelt field, a part of a name, the beginning of one.
    for (only, group) in [
        (Dialect::Google, "User-agent: foobot/2 x"),
        (Dialect::Koster1996, "User-agent: the foobot"),
        (Dialect::Selfhtml, "User-agent: foo"),
    ] {
        for line in
            ["Content-Usage: train-ai=n", "Content-Signal: ai-train=no", "DisallowAITraining: /"]
        {
            let others = "User-agent: *\nDisallow: /x\n";
            let robots = format!("{others}\n{group}\n{line}\nDisallow: /y\n");
            let at = |dialect| by_robots_txt(dialect, "/", &robots).preference;
            if only != Dialect::Google {
                assert_eq!(at(Dialect::Rfc9309), Preference::Unstated, "{group}");
            }
            assert_eq!(at(only), Preference::Refuse, "{only}: {line}");
            assert_eq!(at(Dialect::Strictest), Preference::Refuse, "{only}: {line}");
        }
    }
}

proptest! {
    #[test]
    fn strictest_is_never_milder_about_use(
        lines in prop::collection::vec(select(vec![
            "User-agent: *", "User-agent: foobot", "User-agent: foo", "User-agent: the foobot",
            "User-agent: foobot2", "", "Disallow: /x", "Content-Usage: train-ai=n", "Content-Usage: train-ai=y",
            "Content-Usage: /a train-ai=y", "Content-Signal: ai-train=no", "Content-Signal: ai-train=yes",
            "DisallowAITraining: /a", "AllowAITraining: /", "User-agent: A-Extended", "Disallow: /a",
        ]), 0..10),
        path in select(vec!["/", "/a", "/%61", "//a?b"]),
    ) {
        let body = lines.join("\n");
        let rank = |preference| match preference {
            Preference::Allow => 0,
            Preference::Unstated => 1,
            Preference::Refuse => 2,
        };
        let at = |dialect| rank(by_robots_txt(dialect, path, &body).preference);
        let strictest = at(Dialect::Strictest);
        for dialect in &Dialect::ALL[..4] {
            prop_assert!(strictest >= at(*dialect), "{}: {:?}", dialect, body);
        }
    }
}
