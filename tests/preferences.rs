//! Usage preferences as `wayleave check` tells them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::check::{lines, run};

/// One JSON object a line, as the README beside the file describes.
const CASES: &str = include_str!("../policy/tests/cases/preferences.jsonl");

/// What batches answer to some questions.
fn answers(questions: &[Value]) -> Vec<Value> {
    let input: String = questions.iter().map(|it| format!("{it}\n")).collect();
    lines(&run(&["check", "--batch"], input.as_bytes()))
}

#[test]
fn a_batch_judges_every_case_as_its_clause_says() {
    let mut questions: Vec<Value> = CASES
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(questions.len() >= 186);
    let mut expected = BTreeMap::new();
    for question in &mut questions {
        let question = question.as_object_mut().unwrap();
        let token = question.remove("token").unwrap();
        question.insert("tokens".to_owned(), json!([token]));
        let (expect, stage) = (question.remove("expect"), question.remove("stage"));
        let id = question["id"].as_str().unwrap().to_owned();
        expected.insert(
            id,
            (expect.unwrap(), stage.unwrap(), question["because"].clone()),
        );
    }
    let answers = answers(&questions);
    assert_eq!(answers.len(), questions.len());
    for answer in answers {
        let (expect, stage, because) = &expected[answer["id"].as_str().unwrap()];
        assert_eq!(&answer["preference"], expect, "{answer}: {because}");
        assert_eq!(&answer["stage"], stage, "{answer}: {because}");
    }
}

#[test]
fn an_answer_names_the_statement_its_place_and_its_clause() {
    let question = json!({
        "id": 1, "tokens": ["ExampleBot"], "url": "https://site.test/a", "purpose": ["search", "ai-train"],
        "robots": "User-agent: *\nAllow: /\nContent-Usage: train-ai=n, search=y\n",
    });
    let answer = &answers(&[question])[0];
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
fn questions_without_a_purpose_are_answered_as_before() {
    let question = json!({"tokens": ["A"], "url": "/", "robots": "Content-Signal: ai-train=no"});
    let answer = &answers(&[question])[0];
    let members: Vec<&String> = answer.as_object().unwrap().keys().collect();
    let known = [
        "crawl_delay",
        "id",
        "line",
        "reason",
        "rule",
        "sitemaps",
        "verdict",
    ];
    assert_eq!(members, known);
}

#[test]
fn a_question_that_cannot_be_read_is_answered_with_what_is_wrong() {
    let asked = |purpose: &str, config: Value| {
        let question = json!({"tokens": ["A"], "url": "/", "purpose": purpose, "config": config});
        answers(&[question])[0]["error"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert!(asked("training", json!({})).contains("\"training\" is not a purpose"));
    let error = asked("search", json!({"sources": ["robots"]}));
    assert!(
        error.contains("\"robots\" is not a source of preferences"),
        "{error}"
    );
    let error = asked("search", json!({"unstated": "maybe"}));
    assert!(error.contains("unstated: \"maybe\""), "{error}");
    let error = asked("search", json!({"purpose_token": {}}));
    assert!(error.contains("unknown field `purpose_token`"), "{error}");
}

#[test]
fn the_command_line_tells_what_is_said_for_each_purpose() {
    let robots = b"User-agent: *\nContent-Signal: search=yes, ai-train=no\n";
    let check = [
        "check",
        "--robots",
        "-",
        "--token",
        "ExampleBot",
        "--purpose",
    ];
    let output = run(&[&check[..], &["search", "/a"]].concat(), robots);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        text,
        "allow /a: no-matching-rule; allow search: content-signal, robots.txt:2: \
         Content-Signal: search=yes, ai-train=no (Content Signals Policy (a))\n"
    );
    let both = ["search", "--purpose", "train-ai", "--json", "/a"];
    let output = run(&[&check[..], &both].concat(), robots);
    assert_eq!(output.status.code(), Some(1));
    let answer = &lines(&output)[0];
    assert_eq!(answer["verdict"], "allow");
    assert_eq!(answer["preference"], "refuse");
    assert_eq!(answer["purpose"], "train-ai");
}
