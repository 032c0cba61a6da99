//! The decision log on disk: linked, signed, and continued however the process ended.

use std::path::Path;

use serde_json::Value;

use super::sha256_hex;
use crate::harness::wayleave::command;
use crate::harness::{Origin, Request, Wayleave, decisions, eventually};

fn read(state: &Path) -> String {
    std::fs::read_to_string(state.join("decisions.jsonl")).expect("there is a log")
}

/// Returns the lines, each of which has the SHA-256 of the one before it; a torn line has none.
fn linked(state: &Path) -> Vec<Value> {
    let text = read(state);
    let mut before = "0".repeat(64);
    let mut lines = Vec::new();
    for line in text.lines() {
        let value = serde_json::from_str::<Value>(line).unwrap_or_default();
        if !value.is_null() {
            assert_eq!(value["prev_sha256"], before, "{line}");
        }
        before = sha256_hex(line.as_bytes());
        lines.push(value);
    }
    let head = head(state);
    assert_eq!(head["prev_sha256"], before);
    assert_eq!(head["lines"], lines.len());
    lines
}

/// Returns the signed head of the file that is being written.
fn head(state: &Path) -> Value {
    let head = std::fs::read_to_string(state.join("decisions.jsonl.head")).expect("a head");
    serde_json::from_str(&head).expect("JSON")
}

fn events(lines: &[Value]) -> Vec<&str> {
    let events = lines.iter().filter_map(|line| line["event"].as_str());
    events.collect()
}

#[test]
fn a_log_continues_after_a_kill_within_a_line() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    assert_eq!(proxy.get("http://shop.test/a").status, 200);
    let state = proxy.dir.path().join("state");
    eventually("the decision is there", || decisions(&read(&state)).count() == 1);
    eventually("it is signed", || head(&state)["lines"] == 3);
    let (dir, settings) = proxy.kill();
    let lines = linked(&state);
    assert_eq!(events(&lines), ["file", "start"]);
    let config = lines[2]["config_sha256"].as_str().expect("a digest");
    assert_eq!(lines[1]["config_sha256"], config);
    let kept = state.join(format!("configurations/{config}.toml"));
    let kept = std::fs::read(kept).expect("it is kept");
    assert_eq!(sha256_hex(&kept), config);
    // As if the process had been killed while it wrote a line.
    let torn = b"{\"id\":\"01a2";
    let mut log = read(&state).into_bytes();
    log.extend_from_slice(torn);
    std::fs::write(state.join("decisions.jsonl"), log).expect("it can be written");
    let proxy = Wayleave::start_in(dir, settings);
    assert_eq!(proxy.get("http://shop.test/b").status, 200);
    let (dir, _) = proxy.stop();
    let lines = linked(&dir.path().join("state"));
    let expected = ["file", "start", "recovered", "start", "stop"];
    assert_eq!(events(&lines), expected);
    assert_eq!(lines[4]["torn_sha256"], sha256_hex(torn));
    assert_eq!(lines[4]["unsigned_lines"], 1);
}

#[test]
fn the_key_is_private_and_its_public_half_is_published() {
    use std::os::unix::fs::PermissionsExt;
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let key = proxy.dir.path().join("state/evidence.key");
    let mode = std::fs::metadata(&key).expect("there is one").permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    let mut published = Value::Null;
    eventually("the beginning of the log is signed", || {
        published = proxy.admin_get("/v1/evidence").json();
        published["head"].is_string()
    });
    let head: Value =
        serde_json::from_str(published["head"].as_str().expect("a line")).expect("JSON");
    assert_eq!(head["key"], published["key"]["x"]);
    let config = proxy.dir.path().join("config.toml");
    let output =
        command().args(["evidence", "key", "--config"]).arg(&config).output().expect("it runs");
    let printed = String::from_utf8(output.stdout).expect("text");
    assert_eq!(published["key"]["x"], printed.trim_end());
}

#[test]
fn a_log_that_cannot_be_signed_is_reported() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    assert_eq!(proxy.get("http://shop.test/a").status, 200);
    let state = proxy.dir.path().join("state");
    let entries = std::fs::read_dir(&state).expect("it can be listed").flatten();
    let heads: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|it| it == "head"))
        .collect();
    assert_eq!(heads.len(), 2, "{heads:?}");
    for head in &heads {
        std::fs::remove_file(head).expect("it can be removed");
        std::fs::create_dir(head).expect("a directory in its place");
    }
    assert_eq!(proxy.get("http://shop.test/b").status, 200);
    eventually("the metric says so", || proxy.metric("wayleave_decision_log_unsigned", &[]) == 1.0);
    let ready = proxy.admin_get("/readyz");
    assert_eq!(ready.status, 200);
    assert!(ready.text().contains("the decision log cannot be signed: "), "{}", ready.text());
    let problems = proxy.admin_get("/v1/problems").json();
    assert_eq!(problems["problems"][0]["kind"], "decisions-unsigned", "{problems}");
    let warning = "the decision log's head cannot be written";
    eventually("it is logged", || proxy.log().contains(warning));
    // It is tried again though nothing is written meanwhile.
    heads.iter().for_each(|head| std::fs::remove_dir(head).expect("it can be removed"));
    eventually("it is signed", || proxy.metric("wayleave_decision_log_unsigned", &[]) == 0.0);
    assert_eq!(head(&state)["bytes"], read(&state).len());
}

#[test]
fn requests_that_cannot_be_logged_are_refused_if_configured() {
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("log.decisions", "\"log/decisions.jsonl\"").set("log.on_failure", "\"refuse\"")
    });
    assert_eq!(proxy.get("http://shop.test/a").status, 200);
    let dir = proxy.dir.path().join("state/log");
    std::fs::remove_dir_all(&dir).expect("it can be removed");
    std::fs::write(&dir, "a file in its place").expect("it can be written");
    // Only the record of a request shows that none can be written.
    let mut wire = proxy.connect();
    let statuses: Vec<_> = (0..20)
        .map(|_| {
            wire.send(Request::get("http://shop.test/b").absolute_form());
            wire.response().status
        })
        .collect();
    assert!(statuses[1..].iter().all(|status| *status == 503), "{statuses:?}");
    let seen = origin.seen().len();
    let refused = proxy.get("http://shop.test/c");
    assert_eq!(refused.status, 503);
    assert_eq!(refused.json()["title"], "Decision log unavailable");
    assert_eq!(origin.seen().len(), seen, "nothing reaches the origin");
    std::fs::remove_file(&dir).expect("it can be removed");
    eventually("requests are forwarded again", || proxy.get("http://shop.test/d").status == 200);
    let log = std::fs::read_to_string(dir.join("decisions.jsonl")).expect("a log");
    assert!(log.contains("{\"event\":\"lost\","), "{log}");
    assert!(log.contains("{\"event\":\"altered\","), "the file was deleted: {log}");
}
