//! Real files: every verdict and every deciding line of Google's own parser, without exception.

#![allow(
    clippy::disallowed_methods,
    reason = "the corpus is in files; the crate itself reads none (clippy.toml)"
)]

mod google_path;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use google_path::google_path;
use serde::Deserialize;
use wayleave_robots_txt::{
    AccessResult, AccessVerdict, Dialect, ProductToken, RobotsTxt, decide, decide_all_spellings,
    lint,
};

#[derive(Deserialize)]
struct Questions {
    file: String,
    agent: String,
    queries: Vec<Query>,
}

/// URL, verdict and deciding line of Google's parser, then those of RFC 9309 where they differ.
#[derive(Deserialize)]
#[serde(untagged)]
enum Query {
    Alike(String, u8, u32),
    Apart(String, u8, u32, u8, u32),
}

impl Query {
    fn url(&self) -> &str {
        let (Self::Alike(url, ..) | Self::Apart(url, ..)) = self;
        url
    }

    fn google(&self) -> (bool, u32) {
        let (Self::Alike(_, allow, line) | Self::Apart(_, allow, line, ..)) = self;
        (*allow == 1, *line)
    }

    fn rfc9309(&self) -> (bool, u32) {
        let (Self::Alike(_, allow, line) | Self::Apart(_, _, _, allow, line)) = self;
        (*allow == 1, *line)
    }
}

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

fn questions() -> Vec<Questions> {
    let text = std::fs::read_to_string(dir().join("google_verdicts.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn read(file: &str) -> Vec<u8> {
    std::fs::read(dir().join(file)).unwrap()
}

/// Asks every question: of what its file says, for which crawler, at which place.
fn ask_all(mut ask: impl FnMut(&Query, &AccessResult, &[ProductToken], &str)) -> usize {
    let mut files = HashMap::new();
    let mut count = 0;
    for Questions { file, agent, queries } in questions() {
        let access = files
            .entry(file.clone())
            .or_insert_with_key(|file| AccessResult::Successful(RobotsTxt::parse(&read(file))));
        let tokens = [ProductToken::verbatim(&agent).unwrap_or_else(|_| ProductToken::anonymous())];
        for query in &queries {
            let place = format!("{file} {agent} {}", query.url());
            ask(query, access, &tokens, &place);
            count += 1;
        }
    }
    count
}

/// Judges every question in a dialect: (the question's place, allow, deciding line or 0).
fn answers(dialect: Dialect, mut check: impl FnMut(&Query, String, bool, u32)) -> usize {
    ask_all(|query, access, tokens, place| {
        let decision = decide(access, dialect, tokens, &google_path(query.url()));
        let allow = decision.verdict() == AccessVerdict::Allow;
        let place = format!("{place}: {decision:?}");
        check(query, place, allow, decision.line().unwrap_or(0));
    })
}

#[test]
fn google_agrees_with_googles_parser_about_verdicts_and_lines() {
    let count = answers(Dialect::Google, |query, place, allow, line| {
        assert_eq!((allow, line), query.google(), "{place}");
    });
    assert!(count > 5_000, "only {count} questions were read");
}

#[test]
fn rfc9309_agrees_with_the_plain_model() {
    // The model decodes `%7%44` to `%7D`, an escape that nobody wrote.
    let only_the_model = ["%7%44", "%%", "%2%30"];
    answers(Dialect::Rfc9309, |query, place, allow, line| {
        if !only_the_model.iter().any(|text| query.url().contains(text)) {
            assert_eq!((allow, line), query.rfc9309(), "{place}");
        }
    });
}

#[test]
fn compiled_files_stay_small() {
    let mut sizes: Vec<usize> = std::fs::read_dir(dir().join("files"))
        .unwrap()
        .map(|file| RobotsTxt::parse(&std::fs::read(file.unwrap().path()).unwrap()).heap_bytes())
        .collect();
    sizes.sort_unstable();
    assert!(sizes[sizes.len() / 2] <= 500, "median {}", sizes[sizes.len() / 2]);
    let mean = sizes.iter().sum::<usize>() / sizes.len();
    assert!(mean <= 2_300, "mean {mean}");
}

#[test]
fn lint_has_an_answer_for_every_file() {
    for file in std::fs::read_dir(dir().join("files")).unwrap() {
        let body = std::fs::read(file.unwrap().path()).unwrap();
        let lines = body.split(|&byte| byte == b'\n' || byte == b'\r').count();
        for finding in lint(&body, Dialect::ALL) {
            assert!((1..=lines).contains(&(finding.line as usize)), "{finding}");
        }
    }
}

#[test]
fn judging_all_spellings_refuses_no_ordinary_path() {
    let mut refused = Vec::new();
    ask_all(|query, access, tokens, _| {
        let path = google_path(query.url());
        let plainly = decide(access, Dialect::Rfc9309, tokens, &path).verdict();
        let strictly = decide_all_spellings(access, Dialect::Rfc9309, tokens, &path).verdict();
        if plainly != strictly {
            refused.push(path.to_string());
        }
    });
    // All of these questions were made up: no page of these sites links to such a path.
    let made_up = ["/%2F", "/%2f", "%2F", "//", "/./", ";p=1"];
    refused.retain(|path| !made_up.iter().any(|part| path.contains(part)));
    assert_eq!(refused, [""; 0]);
}
