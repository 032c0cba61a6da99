//! The decision log on disk: linked, signed, and continued after any end of the process.

use std::path::Path;

use serde_json::Value;

use crate::harness::wayleave::command;
use crate::harness::{Origin, Wayleave, decisions, eventually};

fn hex(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    let digits = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
    digits.collect()
}

fn read(state: &Path) -> String {
    std::fs::read_to_string(state.join("decisions.jsonl")).expect("there is a log")
}

/// The lines, each of which names the SHA-256 of the one before; `torn` ones name nothing.
fn linked(state: &Path) -> Vec<Value> {
    let text = read(state);
    let mut before = "0".repeat(64);
    let mut lines = Vec::new();
    for line in text.lines() {
        let value = serde_json::from_str::<Value>(line).unwrap_or_default();
        if !value.is_null() {
            assert_eq!(value["prev_sha256"], before, "{line}");
        }
        before = hex(line.as_bytes());
        lines.push(value);
    }
    let head = head(state);
    assert_eq!(head["prev_sha256"], before);
    assert_eq!(head["lines"], lines.len());
    lines
}

/// Returns the signed heads of the file that is being written.
fn head(state: &Path) -> Value {
    let head = std::fs::read_to_string(state.join("decisions.jsonl.head")).expect("a head");
    serde_json::from_str(&head).expect("JSON")
}

fn events(lines: &[Value]) -> Vec<&str> {
    let events = lines.iter().filter_map(|line| line["event"].as_str());
    events.collect()
}

#[test]
fn a_process_that_is_killed_in_a_line_is_gone_on_from() {
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
    assert_eq!(hex(&kept), config);
    // As if it had been killed while it wrote.
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
    assert_eq!(lines[4]["torn_sha256"], hex(torn));
    assert_eq!(lines[4]["unsigned_lines"], 1);
}

#[test]
fn the_key_is_its_owners_and_its_public_half_everybodys() {
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
    let told =
        command().args(["evidence", "key", "--config"]).arg(&config).output().expect("it runs");
    let told = String::from_utf8(told.stdout).expect("text");
    assert_eq!(published["key"]["x"], told.trim_end());
}

#[test]
fn what_cannot_be_recorded_is_refused_where_that_is_wanted() {
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("log.decisions", "\"log/decisions.jsonl\"").set("log.on_failure", "\"refuse\"")
    });
    assert_eq!(proxy.get("http://shop.test/a").status, 200);
    let dir = proxy.dir.path().join("state/log");
    std::fs::remove_dir_all(&dir).expect("it can be removed");
    std::fs::write(&dir, "in its place").expect("it can be written");
    eventually("requests are refused", || proxy.get("http://shop.test/b").status == 503);
    let seen = origin.seen().len();
    let refused = proxy.get("http://shop.test/c");
    assert_eq!(refused.status, 503);
    assert_eq!(refused.json()["title"], "Decision log unavailable");
    assert_eq!(origin.seen().len(), seen, "nothing of it arrives");
    std::fs::remove_file(&dir).expect("it can be removed");
    eventually("requests go on", || proxy.get("http://shop.test/d").status == 200);
    let log = std::fs::read_to_string(dir.join("decisions.jsonl")).expect("a log");
    assert!(log.contains("{\"event\":\"lost\","), "{log}");
    assert!(log.contains("{\"event\":\"altered\","), "the file was taken away: {log}");
}
