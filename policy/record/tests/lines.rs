//! Lines of the log as another version wrote them: evidence of then must verify, so a line that was read is written as it was.

use wayleave_decision::{EnforcementMode, Reason, RequestOutcome};
use wayleave_record::{DecisionRecord, Word};

/// Lines in which each member is present in some and absent in others, with words of this version and of others.
const LINES: &str = include_str!("golden/decisions.jsonl");

fn written(decision: &DecisionRecord) -> String {
    let mut line = Vec::new();
    decision.write_json(&mut line);
    String::from_utf8(line).unwrap()
}

#[test]
fn a_line_that_was_read_is_written_as_it_was() {
    assert!(LINES.lines().count() > 100);
    for line in LINES.lines() {
        let decision: DecisionRecord = serde_json::from_str(line).unwrap();
        assert_eq!(written(&decision), line);
    }
}

#[test]
fn the_api_says_what_the_line_says() {
    for line in LINES.lines() {
        let decision: DecisionRecord = serde_json::from_str(line).unwrap();
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_value(&decision).unwrap(), line);
    }
}

#[test]
fn each_member_is_in_a_line_and_missing_in_another() {
    let lines: Vec<serde_json::Map<_, _>> =
        LINES.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let schema = serde_json::to_value(<DecisionRecord as utoipa::PartialSchema>::schema()).unwrap();
    let parts = schema["allOf"].as_array().unwrap();
    let own = parts.iter().find(|part| part["properties"]["id"].is_object()).unwrap();
    let required: Vec<_> = own["required"].as_array().unwrap().iter().collect();
    for name in own["properties"].as_object().unwrap().keys() {
        assert!(lines.iter().any(|line| line.contains_key(name)), "{name} is never there");
        let is_required = required.contains(&&name.as_str().into()) || name == "waited_us";
        let is_missing = lines.iter().any(|line| !line.contains_key(name));
        assert_eq!(is_missing, !is_required, "{name}");
    }
}

#[test]
fn words_of_another_version_are_kept() {
    let line = LINES.lines().next().unwrap();
    let mut decision: DecisionRecord = serde_json::from_str(line).unwrap();
    decision.outcome = Word::from("postponed");
    decision.reason = Word::from("tide-table");
    decision.mode = EnforcementMode::Observe.into();
    let line = written(&decision);
    let read: DecisionRecord = serde_json::from_str(&line).unwrap();
    assert_eq!(read.outcome.known(), None::<RequestOutcome>);
    assert_eq!(read.reason.known(), None::<Reason>);
    assert!(read.is_observed() && !read.was_let_through());
    assert_eq!(written(&read), line);
}

#[test]
fn a_line_must_have_its_required_members() {
    let line = LINES.lines().next().unwrap();
    let line: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).unwrap();
    for name in ["id", "at", "outcome", "reason", "mode", "configuration", "took_us"] {
        let mut without = line.clone();
        without.remove(name).unwrap();
        let error = serde_json::from_value::<DecisionRecord>(without.into()).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
    }
}
