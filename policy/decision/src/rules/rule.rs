//! One rule, and the request that it is compared with.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use wayleave_robots_txt::{HostPattern, Target};
use wayleave_usage_preferences::PurposeSet;

/// The action of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuleAction {
    /// Refuses with 403.
    #[default]
    Refuse,
    /// Refuses with 451: the law demands it.
    RefuseLegally,
    /// Allows, whatever robots.txt says.
    Allow,
}

impl RuleAction {
    /// Returns the spelling used in configuration, where another key says that the law demands a refusal.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refuse | Self::RefuseLegally => "refuse",
            Self::Allow => "allow",
        }
    }
}

/// One rule as configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyRule {
    /// The action.
    pub action: RuleAction,
    /// The hosts it is for; at least one.
    pub hosts: Vec<HostPattern>,
    /// Patterns as in robots.txt (RFC 9309), one of which the path must match. Empty: all paths.
    pub paths: Vec<String>,
    /// The names of the crawlers it is for, `asserted` for unknown ones. Empty: all.
    pub crawlers: Vec<String>,
    /// The declared purposes it is for. Empty: all requests, whatever they are for.
    pub purposes: PurposeSet,
    /// The methods it is for. Empty: all.
    pub methods: Vec<String>,
    /// The person who answers for it. Never empty if it allows.
    pub owner: Option<String>,
    /// The reason for the rule. Never empty if it allows.
    pub reason: Option<String>,
    /// The time from which it is no longer in force. Always given if it allows.
    pub expires_at: Option<SystemTime>,
}

impl PolicyRule {
    /// Returns whether the rule applies to a crawler of this name that declares these purposes.
    #[must_use]
    pub fn applies_to_crawler(&self, crawler: &str, declared: PurposeSet) -> bool {
        let is_for_name =
            self.crawlers.is_empty() || self.crawlers.iter().any(|name| name == crawler);
        is_for_name && (self.purposes.is_empty() || self.is_for_purposes(declared))
    }

    /// Returns whether the rule is for these purposes. One fetch serves all purposes of a crawler: a refusal of one
    /// refuses it, and an exception has to cover them all.
    fn is_for_purposes(&self, declared: PurposeSet) -> bool {
        match self.action {
            RuleAction::Refuse | RuleAction::RefuseLegally => {
                !declared.intersection(self.purposes).is_empty()
            }
            // A crawler that declares nothing may fetch for any purpose.
            RuleAction::Allow => !declared.is_empty() && declared.without(self.purposes).is_empty(),
        }
    }

    /// Returns whether the rule applies to every request to its hosts.
    #[must_use]
    pub fn applies_to_every_request(&self) -> bool {
        self.methods.is_empty() && self.applies_to_every_path()
    }

    fn applies_to_every_path(&self) -> bool {
        self.paths.is_empty()
            || self.paths.iter().any(|path| matches!(path.as_str(), "/" | "/*" | "*"))
    }

    /// Returns whether every request that `other` matches is known to match this rule, too, so that `other` never applies
    /// after it while this one is in force.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let has_all = |own: &[String], others: &[String]| {
            own.is_empty() || !others.is_empty() && others.iter().all(|name| own.contains(name))
        };
        // An exception has to cover all purposes of a crawler, and nobody knows here which those are. Equal
        // paths are not enough: a refusal applies to any spelling, an exception only to a path that it matches in all of them.
        self.purposes.is_empty()
            && self.applies_to_every_path()
            && has_all(&self.crawlers, &other.crawlers)
            && has_all(&self.methods, &other.methods)
            && other.hosts.iter().all(|host| self.hosts.iter().any(|own| own.covers(host)))
    }

    /// Returns whether the rule is no longer in force.
    #[must_use]
    pub fn has_expired(&self, now: SystemTime) -> bool {
        self.expires_at.is_some_and(|expires_at| expires_at <= now)
    }
}

/// Returns the URI of the entity that blocks by law (RFC 7725 section 4), if the owner is a URL or a mail address.
#[must_use]
pub fn blocked_by(owner: &str) -> Option<String> {
    // It is written between angle brackets into the field `Link`.
    if !owner.chars().all(|c: char| c.is_ascii_graphic() && !"<>\"".contains(c)) {
        None
    } else if owner.starts_with("https://") || owner.starts_with("http://") {
        Some(owner.to_owned())
    } else {
        owner.contains('@').then(|| format!("mailto:{owner}"))
    }
}

/// A rule that matched a request.
#[derive(Clone, Debug)]
pub struct RuleMatch {
    /// The number of the `[[rule]]` in the configuration, from 1.
    pub number: usize,
    /// The rule itself.
    pub rule: Arc<PolicyRule>,
}

impl fmt::Display for RuleMatch {
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

/// A request that rules are compared with.
#[derive(Clone, Copy, Debug)]
pub struct RuleQuery<'a> {
    /// The target.
    pub target: &'a Target,
    /// Its method.
    pub method: &'a str,
    /// The crawler's name, `asserted` for an unknown one.
    pub crawler: &'a str,
    /// The purposes it declares.
    pub purposes: PurposeSet,
    /// The time by which rules expire.
    pub now: SystemTime,
}

#[cfg(test)]
mod tests {
    use wayleave_usage_preferences::Purpose;

    use super::*;

    #[test]
    fn one_purpose_is_enough_for_a_refusal_but_not_for_an_exception() {
        use Purpose::{Archive, Search, TrainAi};
        let is_for = |action, declared: &[Purpose]| {
            let purposes = PurposeSet::of(&[Search, TrainAi]);
            let rule = PolicyRule { action, purposes, ..PolicyRule::default() };
            rule.applies_to_crawler("news", PurposeSet::of(declared))
        };
        for (declared, refuses, excepts) in [
            (&[][..], false, false),
            (&[Search], true, true),
            (&[Search, TrainAi], true, true),
            (&[Search, Archive], true, false),
            (&[Archive], false, false),
        ] {
            assert_eq!(is_for(RuleAction::Refuse, declared), refuses, "{declared:?}");
            assert_eq!(is_for(RuleAction::RefuseLegally, declared), refuses, "{declared:?}");
            assert_eq!(is_for(RuleAction::Allow, declared), excepts, "{declared:?}");
        }
    }

    #[test]
    fn a_rule_covers_only_requests_that_it_matches_for_sure() {
        let rule = |hosts: &[&str]| PolicyRule {
            hosts: hosts.iter().map(|host| host.parse().unwrap()).collect(),
            ..PolicyRule::default()
        };
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let refusal = PolicyRule {
            crawlers: names(&["news"]),
            paths: names(&["/private"]),
            ..rule(&["shop.test", "*.shop.test"])
        };
        let whole = rule(&[".shop.test"]);
        for (covers, exception) in [
            (true, rule(&["*"])),
            (true, whole.clone()),
            (true, PolicyRule { crawlers: names(&["images", "news"]), ..whole.clone() }),
            (true, PolicyRule { paths: names(&["/a", "/*"]), ..whole.clone() }),
            (false, rule(&["shop.test"])),
            (false, PolicyRule { crawlers: names(&["images"]), ..whole.clone() }),
            (false, PolicyRule { paths: names(&["/private"]), ..whole.clone() }),
            (false, PolicyRule { methods: names(&["GET"]), ..whole.clone() }),
            (false, PolicyRule { purposes: PurposeSet::of(&[Purpose::Search]), ..whole.clone() }),
        ] {
            assert_eq!(exception.covers(&refusal), covers, "{exception:?}");
        }
        assert!(!refusal.covers(&whole), "others are not covered by one crawler's rule");
    }

    #[test]
    fn only_a_plain_url_or_mail_address_names_who_blocks() {
        for (owner, uri) in [
            ("https://law.test/1", Some("https://law.test/1")),
            ("http://law.test/1", Some("http://law.test/1")),
            ("law@shop.test", Some("mailto:law@shop.test")),
            ("the law", None),
            ("law", None),
            ("https://law.test/>;rel=next", None),
            ("<law@shop.test", None),
            ("\"law\"@shop.test", None),
        ] {
            assert_eq!(blocked_by(owner).as_deref(), uri, "{owner}");
        }
    }
}
