//! The tables `[[rule]]`.

use std::collections::HashSet;
use std::time::SystemTime;

use wayleave_decision::{Crawler, PolicyRule, RuleAction, blocked_by};
use wayleave_decision_log::ChosenCrawler;
use wayleave_robots_txt::HostPattern;
use wayleave_usage_preferences::Purpose;

use super::reader::{
    ParseResult, Section, ValueNode, boolean, checked, date, non_empty_list, parse_with, text,
};

/// Reads all `[[rule]]` tables; `crawlers` are the ones that a rule can name.
pub(super) fn read(root: &mut Section<'_>, crawlers: &[Crawler]) -> Vec<PolicyRule> {
    let names = crawlers.iter().map(|crawler| &*crawler.name).collect();
    root.tables("rule", |section| read_rule(section, &names))
}

fn read_rule(section: &mut Section<'_>, crawlers: &HashSet<&str>) -> PolicyRule {
    let is_crawler = checked(text, |name: &str| check_crawler_name(name, crawlers));
    let action = section.required_word("action", &["refuse", "allow"]);
    let legal = section.optional("legal", boolean).unwrap_or_default();
    let hosts = section.required("hosts", non_empty_list(parse_host));
    let rule = PolicyRule {
        action: match (action, legal) {
            (Some("allow"), _) => RuleAction::Allow,
            (_, true) => RuleAction::RefuseLegally,
            (_, false) => RuleAction::Refuse,
        },
        // A missing key has been reported, so this rule is never used.
        hosts: hosts.unwrap_or_default(),
        paths: section.items("paths", checked(text, check_pattern)),
        crawlers: names_in_log(section.items("crawlers", is_crawler)),
        purposes: section.items("purposes", parse_purpose).into_iter().collect(),
        methods: section.items("methods", checked(text, check_method)),
        owner: section.optional("owner", text),
        reason: section.optional("reason", text),
        expires_at: section.optional("expires", date).map(start_of_day),
    };
    check_rule(section, &rule, legal);
    rule
}

fn check_rule(section: &Section<'_>, rule: &PolicyRule, legal: bool) {
    if rule.action == RuleAction::Allow {
        for key in ["owner", "reason", "expires"] {
            if !section.has(key) {
                section.report(
                    key,
                    "is missing: an exception to robots.txt needs an owner, a reason and an expiry",
                );
            }
        }
        if legal {
            section.report("legal", "is for refusals (451) only");
        }
    }
    if rule.action == RuleAction::RefuseLegally
        && rule.owner.as_deref().and_then(blocked_by).is_none()
    {
        section.report(
            "owner",
            "must be an email address or a URL with legal = true: the response names the blocking party (RFC 7725)",
        );
    }
}

/// Returns the crawlers' names as in the log; none if `*` is among them: a rule without names applies to every crawler.
fn names_in_log(named: Vec<String>) -> Vec<String> {
    if named.iter().any(|name| name == "*") {
        return Vec::new();
    }
    named.into_iter().map(|name| ChosenCrawler::from(name).into()).collect()
}

fn parse_host(node: &ValueNode<'_>) -> ParseResult<HostPattern> {
    parse_with(node, str::parse)
}

fn parse_purpose(node: &ValueNode<'_>) -> ParseResult<Purpose> {
    parse_with(node, str::parse::<Purpose>)
}

fn check_crawler_name(name: &str, crawlers: &HashSet<&str>) -> Result<(), String> {
    let is_reserved = name == "*" || ChosenCrawler::from(name.to_owned()).is_unnamed();
    if is_reserved || crawlers.contains(name) {
        Ok(())
    } else {
        Err(format!("no [[crawler]] is named {name:?}"))
    }
}

/// Checks a pattern as in robots.txt (RFC 9309 section 2.2.2): it must fit into a line of such a file.
fn check_pattern(pattern: &str) -> Result<(), String> {
    if !pattern.starts_with(['/', '*']) {
        return Err(format!("{pattern:?} does not start with \"/\" or \"*\""));
    }
    if pattern.contains(|c: char| c == '#' || c.is_whitespace()) {
        return Err(format!(
            "{pattern:?} contains characters that are not allowed in a path: percent-encode them"
        ));
    }
    Ok(())
}

fn check_method(method: &str) -> Result<(), String> {
    // Methods are case-sensitive (RFC 9110 section 9.1). Requests with lower-case ones are refused as malformed, so a rule for
    // one would never match.
    if method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-') {
        Ok(())
    } else {
        Err(format!("{method:?} is not an upper-case method"))
    }
}

/// Returns the beginning of a day in UTC.
fn start_of_day(date: toml::value::Datetime) -> SystemTime {
    let text = format!("{date}T00:00:00Z");
    // `humantime` cannot express times before 1970; such a rule has expired as well.
    humantime::parse_rfc3339(&text).unwrap_or(SystemTime::UNIX_EPOCH)
}
