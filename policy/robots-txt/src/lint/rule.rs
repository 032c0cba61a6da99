//! Findings about rules that never match or never decide, and about groups without rules.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::finding::{FindingList, quoted};
use super::statement::LintLine;
use super::unusual;
use crate::robots_txt::LineField;

/// The group being read.
#[derive(Default)]
struct RuleGroup<'a> {
    agents: Vec<(u32, &'a [u8])>,
    /// The rules by the paths they match.
    rules: HashMap<&'a [u8], Vec<LintedRule<'a>>>,
}

#[derive(Clone, Copy)]
struct LintedRule<'a> {
    line: u32,
    allow: bool,
    value: &'a [u8],
}

impl LintedRule<'_> {
    /// Returns the weight of the rule; the greatest among rules for the same paths decides (RFC 9309 §2.2.2).
    fn weight(&self) -> (usize, bool, Reverse<u32>) {
        (self.value.len(), self.allow, Reverse(self.line))
    }
}

pub(super) fn check(lines: &[LintLine<'_>], findings: &mut FindingList) {
    let mut group = RuleGroup::default();
    for line in lines {
        let Some(statement) = line.exact else {
            continue;
        };
        match statement.field {
            LineField::UserAgent => {
                if !group.rules.is_empty() {
                    check_group(&group, findings);
                    group = RuleGroup::default();
                }
                group.agents.push((line.number, statement.value));
            }
            LineField::Allow | LineField::Disallow => {
                check_value(line, statement.value, findings);
                let rule = LintedRule {
                    line: line.number,
                    allow: statement.field == LineField::Allow,
                    value: statement.value,
                };
                // Rules for the same paths compete, and only one of them decides.
                group.rules.entry(without_open_end(rule.value)).or_default().push(rule);
            }
            LineField::Other => {}
        }
    }
    check_group(&group, findings);
}

fn check_value(line: &LintLine<'_>, value: &[u8], findings: &mut FindingList) {
    let number = line.number;
    let shown = quoted(value);
    if value.windows(3).any(|three| three == b"://") && !value.starts_with(b"/") {
        let message = format!("{shown} is a whole URL; a rule is a path, so it never matches");
        findings.error(number, message);
    } else if !value.is_empty() && !matches!(value[0], b'/' | b'*') {
        findings.error(number, format!("{shown} does not start with \"/\", so it never matches"));
    }
    if unusual::has_invisible(value) {
        let message = format!("{shown} contains an invisible character, which no path has");
        findings.error(number, message);
    }
    // Only a final `$` is an anchor.
    if value.strip_suffix(b"$").unwrap_or(value).contains(&b'$') {
        findings.warning(
            number,
            format!("\"$\" is an ordinary character except at the end of {shown}"),
        );
    }
    if value.contains(&b' ') {
        findings.warning(number, format!("{shown} contains a space; write %20"));
    }
    // A comment usually follows a space: without one, the `#` may be meant as part of the path.
    let comment = line.text.iter().position(|&byte| byte == b'#').filter(|&at| at > 0);
    if comment.is_some_and(|at| !line.text[at - 1].is_ascii_whitespace()) {
        findings.note(
            number,
            format!("the rest of the line after {shown}, from \"#\" on, is a comment"),
        );
    }
}

fn check_group(group: &RuleGroup<'_>, findings: &mut FindingList) {
    if group.rules.is_empty() {
        for (number, value) in &group.agents {
            // Worth a note, because such a group also takes its crawlers out of the group of `*`.
            let message =
                format!("the group of {} has no rules, so everything is allowed", quoted(value));
            findings.note(*number, message);
        }
    }
    // A lone empty Disallow is the usual way to allow everything.
    if group.rules.len() > 1 {
        for rule in group.rules.get(&b""[..]).into_iter().flatten() {
            findings.note(rule.line, "an empty value next to other rules has no effect");
        }
    }
    for (_, rules) in group.rules.iter().filter(|(paths, _)| !paths.is_empty()) {
        let Some(winner) = rules.iter().max_by_key(|rule| rule.weight()) else {
            continue;
        };
        for rule in rules.iter().filter(|rule| rule.line != winner.line) {
            let line = winner.line;
            let why = if rule.value.len() < winner.value.len() {
                format!("{} is longer and matches the same paths", quoted(winner.value))
            } else if rule.allow == winner.allow {
                "says the same".to_owned()
            } else {
                // RFC 9309 §2.2.2: of rules of one length the allow rule wins.
                "allows it, and allow wins".to_owned()
            };
            let shown = quoted(rule.value);
            findings.note(rule.line, format!("{shown} has no effect: line {line} {why}"));
        }
    }
}

/// Returns a value without stars at its open end, which match nothing more.
fn without_open_end(value: &[u8]) -> &[u8] {
    let stars = value.iter().rev().take_while(|&&byte| byte == b'*').count();
    match &value[..value.len() - stars] {
        // Every path begins with a slash, so a value of stars alone means the same.
        [] if stars > 0 => b"/",
        rest => rest,
    }
}

#[cfg(test)]
mod tests {
    use crate::lint;

    #[test]
    fn rules_that_never_decide_are_found() {
        let cases: &[(&str, &[(u32, &str)])] = &[
            ("Disallow: /a\nDisallow: /b\n", &[]),
            ("Disallow: /a\nAllow: /a$\n", &[]),
            ("Disallow: /a\nDisallow: /a\n", &[(3, "line 2 says the same")]),
            ("Disallow: /a\nAllow: /a\n", &[(2, "line 3 allows it, and allow wins")]),
            ("Allow: /a\nDisallow: /a*\n", &[(2, "line 3 \"/a*\" is longer")]),
            (
                "Disallow: /a*\nDisallow: /a\nDisallow: /a**\n",
                &[(2, "line 4 \"/a**\" is longer"), (3, "line 4 \"/a**\" is longer")],
            ),
            ("Disallow: /\nAllow: *\n", &[(2, "line 3 allows it, and allow wins")]),
            ("Disallow:\n", &[]),
            ("Disallow: /a\nDisallow:\n", &[(3, "an empty value next to other rules")]),
            ("Disallow:\nAllow: /a\n", &[(2, "an empty value next to other rules")]),
        ];
        for (rules, expected) in cases {
            let found = lint(format!("User-agent: *\n{rules}").as_bytes(), &[]);
            let lines: Vec<u32> = found.iter().map(|finding| finding.line).collect();
            let expected_lines: Vec<u32> = expected.iter().map(|(line, _)| *line).collect();
            assert_eq!(lines, expected_lines, "{rules:?}: {found:?}");
            for (found, (_, text)) in found.iter().zip(*expected) {
                assert!(found.message.contains(text), "{rules:?}: {found}");
            }
        }
    }
}
