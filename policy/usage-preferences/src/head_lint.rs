//! Findings about the fields of a response that state robots meta rules.

use sfv::{BareItem, ListEntry};
use wayleave_robots_txt::lint::{Finding, FindingList};

use super::robots_meta::{self, MetaRule, is_known};
use super::robots_tag;

/// Finds rules in the head of a response that have no effect, and `X-Robots-Tag` without the standard's `Robots-Tag`. Lines
/// that are not fields, such as the status line, are passed over; findings name lines from 1.
#[must_use]
pub fn lint_head(head: &[u8]) -> Vec<Finding> {
    let mut findings = FindingList::default();
    let text = String::from_utf8_lossy(head);
    let fields = (1..).zip(text.lines()).filter_map(|(line, text)| {
        let (name, value) = text.split_once(':')?;
        Some((line, name.trim(), value.trim()))
    });
    let mut standard = Vec::new();
    let mut older = Vec::new();
    for (line, name, value) in fields {
        if name.eq_ignore_ascii_case("robots-tag") {
            standard.push((line, value));
        } else if name.eq_ignore_ascii_case("x-robots-tag") {
            older.push((line, value));
        }
    }
    check_standard(&standard, &mut findings);
    if standard.is_empty() {
        for (line, value) in older {
            findings.warning(line, missing_standard(value));
        }
    }
    findings.finish()
}

/// Returns the message about an `X-Robots-Tag` without `Robots-Tag`, with the field to add if the rules are for all crawlers.
fn missing_standard(value: &str) -> String {
    let rules = robots_meta::rules(value, &[]);
    let parameters: String = rules.iter().map(parameter).collect();
    let example = match parameters.as_str() {
        "" => "ExampleBot;noindex".to_owned(),
        parameters => format!("*{parameters}"),
    };
    format!(
        "crawlers that follow the standard read Robots-Tag (draft-illyes-repext), which is missing: add, for example, \
         \"Robots-Tag: {example}\""
    )
}

fn parameter(rule: &MetaRule) -> String {
    let MetaRule { name, value } = rule;
    match value.as_str() {
        "" => format!(";{name}"),
        value if value.chars().all(|c: char| c.is_ascii_alphanumeric() || c == '-') => {
            format!(";{name}={value}")
        }
        value => format!(";{name}={value:?}"),
    }
}

fn check_standard(lines: &[(u32, &str)], findings: &mut FindingList) {
    let Some((first, _)) = lines.first() else {
        return;
    };
    let values: Vec<&str> = lines.iter().map(|(_, value)| *value).collect();
    let joined = values.join(", ");
    if joined.len() > robots_tag::MAX_BYTES {
        let message = "Robots-Tag is longer than 8 KiB: crawlers need not read what is beyond";
        findings.warning(*first, message);
    }
    if robots_tag::read(&joined).is_none() {
        // All lines are one list: a mistake in one of them takes the others with it.
        let wrong = lines.iter().find(|(_, value)| robots_tag::read(value).is_none());
        let message = "Robots-Tag cannot be parsed, so it has no effect: write, for example, \"*;nosnippet, ExampleBot;noindex\"";
        findings.error(wrong.map_or(*first, |(line, _)| *line), message);
        return;
    }
    for (line, value) in lines {
        let list = robots_tag::read(value).unwrap_or_default();
        for entry in &list {
            check_member(*line, entry, findings);
        }
    }
}

fn check_member(line: u32, entry: &ListEntry, findings: &mut FindingList) {
    let ListEntry::Item(item) = entry else {
        return findings.error(line, "a list in parentheses names no crawler, so it has no effect");
    };
    let name = match &item.bare_item {
        BareItem::Token(token) => token.as_str(),
        BareItem::String(text) => {
            let message = format!("{:?} should be a token, without quotes", text.as_str());
            findings.warning(line, message);
            text.as_str()
        }
        other => {
            let message = format!("{other:?} names no crawler, so its rules have no effect");
            return findings.error(line, message);
        }
    };
    // A rule where a crawler's name is expected: X-Robots-Tag's form.
    if is_known(name) {
        let message = format!("{name:?} is taken for a crawler's name: write \"*;{name}\"");
        findings.error(line, message);
    } else if item.params.is_empty() {
        findings.note(line, format!("{name:?} has no rules"));
    }
    for key in item.params.keys().filter(|key| !is_known(key.as_str())) {
        findings.note(line, format!("{:?} is not a known rule", key.as_str()));
    }
}
