//! The organisation's own rules, `[[rule]]`: looked at before robots.txt, the first that matches is used.
//!
//! A request meets only the rules that its host leads to, so that ten thousand rules for other hosts cost it nothing. Among
//! the rules of one host, one look at all their paths together tells whether any of them can match.

mod host;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use wayleave_policy::{AccessResult, Dialect, RobotsTxt, Target, Verdict, decide_strictly};

pub use self::host::HostPattern;

/// With fewer rules for a host, looking at each is as fast.
const FEW: usize = 4;

/// What a rule does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// Refuses with 403.
    #[default]
    Refuse,
    /// Refuses with 451: the law demands it.
    RefuseLegally,
    /// Allows, whatever robots.txt says.
    Allow,
}

/// One rule as configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// What it does.
    pub action: Action,
    /// The hosts it is for; at least one.
    pub hosts: Vec<HostPattern>,
    /// Patterns as in robots.txt (RFC 9309), one of which the path must match. Empty: all paths.
    pub paths: Vec<String>,
    /// The names of the crawlers it is for, `asserted` for unknown ones. Empty: all.
    pub crawlers: Vec<String>,
    /// The methods it is for. Empty: all.
    pub methods: Vec<String>,
    /// Who answers for it. Never empty where it allows.
    pub owner: Option<String>,
    /// Why there is such a rule. Never empty where it allows.
    pub reason: Option<String>,
    /// From when on it does not count any more. Always given where it allows.
    pub expires_at: Option<SystemTime>,
}

impl Rule {
    pub(crate) fn has_expired(&self, now: SystemTime) -> bool {
        self.expires_at.is_some_and(|expires_at| expires_at <= now)
    }
}

/// A URI for whoever blocks by law (RFC 7725 section 4): an owner that is a URL or a mail address.
pub(crate) fn blocked_by(owner: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_graphic() && !"<>\"".contains(c);
    if !owner.chars().all(is_plain) {
        None
    } else if owner.starts_with("https://") || owner.starts_with("http://") {
        Some(owner.to_owned())
    } else {
        owner.contains('@').then(|| format!("mailto:{owner}"))
    }
}

/// A rule that matched a request.
#[derive(Clone, Debug)]
pub(crate) struct Match {
    /// Which `[[rule]]` of the configuration, from 1.
    pub(crate) number: usize,
    pub(crate) rule: Arc<Rule>,
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[[rule]] {}", self.number)?;
        if let Some(reason) = &self.rule.reason {
            write!(f, ": {reason}")?;
        }
        match &self.rule.owner {
            Some(owner) => write!(f, " (owner {owner})"),
            None => Ok(()),
        }
    }
}

/// What a rule is asked about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) target: &'a Target,
    pub(crate) method: &'a str,
    /// The crawler's name, `asserted` for an unknown one.
    pub(crate) crawler: &'a str,
    pub(crate) now: SystemTime,
}

/// All rules, findable by host.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    rules: Vec<Compiled>,
    by_ending: HashMap<String, Bucket>,
    by_beginning: HashMap<String, Bucket>,
    others: Bucket,
}

/// A rule with its paths ready for matching.
#[derive(Debug)]
struct Compiled {
    rule: Arc<Rule>,
    /// The paths as a robots.txt that disallows what a refusal matches, and allows only what an exception does: judging
    /// it strictly, a refusal holds for any spelling of a path, and an exception only if it holds for all.
    paths: Option<AccessResult>,
}

/// Rules that some hosts lead to.
#[derive(Debug, Default)]
struct Bucket {
    entries: Vec<Entry>,
    /// All their paths; `None` if one of them is for all, or they are few.
    paths: Option<AccessResult>,
}

#[derive(Debug)]
struct Entry {
    index: usize,
    pattern: HostPattern,
}

impl Rules {
    pub(crate) fn new(rules: Vec<Rule>) -> Self {
        let mut compiled = Self::default();
        for (index, rule) in rules.into_iter().enumerate() {
            for pattern in &rule.hosts {
                let bucket = match (pattern.ending(), pattern.beginning()) {
                    (Some(ending), _) => compiled.by_ending.entry(ending.to_owned()).or_default(),
                    (None, Some(first)) => {
                        compiled.by_beginning.entry(first.to_owned()).or_default()
                    }
                    (None, None) => &mut compiled.others,
                };
                let pattern = pattern.clone();
                bucket.entries.push(Entry { index, pattern });
            }
            let paths = (!rule.paths.is_empty()).then(|| match rule.action {
                Action::Refuse | Action::RefuseLegally => robots(&rule.paths, "", "Disallow"),
                Action::Allow => robots(&rule.paths, "Disallow: /\n", "Allow"),
            });
            let rule = Arc::new(rule);
            compiled.rules.push(Compiled { rule, paths });
        }
        compiled.summarise();
        compiled
    }

    fn summarise(&mut self) {
        let ending = self.by_ending.values_mut();
        let buckets = ending.chain(self.by_beginning.values_mut());
        for bucket in buckets.chain([&mut self.others]) {
            let rules = || {
                bucket
                    .entries
                    .iter()
                    .map(|entry| &self.rules[entry.index].rule)
            };
            if bucket.entries.len() > FEW && rules().all(|rule| !rule.paths.is_empty()) {
                let paths: Vec<String> = rules().flat_map(|rule| rule.paths.clone()).collect();
                bucket.paths = Some(robots(&paths, "", "Disallow"));
            }
        }
    }

    /// The first rule for a request. `/robots.txt` may always be fetched, so no rule is for it.
    pub(crate) fn find(&self, asked: Asked<'_>) -> Option<Match> {
        if self.rules.is_empty() || asked.target.path() == "/robots.txt" {
            return None;
        }
        let host = asked.target.origin().host();
        let mut first = self.first_in(&self.others, asked, usize::MAX);
        let beginning = host.split('.').next().unwrap_or_default();
        if let Some(bucket) = self.by_beginning.get(beginning) {
            first = self.first_in(bucket, asked, first);
        }
        let mut ending = Some(host);
        while let Some(name) = ending {
            if let Some(bucket) = self.by_ending.get(name) {
                first = self.first_in(bucket, asked, first);
            }
            ending = name.split_once('.').map(|(_, parent)| parent);
        }
        let found = self.rules.get(first)?;
        Some(Match {
            number: first + 1,
            rule: Arc::clone(&found.rule),
        })
    }

    /// The first rule of a bucket that matches, if it is before `before`; else that.
    fn first_in(&self, bucket: &Bucket, asked: Asked<'_>, before: usize) -> usize {
        let can_match = || {
            bucket
                .paths
                .as_ref()
                .is_none_or(|paths| disallows(paths, asked))
        };
        if bucket
            .entries
            .first()
            .is_none_or(|entry| entry.index >= before)
            || !can_match()
        {
            return before;
        }
        let host = asked.target.origin().host();
        let earlier = bucket
            .entries
            .iter()
            .take_while(|entry| entry.index < before);
        let mut matching = earlier
            .filter(|entry| entry.pattern.matches(host) && self.rules[entry.index].matches(asked));
        matching.next().map_or(before, |entry| entry.index)
    }

    /// All of them, with their numbers.
    pub(crate) fn all(&self) -> impl Iterator<Item = (usize, &Rule)> {
        (1..).zip(self.rules.iter().map(|compiled| &*compiled.rule))
    }

    /// How many rules count at `now`, and which expired, by number.
    pub(crate) fn count(&self, now: SystemTime) -> (usize, Vec<Match>) {
        let all = self.rules.iter().enumerate();
        let expired: Vec<_> = all
            .filter(|(_, compiled)| compiled.rule.has_expired(now))
            .map(|(index, compiled)| Match {
                number: index + 1,
                rule: Arc::clone(&compiled.rule),
            })
            .collect();
        (self.rules.len() - expired.len(), expired)
    }
}

impl Compiled {
    fn matches(&self, asked: Asked<'_>) -> bool {
        let rule = &self.rule;
        let lists =
            |list: &[String], value: &str| list.is_empty() || list.iter().any(|item| item == value);
        lists(&rule.crawlers, asked.crawler)
            && lists(&rule.methods, asked.method)
            && !rule.has_expired(asked.now)
            && self.paths.as_ref().is_none_or(|paths| {
                let is_exception = rule.action == Action::Allow;
                disallows(paths, asked) != is_exception
            })
    }
}

/// A robots.txt for everyone that begins with `head` and says `verb` of each path.
fn robots(paths: &[String], head: &str, verb: &str) -> AccessResult {
    let mut text = format!("User-agent: *\n{head}");
    for path in paths {
        text.push_str(verb);
        text.push_str(": ");
        text.push_str(path);
        text.push('\n');
    }
    let length = text.len();
    let robots = RobotsTxt::parse_with_limit(text.as_bytes(), length);
    AccessResult::Successful(Arc::new(robots))
}

fn disallows(robots: &AccessResult, asked: Asked<'_>) -> bool {
    let decision = decide_strictly(robots, Dialect::Rfc9309, &[], asked.target.path());
    decision.verdict() == Verdict::Disallow
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn rule(action: Action, hosts: &[&str], paths: &[&str]) -> Rule {
        Rule {
            action,
            hosts: hosts.iter().map(|host| host.parse().unwrap()).collect(),
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
            ..Rule::default()
        }
    }

    fn found(rules: &Rules, url: &str) -> Option<usize> {
        let target = Target::parse(url).unwrap();
        let asked = Asked {
            target: &target,
            method: "GET",
            crawler: "news",
            now: SystemTime::UNIX_EPOCH,
        };
        rules.find(asked).map(|found| found.number)
    }

    #[test]
    fn the_first_that_matches_is_used() {
        let rules = Rules::new(vec![
            rule(Action::Refuse, &["a.shop.test"], &["/x"]),
            rule(Action::Allow, &["*"], &["/open"]),
            rule(Action::Refuse, &[".shop.test"], &[]),
            rule(Action::Refuse, &["shop.*"], &["/y$"]),
            rule(Action::Refuse, &["*bank*"], &["/*secret"]),
        ]);
        for (url, number) in [
            ("http://a.shop.test/x", Some(1)),
            ("http://a.shop.test/open", Some(2)),
            ("http://a.shop.test/y", Some(3)),
            ("http://shop.test/", Some(3)),
            ("http://shop.example/y", Some(4)),
            ("http://shop.example/yy", None),
            ("http://my-bank.example/a/secret", Some(5)),
            ("http://other.test/", None),
            ("http://shop.test/robots.txt", None),
        ] {
            assert_eq!(found(&rules, url), number, "{url}");
        }
    }

    #[test]
    fn a_refusal_holds_for_any_spelling_and_an_exception_for_all() {
        let refusal = Rules::new(vec![rule(Action::Refuse, &["*"], &["/private/"])]);
        let exception = Rules::new(vec![rule(Action::Allow, &["*"], &["/public/"])]);
        assert_eq!(found(&refusal, "http://a.test/x/../%70rivate/"), Some(1));
        assert_eq!(found(&exception, "http://a.test/public/a"), Some(1));
        assert_eq!(found(&exception, "http://a.test/public/../private"), None);
    }

    #[test]
    fn crawler_method_and_expiry_count() {
        let mut special = rule(Action::Refuse, &["*"], &[]);
        special.crawlers = vec!["news".to_owned()];
        special.methods = vec!["POST".to_owned()];
        special.expires_at = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1));
        let rules = Rules::new(vec![special]);
        let target = Target::parse("http://a.test/").unwrap();
        let found = |method, crawler, seconds| {
            let asked = Asked {
                target: &target,
                method,
                crawler,
                now: SystemTime::UNIX_EPOCH + Duration::from_secs(seconds),
            };
            rules.find(asked).is_some()
        };
        assert!(found("POST", "news", 0));
        assert!(!found("POST", "images", 0));
        assert!(!found("GET", "news", 0));
        assert!(!found("POST", "news", 1));
        let (counting, expired) = rules.count(SystemTime::UNIX_EPOCH + Duration::from_secs(1));
        assert_eq!((counting, expired[0].number), (0, 1));
    }

    /// Time for a hundred requests that meet none of `count` rules; the best of several rounds.
    fn time(count: usize, rule_for: impl Fn(usize) -> Rule, url: &str) -> Duration {
        let rules = Rules::new((0..count).map(rule_for).collect());
        let rounds = (0..5).map(|_| {
            let started = Instant::now();
            for _ in 0..100 {
                assert_eq!(found(&rules, url), None);
            }
            started.elapsed()
        });
        rounds.min().unwrap()
    }

    #[test]
    fn ten_thousand_rules_cost_no_more_than_ten() {
        let by_host = |n: usize| rule(Action::Refuse, &[&format!("*.host-{n}.test")], &["/a*b"]);
        let by_path = |n: usize| {
            rule(
                Action::Refuse,
                &[".shop.test"],
                &[&format!("/private/{n}/")],
            )
        };
        for (rule_for, url) in [
            (
                &by_host as &dyn Fn(usize) -> Rule,
                "http://www.example.test/a/b",
            ),
            (&by_path, "http://www.shop.test/public/x"),
        ] {
            let few = time(10, rule_for, url);
            let many = time(10_000, rule_for, url);
            assert!(many < few * 20, "10 rules {few:?}, 10,000 rules {many:?}");
        }
    }
}
