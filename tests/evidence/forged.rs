//! Decisions that someone without the key writes into the log are never taken for the process's own.

use std::fs;
use std::path::Path;

use super::export::{self, evidence, expect};
use super::sha256_hex;
use crate::harness::tools::both_streams;
use crate::harness::{Origin, Request, Wayleave, eventually};

const FORGED: &str = "http://shop.test/never-requested";

/// Appends a decision with the digest of the line before it, as the format requires.
fn forge(state: &Path) {
    let path = state.join("decisions.jsonl");
    let text = fs::read_to_string(&path).expect("a log");
    let last = text.lines().next_back().expect("a line");
    let mut decisions = crate::harness::decisions(&text);
    let decision = decisions.next().expect("a decision");
    let from = decision.find("\"url\":\"").expect("a URL") + 7;
    let to = from + decision[from..].find('"').expect("it ends");
    let forged = format!("{}{FORGED}{}", &decision[..from], &decision[to..]);
    let end = forged.find(",\"prev_sha256\"").expect("it is linked");
    let forged =
        format!("{},\"prev_sha256\":\"{}\"}}\n", &forged[..end], sha256_hex(last.as_bytes()));
    fs::write(&path, format!("{text}{forged}")).expect("it can be written");
}

/// Waits until the log has so many decisions, all signed.
fn wait_until_signed(proxy: &Wayleave, decisions: usize) {
    let state = proxy.dir.path().join("state");
    eventually("all lines are signed", || {
        let text = fs::read_to_string(state.join("decisions.jsonl")).expect("a log");
        let head = fs::read_to_string(state.join("decisions.jsonl.head")).unwrap_or_default();
        let head: serde_json::Value = serde_json::from_str(&head).unwrap_or_default();
        crate::harness::decisions(&text).count() == decisions && head["bytes"] == text.len()
    });
}

fn verify_by_document(dir: &Path, options: &[&str]) -> String {
    let key = expect(&evidence(dir, &["key"]), 0);
    both_streams(&export::verify_by_document(&dir.join("out"), &key, options))
}

fn write_export(dir: &Path) {
    let _may_not_exist = fs::remove_dir_all(dir.join("out"));
    let arguments = ["export", "--since", "1d", "--out", "out"];
    expect(&evidence(dir, &arguments), 0);
}

#[test]
fn lines_written_into_a_running_log_are_detected() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    assert_eq!(proxy.get("http://shop.test/a").status, 200);
    wait_until_signed(&proxy, 1);
    forge(&proxy.dir.path().join("state"));
    assert_eq!(proxy.get("http://shop.test/b").status, 200);
    eventually("it is noticed", || proxy.metric("wayleave_decision_log_altered_total", &[]) == 1.0);
    let (dir, _) = proxy.stop();
    write_export(dir.path());
    let printed = expect(&evidence(dir.path(), &["verify", "out", "--accept-unsigned"]), 2);
    assert!(printed.contains("line 4 of file 1 was written by somebody else"), "{printed}");
    let printed = verify_by_document(dir.path(), &["--accept-unsigned"]);
    assert!(printed.contains("the log was altered"), "{printed}");
    let printed = expect(&evidence(dir.path(), &["ask", FORGED, "--at", "0s"]), 2);
    assert!(printed.contains("no, line 4 of its file was written by somebody else"), "{printed}");
    let url = "http://shop.test/b";
    let printed = expect(&evidence(dir.path(), &["ask", url, "--at", "0s"]), 0);
    assert!(!printed.contains("signed"), "{printed}");
}

#[test]
fn lines_written_after_the_stop_are_detected() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    assert_eq!(proxy.get("http://shop.test/a").status, 200);
    let (dir, settings) = proxy.stop();
    forge(&dir.path().join("state"));
    write_export(dir.path());
    let printed = expect(&evidence(dir.path(), &["verify", "out"]), 2);
    assert!(printed.contains("somebody else wrote"), "{printed}");
    let printed = verify_by_document(dir.path(), &["--accept-unsigned"]);
    assert!(printed.contains("after the stop"), "{printed}");
    let (dir, _) = Wayleave::start_in(dir, settings).stop();
    write_export(dir.path());
    let printed = expect(&evidence(dir.path(), &["verify", "out"]), 2);
    assert!(printed.contains("was written by somebody else"), "{printed}");
}

#[test]
fn unsigned_lines_of_a_killed_process_need_acceptance() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    assert_eq!(proxy.get("http://shop.test/a").status, 200);
    wait_until_signed(&proxy, 1);
    let (dir, settings) = proxy.kill();
    forge(&dir.path().join("state"));
    let words = "1 decision was not signed by its writer: lines 4 to 4 of file 1";
    write_export(dir.path());
    let printed = expect(&evidence(dir.path(), &["verify", "out"]), 1);
    assert!(printed.contains("not signed by their writer: 1"), "{printed}");
    let (dir, _) = Wayleave::start_in(dir, settings).stop();
    write_export(dir.path());
    for (accepts, status) in [(&[][..], 1), (&["--accept-unsigned"], 0)] {
        let verify = [&["verify", "out"], accepts].concat();
        let printed = expect(&evidence(dir.path(), &verify), status);
        assert!(printed.contains(words), "{printed}");
        let arguments = [&["ask", FORGED, "--at", "0s"], accepts].concat();
        let printed = expect(&evidence(dir.path(), &arguments), status);
        assert!(
            printed.contains("no, line 4 of its file was not signed by its writer"),
            "{printed}"
        );
        let printed = verify_by_document(dir.path(), accepts);
        assert!(printed.contains("were not signed by their writer"), "{printed}");
        assert_eq!(printed.contains("sound: "), status == 0, "{printed}");
    }
}

#[test]
fn a_log_deleted_with_its_head_is_detected() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    assert_eq!(proxy.get("http://shop.test/a").status, 200);
    let (dir, settings) = proxy.stop();
    let state = dir.path().join("state");
    for file in ["decisions.jsonl", "decisions.jsonl.head"] {
        fs::remove_file(state.join(file)).expect("it can be removed");
    }
    let proxy = Wayleave::start_in(dir, settings);
    assert_eq!(proxy.get("http://shop.test/b").status, 200);
    let (dir, _) = proxy.stop();
    write_export(dir.path());
    let printed = expect(&evidence(dir.path(), &["verify", "out"]), 2);
    assert!(printed.contains("line 4 of file 1 was signed, but is missing"), "{printed}");
    assert!(printed.contains("file 1 of the log is missing"), "{printed}");
    assert!(verify_by_document(dir.path(), &[]).contains("the log was altered"));
}

#[test]
fn cut_user_agents_and_respelt_urls_are_sound_evidence() {
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| settings.crawler("late", "LateBot"));
    let agent = format!("Mozilla/5.0 ({}) LateBot/1.0", "x".repeat(600));
    let request = Request::get("http://shop.test/%7Eme").agent(&agent);
    assert_eq!(proxy.exchange(&request).status, 200);
    let (dir, _) = proxy.stop();
    let log = fs::read_to_string(dir.path().join("state/decisions.jsonl")).expect("a log");
    assert!(log.contains("\"crawler\":\"late\""), "{log}");
    assert!(log.contains("\"user_agent_cut\":true"), "{log}");
    write_export(dir.path());
    expect(&evidence(dir.path(), &["verify", "out"]), 0);
    for url in ["http://shop.test/~me", "http://shop.test/a/../%7eme"] {
        let printed = expect(&evidence(dir.path(), &["ask", url, "--at", "0s"]), 0);
        assert!(printed.contains("/%7Eme"), "{printed}");
    }
}
