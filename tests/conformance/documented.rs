//! The members of rows and answers, which README.md lists.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{answers, run};

/// Returns the members in the first cells of the tables in a text of proxy/conformance/README.md.
fn members(text: &str) -> BTreeSet<String> {
    let cells = text.lines().filter(|line| line.starts_with("| `"));
    let cells = cells.filter_map(|line| line.split('|').nth(1));
    let names = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    names.map(str::to_owned).collect()
}

/// The members of a row that remark on a test case, and have no effect.
const REMARKS: [&str; 5] = ["expect", "stage", "because", "source", "note"];

fn keys(value: &Value) -> BTreeSet<String> {
    value.as_object().expect("an object").keys().cloned().collect()
}

#[test]
fn the_members_of_rows_for_the_proxy_are_documented() {
    let document = include_str!("../../proxy/conformance/README.md");
    let (_, of_proxy) = document.split_once("## The proxy's verdict").expect("a heading");
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("config.toml");
    let crawler = "[[crawler]]\nname = \"a\"\ntokens = [\"A\"]\nmode = \"observe\"\nmatch = { user_agent = \"A\" }\n";
    std::fs::write(&path, crawler).unwrap();
    let only_of_proxy =
        json!({"as": "proxy", "crawler": "a", "client": "127.0.0.1", "method": "GET"});
    let mut proxy_row =
        json!({"id": 1, "robots": "User-agent: *\nDisallow: /a", "url": "http://site.test/a"});
    let all_members = proxy_row.as_object_mut().unwrap();
    all_members.extend(only_of_proxy.as_object().unwrap().clone());
    all_members.extend(REMARKS.map(|member| (member.to_owned(), json!("a remark"))));
    let output = run(&["--config", path.to_str().unwrap()], proxy_row.to_string().as_bytes());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let mut all = keys(&only_of_proxy);
    all.extend(keys(&answers(&output)[0]));
    assert_eq!(members(of_proxy), all);
}

#[test]
fn the_members_of_rows_and_answers_are_documented() {
    let config = json!({
        "purposes": ["search"], "purpose_tokens": {"search": "A"}, "content_use": "full", "unstated": "allow",
        "sources": ["content-usage"], "meta_scan": "1KiB", "rsl_user": "", "rsl_geo": "", "on_answer": "label", "rule": "allow",
    });
    let row = json!({
        "id": 1, "robots": "User-agent: *\nContent-Usage: train-ai=n", "token": "A", "url": "/a", "dialect": "rfc9309",
        "purpose": "train-ai", "status": 200, "headers": [["A", "b"]], "html": "", "tdmrep": "[]", "rsl": {},
        "config": config,
    });
    let document = include_str!("../../proxy/conformance/README.md");
    let (_, document) = document.split_once("## Rows").expect("a heading");
    let (of_row, rest) = document.split_once("## Answers").expect("a heading");
    let (of_answer, _) = rest.split_once("## The proxy's verdict").expect("a heading");
    let mut all = keys(&row);
    all.extend(keys(&row["config"]));
    all.extend(["robots_base64", "user_agent", "tokens"].map(str::to_owned));
    all.extend(REMARKS.map(str::to_owned));
    assert_eq!(members(of_row), all);
    let output = run(&[], row.to_string().as_bytes());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(members(of_answer), keys(&answers(&output)[0]));
    let help = String::from_utf8(run(&["--help"], b"").stdout).unwrap();
    let words: BTreeSet<&str> = help.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    for member in keys(&row) {
        assert!(words.contains(member.as_str()), "{member} is not in the help");
    }
}
