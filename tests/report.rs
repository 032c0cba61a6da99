//! `wayleave report`: what would break, from the decision log alone.

use std::process::Output;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::wayleave::command;
use crate::harness::{Ask, Origin, Wayleave};

const TABLES: &str = r#"
[[crawler]]
name = "news"
tokens = ["NewsBot"]
match = { user_agent = "NewsBot" }
mode = "observe"
[[crawler]]
name = "images"
tokens = ["ImageBot"]
match = { user_agent = "ImageBot" }
[[rule]]
action = "refuse"
hosts = ["gone.test"]
reason = "closed, by \"contract\""
[[rule]]
action = "allow"
hosts = ["shop.test"]
owner = "data@example.com"
reason = "an old exception"
expires = "2020-01-01"
"#;

/// The directory of a run in which two crawlers asked three origins, its proxy stopped since.
fn run() -> TempDir {
    let origin = Origin::start();
    let robots = "User-agent: *\nDisallow: /private\n";
    origin.site("shop.test").robots(robots);
    origin.site("open.test");
    origin.site("gone.test");
    let proxy = Wayleave::start_with(&origin, |settings| settings.table(TABLES));
    for (agent, url, times) in [
        ("NewsBot/1", "http://shop.test/private/a", 3),
        ("NewsBot/1", "https://gone.test/", 1),
        ("ImageBot/1", "http://shop.test/private/b", 2),
        ("ImageBot/1", "http://open.test/", 4),
        ("Other/1", "ftp://open.test/", 1),
    ] {
        for _ in 0..times {
            proxy.exchange(&Ask::get(url).agent(agent));
        }
    }
    proxy.stop().0
}

fn report(dir: &TempDir, arguments: &[&str]) -> Output {
    let mut command = command();
    command.arg("report").args(arguments);
    let config = dir.path().join("config.toml");
    command
        .arg("--config")
        .arg(config)
        .output()
        .expect("it runs")
}

fn as_json(dir: &TempDir, arguments: &[&str]) -> Value {
    let output = report(dir, &[&["--json"], arguments].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Outcome, crawler, host, rule or reason, status and count of each row.
fn rows(report: &Value) -> Vec<Value> {
    let rows = report["rows"].as_array().expect("an array").iter();
    let summary = rows.map(|row| {
        let rule = if row["rule"].is_null() {
            &row["reason"]
        } else {
            &row["rule"]
        };
        json!([
            row["outcome"],
            row["crawler"],
            row["host"],
            rule,
            row["status"],
            row["count"]
        ])
    });
    summary.collect()
}

#[test]
fn what_would_break_is_told_by_crawler_host_and_rule() {
    let dir = run();
    let report = as_json(&dir, &["--since", "1h"]);
    let disallowed = "Disallow: /private (http://shop.test/robots.txt:2)";
    let closed = "[[rule]] 1: closed, by \"contract\"";
    let expected = [
        json!(["observed", "news", "shop.test", disallowed, 403, 3]),
        json!(["observed", "news", "gone.test", closed, 403, 1]),
        json!(["refused", "images", "shop.test", disallowed, 403, 2]),
        json!(["refused", "asserted", null, "unsupported-scheme", 501, 1]),
    ];
    assert_eq!(rows(&report), expected, "{report:#}");
    let outcomes = json!({"forwarded": 4, "observed": 4, "refused": 3});
    assert_eq!(report["outcomes"], outcomes);
    assert_eq!(report["files"][0]["lines"], 11);
    let expired = &report["expired_rules"];
    assert_eq!(expired[0]["number"], 2);
    assert_eq!(expired[0]["owner"], "data@example.com");
    assert_eq!(expired[0]["expired_at"], "2020-01-01T00:00:00Z");
    assert_eq!(as_json(&dir, &["--since", "0s"])["rows"], json!([]));
}

#[test]
fn people_and_spreadsheets_can_read_it() {
    let dir = run();
    let table = report(&dir, &[]);
    let table = String::from_utf8(table.stdout).expect("text");
    let lines: Vec<_> = table.lines().map(str::trim).collect();
    for expected in [
        "Only observed: enforcement would refuse these: 4",
        "3  news     shop.test  403 Disallow: /private (http://shop.test/robots.txt:2)",
        "2  images    shop.test  403 Disallow: /private (http://shop.test/robots.txt:2)",
        "[[rule]] 2 (allow) since 2020-01-01T00:00:00Z: an old exception (owner data@example.com)",
    ] {
        assert!(lines.contains(&expected), "{expected} in {table}");
    }
    let csv = report(&dir, &["--csv"]);
    let rows = String::from_utf8(csv.stdout).expect("text");
    let start =
        "observed,news,gone.test,policy-rule,\"[[rule]] 1: closed, by \"\"contract\"\"\",403,1,2";
    assert!(rows.lines().any(|row| row.starts_with(start)), "{rows}");
    assert_eq!(rows.lines().count(), 5);
    let read = String::from_utf8_lossy(&csv.stderr);
    assert!(read.contains("decisions.jsonl: 11 lines"), "{read}");
}

#[test]
fn rotated_files_count_and_what_cannot_be_read_is_named() {
    let dir = run();
    let state = dir.path().join("state");
    let whole = std::fs::read(state.join("decisions.jsonl")).expect("a log");
    let rotated = state.join("decisions.20261121T083000.123Z.jsonl");
    std::fs::rename(state.join("decisions.jsonl"), &rotated).expect("it can be renamed");
    let cut = [b"\xFF garbage\n", &whole[..whole.len() - 10]].concat();
    std::fs::write(state.join("decisions.jsonl"), cut).expect("it can be written");
    let told = as_json(&dir, &[]);
    let counts: Vec<_> = rows(&told).iter().map(|row| row[5].clone()).collect();
    assert_eq!(counts, [6, 2, 4, 1], "the last line was cut off");
    let lines = told["unreadable_lines"]
        .as_array()
        .expect("an array")
        .iter();
    let places: Vec<_> = lines.map(|it| it["line"].clone()).collect();
    assert_eq!(places, [1, 12]);
    let table = report(&dir, &[]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.contains("decisions.jsonl:12: has no end"), "{table}");
    std::fs::remove_dir_all(&state).expect("it can be removed");
    let none = report(&dir, &[]);
    assert_eq!(none.status.code(), Some(2), "{none:?}");
    assert!(String::from_utf8_lossy(&none.stderr).contains("there is no decision log"));
}
