//! `wayleave decision`: why a request was refused or forwarded.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::anyhow;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use clap::Args;
use serde_json::{Value, json};
use wayleave_audit::PastMaterials as _;
use wayleave_config::Config;
use wayleave_decision::RequestOutcome;
use wayleave_decision_log::{DecisionId, LogPlace, crawler_in_words, find_decision, unread_parts};
use wayleave_notation::harmless::escape_controls;
use wayleave_robots_txt::numbered_lines;

use super::admin_client::request_json;
use super::config_file::{EVIDENCE_KEYS, load_keys};
use super::evidence::sources::MaterialSources;
use super::paint::Tone;
use super::terminal::{
    CommandResult, incomplete, pretty_json, print, print_errors, print_painted, unusable,
};
use crate::admin::{DecidingFile, ShownDecision, decision_marks};

/// The number of lines of a long robots.txt that are shown before and after the one that decided.
const CONTEXT_LINES: usize = 20;

#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 shown, 2 there is no such decision, 3 it was not found, and a file of the decision log is missing or \
                  cannot be read."
)]
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
    let (config, _) = load_keys(file, &EVIDENCE_KEYS)?;
    // It becomes a part of a path, so nothing in it may need escaping.
    if !arguments.id.chars().all(|c: char| c.is_ascii_alphanumeric() || c == '-') {
        return Err(unusable(&format!("{:?} is not a decision id", arguments.id)));
    }
    let found = find(&arguments.id, &config).map_err(|error| {
        let message = format!("decision {}: {error:#}", arguments.id);
        let log = config.log.decisions.as_ref();
        match log.map(|log| unread_parts(log.place())).unwrap_or_default() {
            unread if unread.is_empty() => unusable(&message),
            unread => incomplete(&[vec![message], unread].concat()),
        }
    })?;
    if arguments.json {
        return Ok(print(&pretty_json(&found.decision)));
    }
    let around = if arguments.whole { usize::MAX } else { CONTEXT_LINES };
    Ok(print_painted(&(describe(&found.decision) + &robots_txt(&found.basis, around))))
}

/// A decision as the API shows it, with the robots.txt that it is based on.
struct FoundDecision {
    decision: Value,
    /// The lines that count, and the file. Null for a decision that is not about robots.txt.
    basis: Value,
}

/// Asks the running proxy, which also has unwritten decisions, or else reads the decision log.
///
/// # Errors
///
/// Returns the proxy's error if the log does not have the decision either.
fn find(id: &str, config: &Config) -> anyhow::Result<FoundDecision> {
    let admin = config.admin.listen;
    let path = format!("/v1/decisions/{id}");
    let unanswered = match request_json(admin, "GET", &path) {
        Ok(decision) => {
            let basis = request_json(admin, "GET", &format!("{path}/robots")).unwrap_or_default();
            return Ok(FoundDecision { decision, basis });
        }
        Err(error) => error,
    };
    let Some(log) = &config.log.decisions else {
        return Err(unanswered);
    };
    let place = log.place();
    let log = &log.path;
    match find_in_log(id, place, config)? {
        Some(found) => {
            let log = log.display();
            print_errors(&format!("wayleave: warning: {unanswered:#}; this is from {log}\n"));
            Ok(found)
        }
        None => Err(anyhow!("{unanswered:#}; nor is it in {}", log.display())),
    }
}

fn find_in_log(
    id: &str,
    log: LogPlace<'_>,
    config: &Config,
) -> anyhow::Result<Option<FoundDecision>> {
    let Some(found) = id.parse::<DecisionId>().ok().and_then(|id| find_decision(log, id)) else {
        return Ok(None);
    };
    let Some(digest) = found.finding.as_ref().and_then(|finding| finding.robots_sha256) else {
        let decision = serde_json::to_value(&found)?;
        return Ok(Some(FoundDecision { decision, basis: Value::Null }));
    };
    let body = MaterialSources::open(config)?.body(digest)?;
    let robots_txt = Some(DecidingFile::new(digest, None, body.as_deref()));
    let decision = serde_json::to_value(ShownDecision { decision: &found, robots_txt })?;
    let basis = json!({ "said": decision["robots_txt"], "marks": decision_marks(&found) });
    Ok(Some(FoundDecision { decision, basis }))
}

/// A line that counts for the decision.
struct Mark<'a> {
    line: u64,
    is_deciding: bool,
    note: &'a str,
}

/// Formats the robots.txt of a decision: its lines are numbered, and those that count are marked. Lines that are more than
/// `around` away from each of those are left out.
fn robots_txt(basis: &Value, around: usize) -> String {
    let Some(copy) = basis.get("said").filter(|said| !said.is_null()) else {
        return String::new();
    };
    let Some(body) = body(copy) else {
        return "\nThe robots.txt is no longer kept.\n".to_owned();
    };
    let marks: Vec<Mark<'_>> =
        basis["marks"].as_array().into_iter().flatten().filter_map(Mark::read).collect();
    let around = u64::try_from(around).unwrap_or(u64::MAX);
    // Without a mark, the beginning is shown.
    let is_near = |number: u64| match &*marks {
        [] => number <= around.saturating_add(1),
        marks => marks.iter().any(|mark| mark.line.abs_diff(number) <= around),
    };
    let mut shown = match basis["is_consulted"].as_bool() {
        Some(false) => {
            "\nrobots.txt was not consulted. What the origin served then, as far as is known:\n"
        }
        _ => "\n",
    }
    .to_owned();
    let mut left_out = 0;
    for (number, text) in numbered_lines(&body) {
        if is_near(number.into()) {
            shown += &left_out_note(std::mem::take(&mut left_out));
            let mark = marks.iter().find(|mark| mark.line == u64::from(number));
            shown += &numbered_line(number, &String::from_utf8_lossy(text), mark);
        } else {
            left_out += 1;
        }
    }
    shown + &left_out_note(left_out)
}

fn left_out_note(count: u32) -> String {
    match count {
        0 => String::new(),
        _ => format!("  ... lines left out: {count}; --whole shows them\n"),
    }
}

fn numbered_line(number: u32, text: &str, mark: Option<&Mark<'_>>) -> String {
    let text = escape_controls(text);
    let Some(Mark { is_deciding, note, .. }) = mark else {
        return format!("  {number:>5}  {text}").trim_end().to_owned() + "\n";
    };
    let sign = if *is_deciding { ">" } else { "-" };
    let line = format!("{sign} {number:>5}  {text}    <- {}", escape_controls(note));
    let tone = if *is_deciding { Tone::Heading } else { Tone::Aside };
    tone.paint(&line) + "\n"
}

impl<'a> Mark<'a> {
    fn read(mark: &'a Value) -> Option<Self> {
        Some(Self {
            line: mark["line"].as_u64()?,
            is_deciding: mark["effect"] != "overridden",
            note: mark["note"].as_str().unwrap_or_default(),
        })
    }
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
        let is_pinned = text("robots_access").as_deref() == Some("pinned");
        let verb = if is_pinned { "pinned by the configuration, read" } else { "fetched" };
        let fetched_at =
            text("robots_fetched_at").map(|at| format!(", {verb} at {at}")).unwrap_or_default();
        let fetched_as = text("robots_fetched_as").map(|name| format!(" as {name}"));
        let digest = text("robots_sha256").map(|digest| format!(", SHA-256 {digest}"));
        let fetched_as = fetched_as.unwrap_or_default();
        format!("{origin}/robots.txt{fetched_at}{fetched_as}{}", digest.unwrap_or_default())
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
        (Some("asserted"), name, _) => {
            format!("{}: no [[crawler]] matches the request", crawler_in_words(&name))
        }
        (_, name, Some(proof)) => format!("{name} known by {proof}"),
        (_, name, None) => format!("{name} known by its User-Agent"),
    })
}

/// Describes the verdict of robots.txt.
fn verdict(decision: &Value) -> Option<String> {
    let text = |member: &str| text(decision, member);
    let verdict = text("verdict")?;
    let dialect = text("dialect").unwrap_or_default();
    let basis = match text("line").zip(text("rule")) {
        Some((line, rule)) => format!("line {line}: {rule}"),
        None => text("basis").unwrap_or_default(),
    };
    Some(format!("{verdict}, by {basis} (dialect {dialect})"))
}

/// Describes the decision, with a line for each thing that is known.
fn describe(decision: &Value) -> String {
    let text = |member: &str| text(decision, member);
    let words = |members: &[&str]| {
        let known: Vec<_> = members.iter().filter_map(|member| text(member)).collect();
        (!known.is_empty()).then(|| known.join(" "))
    };
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

/// Returns the tone in which the outcome of a decision is shown.
pub(super) fn tone(decision: &Value) -> Tone {
    match decision["outcome"].as_str().and_then(RequestOutcome::named) {
        Some(outcome) if outcome.was_let_through() => Tone::Good,
        Some(RequestOutcome::Observed) => Tone::Doubtful,
        _ => Tone::Bad,
    }
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_that_count_are_marked_among_their_neighbours() {
        let body = "User-agent: *\r\nDisallow: /a\rDisallow: /\u{1b}[2J\nAllow: /c\n";
        let marks = json!([
            { "line": 3, "effect": "disallow", "note": "decides: disallow" },
            { "line": 4, "effect": "overridden", "note": "allow, but refused: rule" },
        ]);
        let basis = json!({ "said": { "body": body }, "marks": marks });
        let whole = "\n      1  User-agent: *\n      2  Disallow: /a\n\
                     >     3  Disallow: /\\u{1b}[2J    <- decides: disallow\n\
                     -     4  Allow: /c    <- allow, but refused: rule\n";
        let shown = |around| strip_str(&robots_txt(&basis, around)).to_string();
        assert_eq!(shown(CONTEXT_LINES), whole);
        assert_eq!(shown(usize::MAX), whole);
        let note = "\n  ... lines left out: 2; --whole shows them\n>     3  Disallow";
        assert!(shown(0).starts_with(note), "{}", shown(0));
        assert!(!shown(0).contains("left out: 0"), "{}", shown(0));
    }

    #[test]
    fn without_a_line_that_counts_the_beginning_is_shown() {
        let body = "# one\n# two\n# three\n";
        let basis = json!({ "said": { "body": body }, "marks": [], "is_consulted": false });
        let shown = strip_str(&robots_txt(&basis, 1)).to_string();
        let heading =
            "\nrobots.txt was not consulted. What the origin served then, as far as is known:\n";
        let lines = "      1  # one\n      2  # two\n  ... lines left out: 1; --whole shows them\n";
        assert_eq!(shown, format!("{heading}{lines}"));
    }

    #[test]
    fn file_that_is_no_longer_kept_is_reported() {
        let gone = json!({ "said": { "sha256": "ab", "body": null } });
        assert!(robots_txt(&gone, CONTEXT_LINES).contains("no longer kept"));
        assert_eq!(robots_txt(&json!({ "said": null }), CONTEXT_LINES), "");
        assert_eq!(robots_txt(&Value::Null, CONTEXT_LINES), "");
    }
}
