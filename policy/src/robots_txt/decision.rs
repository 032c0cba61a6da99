//! A decision: allow or disallow, and what that rests on.

use std::fmt;

use super::file::RobotsTxt;
use super::matched_rule::{Answer, MatchedRule};
use crate::{Dialect, ProductToken};

/// Whether a path may be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It may.
    Allow,
    /// It may not.
    Disallow,
}

impl Verdict {
    /// `allow` or `disallow`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Disallow => "disallow",
        }
    }

    /// Whether the path may be fetched.
    #[must_use]
    pub const fn is_allow(self) -> bool {
        matches!(self, Self::Allow)
    }

    pub(super) fn from_allow(allow: bool) -> Self {
        if allow { Self::Allow } else { Self::Disallow }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a verdict rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// A rule of the crawler's group.
    Rule,
    /// The crawler has a group, but no rule in it matches.
    NoMatchingRule,
    /// No group is for the crawler, not even `*`.
    NoMatchingGroup,
    /// The path is `/robots.txt`, which is always allowed (RFC 9309 §2.2.2).
    RobotsTxtItself,
    /// There is no robots.txt.
    Unavailable,
    /// Its redirects led nowhere.
    RedirectLost,
    /// It could not be reached.
    Unreachable,
    /// The file and the path are made so that to find the rule that decides takes too long.
    TooCostly,
}

impl Reason {
    /// The reason in kebab case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rule => "rule",
            Self::NoMatchingRule => "no-matching-rule",
            Self::NoMatchingGroup => "no-matching-group",
            Self::RobotsTxtItself => "robots-txt-itself",
            Self::Unavailable => "unavailable",
            Self::RedirectLost => "redirect-lost",
            Self::Unreachable => "unreachable",
            Self::TooCostly => "too-costly",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A verdict and what it rests on. Cheap; borrows the file to name the rule when asked.
#[derive(Clone, Copy)]
pub struct Decision<'a> {
    verdict: Verdict,
    reason: Reason,
    dialect: Dialect,
    /// Where the deciding rule is.
    rule: Option<MatchedRule>,
    robots: Option<&'a RobotsTxt>,
    tokens: &'a [ProductToken],
}

impl Decision<'_> {
    /// Whether the path may be fetched.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// What the verdict rests on.
    #[must_use]
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// The dialect that gave the verdict; never `strictest`, but the one of the four it is from.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The number of the deciding rule's line, from 1.
    #[must_use]
    pub fn line(&self) -> Option<u32> {
        Some(self.robots?.line(self.rule?))
    }

    /// The deciding rule, such as `Disallow: /private`; the beginning of one longer than [`excerpt`](crate::excerpt) shows.
    #[must_use]
    pub fn rule(&self) -> Option<String> {
        Some(self.robots?.rule_text(self.rule?))
    }

    /// The values of the user-agent lines of the group used, merged groups included.
    #[must_use]
    pub fn group(&self) -> Vec<String> {
        let names = |robots: &RobotsTxt| robots.group_names(self.dialect, self.tokens);
        self.robots.map(names).unwrap_or_default()
    }

    /// The numbers of the user-agent lines and rules of the group used, merged groups included, in
    /// the file's order. A group's lines count from the one that named the crawler.
    #[must_use]
    pub fn group_lines(&self) -> Vec<u32> {
        let lines = |robots: &RobotsTxt| robots.group_lines(self.dialect, self.tokens);
        self.robots.map(lines).unwrap_or_default()
    }

    /// All of the above as owned values, to keep or to send.
    #[must_use]
    pub fn explain(&self) -> Explanation {
        Explanation {
            verdict: self.verdict,
            reason: self.reason,
            dialect: self.dialect,
            line: self.line(),
            rule: self.rule(),
            group: self.group(),
        }
    }
}

impl fmt::Debug for Decision<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.explain().fmt(f)
    }
}

/// A [`Decision`] that borrows nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Whether the path may be fetched.
    pub verdict: Verdict,
    /// What the verdict rests on.
    pub reason: Reason,
    /// The dialect that gave the verdict.
    pub dialect: Dialect,
    /// The number of the deciding rule's line, from 1.
    pub line: Option<u32>,
    /// The deciding rule, such as `Disallow: /private`.
    pub rule: Option<String>,
    /// The values of the user-agent lines of the group used.
    pub group: Vec<String>,
}

/// Who asks: by which names, and in which dialect rules are read for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crawler<'a> {
    pub(super) dialect: Dialect,
    pub(super) tokens: &'a [ProductToken],
}

impl<'a> Crawler<'a> {
    /// A decision that rests on no rule.
    #[inline(always)]
    pub(super) fn decision(self, verdict: Verdict, reason: Reason) -> Decision<'a> {
        Decision {
            verdict,
            reason,
            dialect: self.dialect,
            rule: None,
            robots: None,
            tokens: self.tokens,
        }
    }

    /// Disallow, because what decides takes too long to find. Of `strictest` it is the first of the four that says so.
    #[cold]
    pub(super) fn too_costly(self) -> Decision<'a> {
        let dialect = match self.dialect {
            Dialect::Strictest => Dialect::Rfc9309,
            dialect => dialect,
        };
        let crawler = Self { dialect, ..self };
        crawler.decision(Verdict::Disallow, Reason::TooCostly)
    }

    /// The decision that follows from what a file says.
    #[inline(always)]
    pub(super) fn by_answer(self, answer: Answer, robots: &'a RobotsTxt) -> Decision<'a> {
        let (verdict, reason, rule) = match answer {
            Answer::NoGroup => return self.decision(Verdict::Allow, Reason::NoMatchingGroup),
            Answer::TooCostly => return self.decision(Verdict::Disallow, Reason::TooCostly),
            Answer::NoRule => (Verdict::Allow, Reason::NoMatchingRule, None),
            Answer::Rule(rule) => {
                // To Google's parser an empty value matches, but decides nothing.
                let decides = !rule.is_empty() || self.dialect != Dialect::Google;
                let verdict = Verdict::from_allow(rule.is_allow() || !decides);
                (verdict, Reason::Rule, Some(rule))
            }
        };
        Decision {
            rule,
            robots: Some(robots),
            ..self.decision(verdict, reason)
        }
    }
}
