//! Findings about single statements: unknown names, misspellings, misplaced values.

use super::finding::{FindingList, quoted};
use super::unusual;
use crate::robots_txt::{
    LineField, ParsedLine, exact_statement, google_statement, numbered_lines, parse_seconds,
};

/// Directives in use besides rules, in lower case.
const KNOWN_DIRECTIVES: [&str; 23] = [
    "sitemap",
    "crawl-delay",
    "host",
    "clean-param",
    "request-rate",
    "visit-time",
    "noindex",
    "nofollow",
    "noarchive",
    "cache-delay",
    "robot-version",
    "comment",
    "content-signal",
    "content-usage",
    "llm-policy",
    "acap-crawler",
    "acap-disallow-crawl",
    "acap-allow-crawl",
    "disallowaitraining",
    "allowaitraining",
    "archive-embargo",
    "embargo-allow",
    "license",
];

/// The names of lines that decide about paths.
const RULES: [&str; 3] = ["User-agent", "Allow", "Disallow"];

/// The directives about the use of pages: one that is misspelt loses its author's refusal.
const STATEMENTS_ABOUT_USE: [&str; 7] = [
    "content-signal",
    "content-usage",
    "disallowaitraining",
    "allowaitraining",
    "archive-embargo",
    "embargo-allow",
    "license",
];

/// Directives that few readers ever obeyed: Google stopped in September 2019.
const META_DIRECTIVES: [&str; 3] = ["noindex", "nofollow", "noarchive"];

/// A line as each kind of reader parses it.
pub(super) struct LintLine<'a> {
    pub(super) number: u32,
    pub(super) text: &'a [u8],
    pub(super) exact: Option<ParsedLine<'a>>,
    google: Option<ParsedLine<'a>>,
}

/// Returns the lines, parsed as Google does as well if that matters.
pub(super) fn read(body: &[u8], reads_google: bool) -> Vec<LintLine<'_>> {
    let to_line = |(number, text)| LintLine {
        number,
        text,
        exact: exact_statement(text),
        google: if reads_google { google_statement(text) } else { None },
    };
    numbered_lines(body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body)).map(to_line).collect()
}

pub(super) fn check(lines: &[LintLine<'_>], findings: &mut FindingList) {
    let mut has_agent = false;
    for line in lines {
        let LintLine { number, text, exact, google } = line;
        match exact {
            None => check_no_statement(*number, text, google.as_ref(), findings),
            Some(statement) => {
                has_agent |= statement.field == LineField::UserAgent;
                check_statement(*number, statement, google.as_ref(), findings);
                let is_rule = matches!(statement.field, LineField::Allow | LineField::Disallow);
                if is_rule && !has_agent {
                    findings.error(*number, "a rule before any user-agent line applies to nobody");
                }
            }
        }
    }
}

fn check_no_statement(
    number: u32,
    text: &[u8],
    google: Option<&ParsedLine<'_>>,
    findings: &mut FindingList,
) {
    let statement = text.split(|&byte| byte == b'#').next().unwrap_or_default().trim_ascii();
    if statement.is_empty() {
        return;
    }
    let shown = quoted(statement);
    // A full-width colon, which ends no name.
    if let Some(plain) = unusual::plain(statement)
        && let Some(meant) = exact_statement(plain.as_bytes())
        && let Some(name) = known_name(meant.name)
    {
        let message =
            format!("{shown} is not a statement: {}; did you mean {name:?}?", unusual::EXPLANATION);
        return findings.error(number, message);
    }
    match google.map(|statement| statement.field) {
        Some(LineField::Allow | LineField::Disallow | LineField::UserAgent) => {
            let message = format!("{shown} has no colon; only Google's parser reads it as a rule");
            findings.error(number, message);
        }
        _ => {
            let message = format!("{shown} is not a statement: expected \"name: value\"");
            findings.warning(number, message);
        }
    }
}

fn check_statement(
    number: u32,
    statement: &ParsedLine<'_>,
    google: Option<&ParsedLine<'_>>,
    findings: &mut FindingList,
) {
    let ParsedLine { field, name, value } = statement;
    match field {
        LineField::UserAgent => check_agent(number, value, findings),
        LineField::Other => {
            let known =
                KNOWN_DIRECTIVES.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
            if !known {
                check_unknown(number, name, google, findings);
            }
            check_value(number, name, value, findings);
        }
        LineField::Allow | LineField::Disallow => {}
    }
}

fn check_unknown(
    number: u32,
    name: &[u8],
    google: Option<&ParsedLine<'_>>,
    findings: &mut FindingList,
) {
    if let Some(meant) = unusual::plain(name).and_then(|plain| known_name(plain.as_bytes())) {
        let shown = quoted(name);
        let message = format!(
            "{shown} is not {meant:?}: {}, so the line has no effect",
            unusual::EXPLANATION
        );
        return findings.error(number, message);
    }
    // First, so that a name near to both is taken for a rule: a lost rule does the most harm.
    let meant =
        RULES.into_iter().chain(KNOWN_DIRECTIVES).find(|known| is_near(name, known.as_bytes()));
    // Google's parser knows common misspellings, so such a line works for one crawler only.
    let rule = google.map(|statement| statement.field).filter(|field| *field != LineField::Other);
    let mut message = format!("{} is not a known directive", quoted(name));
    if let Some(meant) = meant {
        message += &format!("; did you mean {meant:?}?");
    }
    if rule.is_some() {
        message += " (Google's parser reads it as that, others do not)";
    }
    let loses = |meant: &str| RULES.contains(&meant) || STATEMENTS_ABOUT_USE.contains(&meant);
    if meant.is_some_and(loses) || rule.is_some() {
        findings.error(number, message);
    } else {
        findings.note(number, message);
    }
}

fn check_agent(number: u32, value: &[u8], findings: &mut FindingList) {
    if value.is_empty() {
        findings.error(number, "a user-agent line without a name applies to nobody");
    } else if !is_portable_name(value) {
        // Google's parser cuts the value at the first other byte, so `MJ12bot` becomes `MJ`.
        let kept = value.iter().take_while(|byte| is_token(byte)).count();
        let message = format!(
            "{} is not a product token (letters, \"_\" and \"-\"); Google reads {}",
            quoted(value),
            if value[0] == b'*' { "\"*\" or nothing".to_owned() } else { quoted(&value[..kept]) }
        );
        findings.warning(number, message);
    }
}

fn is_token(byte: &u8) -> bool {
    byte.is_ascii_alphabetic() || b"_-".contains(byte)
}

/// Returns whether all readers take a value for the same name: `*`, or a product token (RFC 9309 §2.2.1).
pub(super) fn is_portable_name(value: &[u8]) -> bool {
    value == b"*" || value.iter().all(is_token)
}

fn check_value(number: u32, name: &[u8], value: &[u8], findings: &mut FindingList) {
    let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
    let text = String::from_utf8_lossy(value);
    // Other readers ignore a value with a unit.
    if is("crawl-delay") && (text.parse::<f64>().is_err() || parse_seconds(&text).is_none()) {
        findings.warning(number, format!("{} is not a number of seconds", quoted(value)));
    }
    if let Some(rule) = META_DIRECTIVES.into_iter().find(|known| is(known)) {
        let message = format!(
            "hardly any crawler obeys {} in robots.txt (Google stopped in 2019): send \"X-Robots-Tag: {rule}\"",
            quoted(name)
        );
        findings.warning(number, message);
    }
    if is("sitemap") && !text.to_ascii_lowercase().starts_with("http") {
        let message = format!("the sitemap {} is not an absolute URL", quoted(value));
        findings.warning(number, message);
    }
}

/// Returns the name of a rule or a directive as it is usually written.
fn known_name(name: &[u8]) -> Option<&'static str> {
    let mut known = RULES.into_iter().chain(KNOWN_DIRECTIVES);
    known.find(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// Returns whether a name differs from a known one in at most two bytes changed, added or omitted.
#[must_use]
pub fn is_near(name: &[u8], known: &[u8]) -> bool {
    // Two mistakes in a name are common; three make another word.
    const FAR: usize = 3;
    // A short name is near to too many others to guess from.
    if name.len().abs_diff(known.len()) >= FAR || name.len() <= FAR {
        return false;
    }
    // Levenshtein distance, one row at a time.
    let mut row: Vec<usize> = (0..=known.len()).collect();
    for (index, byte) in name.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (at, other) in known.iter().enumerate() {
            let change = diagonal + usize::from(!byte.eq_ignore_ascii_case(other));
            diagonal = row[at + 1];
            row[at + 1] = change.min(diagonal + 1).min(row[at] + 1);
        }
    }
    row[known.len()] < FAR
}
