//! Decisions written into the log by somebody without the key: they are never taken for the process's own.

use std::fs;
use std::path::Path;

use super::export::{evidence, expect, said};
use crate::harness::tools::{clean, project, python};
use crate::harness::{Origin, Request, Wayleave, eventually};

const FORGED: &str = "http://shop.test/never-asked-for";

fn hex(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    let digits = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
    digits.collect()
}

/// Appends a decision that names the line before it, as the format has it.
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
    let forged = format!("{},\"prev_sha256\":\"{}\"}}\n", &forged[..end], hex(last.as_bytes()));
    fs::write(&path, format!("{text}{forged}")).expect("it can be written");
}

/// Waits until the log holds so many decisions, all signed.
fn signed(proxy: &Wayleave, decisions: usize) {
    let state = proxy.dir.path().join("state");
    eventually("all of it is signed", || {
        let text = fs::read_to_string(state.join("decisions.jsonl")).expect("a log");
        let head = fs::read_to_string(state.join("decisions.jsonl.head")).unwrap_or_default();
        let head: serde_json::Value = serde_json::from_str(&head).unwrap_or_default();
        crate::harness::decisions(&text).count() == decisions && head["bytes"] == text.len()
    });
}

fn by_others(dir: &Path, arguments: &[&str]) -> String {
    let key = expect(&evidence(dir, &["key"]), 0);
    let mut command = clean(python());
    command.arg(project().join("tests/clients/verify_evidence.py"));
    command.arg(dir.join("out")).arg(key.trim()).args(arguments);
    said(&command.output().expect("it runs"))
}

fn export(dir: &Path) {
    let _none = fs::remove_dir_all(dir.join("out"));
    let arguments = ["export", "--since", "1d", "--out", "out"];
    expect(&evidence(dir, &arguments), 0);
}

#[test]
fn lines_written_into_a_running_log_are_foreign() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    assert_eq!(proxy.get("http://shop.test/a").status, 200);
    signed(&proxy, 1);
    forge(&proxy.dir.path().join("state"));
    assert_eq!(proxy.get("http://shop.test/b").status, 200);
    eventually("it is noticed", || proxy.metric("wayleave_decision_log_altered_total", &[]) == 1.0);
    let (dir, _) = proxy.stop();
    export(dir.path());
    let told = expect(&evidence(dir.path(), &["verify", "out", "--accept-unsigned"]), 2);
    assert!(told.contains("line 4 of file 1 was written by somebody else"), "{told}");
    let told = by_others(dir.path(), &["--accept-unsigned"]);
    assert!(told.contains("the log was altered"), "{told}");
    let told = expect(&evidence(dir.path(), &["ask", FORGED, "--at", "0s"]), 2);
    assert!(told.contains("were written by somebody else"), "{told}");
    let url = "http://shop.test/b";
    let told = expect(&evidence(dir.path(), &["ask", url, "--at", "0s"]), 0);
    assert!(!told.contains("signed"), "{told}");
}

#[test]
fn lines_after_the_end_of_a_stopped_process_are_foreign() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    assert_eq!(proxy.get("http://shop.test/a").status, 200);
    let (dir, settings) = proxy.stop();
    forge(&dir.path().join("state"));
    export(dir.path());
    let told = expect(&evidence(dir.path(), &["verify", "out"]), 2);
    assert!(told.contains("somebody else wrote"), "{told}");
    let told = by_others(dir.path(), &["--accept-unsigned"]);
    assert!(told.contains("behind the stop"), "{told}");
    let (dir, _) = Wayleave::start_in(dir, settings).stop();
    export(dir.path());
    let told = expect(&evidence(dir.path(), &["verify", "out"]), 2);
    assert!(told.contains("was written by somebody else"), "{told}");
}

#[test]
fn unsigned_lines_of_a_killed_process_need_acceptance() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    assert_eq!(proxy.get("http://shop.test/a").status, 200);
    signed(&proxy, 1);
    let (dir, settings) = proxy.kill();
    forge(&dir.path().join("state"));
    let words = "1 decision was not signed by who wrote it: lines 4 to 4 of file 1";
    export(dir.path());
    let told = expect(&evidence(dir.path(), &["verify", "out"]), 1);
    assert!(told.contains("are left out: 1"), "{told}");
    let (dir, _) = Wayleave::start_in(dir, settings).stop();
    export(dir.path());
    for (accepts, status) in [(&[][..], 1), (&["--accept-unsigned"], 0)] {
        let verify = [&["verify", "out"], accepts].concat();
        let told = expect(&evidence(dir.path(), &verify), status);
        assert!(told.contains(words), "{told}");
        let ask = [&["ask", FORGED, "--at", "0s"], accepts].concat();
        let told = expect(&evidence(dir.path(), &ask), status);
        assert!(told.contains("were not signed by who wrote them"), "{told}");
        let told = by_others(dir.path(), accepts);
        assert!(told.contains("were not signed by who wrote them"), "{told}");
        assert_eq!(told.contains("sound: "), status == 0, "{told}");
    }
}

#[test]
fn a_log_that_was_deleted_is_missing_also_with_its_head() {
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
    export(dir.path());
    let told = expect(&evidence(dir.path(), &["verify", "out"]), 2);
    assert!(told.contains("line 4 of file 1 was signed, and is not there"), "{told}");
    assert!(told.contains("file 1 of the log is missing"), "{told}");
    assert!(by_others(dir.path(), &[]).contains("the log was altered"));
}

#[test]
fn long_user_agents_and_respelt_urls_are_honest_evidence() {
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.table("[[crawler]]\nname = \"late\"\ntokens = [\"LateBot\"]\nmatch = { user_agent = \"LateBot\" }\n")
    });
    let agent = format!("Mozilla/5.0 ({}) LateBot/1.0", "x".repeat(600));
    let ask = Request::get("http://shop.test/%7Eme").agent(&agent);
    assert_eq!(proxy.exchange(&ask).status, 200);
    let (dir, _) = proxy.stop();
    let log = fs::read_to_string(dir.path().join("state/decisions.jsonl")).expect("a log");
    assert!(log.contains("\"crawler\":\"late\""), "{log}");
    assert!(log.contains("\"user_agent_cut\":true"), "{log}");
    export(dir.path());
    expect(&evidence(dir.path(), &["verify", "out"]), 0);
    for url in ["http://shop.test/~me", "http://shop.test/a/../%7eme"] {
        let told = expect(&evidence(dir.path(), &["ask", url, "--at", "0s"]), 0);
        assert!(told.contains("/%7Eme"), "{told}");
    }
}
