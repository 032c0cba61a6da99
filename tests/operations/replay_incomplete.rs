//! `wayleave replay`, `report` and `decision` over logs and stores of which a part is missing: they say so, and never that all is well.

use std::fs;
use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

use tempfile::TempDir;

use crate::harness::tools;
use crate::harness::wayleave::{Settings, command};
use crate::harness::{Origin, Request, Wayleave, eventually};

const LIMIT: Duration = Duration::from_secs(120);

fn small(settings: Settings) -> Settings {
    settings.set("log.decisions_max_size", "\"64KiB\"").set("log.events", "false")
}

/// Writes a log of several files about two origins, which is complete.
fn write_log(change: impl FnOnce(Settings) -> Settings) -> TempDir {
    let origin = Origin::start();
    for (host, path) in [("shop.test", "/private"), ("news.test", "/intern")] {
        origin.site(host).robots(format!("User-agent: *\nDisallow: {path}\n"));
    }
    let proxy = Wayleave::start_with(&origin, |settings| change(small(settings)));
    let mut wire = proxy.connect();
    for round in 0..6 {
        let mut url = String::new();
        for number in 0..100 {
            let (host, dir) = [("shop.test", "private"), ("news.test", "intern")][number % 2];
            url = format!("http://{host}/{dir}/{round}-{number}");
            wire.send(Request::get(&url).agent("NewsBot/1").absolute_form());
            assert_eq!(wire.response().status, 403);
        }
        // What is written at once goes into one file, however long it is.
        let dir = proxy.dir.path().join("state");
        eventually("the round is written", || {
            let files = fs::read_dir(&dir).expect("it can be listed").flatten();
            let mut logs = files
                .map(|entry| entry.path())
                .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
            logs.any(|path| fs::read_to_string(path).is_ok_and(|text| text.contains(&url)))
        });
    }
    drop(wire);
    proxy.stop().0
}

fn run(dir: &TempDir, arguments: &[&str]) -> Output {
    let mut command = command();
    command.args(arguments).arg("--config").arg(dir.path().join("config.toml"));
    tools::run(&mut command, b"", LIMIT)
}

#[track_caller]
fn check(dir: &TempDir, arguments: &[&str], status: i32, words: &str) {
    let output = run(dir, arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {output:?}");
    assert!(stderr.contains(words), "{arguments:?}: {stderr}");
}

fn state(dir: &TempDir) -> PathBuf {
    dir.path().join("state")
}

fn rotated(dir: &TempDir) -> Vec<PathBuf> {
    let files = fs::read_dir(state(dir)).expect("it can be listed").flatten();
    let mut found: Vec<_> = files
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().contains("/decisions.2"))
        .collect();
    found.sort();
    assert!(found.len() > 3, "{found:?}");
    found
}

/// Puts the store of another proxy in the place of this one.
fn copy_store(from: &TempDir, to: &TempDir) {
    fs::copy(state(from).join("robots.redb"), state(to).join("robots.redb")).expect("it can be");
}

#[test]
fn replay_without_the_store_is_incomplete() {
    let dir = write_log(|settings| settings);
    check(&dir, &["replay"], 0, "");
    fs::remove_file(state(&dir).join("robots.redb")).expect("it is there");
    check(&dir, &["replay"], 3, "requests that cannot be decided: 600");
    check(&dir, &["replay"], 3, "there is no store of robots.txt files in ");
    let shown = String::from_utf8(run(&dir, &["replay", "--json"]).stdout).expect("text");
    assert!(shown.contains("\"missing\""), "{shown}");
    for form in ["--markdown", "--json"] {
        let shown = String::from_utf8(run(&dir, &["replay", form]).stdout).expect("text");
        assert!(shown.contains("requests that cannot be decided: 600"), "{shown}");
    }
}

#[test]
fn replay_with_half_a_store_is_incomplete() {
    let dir = write_log(|settings| settings);
    // The store of another proxy, which knows one of both origins.
    let origin = Origin::start();
    origin.site("shop.test").disallows("/private");
    let other = Wayleave::start(&origin);
    assert_eq!(other.get("http://shop.test/private/0").status, 403);
    copy_store(&other.stop().0, &dir);
    check(&dir, &["replay"], 3, "requests that cannot be decided: 300");
}

#[test]
fn replay_with_an_unreadable_store_fails() {
    let dir = write_log(|settings| settings);
    let store = state(&dir).join("robots.redb");
    for damage in [b"not a store at all".as_slice(), b""] {
        fs::write(&store, damage).expect("writable");
        check(&dir, &["replay"], 2, "robots.redb");
        assert_eq!(fs::read(&store).expect("still there"), damage, "it is as it was");
    }
    fs::remove_file(&store).expect("it is there");
    fs::create_dir(&store).expect("it can be");
    check(&dir, &["replay"], 2, "robots.redb");
}

#[test]
fn missing_files_of_the_log_are_named() {
    let dir = write_log(|settings| settings);
    let files = rotated(&dir);
    for command in [&["replay"][..], &["replay", "--since", "1h"], &["report", "--since", "1h"]] {
        check(&dir, command, 0, "");
    }
    fs::remove_file(&files[1]).expect("it is there");
    for command in [&["replay"][..], &["replay", "--since", "1h"], &["report", "--since", "1h"]] {
        check(&dir, command, 3, "file 2 of the log is missing");
        check(&dir, command, 3, "not complete");
    }
    fs::remove_file(&files[0]).expect("it is there");
    check(&dir, &["replay"], 3, "files 1 to 2 of the log are missing");
    fs::remove_file(state(&dir).join("decisions.jsonl")).expect("it is there");
    check(&dir, &["replay"], 3, "the current file of the log is missing");
    check(&dir, &["report"], 3, "the current file of the log is missing");
}

#[test]
fn files_that_retention_deleted_are_not_missing() {
    let dir = write_log(|settings| settings.set("log.decisions_max_total", "\"256KiB\""));
    check(&dir, &["replay"], 0, "");
    // But a span that begins before them is not all there.
    check(&dir, &["replay", "--since", "1d"], 3, "files 1 to ");
}

#[test]
fn a_replay_of_no_decision_is_incomplete() {
    let dir = write_log(|settings| settings);
    check(&dir, &["replay", "--since", "2999-01-01"], 3, "the log has no decision in this span");
    let empty = dir.path().join("empty.toml");
    let keys = format!("log.decisions = \"empty.jsonl\"\nstate.dir = {:?}\n", state(&dir));
    fs::write(&empty, keys).expect("writable");
    fs::write(state(&dir).join("empty.jsonl"), "").expect("writable");
    let mut command = command();
    command.args(["replay", "--config"]).arg(&empty);
    let output = tools::run(&mut command, b"", LIMIT);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
}

#[test]
fn a_decision_may_be_in_a_file_that_is_missing() {
    let dir = write_log(|settings| settings);
    let files = rotated(&dir);
    let text = fs::read_to_string(&files[1]).expect("a file of the log");
    let (_, after) = text.split_once("{\"id\":\"").expect("a decision");
    let id = &after[..32];
    check(&dir, &["decision", id], 0, "this is from ");
    check(&dir, &["decision", &"0".repeat(32)], 2, "nor is it in ");
    fs::remove_file(&files[1]).expect("it is there");
    check(&dir, &["decision", id], 3, "file 2 of the log is missing");
    // One that cannot be opened is as good as missing.
    fs::create_dir(&files[1]).expect("it can be made");
    let name = files[1].file_name().expect("a name").to_string_lossy().into_owned();
    check(&dir, &["decision", id], 3, &name);
}
