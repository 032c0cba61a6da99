//! Rows about use.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::run;

/// One JSON object a line, as the README beside the file describes.
const CASES: &str = include_str!("../../policy/usage-preferences/tests/cases/preferences.jsonl");

/// Asks these rows, and returns the answers.
fn answers(rows: &[Value]) -> Vec<Value> {
    let input: String = rows.iter().map(|row| format!("{row}\n")).collect();
    crate::answers(&run(&[], input.as_bytes()))
}

#[test]
fn every_case_is_decided_as_its_clause_requires() {
    let mut rows: Vec<Value> =
        CASES.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(rows.len() >= 244);
    let mut expected = BTreeMap::new();
    for row in &mut rows {
        let row = row.as_object_mut().unwrap();
        let token = row.remove("token").unwrap();
        row.insert("tokens".to_owned(), json!([token]));
        let (expect, stage) = (row.remove("expect"), row.remove("stage"));
        let id = row["id"].as_str().unwrap().to_owned();
        expected.insert(id, (expect.unwrap(), stage.unwrap(), row["because"].clone()));
    }
    let answers = answers(&rows);
    assert_eq!(answers.len(), rows.len());
    for answer in answers {
        let (expect, stage, because) = &expected[answer["id"].as_str().unwrap()];
        assert_eq!(&answer["preference"], expect, "{answer}: {because}");
        assert_eq!(&answer["stage"], stage, "{answer}: {because}");
    }
}

#[test]
fn an_answer_names_the_statement_its_place_and_its_clause() {
    let row = json!({
        "id": 1, "tokens": ["ExampleBot"], "url": "https://site.test/a", "purpose": ["search", "ai-train"],
        "robots": "User-agent: *\nAllow: /\nContent-Usage: train-ai=n, search=y\n",
    });
    let answer = &answers(&[row])[0];
    assert_eq!(answer["verdict"], "allow");
    assert_eq!(answer["preference"], "refuse");
    assert_eq!(answer["purpose"], "train-ai");
    assert_eq!(answer["source"], "content-usage");
    assert_eq!(answer["carrier"], "robots.txt:3");
    assert_eq!(answer["statement"], "Content-Usage: train-ai=n, search=y");
    assert_eq!(answer["clause"], "aipref-vocab-08 §4.1");
    assert_eq!(answer["stage"], "before");
}

#[test]
fn rows_without_a_purpose_have_no_preference() {
    let row = json!({"tokens": ["A"], "url": "/", "robots": "Content-Signal: ai-train=no"});
    let answer = &answers(&[row])[0];
    let members: Vec<&String> = answer.as_object().unwrap().keys().collect();
    let known = ["crawl_delay", "id", "line", "reason", "rule", "sitemaps", "verdict"];
    assert_eq!(members, known);
}

#[test]
fn a_malformed_row_gets_an_error() {
    let error = |purpose: &str, config: Value| {
        let row = json!({"tokens": ["A"], "url": "/", "purpose": purpose, "config": config});
        answers(&[row])[0]["error"].as_str().unwrap().to_owned()
    };
    assert!(error("training", json!({})).contains("\"training\" is not a purpose"));
    for (config, expected) in [
        (json!({"sources": ["robots"]}), "\"robots\" is not a source of preferences"),
        (json!({"unstated": "maybe"}), "unstated: \"maybe\""),
        (json!({"purpose_token": {}}), "unknown field `purpose_token`"),
    ] {
        let error = error("search", config);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn responses_are_decided_about_as_by_the_proxy() {
    let row = |members: Value| {
        let mut row = json!({"robots": "", "token": "a", "url": "/x", "purpose": "search"});
        let all = row.as_object_mut().unwrap();
        all.extend(members.as_object().unwrap().clone());
        row.to_string()
    };
    let noindex = json!([["X-Robots-Tag", "noindex"]]);
    let reserved = r#"[{"location": "/", "tdm-reservation": 1}]"#;
    let page = |content: &str| format!("<meta name=tdm-reservation content={content}>");
    let rows = [
        (json!({"status": 200, "headers": noindex}), "refuse"),
        (json!({"status": 404, "headers": noindex}), "unstated"),
        (json!({"status": 404, "html": "<meta name=robots content=noindex>"}), "unstated"),
        (json!({"purpose": "train-ai", "tdmrep": reserved, "html": page("0")}), "refuse"),
        (json!({"purpose": "train-ai", "html": page("0")}), "allow"),
    ];
    let input: Vec<String> = rows.iter().map(|(members, _)| row(members.clone())).collect();
    let output = run(&[], input.join("\n").as_bytes());
    for (answer, (members, expected)) in crate::answers(&output).iter().zip(&rows) {
        assert_eq!(answer["preference"], *expected, "{members}: {answer}");
    }
    let unknown = row(json!({"headres": noindex, "id": 1}));
    let output = run(&[], unknown.as_bytes());
    let answer = &crate::answers(&output)[0];
    assert_eq!(answer["id"], 1);
    assert!(answer["error"].as_str().unwrap().contains("headres"), "{answer}");
}
