//! `wayleave decision`: why a request was refused or forwarded.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use clap::Args;
use serde_json::Value;
use wayleave_robots_txt::numbered_lines;

use super::admin_client::request_json;
use super::config_file::load_config;
use super::paint::Tone;
use super::terminal::{pretty_json, print, print_painted, unusable};
use crate::telemetry::harmless::escape_controls;

/// Lines of a long robots.txt that are shown before and after the one that decided.
const CONTEXT_LINES: usize = 20;

#[derive(Debug, Args)]
pub(super) struct DecisionArguments {
    /// The `decision_id` of a refusal or of a line in the decision log
    id: String,
    /// Print as JSON, with robots.txt
    #[arg(long)]
    json: bool,
    /// Print all of a long robots.txt, not only the lines around the deciding one
    #[arg(long)]
    whole: bool,
}

pub(super) fn run(arguments: &DecisionArguments, file: Option<&Path>) -> ExitCode {
    let config = match load_config(file) {
        Ok((config, _)) => config,
        Err(status) => return status,
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if !arguments.id.chars().all(is_plain) {
        return unusable(&format!("{:?} is not a decision id", arguments.id));
    }
    let path = format!("/v1/decisions/{}", arguments.id);
    let decision = match request_json(config.admin.listen, "GET", &path) {
        Ok(decision) => decision,
        Err(error) => return unusable(&format!("decision {}: {error:#}", arguments.id)),
    };
    if arguments.json {
        return print(&pretty_json(&decision));
    }
    let around = if arguments.whole { usize::MAX } else { CONTEXT_LINES };
    print_painted(&(describe(&decision) + &robots_txt(&decision, around)))
}

/// The robots.txt that decided, its lines numbered and the deciding one marked; of a file that is longer only what is
/// `around` that line.
fn robots_txt(decision: &Value, around: usize) -> String {
    let Some(copy) = decision.get("robots_txt") else {
        return String::new();
    };
    let Some(body) = body(copy) else {
        return "\nThe robots.txt is no longer kept.\n".to_owned();
    };
    let decided = decision["line"].as_u64();
    let middle = decided.map_or(1, |line| usize::try_from(line).unwrap_or(usize::MAX));
    let (first, last) = (middle.saturating_sub(around), middle.saturating_add(around));
    let (mut before, mut after) = (0, 0);
    let mut lines = String::new();
    for (number, line) in numbered_lines(&body) {
        match usize::try_from(number).unwrap_or(usize::MAX) {
            place if place < first => before += 1,
            place if place > last => after += 1,
            _ => {
                let mark = if decided == Some(number.into()) { ">" } else { " " };
                let text = String::from_utf8_lossy(line);
                let text = escape_controls(&text);
                let line = format!("{mark} {number:>5}  {text}");
                lines += &match mark {
                    ">" => Tone::Heading.paint(line.trim_end()),
                    _ => line.trim_end().to_owned(),
                };
                lines += "\n";
            }
        }
    }
    let note = |count: u32| match count {
        0 => String::new(),
        _ => format!("  ... lines left out: {count}; --whole shows them\n"),
    };
    format!("\n{}{lines}{}", note(before), note(after))
}

fn body(copy: &Value) -> Option<Vec<u8>> {
    let encoded = copy["body_base64"].as_str();
    let decoded = encoded.and_then(|encoded| BASE64_STANDARD.decode(encoded).ok());
    decoded.or_else(|| Some(copy["body"].as_str()?.as_bytes().to_vec()))
}

/// A member in words, if it is there.
fn text(decision: &Value, member: &str) -> Option<String> {
    match &decision[member] {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// Which copy of which robots.txt decided.
fn copy(decision: &Value) -> Option<String> {
    let text = |member: &str| text(decision, member);
    text("verdict").zip(text("origin")).map(|(_, origin)| {
        let fetched_at =
            text("robots_fetched_at").map(|at| format!(", fetched at {at}")).unwrap_or_default();
        let digest = text("robots_sha256").map(|digest| format!(", SHA-256 {digest}"));
        format!("{origin}/robots.txt{fetched_at}{}", digest.unwrap_or_default())
    })
}

/// Which of the organisation's rules decided.
fn policy(decision: &Value) -> Option<String> {
    let policy = decision.get("policy")?;
    let words = ["action", "reason", "owner"].map(|member| policy[member].as_str());
    let words: Vec<_> = words.into_iter().flatten().collect();
    Some(format!("[[rule]] {}: {}", policy["number"], words.join(", ")))
}

/// The decision in words, a line for each thing that is known.
fn describe(decision: &Value) -> String {
    let text = |member: &str| text(decision, member);
    let words = |members: &[&str]| {
        let known: Vec<_> = members.iter().filter_map(|member| text(member)).collect();
        (!known.is_empty()).then(|| known.join(" "))
    };
    let rule = text("line").zip(text("rule"));
    let rule = rule.map(|(line, rule)| format!("line {line}: {rule}"));
    let list = |member: &str| {
        let listed = decision[member].as_array()?.iter();
        let words: Vec<_> = listed.filter_map(Value::as_str).collect();
        Some(words.join(", "))
    };
    let lines = [
        ("decision", text("id")),
        ("at", text("at")),
        ("request", words(&["method", "url"])),
        ("client", text("client")),
        ("peer", text("peer")),
        ("crawler", words(&["crawler", "identity", "proven_by", "certificate"])),
        ("tokens", list("tokens")),
        ("outcome", words(&["outcome", "status", "reason"])),
        ("details", text("details")),
        ("oddities", list("oddities")),
        ("signature", text("signature")),
        ("policy", policy(decision)),
        ("robots.txt", copy(decision)),
        ("verdict", words(&["verdict", "basis", "dialect"])),
        ("rule", rule),
    ];
    let mut described = String::new();
    for (name, value) in lines {
        if let Some(value) = value {
            let value = escape_controls(&value);
            let value = match name {
                "outcome" => tone(decision).paint(&value),
                _ => value.into_owned(),
            };
            let name = Tone::Aside.paint(&format!("{name:<11}"));
            writeln!(described, "{name} {value}").expect("writing to a String cannot fail");
        }
    }
    described
}

fn tone(decision: &Value) -> Tone {
    match decision["outcome"].as_str() {
        Some("forwarded" | "tunnelled") => Tone::Good,
        Some("observed") => Tone::Doubtful,
        _ => Tone::Bad,
    }
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_deciding_line_is_marked_among_those_around_it() {
        let body = "User-agent: *\r\nDisallow: /a\rDisallow: /\u{1b}[2J\nDisallow: /c\n";
        let decision = json!({ "line": 3, "robots_txt": { "body": body } });
        let whole = "\n      1  User-agent: *\n      2  Disallow: /a\n\
                     >     3  Disallow: /\\u{1b}[2J\n      4  Disallow: /c\n";
        let shown = |around| strip_str(&robots_txt(&decision, around)).to_string();
        assert_eq!(shown(CONTEXT_LINES), whole);
        let nearest = "\n  ... lines left out: 2; --whole shows them\n\
                       >     3  Disallow: /\\u{1b}[2J\n  ... lines left out: 1; --whole shows them\n";
        assert_eq!(shown(0), nearest);
    }

    #[test]
    fn a_file_that_is_gone_is_said_to_be() {
        let gone = json!({ "robots_txt": { "sha256": "ab", "body": null } });
        assert!(robots_txt(&gone, CONTEXT_LINES).contains("no longer kept"));
        assert_eq!(robots_txt(&json!({ "outcome": "refused" }), CONTEXT_LINES), "");
    }
}
