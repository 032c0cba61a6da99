//! Differences between RFC 9309 and other dialects, found by judging a path for each rule.

use std::collections::HashMap;

use super::finding::FindingList;
use super::statement::{LintLine, is_portable_name};
use crate::robots_txt::LineField;
use crate::{AccessResult, AccessVerdict, Dialect, ProductToken, RobotsTxt, UrlPath, decide};

/// The most rules that are tried. In a file with more, one rule of each shape in each group is tried, since each trial
/// searches all rules.
const MAX_TRIED_RULES: usize = 200;

/// A crawler, the verdict of RFC 9309, and the dialects that disagree with it.
type DisagreementKey = (String, AccessVerdict, Vec<Dialect>);

/// The first disagreement with one key, and the number of others like it.
struct Disagreement {
    line: u32,
    path: String,
    similar: usize,
}

pub(super) fn check(
    body: &[u8],
    lines: &[LintLine<'_>],
    dialects: &[Dialect],
    findings: &mut FindingList,
) {
    if dialects.is_empty() {
        return;
    }
    let access = AccessResult::from(RobotsTxt::parse(body));
    let mut found: HashMap<DisagreementKey, Disagreement> = HashMap::new();
    for ((line, name, path), similar) in select_examples(examples(lines)) {
        // No line names a crawler `*`, so that token gets the group for everyone. An empty name is nobody's.
        let Ok(token) = ProductToken::verbatim(&name) else {
            continue;
        };
        let tokens = [token];
        let url_path = UrlPath::from_checked(&path);
        let verdict = |dialect| decide(&access, dialect, &tokens, &url_path).verdict();
        let standard = verdict(Dialect::Rfc9309);
        let differ = |dialect: &Dialect| verdict(*dialect) != standard;
        let others: Vec<Dialect> = dialects.iter().copied().filter(differ).collect();
        if others.is_empty() {
            continue;
        }
        found
            .entry((name, standard, others))
            .and_modify(|disagreement| disagreement.similar += 1 + similar)
            .or_insert(Disagreement { line, path, similar });
    }
    // One finding for each key, or a file with thousands of rules would have thousands of findings.
    for (key, disagreement) in found {
        findings.warning(disagreement.line, sentence(&key, &disagreement));
    }
}

fn sentence((name, verdict, dialects): &DisagreementKey, disagreement: &Disagreement) -> String {
    let Disagreement { path, similar, .. } = disagreement;
    let others: Vec<_> = dialects.iter().map(|dialect| dialect.as_str()).collect();
    let (standard, other) = match verdict {
        AccessVerdict::Allow => ("allows", "disallow"),
        AccessVerdict::Disallow => ("disallows", "allow"),
    };
    let more = match similar {
        0 => String::new(),
        count => format!(" (and {count} more like it)"),
    };
    format!(
        "dialects disagree about {path:?} for {name}: rfc9309 {standard} it, {other}: {}{more}",
        others.join(", ")
    )
}

/// A rule's line, a crawler that it applies to, and a path that it matches.
type RuleExample = (u32, String, String);

/// Returns the examples to try, each with the number of others like it.
fn select_examples(examples: Vec<RuleExample>) -> Vec<(RuleExample, usize)> {
    if examples.len() <= MAX_TRIED_RULES {
        return examples.into_iter().map(|example| (example, 0)).collect();
    }
    let mut index_by_shape: HashMap<(String, String), usize> = HashMap::new();
    let mut tried: Vec<(RuleExample, usize)> = Vec::new();
    for example in examples {
        let (_, name, path) = &example;
        let next = tried.len();
        let index = *index_by_shape.entry((name.clone(), shape(path))).or_insert(next);
        match tried.get_mut(index) {
            Some((_, similar)) => *similar += 1,
            None if index < MAX_TRIED_RULES => tried.push((example, 0)),
            None => {}
        }
    }
    tried
}

/// Returns a path with one letter in place of each word or number.
fn shape(path: &str) -> String {
    let mut shape = String::new();
    for c in path.chars() {
        if !c.is_ascii_alphanumeric() {
            shape.push(c);
        } else if !shape.ends_with('a') {
            shape.push('a');
        }
    }
    shape
}

/// Returns an example for each rule.
fn examples(lines: &[LintLine<'_>]) -> Vec<RuleExample> {
    let mut examples = Vec::new();
    let mut name = None;
    let mut has_rules = true;
    for line in lines {
        let Some(statement) = line.exact else {
            continue;
        };
        match statement.field {
            // The first name of a group stands for all: its rules are the same for the others.
            LineField::UserAgent if has_rules || name.is_none() => {
                name = String::from_utf8(statement.value.to_vec()).ok();
                has_rules = false;
            }
            LineField::Allow | LineField::Disallow => {
                has_rules = true;
                // Names that Google reads differently have a finding of their own, which explains their rules as well.
                let Some(name) = name.as_ref().filter(|name| is_portable_name(name.as_bytes()))
                else {
                    continue;
                };
                examples.push((line.number, name.clone(), example_path(statement.value)));
            }
            _ => {}
        }
    }
    examples
}

/// Returns a path that a pattern matches, as crawlers send it: with any text in place of a star, and with letters outside
/// ASCII and spaces escaped (RFC 3986 §2.1).
fn example_path(value: &[u8]) -> String {
    let pattern = value.strip_suffix(b"$").unwrap_or(value);
    let mut path = String::from(if pattern.starts_with(b"/") { "" } else { "/" });
    for &byte in pattern {
        match byte {
            b'*' => path.push('x'),
            b'!'..=b'~' => path.push(char::from(byte)),
            _ => path += &format!("%{byte:02X}"),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_outside_ascii_are_asked_about_as_they_are_sent() {
        let body =
            "User-agent: *\nDisallow: /caf\u{e9}\nDisallow: /\u{30C4}*\nAllow: /\u{30C4}/x$\n";
        let found = crate::lint(body.as_bytes(), &[Dialect::Google]);
        assert_eq!(found, []);
        assert_eq!(example_path("*/\u{e9} b$".as_bytes()), "/x/%C3%A9%20b");
        assert_eq!(example_path(b"/\xff"), "/%FF");
    }

    fn example(line: u32, name: &str, path: String) -> RuleExample {
        (line, name.to_owned(), path)
    }

    #[test]
    fn of_many_rules_one_of_each_shape_is_tried_per_group() {
        let of_name = |name: &'static str| {
            (0..15_000)
                .map(move |number| example(number, name, format!("/dir{number}/p-{number}.html")))
        };
        let odd = example(7, "b", "/%zz?x".to_owned());
        let many = of_name("a").chain(of_name("b")).chain([odd.clone()]);
        let tried = select_examples(many.collect());
        let expected = [
            (example(0, "a", "/dir0/p-0.html".to_owned()), 14_999),
            (example(0, "b", "/dir0/p-0.html".to_owned()), 14_999),
            (odd, 0),
        ];
        assert_eq!(tried, expected);
    }

    #[test]
    fn a_file_of_made_up_shapes_is_tried_on_so_many() {
        let path = |number: usize| "/-".repeat(number);
        let all = (0..1_000).map(|number| example(0, "a", path(number)));
        assert_eq!(select_examples(all.collect()).len(), MAX_TRIED_RULES);
    }

    #[test]
    fn every_rule_of_a_small_file_is_tried() {
        let few = (0..100).map(|number| example(number, "a", format!("/{number}")));
        let tried = select_examples(few.collect());
        assert_eq!((tried.len(), tried[99].1), (100, 0));
    }
}
