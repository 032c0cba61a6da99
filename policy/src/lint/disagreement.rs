//! Where dialects read a file differently from RFC 9309, tried on a path that each rule is about.

use std::collections::HashMap;

use super::finding::Findings;
use super::statement::{Line, is_name};
use crate::robots_txt::Field;
use crate::{AccessResult, Dialect, Path, ProductToken, RobotsTxt, Verdict, decide};

/// Files with more rules are tried on the first so many.
const TRIED_RULES: usize = 2_000;

/// A crawler, the verdict of RFC 9309, and the dialects that say the other.
type Kind = (String, Verdict, Vec<Dialect>);

/// What was found first of one kind, and how many more there are.
struct Disagreement {
    line: u32,
    path: String,
    others: usize,
}

pub(super) fn check(
    body: &[u8],
    lines: &[Line<'_>],
    dialects: &[Dialect],
    findings: &mut Findings,
) {
    if dialects.is_empty() {
        return;
    }
    let access = AccessResult::Successful(RobotsTxt::parse(body));
    let mut found: HashMap<Kind, Disagreement> = HashMap::new();
    // Of other names it is said that Google reads them differently: that explains their rules, too.
    let named = |(_, name, _): &(_, String, _)| is_name(name.as_bytes());
    for (line, name, path) in examples(lines).into_iter().filter(named).take(TRIED_RULES) {
        let Ok(token) = ProductToken::verbatim(&name) else {
            continue;
        };
        let (tokens, asked) = ([token], Path::from_checked(&path));
        let verdict = |dialect| decide(&access, dialect, &tokens, &asked).verdict();
        let standard = verdict(Dialect::Rfc9309);
        let differ = |dialect: &Dialect| verdict(*dialect) != standard;
        let others: Vec<Dialect> = dialects.iter().copied().filter(differ).collect();
        if others.is_empty() {
            continue;
        }
        found
            .entry((name, standard, others))
            .and_modify(|disagreement| disagreement.others += 1)
            .or_insert(Disagreement {
                line,
                path,
                others: 0,
            });
    }
    for (kind, disagreement) in found {
        findings.warning(disagreement.line, sentence(&kind, &disagreement));
    }
}

fn sentence((name, verdict, dialects): &Kind, disagreement: &Disagreement) -> String {
    let Disagreement { path, others, .. } = disagreement;
    let dialects: Vec<_> = dialects.iter().map(|dialect| dialect.as_str()).collect();
    let (standard, other) = match verdict {
        Verdict::Allow => ("allows", "disallow"),
        Verdict::Disallow => ("disallows", "allow"),
    };
    let more = match others {
        0 => String::new(),
        others => format!(" (and {others} more like it)"),
    };
    let dialects = dialects.join(", ");
    format!(
        "dialects disagree about {path:?} for {name}: rfc9309 {standard} it, {other}: {dialects}{more}"
    )
}

/// For each rule its line, a crawler it is for, and a path it is about.
fn examples(lines: &[Line<'_>]) -> Vec<(u32, String, String)> {
    let mut examples = Vec::new();
    let (mut name, mut has_rules) = (None, true);
    for line in lines {
        let Some(statement) = line.exact else {
            continue;
        };
        match statement.field {
            Field::UserAgent if has_rules || name.is_none() => {
                name = String::from_utf8(statement.value.to_vec()).ok();
                has_rules = false;
            }
            Field::Allow | Field::Disallow => {
                has_rules = true;
                let value = String::from_utf8_lossy(statement.value).replace('*', "x");
                let value = value.strip_suffix('$').unwrap_or(&value);
                let path = if value.starts_with('/') {
                    value.to_owned()
                } else {
                    format!("/{value}")
                };
                examples.extend(name.clone().map(|name| (line.number, name, path)));
            }
            _ => {}
        }
    }
    examples
}
