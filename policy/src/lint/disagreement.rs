//! Where dialects disagree about a file, tried on a path that each rule is about.

use std::collections::HashMap;

use super::finding::Findings;
use super::statement::Line;
use crate::robots_txt::Field;
use crate::{AccessResult, Dialect, ProductToken, RobotsTxt, Verdict, decide};

/// Files with more rules are tried on the first so many.
const TRIED_RULES: usize = 2_000;

const DIALECTS: [Dialect; 4] = [
    Dialect::Rfc9309,
    Dialect::Google,
    Dialect::Koster1996,
    Dialect::Selfhtml,
];

/// What was found first of one kind, and how many more there are.
struct Disagreement {
    line: u32,
    path: String,
    others: usize,
}

pub(super) fn check(body: &[u8], lines: &[Line<'_>], findings: &mut Findings) {
    let access = AccessResult::Successful(RobotsTxt::parse(body));
    let mut found: HashMap<(String, [Verdict; 4]), Disagreement> = HashMap::new();
    for (line, name, path) in examples(lines).into_iter().take(TRIED_RULES) {
        let Ok(token) = ProductToken::verbatim(&name) else {
            continue;
        };
        let tokens = [token];
        let verdicts = DIALECTS.map(|dialect| decide(&access, dialect, &tokens, &path).verdict());
        if verdicts.iter().all(|verdict| *verdict == verdicts[0]) {
            continue;
        }
        found
            .entry((name, verdicts))
            .and_modify(|disagreement| disagreement.others += 1)
            .or_insert(Disagreement {
                line,
                path,
                others: 0,
            });
    }
    for ((name, verdicts), Disagreement { line, path, others }) in found {
        let of = |verdict| {
            let agree = DIALECTS
                .iter()
                .zip(&verdicts)
                .filter(|(_, other)| **other == verdict);
            agree
                .map(|(dialect, _)| dialect.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let more = if others > 0 {
            format!(" (and {others} more like it)")
        } else {
            String::new()
        };
        let message = format!(
            "dialects disagree about {path:?} for {name}: {} allow, {} disallow{more}",
            of(Verdict::Allow),
            of(Verdict::Disallow)
        );
        findings.add(line, message);
    }
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
