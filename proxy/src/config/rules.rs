//! The tables `[[rule]]`.

use std::time::SystemTime;

use wayleave_robots_txt::HostPattern;
use wayleave_robots_txt::preferences::Purpose;

use super::file::{Node, Parsed, Section, boolean, checked, date, filled_list, text, tried, word};
use crate::identity::Crawler;
use crate::rules::{Action, Rule, blocked_by};

/// Reads all `[[rule]]` tables; `crawlers` are the ones that a rule can name.
pub(super) fn rules(root: &mut Section<'_>, crawlers: &[Crawler]) -> Vec<Rule> {
    root.tables("rule", |section| rule(section, crawlers))
}

fn rule(section: &mut Section<'_>, crawlers: &[Crawler]) -> Rule {
    let is_crawler = checked(text, |name: &str| is_known(name, crawlers));
    let action = section.required("action", word(&["refuse", "allow"]));
    let legal = section.optional("legal", boolean).unwrap_or_default();
    let hosts = section.required("hosts", filled_list(host));
    let rule = Rule {
        action: match (action, legal) {
            (Some("allow"), _) => Action::Allow,
            (_, true) => Action::RefuseLegally,
            (_, false) => Action::Refuse,
        },
        hosts: hosts.unwrap_or_default(),
        paths: section.items("paths", checked(text, pattern)),
        crawlers: everybody(section.items("crawlers", is_crawler)),
        purposes: section.items("purposes", purpose).into_iter().collect(),
        methods: section.items("methods", checked(text, method)),
        owner: section.optional("owner", text),
        reason: section.optional("reason", text),
        expires_at: section.optional("expires", date).map(midnight),
    };
    complain(section, &rule, legal);
    rule
}

fn complain(section: &Section<'_>, rule: &Rule, legal: bool) {
    if rule.action == Action::Allow {
        for key in ["owner", "reason", "expires"] {
            if !section.has(key) {
                section.mistake(
                    key,
                    "is missing: an exception to robots.txt needs an owner, a reason and an expiry",
                );
            }
        }
        if legal {
            section.mistake("legal", "is for refusals (451) only");
        }
    }
    if rule.action == Action::RefuseLegally && rule.owner.as_deref().and_then(blocked_by).is_none()
    {
        section.mistake(
            "owner",
            "must be a mail address or a URL with legal = true: the response says who blocks (RFC 7725)",
        );
    }
}

/// Returns no names if `*` is among them: a rule without names applies to every crawler.
fn everybody(named: Vec<String>) -> Vec<String> {
    match named.iter().any(|name| name == "*") {
        true => Vec::new(),
        false => named,
    }
}

fn host(node: &Node<'_>) -> Parsed<HostPattern> {
    tried(node, str::parse)
}

fn purpose(node: &Node<'_>) -> Parsed<Purpose> {
    tried(node, str::parse::<Purpose>)
}

fn is_known(name: &str, crawlers: &[Crawler]) -> Result<(), String> {
    if ["*", "asserted"].contains(&name) || crawlers.iter().any(|crawler| crawler.name == name) {
        Ok(())
    } else {
        Err(format!("no [[crawler]] is named {name:?}"))
    }
}

/// Checks a pattern as in robots.txt (RFC 9309 section 2.2.2): it must fit into a line of such a file.
fn pattern(pattern: &str) -> Result<(), String> {
    if !pattern.starts_with(['/', '*']) {
        return Err(format!("{pattern:?} does not start with \"/\" or \"*\""));
    }
    if pattern.contains(|c: char| c == '#' || c.is_whitespace()) {
        return Err(format!(
            "{pattern:?} contains characters that no path can: percent-encode them"
        ));
    }
    Ok(())
}

fn method(method: &str) -> Result<(), String> {
    if method
        .bytes()
        .all(|byte| byte.is_ascii_uppercase() || byte == b'-')
    {
        Ok(())
    } else {
        Err(format!("{method:?} is not an upper-case method"))
    }
}

/// Returns the beginning of a day in UTC.
fn midnight(date: toml::value::Datetime) -> SystemTime {
    let text = format!("{date}T00:00:00Z");
    // `humantime` cannot express times before 1970; such a rule has expired as well.
    humantime::parse_rfc3339(&text).unwrap_or(SystemTime::UNIX_EPOCH)
}
