//! Untrusted text in output, from which no escape sequence reaches a terminal, a log reader or a browser.

use crate::harness::wayleave::command;
use crate::harness::{Origin, Wayleave, decisions, eventually};

/// Clears the screen where C1 controls count (U+009B), ends a line (U+2028, U+0085), reorders (U+202E, U+2067), hides
/// (U+200B), and clears the screen anywhere (ESC).
const RULE: &str = "Disallow: /a\u{9b}2J\u{2028}\u{85}\u{202e}\u{2067}\u{200b}\u{1b}[2Jb";
const ROBOTS: &str = "User-agent: *\n";
const PATH: &str = "/a%C2%9B2J%E2%80%A8%C2%85%E2%80%AE%E2%81%A7%E2%80%8B%1B[2Jb";

#[track_caller]
fn expect_harmless(what: &str, text: &str) {
    let is_harmful = |c: char| {
        let is_space = matches!(c, '\n' | '\t' | '\r');
        (c.is_control() && !is_space)
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let found: Vec<_> = text.chars().filter(|c| is_harmful(*c)).collect();
    assert!(found.is_empty(), "{what}: {found:?} in {text:?}");
    let rule = text.find("/a").map_or("", |at| &text[at..]);
    let is_shown = rule.contains("202e") || rule.contains("%E2%80%AE");
    assert!(is_shown, "{what} lacks the rule: {text:?}");
}

fn shop() -> Origin {
    let origin = Origin::start();
    origin.site("shop.test").robots(format!("{ROBOTS}{RULE}\n"));
    origin
}

fn run(proxy: &Wayleave, arguments: &[&str]) -> String {
    let output = command().args(arguments).arg("--config").arg(proxy.config_with_ports()).output();
    let output = output.expect("it runs");
    assert!(output.status.code().is_some_and(|code| code < 2), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn no_log_contains_terminal_escapes() {
    for format in ["text", "json"] {
        let origin = shop();
        let proxy = Wayleave::start_with(&origin, |settings| {
            settings.set("log.format", &format!("{format:?}"))
        });
        let refused = proxy.get(&format!("http://shop.test{PATH}"));
        assert_eq!(refused.status, 403, "{refused:?}");
        expect_harmless("the problem", &refused.text());
        let status = refused.header("proxy-status").expect("a field");
        assert!(status.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{status}");
        let id = refused.json()["decision_id"].as_str().expect("a string").to_owned();
        eventually("the event is written", || proxy.log().contains(&id));
        let log = proxy.log();
        let line = log.lines().find(|line| line.contains(&id)).expect("one line");
        expect_harmless(format, line);
        let (dir, _) = proxy.stop();
        let written = std::fs::read_to_string(dir.path().join("state/decisions.jsonl"));
        let written = written.expect("a decision log");
        expect_harmless("the decision log", &written);
        let line: serde_json::Value =
            serde_json::from_str(decisions(&written).next().expect("a line")).expect("JSON");
        assert_eq!(line["rule"], RULE, "the rule of the origin");
    }
}

#[test]
fn no_command_or_api_response_contains_terminal_escapes() {
    let origin = shop();
    let proxy = Wayleave::start(&origin);
    let refused = proxy.get(&format!("http://shop.test{PATH}"));
    let id = refused.json()["decision_id"].as_str().expect("a string").to_owned();
    for path in [
        "/v1/decisions".to_owned(),
        format!("/v1/decisions/{id}"),
        format!("/v1/decisions/{id}/robots"),
        "/v1/top?by=rule".to_owned(),
        "/v1/robots/http%3A%2F%2Fshop.test".to_owned(),
        format!("/v1/decision?url=http%3A%2F%2Fshop.test{}&user_agent=a", PATH.replace('%', "%25")),
    ] {
        let answer = proxy.admin_get(&path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        expect_harmless(&path, &answer.text());
    }
    eventually("the line is written", || {
        let log = std::fs::read_to_string(proxy.dir.path().join("state/decisions.jsonl"));
        log.is_ok_and(|log| log.contains(&id))
    });
    for arguments in [
        &["decision", &id][..],
        &["decision", "--json", &id],
        &["robots", "show", "http://shop.test"],
        &["robots", "show", "--json", "http://shop.test"],
        &["report"],
        &["report", "--json"],
        &["report", "--csv"],
    ] {
        expect_harmless(&arguments.join(" "), &run(&proxy, arguments));
    }
}

#[test]
fn known_files_are_printed_without_control_characters() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("robots.txt");
    std::fs::write(&file, format!("{ROBOTS}{RULE}\nDisallov: /a\u{202e}\u{9b}\n"))
        .expect("writable");
    let file = file.to_str().expect("text");
    for arguments in [
        &["lint", file][..],
        &["check", "--robots-only", "--robots", file, "--token", "a", PATH],
        &["check", "--robots-only", "--robots", file, "--token", "a", "--json", PATH],
    ] {
        let output = command().args(arguments).output().expect("it runs");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let text = String::from_utf8(output.stdout).expect("text");
        expect_harmless(arguments[0], &text);
    }
}
