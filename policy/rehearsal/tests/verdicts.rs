//! The counts of a rehearsal against the verdicts of Google's own parser, and of the plain model in every dialect.
//!
//! A size is logged for each request that no sum of others has, so that the bytes of a row say of which requests it is.
//! `WAYLEAVE_LINES=200000` asks the model about so many lines; `WAYLEAVE_VERDICTS=FOLDER` reads further verdicts of Google's
//! parser from `FOLDER/queries.jsonl` about files in `FOLDER`.

#![allow(unreachable_pub, reason = "the model is shared by several test binaries")]
#![allow(clippy::disallowed_methods, reason = "a test reads files and its options")]
#![allow(clippy::disallowed_types, reason = "a test reads files")]

#[path = "../../robots-txt/tests/google_path/mod.rs"]
mod google_path;
#[path = "../../robots-txt/tests/model/mod.rs"]
mod model;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use wayleave_decision::WellKnownCrawler;
use wayleave_rehearsal::{
    CrawlerRow, LinePlace, LogFormat, Rehearsal, RehearsalReport, RobotsPair,
};
use wayleave_robots_txt::{Dialect, ProductToken};

/// The most requests in one log: each has a bit of its own.
const LINES_OF_A_LOG: usize = 60;

/// The folder of real files with Google's verdicts.
fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../robots-txt/tests/corpus")
}

/// Rehearses a file on requests of one crawler for these paths, and returns its row, unless it counts as a person.
fn rehearse(body: &[u8], agent: &str, paths: &[&str]) -> Option<CrawlerRow> {
    let robots = RobotsPair::new(body.to_vec(), None);
    let mut rehearsal = Rehearsal::new(&robots, Some(LogFormat::Combined));
    for (bit, path) in paths.iter().enumerate() {
        let bytes = 1_u64 << bit;
        let path = path.replace('\\', "\\\\").replace('"', "\\\"");
        let line = format!(r#"192.0.2.1 - - [x] "GET {path} HTTP/1.1" 200 {bytes} "-" "{agent}""#);
        rehearsal.add_line(line.as_bytes(), LinePlace { file: 0, line: 1 });
    }
    assert_eq!(rehearsal.request_count(), paths.len() as u64, "{paths:?}");
    RehearsalReport::new(&rehearsal, &[]).crawlers.pop()
}

/// Returns the requests that a dialect shuts out, as bits.
fn shut_out_by(row: &CrawlerRow, dialect: Dialect) -> u64 {
    let bits = |verdict: &str| {
        let rows = row.otherwise.iter();
        rows.filter(|row| row.dialect == dialect.as_str() && row.verdict == verdict)
            .map(|row| row.traffic.bytes)
            .sum::<u64>()
    };
    row.shut_out.bytes & !bits("allow") | bits("disallow")
}

/// Returns the names that a crawler looks for; none if its owner documents what no parser does.
fn names(agent: &str) -> Option<Vec<&str>> {
    match WellKnownCrawler::with_token(agent) {
        Some(listed) if listed.reads_star() => {
            Some([Some(listed.token), listed.after].into_iter().flatten().collect())
        }
        Some(_) => None,
        None => Some(vec![agent]),
    }
}

#[derive(Deserialize)]
struct Verdicts {
    #[serde(alias = "f")]
    file: String,
    #[serde(alias = "a")]
    agent: String,
    #[serde(alias = "q")]
    queries: Vec<Vec<Value>>,
}

/// Compares the counts with Google's verdicts in a file, and returns how many were compared.
fn compare_with_google(folder: &Path, verdicts: &str) -> usize {
    let lines = fs::read_to_string(folder.join(verdicts)).expect("the file is there");
    let mut compared = 0;
    for line in lines.lines() {
        let Verdicts { file, agent, queries } = serde_json::from_str(line).expect("verdicts");
        // Of some names, a User-Agent has only a part.
        let is_name = ProductToken::from_user_agent(agent.as_bytes())
            .is_some_and(|token| token.as_str() == agent);
        if !is_name || names(&agent).is_none_or(|names| names.len() > 1) {
            continue;
        }
        let body = fs::read(folder.join(&file)).expect("the file is there");
        let asked: Vec<_> = queries
            .iter()
            .filter_map(|query| {
                let path = google_path::google_path(query[0].as_str()?).as_str().to_owned();
                // Google's parser judges its own file like any other.
                (path != "/robots.txt").then_some((path, query[1] == 1))
            })
            .collect();
        for asked in asked.chunks(LINES_OF_A_LOG) {
            let paths: Vec<_> = asked.iter().map(|(path, _)| path.as_str()).collect();
            let Some(row) = rehearse(&body, &agent, &paths) else {
                continue;
            };
            let bits = asked.iter().enumerate();
            let expected: u64 = bits.map(|(bit, (_, allow))| u64::from(!allow) << bit).sum();
            assert_eq!(shut_out_by(&row, Dialect::Google), expected, "{file} {agent}: {asked:?}");
            compared += asked.len();
        }
    }
    compared
}

#[test]
fn counts_agree_with_googles_parser() {
    let compared = compare_with_google(&corpus(), "google_verdicts.jsonl");
    assert!(compared > 3_500, "only {compared}");
    if let Some(folder) = std::env::var_os("WAYLEAVE_VERDICTS") {
        let compared = compare_with_google(Path::new(&folder), "queries.jsonl");
        assert!(compared > 50_000, "only {compared}");
    }
}

#[test]
fn counts_agree_with_the_model_in_every_dialect() {
    let wanted = std::env::var("WAYLEAVE_LINES").map_or(6_000, |lines| lines.parse().unwrap());
    let mut files: Vec<_> = fs::read_dir(corpus().join("files"))
        .expect("the corpus is there")
        .map(|entry| entry.expect("readable").path())
        .collect();
    files.sort();
    let mut compared = 0;
    // Of each file a part at a time, so that few lines are about many files.
    for round in 0.. {
        let before = compared;
        for file in &files {
            let body = fs::read(file).expect("readable");
            let paths = model::questions::paths_in(&body);
            let mut agents = model::questions::names_in(&body);
            agents.extend(["Googlebot-Image", "Applebot", "UnnamedBot"].map(str::to_owned));
            let agent = &agents[round % agents.len()];
            let at = round / agents.len() * LINES_OF_A_LOG;
            let is_plain = agent.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            if at >= paths.len() || compared >= wanted || !is_plain {
                continue;
            }
            let paths = &paths[at..paths.len().min(at + LINES_OF_A_LOG)];
            compared += compare_with_model(&body, agent, paths);
        }
        if compared >= wanted || compared == before && round > 2_000 {
            break;
        }
    }
    assert!(compared >= wanted, "only {compared} of {wanted}");
}

/// Compares the counts about a file's paths with the model's verdicts, and returns how many were compared.
fn compare_with_model(body: &[u8], agent: &str, paths: &[String]) -> usize {
    let paths: Vec<_> =
        paths.iter().map(String::as_str).filter(|path| *path != "/robots.txt").collect();
    let (Some(names), Some(row)) = (names(agent), rehearse(body, agent, &paths)) else {
        return 0;
    };
    let expected: BTreeMap<_, u64> = Dialect::Strictest
        .each()
        .iter()
        .map(|dialect| {
            let disallows = |path: &str| !model::judge(body, *dialect, &names, path).0;
            let bits = paths.iter().enumerate();
            (*dialect, bits.map(|(bit, path)| u64::from(disallows(path)) << bit).sum())
        })
        .collect();
    let found: BTreeMap<_, u64> =
        expected.keys().map(|dialect| (*dialect, shut_out_by(&row, *dialect))).collect();
    assert_eq!(found, expected, "{agent} {paths:?} in {}", String::from_utf8_lossy(body));
    paths.len()
}
