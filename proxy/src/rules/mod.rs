//! The organisation's own rules, `[[rule]]`: checked before robots.txt; the first that matches applies.
//!
//! A request meets only the rules that its host leads to, so that ten thousand rules for other hosts cost it nothing. Among
//! the rules of one host, one look at all their paths together tells whether any of them can match.

mod bucket;
mod rule;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use wayleave_robots_txt::{
    AccessResult, Dialect, HostPattern, RobotsTxt, Verdict, decide_any_path_strictly,
};

use self::bucket::Entry;
pub(crate) use self::rule::blocked_by;
pub use self::rule::{Action, Asked, Match, Rule};

/// Rules that some hosts lead to, several's paths held as one robots.txt.
type Bucket = bucket::Bucket<AccessResult>;

/// All rules, findable by host.
#[derive(Debug, Default)]
pub struct Rules {
    rules: Vec<Compiled>,
    by_ending: HashMap<String, Bucket>,
    by_beginning: HashMap<String, Bucket>,
    others: Option<Bucket>,
}

/// A rule with its paths ready for matching.
#[derive(Debug)]
struct Compiled {
    rule: Arc<Rule>,
    /// The paths as a robots.txt that disallows what a refusal matches, and allows only what an exception does: judging
    /// it strictly, a refusal holds for any spelling of a path, and an exception only if it holds for all.
    paths: Option<AccessResult>,
}

impl Rules {
    /// The rules in their order.
    #[must_use]
    pub fn new(rules: Vec<Rule>) -> Self {
        let rules: Vec<_> = rules.into_iter().map(Compiled::new).collect();
        let mut by_ending: HashMap<String, Vec<Entry>> = HashMap::new();
        let mut by_beginning: HashMap<String, Vec<Entry>> = HashMap::new();
        let mut others = Vec::new();
        for (index, compiled) in rules.iter().enumerate() {
            for pattern in &compiled.rule.hosts {
                let entries = match (pattern.ending(), pattern.beginning()) {
                    (Some(ending), _) => by_ending.entry(ending.to_owned()).or_default(),
                    (None, Some(first)) => by_beginning.entry(first.to_owned()).or_default(),
                    (None, None) => &mut others,
                };
                let pattern = pattern.clone();
                entries.push(Entry { index, pattern });
            }
        }
        let together = |indexes: &[usize]| {
            let paths = indexes.iter().flat_map(|index| &rules[*index].rule.paths);
            robots(paths, "", "Disallow")
        };
        let bucket = |entries| Bucket::new(entries, |index| rules[index].paths.is_none(), together);
        let buckets = |entries: HashMap<String, Vec<Entry>>| {
            let entries = entries.into_iter();
            entries
                .map(|(key, entries)| (key, bucket(entries)))
                .collect()
        };
        Self {
            by_ending: buckets(by_ending),
            by_beginning: buckets(by_beginning),
            others: (!others.is_empty()).then(|| bucket(others)),
            rules,
        }
    }

    /// The first rule for a request. Nobody asks for the one that only reads `/robots.txt`, which is always allowed.
    pub fn find(&self, asked: Asked<'_>) -> Option<Match> {
        if self.rules.is_empty() {
            return None;
        }
        let host = HostPattern::comparable(asked.target.origin().host());
        let buckets = self.buckets(&host);
        let first = buckets.fold(usize::MAX, |first, bucket| {
            self.first_in(bucket, asked, first)
        });
        let found = self.rules.get(first)?;
        Some(found.found_at(first))
    }

    /// Where the rules for a host are, among others. The host is spelt as patterns compare it.
    fn buckets<'a>(&'a self, host: &'a str) -> impl Iterator<Item = &'a Bucket> {
        let beginning = host.split('.').next().unwrap_or_default();
        let endings = std::iter::successors(Some(host), |name| {
            name.split_once('.').map(|(_, parent)| parent)
        });
        let others = self.others.iter();
        others
            .chain(self.by_beginning.get(beginning))
            .chain(endings.filter_map(|ending| self.by_ending.get(ending)))
    }

    /// The first rule of a bucket that matches, if it is before `before`; else that.
    fn first_in(&self, bucket: &Bucket, asked: Asked<'_>, before: usize) -> usize {
        let host = asked.target.origin().host();
        bucket.first(
            before,
            |paths| disallows(paths, asked),
            |entry| entry.pattern.matches(host) && self.rules[entry.index].matches(asked),
        )
    }

    /// The rule for whatever is asked of a host by someone whose requests are not seen: the first that refuses any of
    /// them, or excepts all.
    pub(crate) fn find_for_every_request(&self, asked: Asked<'_>) -> Option<Match> {
        let mut rules = self.rules_for_host(asked);
        rules.find(|found| found.rule.action != Action::Allow || found.rule.is_for_every_request())
    }

    /// The rule for a host as such: the first that is for all its requests.
    pub(crate) fn find_for_host(&self, asked: Asked<'_>) -> Option<Match> {
        let mut rules = self.rules_for_host(asked);
        rules.find(|found| found.rule.is_for_every_request())
    }

    /// The rule for where a robots.txt is redirected to: the first that matches the request or is for all of its host's, even
    /// for `/robots.txt`.
    pub(crate) fn find_for_redirect(&self, asked: Asked<'_>) -> Option<Match> {
        let found = [self.find(asked), self.find_for_host(asked)];
        found.into_iter().flatten().min_by_key(|found| found.number)
    }

    /// The rule that holds where our own refusals are only observed: the first that is not one of them, and that `meets` what
    /// is asked.
    pub(crate) fn find_beyond_refusals(
        &self,
        asked: Asked<'_>,
        meets: impl Fn(&Match) -> bool,
    ) -> Option<Match> {
        let mut rules = self.rules_for_host(asked);
        rules.find(|found| found.rule.action != Action::Refuse && meets(found))
    }

    /// Whether a rule matches a request.
    pub(crate) fn is_met(&self, found: &Match, asked: Asked<'_>) -> bool {
        self.rules[found.number - 1].matches(asked)
    }

    /// The rules for a host and crawler in their order, whatever their paths and methods.
    fn rules_for_host(&self, asked: Asked<'_>) -> impl Iterator<Item = Match> {
        let host = HostPattern::comparable(asked.target.origin().host());
        let entries = self.buckets(&host).flat_map(Bucket::entries);
        let mut indexes: Vec<_> = entries
            .filter(|entry| entry.pattern.matches(&host))
            .map(|entry| entry.index)
            .collect();
        indexes.sort_unstable();
        indexes.into_iter().filter_map(move |index| {
            let compiled = &self.rules[index];
            let rule = &compiled.rule;
            let counts = rule.is_for(asked) && !rule.has_expired(asked.now);
            counts.then(|| compiled.found_at(index))
        })
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
            .map(|(index, compiled)| compiled.found_at(index))
            .collect();
        (self.rules.len() - expired.len(), expired)
    }

    /// When the first exception that counts at `now` will expire.
    pub(crate) fn next_expiry(&self, now: SystemTime) -> Option<SystemTime> {
        let rules = self.rules.iter().map(|compiled| &compiled.rule);
        let exceptions =
            rules.filter(|rule| rule.action == Action::Allow && !rule.has_expired(now));
        exceptions.filter_map(|rule| rule.expires_at).min()
    }
}

impl Compiled {
    fn new(rule: Rule) -> Self {
        let paths = (!rule.paths.is_empty()).then(|| match rule.action {
            Action::Refuse | Action::RefuseLegally => robots(&rule.paths, "", "Disallow"),
            Action::Allow => robots(&rule.paths, "Disallow: /\n", "Allow"),
        });
        Self {
            rule: Arc::new(rule),
            paths,
        }
    }

    /// This rule, the one with that index.
    fn found_at(&self, index: usize) -> Match {
        Match {
            number: index + 1,
            rule: Arc::clone(&self.rule),
        }
    }

    fn matches(&self, asked: Asked<'_>) -> bool {
        let rule = &self.rule;
        let methods = &rule.methods;
        rule.is_for(asked)
            && (methods.is_empty() || methods.iter().any(|method| method == asked.method))
            && !rule.has_expired(asked.now)
            && self.paths.as_ref().is_none_or(|paths| {
                let is_exception = rule.action == Action::Allow;
                disallows(paths, asked) != is_exception
            })
    }
}

/// A robots.txt for everyone that begins with `head` and says `verb` of each path.
fn robots<'a>(paths: impl IntoIterator<Item = &'a String>, head: &str, verb: &str) -> AccessResult {
    let mut text = format!("User-agent: *\n{head}");
    for path in paths {
        text.push_str(verb);
        text.push_str(": ");
        text.push_str(path);
        text.push('\n');
    }
    let length = text.len();
    let robots = RobotsTxt::parse_with_limit(text.as_bytes(), length);
    AccessResult::Successful(robots)
}

fn disallows(robots: &AccessResult, asked: Asked<'_>) -> bool {
    let decision = decide_any_path_strictly(robots, Dialect::Rfc9309, &[], asked.target.path());
    decision.verdict() == Verdict::Disallow
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use wayleave_robots_txt::Target;
    use wayleave_robots_txt::preferences::Purposes;

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
            purposes: Purposes::NONE,
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
            ("http://shop.test/robots.txt", Some(3)),
            ("http://shop.example/robots.txt", None),
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
    fn what_is_not_seen_is_refused_where_any_of_it_is() {
        let method = Rule {
            methods: vec!["POST".to_owned()],
            ..rule(Action::Refuse, &["posts.test"], &[])
        };
        let rules = Rules::new(vec![
            rule(Action::Allow, &["part.test"], &["/open"]),
            rule(Action::Allow, &["all.test", "a.all.test"], &["/*"]),
            rule(Action::Refuse, &["*.test"], &["/x"]),
            method,
            rule(Action::Refuse, &["whole.example"], &[]),
        ]);
        let number = |host: &str| {
            let target = Target::parse(&format!("https://{host}/")).unwrap();
            let asked = Asked {
                target: &target,
                method: "CONNECT",
                crawler: "news",
                purposes: Purposes::NONE,
                now: SystemTime::UNIX_EPOCH,
            };
            let every = rules.find_for_every_request(asked);
            let host = rules.find_for_host(asked);
            [every, host].map(|found| found.map(|found| found.number))
        };
        assert_eq!(number("part.test"), [Some(3), None]);
        assert_eq!(number("all.test"), [Some(2), Some(2)]);
        assert_eq!(number("posts.test"), [Some(3), None]);
        assert_eq!(number("other.example"), [None, None]);
        assert_eq!(number("whole.example"), [Some(5), Some(5)]);
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
                purposes: Purposes::NONE,
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

    /// The first that matches, each looked at.
    fn found_by_looking_at_all(rules: &Rules, asked: Asked<'_>) -> Option<usize> {
        let host = asked.target.origin().host();
        let mut matching = rules.rules.iter().map(|compiled| {
            let mut hosts = compiled.rule.hosts.iter();
            hosts.any(|pattern| pattern.matches(host)) && compiled.matches(asked)
        });
        matching.position(|matches| matches).map(|index| index + 1)
    }

    #[test]
    fn the_first_of_many_is_found_as_by_looking_at_all() {
        let mut state = 1_u64;
        let mut pick = |most: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            usize::try_from(state >> 33).unwrap() % most
        };
        let hosts = ["*", "a.test", ".test", "*.test", "a.*", "*b*", "x.a.test"];
        let paths = ["/a", "/b/*c", "/d$", "/a/b", "/*e", "/f/"];
        let mut many = Vec::new();
        for _ in 0..600 {
            let action = [Action::Refuse, Action::Allow][pick(2)];
            let mut one = rule(action, &[hosts[pick(7)]], &[paths[pick(6)], paths[pick(6)]]);
            match pick(40) {
                0 => one.paths.clear(),
                1..20 => one.crawlers = vec![format!("crawler-{}", pick(30))],
                _ => {}
            }
            one.methods = vec![format!("M{}", pick(60))];
            many.push(one);
        }
        let rules = Rules::new(many);
        let mut numbers = std::collections::HashSet::new();
        for _ in 0..2000 {
            let host = [
                "a.test",
                "x.a.test",
                "b.example",
                "a.bc.test",
                "other.example",
            ][pick(5)];
            let path = ["a", "a/b/c", "b/xc", "d", "d/e", "%61", "f/../a", "none"][pick(8)];
            let target = Target::parse(&format!("http://{host}/{path}")).unwrap();
            let asked = Asked {
                target: &target,
                method: &format!("M{}", pick(60)),
                crawler: &format!("crawler-{}", pick(30)),
                purposes: Purposes::NONE,
                now: SystemTime::UNIX_EPOCH,
            };
            let number = rules.find(asked).map(|found| found.number);
            assert_eq!(number, found_by_looking_at_all(&rules, asked), "{asked:?}");
            numbers.insert(number);
        }
        assert!(
            numbers.len() > 100 && numbers.contains(&None),
            "{numbers:?}"
        );
    }
}
