//! `wayleave decision`: why a request was refused or forwarded.

use std::fmt::Write as _;
use std::path::Path;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use clap::Args;
use serde_json::Value;
use wayleave_robots_txt::numbered_lines;

use super::admin_client::request_json;
use super::config_file::load_config;
use super::paint::Tone;
use super::terminal::{CommandResult, pretty_json, print, print_painted, unusable};
use crate::telemetry::harmless::escape_controls;

/// The number of lines of a long robots.txt that are shown before and after the one that decided.
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

pub(super) fn run(arguments: &DecisionArguments, file: Option<&Path>) -> CommandResult {
    let (config, _) = load_config(file)?;
    // It becomes a part of a path, so nothing in it may need escaping.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if !arguments.id.chars().all(is_plain) {
        return Err(unusable(&format!("{:?} is not a decision id", arguments.id)));
    }
    let path = format!("/v1/decisions/{}", arguments.id);
    let decision = request_json(config.admin.listen, "GET", &path)
        .map_err(|error| unusable(&format!("decision {}: {error:#}", arguments.id)))?;
    if arguments.json {
        return Ok(print(&pretty_json(&decision)));
    }
    let around = if arguments.whole { usize::MAX } else { CONTEXT_LINES };
    Ok(print_painted(&(describe(&decision) + &robots_txt(&decision, around))))
}

/// Formats the robots.txt that decided: its lines are numbered, and the deciding one is marked. Lines that are more than
/// `around` away from that one are left out.
fn robots_txt(decision: &Value, around: usize) -> String {
    let Some(copy) = decision.get("robots_txt") else {
        return String::new();
    };
    let Some(body) = body(copy) else {
        return "\nThe robots.txt is no longer kept.\n".to_owned();
    };
    let decided = decision["line"].as_u64();
    // Without a deciding line, the beginning is shown.
    let middle = decided.map_or(1, |line| usize::try_from(line).unwrap_or(usize::MAX));
    let (first, last) = (middle.saturating_sub(around), middle.saturating_add(around));
    let (mut before, mut after) = (0, 0);
    let mut lines = String::new();
    for (number, text) in numbered_lines(&body) {
        match usize::try_from(number).unwrap_or(usize::MAX) {
            place if place < first => before += 1,
            place if place > last => after += 1,
            _ => {
                let is_deciding = decided == Some(number.into());
                let mark = if is_deciding { ">" } else { " " };
                let text = String::from_utf8_lossy(text);
                let line = format!("{mark} {number:>5}  {}", escape_controls(&text));
                lines += &if is_deciding {
                    Tone::Heading.paint(line.trim_end())
                } else {
                    line.trim_end().to_owned()
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
    // The bytes, if there are any: the text of a file that is not UTF-8 has replacement characters.
    copy["body_base64"]
        .as_str()
        .and_then(|encoded| BASE64_STANDARD.decode(encoded).ok())
        .or_else(|| Some(copy["body"].as_str()?.as_bytes().to_vec()))
}

/// Returns a member as text, if it is there.
fn text(decision: &Value, member: &str) -> Option<String> {
    text_of(&decision[member])
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// Describes the copy of robots.txt that decided.
fn copy(decision: &Value) -> Option<String> {
    let text = |member: &str| text(decision, member);
    text("verdict").zip(text("origin")).map(|(_, origin)| {
        let fetched_at =
            text("robots_fetched_at").map(|at| format!(", fetched at {at}")).unwrap_or_default();
        let digest = text("robots_sha256").map(|digest| format!(", SHA-256 {digest}"));
        format!("{origin}/robots.txt{fetched_at}{}", digest.unwrap_or_default())
    })
}

/// Describes the rule of the organisation that decided.
fn policy(decision: &Value) -> Option<String> {
    let policy = decision.get("policy")?;
    let words: Vec<_> = ["action", "reason", "owner"]
        .into_iter()
        .filter_map(|member| policy[member].as_str())
        .collect();
    Some(format!("[[rule]] {}: {}", policy["number"], words.join(", ")))
}

/// Describes the crawler, and why it is taken for that.
fn crawler(decision: &Value) -> Option<String> {
    let text = |member: &str| text(decision, member);
    let proof = text("certificate").map(|name| format!("certificate {name}"));
    let proof = proof.or_else(|| text("proven_by"));
    Some(match (text("identity").as_deref(), text("crawler")?, proof) {
        (Some("asserted"), name, _) => format!("{name}: no [[crawler]] matches the request"),
        (_, name, Some(proof)) => format!("{name} known by {proof}"),
        (_, name, None) => format!("{name} known by its User-Agent"),
    })
}

/// Describes what robots.txt says.
fn verdict(decision: &Value) -> Option<String> {
    let text = |member: &str| text(decision, member);
    let (verdict, basis) = (text("verdict")?, text("basis").unwrap_or_default());
    let dialect = text("dialect").unwrap_or_default();
    Some(format!("{verdict}, because of {basis}, in dialect {dialect}"))
}

/// Describes the decision, with a line for each thing that is known.
fn describe(decision: &Value) -> String {
    let text = |member: &str| text(decision, member);
    let words = |members: &[&str]| {
        let known: Vec<_> = members.iter().filter_map(|member| text(member)).collect();
        (!known.is_empty()).then(|| known.join(" "))
    };
    let rule = text("line").zip(text("rule")).map(|(line, rule)| format!("line {line}: {rule}"));
    let list = |member: &str| {
        let words: Vec<_> = decision[member].as_array()?.iter().filter_map(Value::as_str).collect();
        Some(words.join(", "))
    };
    let lines = [
        ("decision", text("id")),
        ("at", text("at")),
        ("request", words(&["method", "url"])),
        ("client", text("client")),
        ("peer", text("peer")),
        ("crawler", crawler(decision)),
        ("owner", text("owner")),
        ("tokens", list("tokens")),
        ("outcome", words(&["outcome", "status", "reason"])),
        ("from", text("from")),
        ("details", text("details")),
        ("oddities", list("oddities")),
        ("signature", text("signature")),
        ("edge", text("edge")),
        ("price", words(&["price", "currency", "scheme"])),
        ("policy", policy(decision)),
        ("page", text_of(&decision["subresource"]["page"])),
        ("robots.txt", copy(decision)),
        ("verdict", verdict(decision)),
        ("rule", rule),
    ];
    let mut described = String::new();
    for (name, value) in lines {
        if let Some(value) = value {
            // Escaped before it is painted: the escape sequences of colours must remain.
            let escaped = escape_controls(&value);
            let value = match name {
                "outcome" => tone(decision).paint(&escaped),
                _ => escaped.into_owned(),
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
    fn deciding_line_is_marked_among_its_neighbours() {
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
    fn file_that_is_no_longer_kept_is_reported() {
        let gone = json!({ "robots_txt": { "sha256": "ab", "body": null } });
        assert!(robots_txt(&gone, CONTEXT_LINES).contains("no longer kept"));
        assert_eq!(robots_txt(&json!({ "outcome": "refused" }), CONTEXT_LINES), "");
    }
}
