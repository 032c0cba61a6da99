//! Rules that can never match or never decide, and groups without any.

use std::collections::HashMap;

use super::finding::{Findings, show};
use super::statement::Line;
use crate::robots_txt::Field;

/// A group while it is being read.
#[derive(Default)]
struct Group<'a> {
    agents: Vec<(u32, &'a [u8])>,
    /// The rules by their value: where, and whether allow.
    rules: HashMap<&'a [u8], Vec<(u32, bool)>>,
}

pub(super) fn check(lines: &[Line<'_>], findings: &mut Findings) {
    let mut group = Group::default();
    for line in lines {
        let Some(statement) = line.exact else {
            continue;
        };
        match statement.field {
            Field::UserAgent => {
                if !group.rules.is_empty() {
                    check_group(&group, findings);
                    group = Group::default();
                }
                group.agents.push((line.number, statement.value));
            }
            Field::Allow | Field::Disallow => {
                check_value(line, statement.value, findings);
                let rule = (line.number, statement.field == Field::Allow);
                group.rules.entry(statement.value).or_default().push(rule);
            }
            Field::Other => {}
        }
    }
    check_group(&group, findings);
}

fn check_value(line: &Line<'_>, value: &[u8], findings: &mut Findings) {
    let number = line.number;
    let shown = show(value);
    if value.windows(3).any(|three| three == b"://") && !value.starts_with(b"/") {
        let message = format!("{shown} is a whole URL; a rule is a path, so it never matches");
        findings.add(number, message);
    } else if !value.is_empty() && !matches!(value[0], b'/' | b'*') {
        findings.add(
            number,
            format!("{shown} does not start with \"/\", so it never matches"),
        );
    }
    let body = value.strip_suffix(b"$").unwrap_or(value);
    if body.contains(&b'$') {
        findings.add(
            number,
            format!("\"$\" is an ordinary octet but at the end of {shown}"),
        );
    }
    if value.contains(&b' ') {
        findings.add(number, format!("{shown} holds a space; write %20"));
    }
    let after = line
        .text
        .iter()
        .position(|&byte| byte == b'#')
        .filter(|&at| at > 0);
    if after.is_some_and(|at| !line.text[at - 1].is_ascii_whitespace()) {
        findings.add(
            number,
            format!("what follows {shown} from \"#\" on is a comment"),
        );
    }
}

fn check_group(group: &Group<'_>, findings: &mut Findings) {
    if group.rules.is_empty() {
        for (number, value) in &group.agents {
            let message = format!(
                "the group of {} has no rules, so all is allowed",
                show(value)
            );
            findings.add(*number, message);
        }
    }
    for (value, rules) in group.rules.iter().filter(|(value, _)| !value.is_empty()) {
        let decides = rules.iter().find(|(_, allow)| *allow).or(rules.first());
        let &(decides, allows) = decides.expect("a value comes with a rule");
        for (number, allow) in rules.iter().filter(|(number, _)| *number != decides) {
            let why = if *allow == allows {
                "says the same"
            } else {
                "allows it, and allow wins"
            };
            let message = format!("never decides about {}: line {decides} {why}", show(value));
            findings.add(*number, message);
        }
    }
}
