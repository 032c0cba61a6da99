//! Decisions in each form in which they leave this crate, byte for byte as they were written once.
//!
//! The lines are data, which the tests of `wayleave-record` read as well. With `WAYLEAVE_GENERATE` set, these tests write the
//! other forms of the lines.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use wayleave_otlp::attributes::{
    self, exchange_attributes, log_attributes, upstream_attributes, was_sent_upstream,
};
use wayleave_telemetry::logging::LineForm;

use super::decision_event::event_line;
use super::encoded_decision::EncodedDecision;
use super::tests::{Draws, any_decision};
use super::*;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../policy/record/tests/golden");

const TEXTS: &[&str] = &[
    "/a",
    "",
    "https://shop.test/a?sig=s3cret&b=\"c\"",
    "Disallow: /\u{9b}31m\u{202e}\u{2028}\u{1b}",
    "\u{4f60}\u{597d}, \\ and \u{e9}",
    "https://[::1]:8443",
    "=1+1;\t\r\n",
];

fn golden(name: &str) -> String {
    std::fs::read_to_string(Path::new(FOLDER).join(name)).unwrap_or_default()
}

fn compare(name: &str, written: &str) {
    if std::env::var_os("WAYLEAVE_GENERATE").is_some() {
        std::fs::write(Path::new(FOLDER).join(name), written).unwrap();
    }
    let expected = golden(name);
    for (number, (is, was)) in written.lines().zip(expected.lines()).enumerate() {
        assert_eq!(is, was, "{name}:{}", number + 1);
    }
    assert_eq!(written.len(), expected.len(), "{name}");
}

fn decisions() -> Vec<DecisionRecord> {
    let lines = golden("decisions.jsonl");
    let decisions: Vec<_> =
        lines.lines().map(|line| serde_json::from_str(line).expect("a decision")).collect();
    assert!(decisions.len() > 100, "{}", decisions.len());
    decisions
}

/// Appends lines for a member that no line has yet. The lines of earlier versions stay: they must be read for ever. Then
/// `WAYLEAVE_GENERATE=1 cargo test --workspace --lib as_they` writes all other forms of the lines.
#[test]
#[ignore = "writes the data of the other tests"]
fn append_lines() {
    let mut lines = golden("decisions.jsonl").into_bytes();
    let first = lines.split(|byte| *byte == b'\n').count() as u64;
    for bits in first..first + 20 {
        let texts = TEXTS.iter().map(|text| (*text).to_owned()).collect();
        let draws = Draws { bits: 77 + 0x1234_5678_9abc_def1_u64.wrapping_mul(bits), texts };
        lines.extend(EncodedDecision::new(&any_decision(draws)).line);
    }
    std::fs::write(Path::new(FOLDER).join("decisions.jsonl"), lines).unwrap();
}

#[test]
fn events_are_as_they_were() {
    for (form, name) in [
        (LineForm::Json, "events.jsonl"),
        (LineForm::Text, "events.txt"),
        (LineForm::Terminal, "terminal.txt"),
    ] {
        let mut written = Vec::new();
        for decision in decisions() {
            written.extend(event_line(&decision, form));
            written.push(b'\n');
        }
        compare(name, &String::from_utf8(written).unwrap());
    }
}

#[test]
fn attributes_are_as_they_were() {
    let mut written = String::new();
    for decision in decisions() {
        let all = [exchange_attributes, log_attributes, upstream_attributes];
        for attribute in all.iter().flat_map(|attributes| attributes(&decision)) {
            writeln!(written, "{}={:?}", attribute.key, attribute.value.as_str()).unwrap();
        }
        writeln!(written, "sent={}", was_sent_upstream(&decision)).unwrap();
        writeln!(written, "error={:?}", attributes::upstream_error(&decision)).unwrap();
    }
    compare("attributes.txt", &written);
}

#[test]
fn reports_are_as_they_were() {
    let lines = golden("decisions.jsonl");
    let query = ReportQuery {
        since: SystemTime::UNIX_EPOCH,
        until: SystemTime::UNIX_EPOCH + Duration::from_hours(24 * 36_500),
        requests: DecisionQuery::default(),
        contents: ReportContents::Overview,
    };
    let report = LogReport::of_lines(&query, |take| {
        for line in lines.lines() {
            take(line.as_bytes());
        }
    });
    let mut report = serde_json::to_value(&report).unwrap();
    // Rows that are equally frequent are in any order.
    for table in
        report.as_object_mut().unwrap().values_mut().filter_map(|member| member.as_array_mut())
    {
        table.sort_by_key(ToString::to_string);
    }
    compare("report.json", &(serde_json::to_string_pretty(&report).unwrap() + "\n"));
}
