//! Lines that say something about crawlers which is not so: names that nobody has, directives that the named crawler ignores,
//! groups that hide others.

use std::collections::{HashMap, HashSet};

use wayleave_decision::WellKnownCrawler;
use wayleave_robots_txt::Dialect;
use wayleave_robots_txt::lint::{Finding, FindingList, LineField, is_near, quoted, statements};
use wayleave_usage_preferences::lint;

/// A prefix of a name, such as "Google", is taken for the name only from this length on.
const MIN_PREFIX: usize = 4;
/// Shorter names are near to too many others to guess from a difference in their letters.
const MIN_GUESSED: usize = 8;

/// A run of user-agent lines, and the lines up to the next run.
#[derive(Default)]
struct ClaimGroup<'a> {
    /// Lines and names, without versions.
    agents: Vec<(u32, &'a str)>,
    /// Lines and values.
    allows: Vec<(u32, &'a [u8])>,
    disallows: Vec<(u32, &'a [u8])>,
    /// The lines of `Crawl-delay`.
    delays: Vec<u32>,
}

/// Returns all findings about a file: those of the linter in every dialect, and what the list and the log of crawlers say
/// about its names. `seen` has the names of the crawlers in the log, in lower case.
pub(crate) fn find(body: &[u8], seen: &HashSet<String>) -> Vec<Finding> {
    let others = [Dialect::Google, Dialect::Koster1996, Dialect::Selfhtml];
    let mut findings = FindingList::from(lint(body, &others));
    let groups = groups(body);
    for group in &groups {
        for (line, name) in &group.agents {
            check_name(*line, name, seen, &mut findings);
        }
        check_delays(group, &mut findings);
        check_values(group, &mut findings);
    }
    check_repeated(&groups, &mut findings);
    check_star(&groups, &mut findings);
    check_idle_allows(&groups, &mut findings);
    findings.finish()
}

fn groups(body: &[u8]) -> Vec<ClaimGroup<'_>> {
    let mut groups: Vec<ClaimGroup<'_>> = Vec::new();
    for (line, statement) in statements(body) {
        let value = statement.value;
        let group = groups.last_mut();
        match (statement.field, group) {
            (LineField::UserAgent, group) => {
                let name = str::from_utf8(value).unwrap_or_default();
                let name = name.split('/').next().unwrap_or_default().trim_ascii_end();
                match group {
                    Some(group) if group.allows.is_empty() && group.disallows.is_empty() => {
                        group.agents.push((line, name));
                    }
                    _ => {
                        let agents = vec![(line, name)];
                        groups.push(ClaimGroup { agents, ..ClaimGroup::default() });
                    }
                }
            }
            (LineField::Allow, Some(group)) => group.allows.push((line, value)),
            (LineField::Disallow, Some(group)) => group.disallows.push((line, value)),
            (LineField::Other, Some(group))
                if statement.name.eq_ignore_ascii_case(b"crawl-delay") =>
            {
                group.delays.push(line);
            }
            // Lines before all groups apply to nobody, which the linter reports.
            _ => {}
        }
    }
    groups
}

fn check_name(line: u32, name: &str, seen: &HashSet<String>, findings: &mut FindingList) {
    let shown = quoted(name.as_bytes());
    if name.is_empty() || name == "*" {
        return;
    }
    if let Some(listed) = WellKnownCrawler::with_token(name) {
        if listed.is_retired() {
            let owner = listed.owner.unwrap_or("its owner");
            findings.warning(line, format!("{owner} uses the name {shown} no more"));
        }
        if listed.may_ignore_robots() {
            let message =
                format!("{shown} may ignore robots.txt: it fetches for a user, or for safety");
            findings.warning(line, message);
        }
    } else if name.contains(',') {
        findings
            .error(line, format!("one line names one crawler, not {shown}: write a line for each"));
    } else if name.contains('*') {
        let message = format!("a name cannot contain \"*\", and no crawler is called {shown}");
        findings.error(line, message + &hint(name.trim_matches('*')));
    } else if !seen.contains(&name.to_ascii_lowercase()) {
        let hint = hint(name);
        if hint.is_empty() {
            let message =
                format!("no crawler of the log is called {shown}, nor any that is well known");
            findings.note(line, message);
        } else {
            findings.error(line, format!("no crawler is called {shown}{hint}"));
        }
    }
}

/// Returns a question after the name that was probably meant, if there is one.
fn hint(name: &str) -> String {
    let folded = fold(name);
    let rank = |known: &&WellKnownCrawler| {
        let other = fold(known.token);
        let rank = if other == folded {
            0
        } else if folded.len() >= MIN_GUESSED && is_near(folded.as_bytes(), other.as_bytes()) {
            1
        } else if folded.len() >= MIN_PREFIX && other.starts_with(&folded) {
            2
        } else {
            return None;
        };
        Some((rank, known.token.len(), known.token))
    };
    let nearest = WellKnownCrawler::all().filter_map(|known| rank(&known)).min();
    nearest.map_or(String::new(), |(_, _, token)| format!("; did you mean {token:?}?"))
}

/// Returns the letters and digits of a name in lower case.
fn fold(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

fn check_delays(group: &ClaimGroup<'_>, findings: &mut FindingList) {
    for line in &group.delays {
        // A delay belongs to the names before it.
        let names = group.agents.iter().filter(|(agent, _)| agent < line);
        for (_, name) in names {
            if WellKnownCrawler::with_token(name).is_some_and(WellKnownCrawler::ignores_delay) {
                findings.warning(*line, format!("{name} ignores Crawl-delay"));
            } else if *name == "*" {
                findings.note(*line, "not all crawlers obey Crawl-delay: Googlebot ignores it");
            }
        }
    }
}

fn check_values(group: &ClaimGroup<'_>, findings: &mut FindingList) {
    for (line, value) in group.allows.iter().chain(&group.disallows) {
        if value.starts_with(b"*") && value.iter().any(|byte| *byte != b'*') {
            let message = format!(
                "{} does not start with \"/\": koster1996 takes the star for a letter, and the grammar of RFC 9309 has no such rule; write {}",
                quoted(value),
                quoted(&[b"/", *value].concat())
            );
            findings.warning(*line, message);
        }
    }
}

/// Reports names that several groups have.
fn check_repeated(groups: &[ClaimGroup<'_>], findings: &mut FindingList) {
    let mut first_of: HashMap<String, (usize, u32)> = HashMap::new();
    for (at, group) in groups.iter().enumerate() {
        for (line, name) in &group.agents {
            let (group, first) = *first_of.entry(name.to_ascii_lowercase()).or_insert((at, *line));
            if group != at && !name.is_empty() {
                let message = format!(
                    "{} is named again, first in line {first}: rfc9309 and google join the groups, koster1996 and selfhtml read only one",
                    quoted(name.as_bytes())
                );
                findings.warning(*line, message);
            }
        }
    }
}

/// Reports groups whose crawlers no longer obey the group of `*`.
fn check_star(groups: &[ClaimGroup<'_>], findings: &mut FindingList) {
    let is_star = |group: &&ClaimGroup<'_>| group.agents.iter().any(|(_, name)| *name == "*");
    let of_star: Vec<_> = groups.iter().filter(is_star).flat_map(disallowed).collect();
    for group in groups.iter().filter(|group| !is_star(group)) {
        let own: HashSet<&[u8]> = disallowed(group).map(|(_, value)| value).collect();
        let lost = of_star.iter().filter(|(_, value)| !own.contains(value));
        let lost: Vec<_> = lost.take(3).collect();
        // The whole site is kept from them as it is.
        let (Some((line, name)), false) = (group.agents.first(), own.contains(&b"/"[..])) else {
            continue;
        };
        let [(first, value), more @ ..] = &lost[..] else {
            continue;
        };
        let also = if more.is_empty() { "" } else { ", and others," };
        let message = format!(
            "the group of {} takes it out of the group of \"*\": line {first}, {}{also} does not count for it",
            quoted(name.as_bytes()),
            quoted(value)
        );
        // An empty Disallow says that everything is allowed, which is probably meant.
        if own.is_empty() {
            findings.note(*line, message);
        } else {
            findings.warning(*line, message);
        }
    }
}

/// Returns the lines and values that disallow something.
fn disallowed<'a>(group: &'a ClaimGroup<'_>) -> impl Iterator<Item = (u32, &'a [u8])> {
    group.disallows.iter().copied().filter(|(_, value)| !value.is_empty())
}

/// Reports Allow lines for crawlers to which nothing is disallowed.
fn check_idle_allows(groups: &[ClaimGroup<'_>], findings: &mut FindingList) {
    let restricted: HashSet<String> = groups
        .iter()
        .filter(|group| disallowed(group).next().is_some())
        .flat_map(|group| &group.agents)
        .map(|(_, name)| name.to_ascii_lowercase())
        .collect();
    for group in groups {
        let mut names = group.agents.iter().map(|(_, name)| name.to_ascii_lowercase());
        if names.any(|name| restricted.contains(&name)) {
            continue;
        }
        for (line, value) in group.allows.iter().filter(|(_, value)| !value.is_empty()) {
            let message = format!(
                "nothing is disallowed to the crawlers of this group, so {} allows what is allowed anyway",
                quoted(value)
            );
            findings.note(*line, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use wayleave_robots_txt::lint::Severity;

    use super::*;

    /// Returns the findings about a line, but for those of the linter.
    fn found(robots: &str, line: u32) -> Vec<(Severity, String)> {
        let seen = HashSet::from(["seenbot".to_owned()]);
        let others = [Dialect::Google, Dialect::Koster1996, Dialect::Selfhtml];
        let linted = lint(robots.as_bytes(), &others);
        let all = find(robots.as_bytes(), &seen).into_iter();
        let new = all.filter(|finding| finding.line == line && !linted.contains(finding));
        new.map(|finding| (finding.severity, finding.message)).collect()
    }

    #[test]
    fn names_that_nobody_has_are_guessed() {
        for (name, meant) in [
            ("Google", "Googlebot"),
            ("google-bot", "Googlebot"),
            ("GPT-Bot", "GPTBot"),
            ("Bing-bot", "bingbot"),
            ("PerplexytiBot", "PerplexityBot"),
            ("Meta-ExternalAgents", "Meta-ExternalAgent"),
            ("Baidu", "Baiduspider"),
            ("Claude", "ClaudeBot"),
            ("Google*", "Googlebot"),
        ] {
            let found = found(&format!("User-agent: {name}\nDisallow: /x\n"), 1);
            assert_eq!(found.len(), 1, "{name}: {found:?}");
            assert_eq!(found[0].0, Severity::Error, "{name}");
            let question = format!("did you mean {meant:?}?");
            assert!(found[0].1.contains(&question), "{name}: {found:?}");
        }
    }

    #[test]
    fn names_that_somebody_has_are_left_alone() {
        for name in ["Googlebot", "GOOGLEBOT", "Googlebot/2.1", "*", "SeenBot", "Yandex", "MJ12bot"]
        {
            assert_eq!(found(&format!("User-agent: {name}\nDisallow: /x\n"), 1), [], "{name}");
        }
        let own = found("User-agent: OurOwnFetcher\nDisallow: /x\n", 1);
        assert_eq!((own.len(), own[0].0), (1, Severity::Note));
    }

    #[test]
    fn a_delay_belongs_to_the_names_before_it() {
        let robots = "User-agent: GPTBot\nCrawl-delay: 1\nUser-agent: Googlebot\nCrawl-delay: 2\nDisallow: /x\n";
        assert_eq!(found(robots, 2), []);
        let ignored = (Severity::Warning, "Googlebot ignores Crawl-delay".to_owned());
        assert_eq!(found(robots, 4), [ignored]);
    }

    #[test]
    fn a_group_that_hides_rules_is_reported_once() {
        let star = "User-agent: *\nDisallow: /a\nDisallow: /b\n\n";
        for (group, severity) in [
            ("User-agent: GPTBot\nDisallow: /a\n", Some(Severity::Warning)),
            ("User-agent: GPTBot\nUser-agent: CCBot\nDisallow: /c\n", Some(Severity::Warning)),
            ("User-agent: GPTBot\nDisallow:\n", Some(Severity::Note)),
            ("User-agent: GPTBot\nDisallow: /b\nDisallow: /a\n", None),
            ("User-agent: GPTBot\nDisallow: /\n", None),
        ] {
            let found = found(&format!("{star}{group}"), 5);
            let severities: Vec<_> = found.iter().map(|(severity, _)| *severity).collect();
            assert_eq!(severities, severity.into_iter().collect::<Vec<_>>(), "{group}: {found:?}");
        }
        assert_eq!(found("User-agent: GPTBot\nDisallow: /a\n", 1), []);
    }

    #[test]
    fn an_allow_needs_something_that_is_disallowed() {
        assert_eq!(found("User-agent: *\nAllow: /a\nDisallow: /\n", 2), []);
        // Groups of one name are joined.
        let apart = "User-agent: *\nAllow: /a\n\nUser-agent: *\nDisallow: /\n";
        assert_eq!(found(apart, 2), []);
        let idle = found("User-agent: *\nAllow: /a\nDisallow:\n", 2);
        assert_eq!((idle.len(), idle[0].0), (1, Severity::Note));
    }
}
