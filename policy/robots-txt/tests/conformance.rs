//! Runs every case in `cases/` against the engine.
//!
//! A case that does not hold on purpose is named in `cases/exceptions.jsonl` with its source, its
//! clause and the reason; an exception whose case holds after all is an error too.

mod cases;
mod google_path;

use std::collections::{BTreeMap, BTreeSet};

use cases::{Case, Exception, Judged, exceptions, read_cases};
use google_path::google_path;
use wayleave_robots_txt::{AccessVerdict, DailyHours, Dialect, RobotsTxt, TimeOfDay, decide};

/// The files that hold verdicts or statements; `disagreements.jsonl` lists what no dialect gives.
const FILES: [&str; 16] = [
    "crawler_commons",
    "edge_matrix",
    "extract",
    "google_robots_test",
    "google_spec_test",
    "protego",
    "rep_cpp",
    "reppy",
    "rfc9309_examples",
    "seed_000_selfhtml",
    "seed_001_rep_draft",
    "seed_002_google",
    "seed_003_koster1996",
    "temoto",
    "texting_robots",
    "ours",
];

#[test]
fn every_case_holds_or_has_a_written_reason() {
    let mut judged = 0;
    let mut failed = BTreeMap::new();
    for file in FILES {
        for case in read_cases(file) {
            for (name, failure) in verdicts(&case).chain(statements(&case)) {
                judged += 1;
                if let Some(failure) = failure {
                    failed.insert((case.id.clone(), name), failure);
                }
            }
        }
    }
    assert!(judged > 12_000, "only {judged} expectations were read");
    let excepted: BTreeSet<_> = exceptions().iter().map(Exception::key).collect();
    let unexplained: Vec<_> = failed.iter().filter(|(key, _)| !excepted.contains(key)).collect();
    assert!(unexplained.is_empty(), "{} of {judged}: {unexplained:#?}", unexplained.len());
    let idle: Vec<_> = excepted.iter().filter(|key| !failed.contains_key(key)).collect();
    assert!(idle.is_empty(), "these hold: {idle:#?}");
}

#[test]
fn every_exception_says_why() {
    for exception in exceptions() {
        let texts = [&exception.source, &exception.clause, &exception.reason];
        assert!(texts.iter().all(|text| !text.trim().is_empty()), "{}", exception.id);
    }
}

/// Judges each verdict that a case expects: the dialect, and the failure if there is one.
fn verdicts(case: &Case) -> impl Iterator<Item = Judged> {
    let tokens = case.tokens();
    let access = case.access();
    case.expectations().into_iter().map(move |(dialect, allow)| {
        let path = google_path(case.url.as_deref().unwrap_or("/"));
        let decision = decide(&access, dialect, &tokens, &path);
        let holds = (decision.verdict() == AccessVerdict::Allow) == allow;
        (dialect.to_string(), (!holds).then(|| format!("{decision:?}")))
    })
}

/// Judges each statement beside rules that a case expects, likewise.
fn statements(case: &Case) -> impl Iterator<Item = Judged> {
    let robots = case.robots_txt();
    let dialect = Dialect::Rfc9309;
    let tokens = case.tokens();
    let mut judged: Vec<Judged> = Vec::new();
    let mut expect = |name: &str, found: String, expected: String| {
        let failure = (found != expected).then(|| format!("{found}, not {expected}"));
        judged.push((name.to_owned(), failure));
    };
    if let Some(delay) = &case.crawl_delay {
        let found = robots.crawl_delay(dialect, &tokens).map(|delay| delay.as_secs_f64());
        expect("crawl_delay", format!("{found:?}"), format!("{delay:?}"));
    }
    if let Some(sitemaps) = &case.sitemaps {
        let found: Vec<String> = match case.base() {
            Some(origin) => robots.absolute_sitemaps(&origin).collect(),
            None => robots.sitemaps().collect(),
        };
        expect("sitemaps", format!("{found:?}"), format!("{sitemaps:?}"));
    }
    if let Some(sitemaps) = &case.sitemaps_distinct {
        let found: BTreeSet<String> = robots.sitemaps().collect();
        let expected: BTreeSet<String> = sitemaps.iter().cloned().collect();
        expect("sitemaps", format!("{found:?}"), format!("{expected:?}"));
    }
    if let Some(host) = &case.host {
        expect("host", format!("{:?}", robots.host()), format!("{host:?}"));
    }
    statements_of_group(case, &robots, &mut expect);
    judged.into_iter()
}

fn statements_of_group(
    case: &Case,
    robots: &RobotsTxt,
    expect: &mut impl FnMut(&str, String, String),
) {
    let dialect = Dialect::Rfc9309;
    let tokens = case.tokens();
    if let Some((rates, only_first)) = case.expected_rates() {
        let found = robots.request_rates(dialect, &tokens);
        let found: Vec<_> = found
            .iter()
            .map(|rate| (rate.requests, rate.within.as_secs(), rate.at.map(span)))
            .take(if only_first { 1 } else { usize::MAX })
            .collect();
        expect("request_rate", format!("{found:?}"), format!("{rates:?}"));
    }
    if let Some(times) = case.expected_times() {
        let found: Vec<_> = robots.visit_times(dialect, &tokens).into_iter().map(span).collect();
        expect("visit_time", format!("{found:?}"), format!("{times:?}"));
    }
    if let Some(expected) = &case.clean_param {
        let found: Vec<_> = robots
            .clean_params()
            .map(|clean_param| (clean_param.params, clean_param.path))
            .collect();
        let expected: Vec<_> =
            expected.iter().map(|expected| (&expected.params, &expected.path)).collect();
        expect("clean_param", format!("{found:?}"), format!("{expected:?}"));
    }
    for (name, expected) in case.directives() {
        let found: Vec<String> = directives(robots, &name, case);
        expect(&name, format!("{found:?}"), format!("{expected:?}"));
    }
    for (name, expected) in case.first_directives() {
        let found = directives(robots, &name, case).into_iter().next();
        expect(&name, format!("{found:?}"), format!("{expected:?}"));
    }
}

/// The values of a directive: of the crawler's group, or of the file where it speaks to all.
fn directives(robots: &RobotsTxt, name: &str, case: &Case) -> Vec<String> {
    // crawler-commons names its extensions a little otherwise than files do.
    let letters = |name: &str| name.to_lowercase().replace(['-', '_', ' '], "");
    let is_named =
        |found: &str| letters(found).trim_end_matches('s') == letters(name).trim_end_matches('s');
    let speaks_to_all = ["host", "clean_param", "content_signals", "llm_policy"].contains(&name);
    let all: Vec<_> = if speaks_to_all {
        robots.directives().collect()
    } else {
        robots.group_directives(Dialect::Rfc9309, &case.tokens()).collect()
    };
    all.into_iter()
        .filter(|directive| is_named(&directive.name))
        .map(|directive| directive.value)
        .collect()
}

fn span(span: DailyHours) -> (String, String) {
    let digits = |time: TimeOfDay| format!("{:02}{:02}", time.hour, time.minute);
    (digits(span.from), digits(span.to))
}
