//! `wayleave report`: its summary of the decision log, including what enforcement would refuse.

use std::process::Output;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::crawler::crawler;
use crate::harness::wayleave::command;
use crate::harness::{Origin, Reply, Wayleave};
use crate::preferences::purposes::{CORPUS, INDEX, STATED, example_bot};

const RULES: &str = r#"
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

/// Returns the directory of a stopped proxy that served two crawlers.
fn run_and_stop() -> TempDir {
    let origin = Origin::start();
    let robots = "User-agent: *\nDisallow: /private\n";
    origin.site("shop.test").robots(robots);
    origin.site("open.test");
    origin.site("gone.test");
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings
            .with(crawler("news", "NewsBot").set("owner", "news-team").observed())
            .crawler("images", "ImageBot")
            .table(RULES)
    });
    for (agent, url, times) in [
        ("NewsBot/1", "http://shop.test/private/a", 3),
        ("NewsBot/1", "https://gone.test/", 1),
        ("ImageBot/1", "http://shop.test/private/b", 2),
        ("ImageBot/1", "http://open.test/", 4),
        ("Other/1", "gopher://open.test/", 1),
    ] {
        for _ in 0..times {
            proxy.get_as(agent, url);
        }
    }
    proxy.stop().0
}

fn report(dir: &TempDir, arguments: &[&str]) -> Output {
    let mut command = command();
    command.arg("report").args(arguments);
    let config = dir.path().join("config.toml");
    command.arg("--config").arg(config).output().expect("it runs")
}

fn as_json(dir: &TempDir, arguments: &[&str]) -> Value {
    let output = report(dir, &[&["--json"], arguments].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Returns outcome, crawler, host, rule or reason, status and count of each row.
fn rows(report: &Value) -> Vec<Value> {
    let rows = report["rows"].as_array().expect("an array").iter();
    let summary = rows.map(|row| {
        let rule = if row["rule"].is_null() { &row["reason"] } else { &row["rule"] };
        json!([row["outcome"], row["crawler"], row["host"], rule, row["status"], row["count"]])
    });
    summary.collect()
}

#[test]
fn future_refusals_are_reported_by_crawler_host_and_rule() {
    let dir = run_and_stop();
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
fn the_report_is_also_a_table_and_csv() {
    let dir = run_and_stop();
    let table = report(&dir, &[]);
    let table = String::from_utf8(table.stdout).expect("text");
    let lines: Vec<_> = table.lines().map(str::trim).collect();
    for expected in [
        "Observed only: enforcement would refuse these: 4",
        "3  news     shop.test  403 Disallow: /private (http://shop.test/robots.txt:2)",
        "2  images   shop.test  403 Disallow: /private (http://shop.test/robots.txt:2)",
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
    for (arguments, lines) in [(&["--csv", "--limit", "2"][..], 3), (&["--csv", "--limit", "0"], 5)]
    {
        let limited = report(&dir, arguments);
        let rows = String::from_utf8(limited.stdout).expect("text");
        assert_eq!(rows.lines().count(), lines, "{arguments:?}: {rows}");
    }
    let hosts = report(&dir, &["--csv", "--by", "host", "--limit", "1"]);
    assert_eq!(String::from_utf8_lossy(&hosts.stdout).lines().count(), 2);
    let read = String::from_utf8_lossy(&csv.stderr);
    assert!(read.contains("decisions.jsonl: 11 lines"), "{read}");
}

#[test]
fn the_summary_comes_first_by_crawler_or_as_asked_for() {
    let dir = run_and_stop();
    let text =
        |arguments: &[&str]| String::from_utf8(report(&dir, arguments).stdout).expect("text");
    let default = text(&[]);
    let (summary, details) = default.split_once("Observed only").expect("two parts");
    let rule = "Disallow: /private (http://shop.test/robots.txt:2)";
    for expected in [
        "crawler  owner      requests  refused      %  would be refused      %  top host   top rule".to_owned(),
        format!("news     news-team         4        0    0.0                 4  100.0  shop.test  {rule}"),
        format!("images   -                 6        2   33.3                 0    0.0  shop.test  {rule}"),
        "unnamed  -                 1        1  100.0                 0    0.0  -          unsupported-scheme".to_owned(),
    ] {
        assert!(summary.lines().any(|line| line.trim() == expected), "{expected} in {summary}");
    }
    assert!(details.contains("Refused: 3"), "{details}");

    let by_host = text(&["--by", "host"]);
    assert!(by_host.contains("By host: 4"), "{by_host}");
    let shop = by_host.lines().find(|line| line.contains("shop.test  ")).expect("a row");
    assert!(shop.contains("news") && shop.ends_with(rule), "{shop}");
    assert!(!by_host.contains("Observed only"), "{by_host}");
    let senders = text(&["--by", "token", "--crawler", "unnamed"]);
    let by_field = text(&["--by", "token", "--crawler", "asserted"]);
    let rows = |text: &str| text.split_once("By token").map(|(_, rows)| rows.to_owned());
    assert_eq!(rows(&senders), rows(&by_field), "the name in the log is accepted, too");
    let head = senders.lines().find(|line| line.trim_start().starts_with("token")).expect("heads");
    assert!(head.ends_with("top user-agent  top client"), "{senders}");
    let other = senders.lines().find(|line| line.contains("Other ")).expect("a row");
    assert!(other.ends_with("Other/1         127.0.0.1"), "{senders}");
    let one = text(&["--by", "reason", "--crawler", "images"]);
    assert!(one.contains("4 forwarded, 2 refused"), "{one}");
    assert!(one.contains("rule") && !one.contains("policy-rule"), "{one}");
    let shortened = text(&["--limit", "1"]);
    assert!(shortened.contains("... rows left out: 2; --limit 0 shows them"), "{shortened}");
}

#[test]
fn failures_are_named_by_host_and_reason() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    for _ in 0..2 {
        proxy.get("http://gone.example/");
    }
    let dir = proxy.stop().0;
    let text =
        |format: &str| String::from_utf8(report(&dir, &["--format", format]).stdout).expect("text");
    let shown = text("text");
    let (_, failed) = shown.split_once("\nFailed: 2\n").expect("a section");
    let row = failed.lines().nth(1).expect("a row").split_whitespace().collect::<Vec<_>>();
    assert_eq!(row, ["2", "unnamed", "gone.example", "502", "dns_error"]);
    assert!(text("md").contains("Failed\n"), "{}", text("md"));
    assert!(text("html").contains("<h2>Failed</h2>"), "{}", text("html"));
    let json = as_json(&dir, &[]);
    let row = &json["failed"][0];
    assert_eq!((&row["count"], &row["reason"]), (&json!(2), &json!("dns_error")), "{json:#}");
    let dir = run_and_stop();
    let without = String::from_utf8(report(&dir, &[]).stdout).expect("text");
    assert!(!without.contains("Failed"), "{without}");
}

#[test]
fn the_report_is_also_a_document() {
    let dir = run_and_stop();
    let text = |arguments: &[&str]| {
        let output = report(&dir, arguments);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let markdown = text(&["--format", "md"]);
    assert!(markdown.starts_with("# wayleave, "), "{markdown}");
    let row = "| news | news-team | 4 | 0 | 0.0 | 4 | 100.0 | shop.test |";
    assert!(markdown.lines().any(|line| line.starts_with(row)), "{markdown}");
    let html = text(&["--format", "html"]);
    assert!(html.starts_with("<!DOCTYPE html>") && html.contains("<td>news-team</td>"), "{html}");
    assert!(!html.contains("<script") && !html.contains("http-equiv=\"refresh\""), "{html}");
    let csv = text(&["--format", "csv", "--by", "crawler"]);
    let mut lines = csv.lines();
    let head = lines.next().expect("a head");
    assert!(
        head.starts_with("crawler,owner,requests,refused,refused_share,would_be_refused,"),
        "{head}"
    );
    assert!(csv.contains("\r\nnews,news-team,4,0,0.000000,4,1.000000,0,"), "{csv}");
    let json: Value =
        serde_json::from_str(&text(&["--format", "json", "--by", "rule"])).expect("JSON");
    assert_eq!(json["by_crawler"][0]["name"], "news");
    assert_eq!(json["by_crawler"][0]["would_be_refused_share"], 1.0);
    assert_eq!(json["by_rule"][0]["would_be_refused"], 3);
    assert_eq!(json["left_out"], 0);
}

/// Returns the directory of a stopped proxy that refused three crawlers the use of pages, or observed that it would.
fn run_with_purposes() -> TempDir {
    let origin = Origin::start();
    let robots = "User-agent: *\nContent-Signal: /news search=yes, ai-train=no\n";
    let page = Reply::html("<meta name=robots content=noindex>");
    let site = origin.site("site.test").robots(robots);
    site.page("/page", page);
    let crawlers = [
        example_bot("corpus", CORPUS).purposes(["search", "train-ai"]),
        example_bot("index", INDEX).purposes(["search"]).observed(),
        example_bot("stated", STATED).purposes(["tdm"]).set("unstated", "refuse"),
    ];
    let proxy = Wayleave::start_with(&origin, |settings| settings.with_all(crawlers));
    for (agent, path) in [
        (CORPUS, "/news/1"),
        (CORPUS, "/news/2"),
        (CORPUS, "/page"),
        (INDEX, "/page"),
        (INDEX, "/news/1"),
        (STATED, "/news/1"),
    ] {
        proxy.get_as(agent, &format!("http://site.test{path}"));
    }
    proxy.stop().0
}

#[test]
fn refused_uses_are_reported_by_purpose_and_source() {
    let dir = run_with_purposes();
    let report = as_json(&dir, &[]);
    let expected = [
        json!(["observed", "index", "site.test", "search by robots-meta", 403, 1]),
        json!(["refused", "corpus", "site.test", "train-ai by content-signal", 403, 2]),
        json!(["refused", "corpus", "site.test", "search by robots-meta", 403, 1]),
        json!(["refused", "stated", "site.test", "tdm by nothing said", 403, 1]),
    ];
    assert_eq!(rows(&report), expected, "{report:#}");
}

#[test]
fn rotated_files_are_read_and_unreadable_lines_named() {
    let dir = run_and_stop();
    let state = dir.path().join("state");
    let log = std::fs::read_to_string(state.join("decisions.jsonl")).expect("a log");
    // The last line is the event of the stop.
    let decided = log.rfind("{\"event\":\"stop\"").expect("the stop is logged");
    let decided = &log.as_bytes()[..decided];
    let rotated = state.join("decisions.20261121T083000.123Z.jsonl");
    std::fs::rename(state.join("decisions.jsonl"), &rotated).expect("it can be renamed");
    let cut = [b"\xFF garbage\n", &decided[..decided.len() - 10]].concat();
    std::fs::write(state.join("decisions.jsonl"), cut).expect("it can be written");
    // With a head, neither would be a file of the log.
    for entry in std::fs::read_dir(&state).expect("it can be listed").flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "head") {
            std::fs::remove_file(entry.path()).expect("it can be removed");
        }
    }
    let output = report(&dir, &["--json"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let message = "the report is not complete: 1 line cannot be read";
    assert!(stderr.contains(message), "{stderr}");
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let outcomes = json["outcomes"].as_object().expect("an object");
    let counted: u64 = outcomes.values().filter_map(Value::as_u64).sum();
    assert_eq!(counted, 21, "the last line was cut off");
    assert_eq!(rows(&json)[0][5], 6);
    let lines = json["unreadable_lines"].as_array().expect("an array").iter();
    let places: Vec<_> = lines.map(|line| line["line"].clone()).collect();
    assert_eq!(places, [1, 14]);
    let table = report(&dir, &[]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.contains("decisions.jsonl:14: is incomplete"), "{table}");
    std::fs::remove_dir_all(&state).expect("it can be removed");
    let none = report(&dir, &[]);
    assert_eq!(none.status.code(), Some(2), "{none:?}");
    assert!(String::from_utf8_lossy(&none.stderr).contains("there is no decision log"));
    let elsewhere = tempfile::tempdir().expect("a directory");
    let none = command().arg("report").current_dir(&elsewhere).output().expect("it runs");
    let stderr = String::from_utf8_lossy(&none.stderr);
    assert!(stderr.contains("--config /etc/wayleave/config.toml"), "{stderr}");
}

#[test]
fn a_log_that_cannot_be_read_is_an_error_not_an_empty_report() {
    let dir = run_and_stop();
    let state = dir.path().join("state");
    let log = state.join("decisions.jsonl");
    let rotated = state.join("decisions.20261121T083000.123Z.jsonl");
    std::fs::rename(&log, &rotated).expect("it can be renamed");
    // As unreadable as the file of another user, also to root.
    std::fs::create_dir(&log).expect("it can be made");
    for form in [&[][..], &["--json"], &["--csv"]] {
        let incomplete = report(&dir, form);
        assert_eq!(incomplete.status.code(), Some(2), "{incomplete:?}");
        let stderr = String::from_utf8_lossy(&incomplete.stderr);
        assert!(stderr.contains("the report is not complete: "), "{stderr}");
        assert!(stderr.contains("decisions.jsonl: "), "{stderr}");
        assert!(!incomplete.stdout.is_empty(), "what could be read is reported");
    }
    std::fs::remove_file(rotated).expect("it can be removed");
    let none = report(&dir, &[]);
    assert_eq!(none.status.code(), Some(2), "{none:?}");
    let stderr = String::from_utf8_lossy(&none.stderr);
    assert!(stderr.contains("the decision log cannot be read: "), "{stderr}");
    assert!(none.stdout.is_empty(), "no report without a log: {none:?}");
    std::fs::remove_dir_all(&state).expect("it can be removed");
    std::fs::write(&state, "a file in the directory's place").expect("it can be written");
    let none = report(&dir, &[]);
    assert_eq!(none.status.code(), Some(2), "{none:?}");
}

#[test]
fn the_span_is_also_a_day_or_a_time() {
    let dir = run_and_stop();
    for since in ["2026-01-01", "2026-01-01T00:00:00Z", "9000d"] {
        let report = as_json(&dir, &["--since", since]);
        assert_eq!(report["rows"].as_array().map(Vec::len), Some(4), "{since}");
    }
    assert_eq!(as_json(&dir, &["--since", "2999-01-01"])["rows"], json!([]));
    for (range, count) in [
        (["--since", "yesterday", "--until", "now"], 4),
        (["--since", "2h ago", "--until", "today"], 4),
        (["--since", "9000d", "--until", "1h ago"], 0),
    ] {
        let report = as_json(&dir, &range);
        assert_eq!(report["rows"].as_array().map(Vec::len), Some(count), "{range:?}");
        assert_eq!(report["lines_after"], if count == 0 { 11 } else { 0 }, "{range:?}");
    }
    for (arguments, expected) in [
        (
            &["--since", "someday"][..],
            "\"someday\" is not a time; write 2026-11-22T08:00:00Z, 2026-11-22, yesterday, now or 3d",
        ),
        (&["--since", "1d", "--until", "2d"], "--until is before --since"),
        (&["--crawler", "newz"], "no [[crawler]] has this name, and the log has none"),
        (
            &["--by", "colour"],
            "[possible values: crawler, host, origin, rule, reason, token, user-agent, client]",
        ),
    ] {
        let wrong = report(&dir, arguments);
        assert_eq!(wrong.status.code(), Some(2), "{arguments:?}");
        let stderr = String::from_utf8_lossy(&wrong.stderr);
        assert!(stderr.contains(expected), "{stderr}");
    }
}
