//! The organisation's own rules, `[[rule]]`: checked before robots.txt; the first that matches applies.
//!
//! Rules are indexed by host, so that ten thousand rules for other hosts cost a request nothing. Among the rules of one host,
//! one match against all their paths together decides whether any of them can match.

mod bucket;
mod rule;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use wayleave_robots_txt::{
    AccessResult, AccessVerdict, Dialect, HostPattern, RobotsTxt, decide_write_all_spellings,
};

use self::bucket::BucketEntry;
pub use self::rule::{PolicyRule, RuleAction, RuleMatch, RuleQuery, blocked_by};

/// The rules whose host patterns share one lookup key. The paths of several rules are held as one robots.txt.
type RuleBucket = bucket::HostBucket<AccessResult>;

/// All rules, indexed by host.
#[derive(Debug, Default)]
pub struct PolicyRules {
    rules: Vec<CompiledRule>,
    by_ending: HashMap<String, RuleBucket>,
    by_beginning: HashMap<String, RuleBucket>,
    others: Option<RuleBucket>,
}

/// A rule with its paths ready for matching.
#[derive(Debug)]
struct CompiledRule {
    rule: Arc<PolicyRule>,
    /// The paths as a robots.txt. A refusal's paths become `Disallow` lines; an exception's become `Allow` lines under
    /// `Disallow: /`. So a refusal applies if any spelling of a path matches, an exception only if all do.
    paths: Option<AccessResult>,
}

impl PolicyRules {
    /// Returns the rules, indexed; they keep their order.
    #[must_use]
    pub fn new(rules: Vec<PolicyRule>) -> Self {
        let rules: Vec<_> = rules.into_iter().map(CompiledRule::new).collect();
        let mut by_ending: HashMap<String, Vec<BucketEntry>> = HashMap::new();
        let mut by_beginning: HashMap<String, Vec<BucketEntry>> = HashMap::new();
        let mut others = Vec::new();
        for (index, compiled) in rules.iter().enumerate() {
            for pattern in &compiled.rule.hosts {
                // Every host that the pattern matches has this ending or beginning, so looking up the host's own finds the
                // pattern.
                let entries = match (pattern.required_suffix(), pattern.required_first_label()) {
                    (Some(ending), _) => by_ending.entry(ending.to_owned()).or_default(),
                    (None, Some(first)) => by_beginning.entry(first.to_owned()).or_default(),
                    (None, None) => &mut others,
                };
                entries.push(BucketEntry { index, pattern: pattern.clone() });
            }
        }
        // Exceptions are written as `Disallow` as well: it only matters whether any of the paths can match.
        let join_paths = |indexes: &[usize]| {
            let paths = indexes.iter().flat_map(|index| &rules[*index].rule.paths);
            robots_txt_of(paths, "", "Disallow")
        };
        let build_bucket =
            |entries| RuleBucket::new(entries, |index| rules[index].paths.is_none(), join_paths);
        let build_buckets = |entries: HashMap<String, Vec<BucketEntry>>| {
            entries.into_iter().map(|(key, entries)| (key, build_bucket(entries))).collect()
        };
        Self {
            by_ending: build_buckets(by_ending),
            by_beginning: build_buckets(by_beginning),
            others: (!others.is_empty()).then(|| build_bucket(others)),
            rules,
        }
    }

    /// Returns the first rule that matches a request. Reads of `/robots.txt` are always allowed: callers handle them first.
    pub fn find(&self, query: RuleQuery<'_>) -> Option<RuleMatch> {
        if self.rules.is_empty() {
            return None;
        }
        let host = HostPattern::normalized(query.target.origin().host());
        let first = self
            .buckets(&host)
            .fold(usize::MAX, |first, bucket| self.first_in(bucket, query, first));
        // No rule has the index `usize::MAX`, which means that none matches.
        let found = self.rules.get(first)?;
        Some(found.as_match(first))
    }

    /// Returns the buckets that may hold rules for a host, which is normalized.
    fn buckets<'a>(&'a self, host: &'a str) -> impl Iterator<Item = &'a RuleBucket> {
        let beginning = host.split('.').next().unwrap_or_default();
        // For `a.b.test`: `a.b.test`, `b.test`, `test`.
        let endings = std::iter::successors(Some(host), |name| {
            name.split_once('.').map(|(_, parent)| parent)
        });
        let others = self.others.iter();
        others
            .chain(self.by_beginning.get(beginning))
            .chain(endings.filter_map(|ending| self.by_ending.get(ending)))
    }

    /// Returns the index of a bucket's first rule that matches, if it is below `best_so_far`; else `best_so_far`.
    fn first_in(&self, bucket: &RuleBucket, query: RuleQuery<'_>, best_so_far: usize) -> usize {
        let host = query.target.origin().host();
        bucket.first(
            best_so_far,
            |paths| disallows(paths, query),
            |entry| entry.pattern.matches(host) && self.rules[entry.index].matches(query),
        )
    }

    /// Returns the rule for a blind tunnel to a host: the first that refuses any request to it, or allows all of them.
    pub(crate) fn find_for_every_request(&self, query: RuleQuery<'_>) -> Option<RuleMatch> {
        self.rules_for_host(query).find(|found| {
            found.rule.action != RuleAction::Allow || found.rule.applies_to_every_request()
        })
    }

    /// Returns the rule that covers the whole host: the first that applies to all its requests.
    pub(crate) fn find_for_host(&self, query: RuleQuery<'_>) -> Option<RuleMatch> {
        self.rules_for_host(query).find(|found| found.rule.applies_to_every_request())
    }

    /// Returns the first legal refusal or exception for which `is_met` holds. Plain refusals are skipped, because mode
    /// "observe" does not enforce them.
    pub(crate) fn find_skipping_plain_refusals(
        &self,
        query: RuleQuery<'_>,
        is_met: impl Fn(&RuleMatch) -> bool,
    ) -> Option<RuleMatch> {
        self.rules_for_host(query)
            .find(|found| found.rule.action != RuleAction::Refuse && is_met(found))
    }

    /// Returns whether a rule that was found for the host matches a request.
    pub(crate) fn matches(&self, found: &RuleMatch, query: RuleQuery<'_>) -> bool {
        self.rules[found.number - 1].matches(query)
    }

    /// Returns the rules for a host and crawler in their order, whatever their paths and methods.
    fn rules_for_host(&self, query: RuleQuery<'_>) -> impl Iterator<Item = RuleMatch> {
        let host = HostPattern::normalized(query.target.origin().host());
        let entries = self.buckets(&host).flat_map(RuleBucket::entries);
        let mut indexes: Vec<_> =
            entries.filter(|entry| entry.pattern.matches(&host)).map(|entry| entry.index).collect();
        // Each bucket is in order, but the concatenation is not.
        indexes.sort_unstable();
        indexes.into_iter().filter_map(move |index| {
            let compiled = &self.rules[index];
            let applies = compiled.rule.applies_to_crawler(query.crawler, query.purposes)
                && !compiled.rule.has_expired(query.now);
            applies.then(|| compiled.as_match(index))
        })
    }

    /// Returns all rules, with their numbers.
    pub fn all(&self) -> impl Iterator<Item = (usize, &PolicyRule)> {
        (1..).zip(self.rules.iter().map(|compiled| &*compiled.rule))
    }

    /// Returns how many rules are in force at `now`, and those that have expired.
    #[must_use]
    pub fn count(&self, now: SystemTime) -> (usize, Vec<RuleMatch>) {
        let all = self.rules.iter().enumerate();
        let expired: Vec<_> = all
            .filter(|(_, compiled)| compiled.rule.has_expired(now))
            .map(|(index, compiled)| compiled.as_match(index))
            .collect();
        (self.rules.len() - expired.len(), expired)
    }

    /// Returns the time at which the first exception in force at `now` will expire.
    #[must_use]
    pub fn next_expiry(&self, now: SystemTime) -> Option<SystemTime> {
        let rules = self.rules.iter().map(|compiled| &compiled.rule);
        let exceptions =
            rules.filter(|rule| rule.action == RuleAction::Allow && !rule.has_expired(now));
        exceptions.filter_map(|rule| rule.expires_at).min()
    }
}

impl CompiledRule {
    fn new(rule: PolicyRule) -> Self {
        let paths = (!rule.paths.is_empty()).then(|| match rule.action {
            RuleAction::Refuse | RuleAction::RefuseLegally => {
                robots_txt_of(&rule.paths, "", "Disallow")
            }
            RuleAction::Allow => robots_txt_of(&rule.paths, "Disallow: /\n", "Allow"),
        });
        Self { rule: Arc::new(rule), paths }
    }

    /// Returns this rule, whose index is `index`, as a match.
    fn as_match(&self, index: usize) -> RuleMatch {
        RuleMatch { number: index + 1, rule: Arc::clone(&self.rule) }
    }

    fn matches(&self, query: RuleQuery<'_>) -> bool {
        let rule = &self.rule;
        let methods = &rule.methods;
        rule.applies_to_crawler(query.crawler, query.purposes)
            && (methods.is_empty() || methods.iter().any(|method| method == query.method))
            && !rule.has_expired(query.now)
            && self.paths.as_ref().is_none_or(|paths| {
                // Compiled, a refusal disallows its paths, and an exception allows only its own.
                let is_exception = rule.action == RuleAction::Allow;
                disallows(paths, query) != is_exception
            })
    }
}

/// Returns a robots.txt for everyone that begins with `head` and has a line with this directive for each path.
fn robots_txt_of<'a>(
    paths: impl IntoIterator<Item = &'a String>,
    head: &str,
    directive: &str,
) -> AccessResult {
    let mut text = format!("User-agent: *\n{head}");
    for path in paths {
        text.push_str(directive);
        text.push_str(": ");
        text.push_str(path);
        text.push('\n');
    }
    // The parser's own limit is for files of strangers; it must not cut the operator's rules.
    AccessResult::Successful(RobotsTxt::parse_with_limit(text.as_bytes(), text.len()))
}

fn disallows(robots: &AccessResult, query: RuleQuery<'_>) -> bool {
    // Judged as a write, because as a read `/robots.txt` would always be allowed.
    let decision = decide_write_all_spellings(robots, Dialect::Rfc9309, &[], query.target.path());
    decision.verdict() == AccessVerdict::Disallow
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use wayleave_robots_txt::Target;
    use wayleave_usage_preferences::PurposeSet;

    use super::*;

    pub(crate) fn rule(action: RuleAction, hosts: &[&str], paths: &[&str]) -> PolicyRule {
        PolicyRule {
            action,
            hosts: hosts.iter().map(|host| host.parse().unwrap()).collect(),
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
            ..PolicyRule::default()
        }
    }

    fn found(rules: &PolicyRules, url: &str) -> Option<usize> {
        let target = Target::parse(url).unwrap();
        let query = RuleQuery {
            target: &target,
            method: "GET",
            crawler: "news",
            purposes: PurposeSet::NONE,
            now: SystemTime::UNIX_EPOCH,
        };
        rules.find(query).map(|found| found.number)
    }

    #[test]
    fn the_first_matching_rule_applies() {
        let rules = PolicyRules::new(vec![
            rule(RuleAction::Refuse, &["a.shop.test"], &["/x"]),
            rule(RuleAction::Allow, &["*"], &["/open"]),
            rule(RuleAction::Refuse, &[".shop.test"], &[]),
            rule(RuleAction::Refuse, &["shop.*"], &["/y$"]),
            rule(RuleAction::Refuse, &["*bank*"], &["/*secret"]),
            rule(RuleAction::Refuse, &["price.test"], &["/*%"]),
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
            // `/*%` matches the start of an escape such as `%24`, but not a literal `$`.
            ("http://price.test/a$b", None),
            ("http://price.test/a%24b", Some(6)),
        ] {
            assert_eq!(found(&rules, url), number, "{url}");
        }
    }

    #[test]
    fn a_refusal_needs_one_matching_spelling_an_exception_all() {
        let refusal = PolicyRules::new(vec![rule(RuleAction::Refuse, &["*"], &["/private/"])]);
        let exception = PolicyRules::new(vec![rule(RuleAction::Allow, &["*"], &["/public/"])]);
        assert_eq!(found(&refusal, "http://a.test/x/../%70rivate/"), Some(1));
        assert_eq!(found(&exception, "http://a.test/public/a"), Some(1));
        assert_eq!(found(&exception, "http://a.test/public/../private"), None);
    }

    #[test]
    fn a_blind_tunnel_is_refused_if_any_request_would_be() {
        let method = PolicyRule {
            methods: vec!["POST".to_owned()],
            ..rule(RuleAction::Refuse, &["posts.test"], &[])
        };
        let rules = PolicyRules::new(vec![
            rule(RuleAction::Allow, &["part.test"], &["/open"]),
            rule(RuleAction::Allow, &["all.test", "a.all.test"], &["/*"]),
            rule(RuleAction::Refuse, &["*.test"], &["/x"]),
            method,
            rule(RuleAction::Refuse, &["whole.example"], &[]),
        ]);
        let number = |host: &str| {
            let target = Target::parse(&format!("https://{host}/")).unwrap();
            let query = RuleQuery {
                target: &target,
                method: "CONNECT",
                crawler: "news",
                purposes: PurposeSet::NONE,
                now: SystemTime::UNIX_EPOCH,
            };
            let every = rules.find_for_every_request(query);
            let host = rules.find_for_host(query);
            [every, host].map(|found| found.map(|found| found.number))
        };
        assert_eq!(number("part.test"), [Some(3), None]);
        assert_eq!(number("all.test"), [Some(2), Some(2)]);
        assert_eq!(number("posts.test"), [Some(3), None]);
        assert_eq!(number("other.example"), [None, None]);
        assert_eq!(number("whole.example"), [Some(5), Some(5)]);
    }

    #[test]
    fn rules_apply_by_crawler_method_and_expiry() {
        let mut special = rule(RuleAction::Refuse, &["*"], &[]);
        special.crawlers = vec!["news".to_owned()];
        special.methods = vec!["POST".to_owned()];
        special.expires_at = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1));
        let rules = PolicyRules::new(vec![special]);
        let target = Target::parse("http://a.test/").unwrap();
        let found = |method, crawler, seconds| {
            let query = RuleQuery {
                target: &target,
                method,
                crawler,
                purposes: PurposeSet::NONE,
                now: SystemTime::UNIX_EPOCH + Duration::from_secs(seconds),
            };
            rules.find(query).is_some()
        };
        assert!(found("POST", "news", 0));
        assert!(!found("POST", "images", 0));
        assert!(!found("GET", "news", 0));
        assert!(!found("POST", "news", 1));
        let (in_force, expired) = rules.count(SystemTime::UNIX_EPOCH + Duration::from_secs(1));
        assert_eq!((in_force, expired[0].number), (0, 1));
    }

    /// Returns the number of the first rule that matches, trying each.
    fn find_by_linear_scan(rules: &PolicyRules, query: RuleQuery<'_>) -> Option<usize> {
        let host = query.target.origin().host();
        let mut matching = rules.rules.iter().map(|compiled| {
            let mut hosts = compiled.rule.hosts.iter();
            hosts.any(|pattern| pattern.matches(host)) && compiled.matches(query)
        });
        matching.position(|matches| matches).map(|index| index + 1)
    }

    #[test]
    fn index_agrees_with_linear_scan() {
        let mut state = 1_u64;
        let mut pick = |most: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(state >> 33).unwrap() % most
        };
        let hosts = ["*", "a.test", ".test", "*.test", "a.*", "*b*", "x.a.test"];
        let paths = ["/a", "/b/*c", "/d$", "/a/b", "/*e", "/f/"];
        let mut many = Vec::new();
        for _ in 0..600 {
            let action = [RuleAction::Refuse, RuleAction::Allow][pick(2)];
            let mut one = rule(action, &[hosts[pick(7)]], &[paths[pick(6)], paths[pick(6)]]);
            match pick(40) {
                0 => one.paths.clear(),
                1..20 => one.crawlers = vec![format!("crawler-{}", pick(30))],
                _ => {}
            }
            one.methods = vec![format!("M{}", pick(60))];
            many.push(one);
        }
        let rules = PolicyRules::new(many);
        let mut numbers = std::collections::HashSet::new();
        for _ in 0..2000 {
            let host = ["a.test", "x.a.test", "b.example", "a.bc.test", "other.example"][pick(5)];
            let path = ["a", "a/b/c", "b/xc", "d", "d/e", "%61", "f/../a", "none"][pick(8)];
            let target = Target::parse(&format!("http://{host}/{path}")).unwrap();
            let query = RuleQuery {
                target: &target,
                method: &format!("M{}", pick(60)),
                crawler: &format!("crawler-{}", pick(30)),
                purposes: PurposeSet::NONE,
                now: SystemTime::UNIX_EPOCH,
            };
            let number = rules.find(query).map(|found| found.number);
            assert_eq!(number, find_by_linear_scan(&rules, query), "{query:?}");
            numbers.insert(number);
        }
        assert!(numbers.len() > 100 && numbers.contains(&None), "{numbers:?}");
    }

    #[test]
    fn expired_rules_do_not_apply_to_blind_tunnels() {
        let second = |count| SystemTime::UNIX_EPOCH + Duration::from_secs(count);
        let mut expires = rule(RuleAction::Refuse, &["shop.test"], &[]);
        expires.expires_at = Some(second(2));
        let rules = PolicyRules::new(vec![expires]);
        let target = Target::parse("https://shop.test/").unwrap();
        let is_found = |now| {
            let query = RuleQuery {
                target: &target,
                method: "CONNECT",
                crawler: "news",
                purposes: PurposeSet::NONE,
                now,
            };
            rules.find_for_every_request(query).is_some()
        };
        assert_eq!([1, 2].map(|count| is_found(second(count))), [true, false]);
    }

    #[test]
    fn the_next_expiry_is_that_of_the_first_exception_in_force() {
        let second = |count| SystemTime::UNIX_EPOCH + Duration::from_secs(count);
        let expiring = [
            (RuleAction::Allow, 1),
            (RuleAction::Refuse, 3),
            (RuleAction::Allow, 5),
            (RuleAction::Allow, 4),
        ];
        let rules = expiring.map(|(action, expires)| PolicyRule {
            expires_at: Some(second(expires)),
            ..rule(action, &["*"], &[])
        });
        let rules = PolicyRules::new(rules.into());
        assert_eq!(rules.next_expiry(second(2)), Some(second(4)));
        assert_eq!(rules.next_expiry(second(5)), None);
    }
}
