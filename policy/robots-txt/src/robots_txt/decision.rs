//! Decisions about access, with their reasons.

use std::fmt;

use super::file::RobotsTxt;
use super::matched_rule::{MatchOutcome, MatchedRule};
use crate::{Dialect, ProductToken};

/// Whether a path may be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum AccessVerdict {
    /// The path may be fetched.
    Allow,
    /// The path may not be fetched.
    Disallow,
}

impl AccessVerdict {
    /// Returns `allow` or `disallow`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Disallow => "disallow",
        }
    }

    /// Returns whether the path may be fetched.
    #[must_use]
    pub const fn is_allow(self) -> bool {
        matches!(self, Self::Allow)
    }

    pub(super) fn from_allowed(allow: bool) -> Self {
        if allow { Self::Allow } else { Self::Disallow }
    }
}

impl fmt::Display for AccessVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The reason for a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum AccessReason {
    /// A rule of the crawler's group.
    Rule,
    /// The crawler has a group, but no rule in it matches.
    NoMatchingRule,
    /// No group applies to the crawler, not even `*`.
    NoMatchingGroup,
    /// The path is `/robots.txt`, which is always allowed (RFC 9309 §2.2.2).
    RobotsTxtItself,
    /// There is no robots.txt.
    Unavailable,
    /// Its redirects went on for too long.
    RedirectLost,
    /// It could not be reached ([`AccessResult`](super::AccessResult)).
    Unreachable,
    /// The file and the path are such that finding the rule that decides takes too long.
    TooCostly,
}

impl AccessReason {
    /// Returns the reason in kebab case.
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

impl fmt::Display for AccessReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A verdict and its reason. Cheap to make; borrows the file, to quote the rule on request.
#[derive(Clone, Copy)]
pub struct AccessDecision<'a> {
    verdict: AccessVerdict,
    reason: AccessReason,
    dialect: Dialect,
    /// The deciding rule.
    rule: Option<MatchedRule>,
    robots: Option<&'a RobotsTxt>,
    tokens: &'a [ProductToken],
}

impl AccessDecision<'_> {
    /// Returns whether the path may be fetched.
    #[must_use]
    pub fn verdict(&self) -> AccessVerdict {
        self.verdict
    }

    /// Returns the reason for the verdict.
    #[must_use]
    pub fn reason(&self) -> AccessReason {
        self.reason
    }

    /// Returns the dialect that gave the verdict: not `strictest`, but the one of the four that it comes from, except
    /// where all spellings of `/robots.txt` itself are allowed.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Returns the line number of the deciding rule, from 1.
    #[must_use]
    pub fn line(&self) -> Option<u32> {
        Some(self.robots?.line(self.rule?))
    }

    /// Returns the deciding rule, such as `Disallow: /private`; a long one is cut.
    #[must_use]
    pub fn rule(&self) -> Option<String> {
        Some(self.robots?.rule_text(self.rule?))
    }

    /// Returns the values of the user-agent lines of the group used, including merged groups.
    #[must_use]
    pub fn group(&self) -> Vec<String> {
        // The names are looked up again: a decision is made for every request, and hardly any asks for them.
        self.robots.map(|robots| robots.group_names(self.dialect, self.tokens)).unwrap_or_default()
    }

    /// Returns the value of the first user-agent line that chose the group, such as `ExampleBot` or `*`; a long one is cut.
    #[must_use]
    pub fn group_name(&self) -> Option<String> {
        self.robots?.group_name(self.dialect, self.tokens)
    }

    /// Returns the line numbers of the user-agent lines and rules of the group used, including merged groups, in the
    /// file's order. A group's lines count from the one that named the crawler.
    #[must_use]
    pub fn group_lines(&self) -> Vec<u32> {
        let lines = |robots: &RobotsTxt| robots.group_lines(self.dialect, self.tokens);
        self.robots.map(lines).unwrap_or_default()
    }

    /// Returns all of the above as owned values, to store or to send.
    #[must_use]
    pub fn details(&self) -> DecisionDetails {
        DecisionDetails {
            verdict: self.verdict,
            reason: self.reason,
            line: self.line(),
            rule: self.rule(),
            dialect: self.dialect,
            group: self.group(),
        }
    }
}

impl fmt::Debug for AccessDecision<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.details().fmt(f)
    }
}

/// An [`AccessDecision`] that borrows nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct DecisionDetails {
    /// The verdict.
    pub verdict: AccessVerdict,
    /// The reason for the verdict.
    pub reason: AccessReason,
    /// The number of the deciding rule's line, from 1.
    pub line: Option<u32>,
    /// The deciding rule, such as `Disallow: /private`; a long one is cut.
    pub rule: Option<String>,
    /// The dialect that gave the verdict.
    pub dialect: Dialect,
    /// The values of the user-agent lines of the group used.
    pub group: Vec<String>,
}

/// A crawler's names, and the dialect in which rules are read for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct CrawlerInDialect<'a> {
    pub(super) dialect: Dialect,
    pub(super) tokens: &'a [ProductToken],
}

impl<'a> CrawlerInDialect<'a> {
    /// Returns a decision that no rule made.
    #[inline(always)]
    pub(super) fn decision_without_rule(
        self,
        verdict: AccessVerdict,
        reason: AccessReason,
    ) -> AccessDecision<'a> {
        AccessDecision {
            verdict,
            reason,
            dialect: self.dialect,
            rule: None,
            robots: None,
            tokens: self.tokens,
        }
    }

    /// Returns a disallow because finding the deciding rule takes too long. For `strictest` the first of the four
    /// dialects is named.
    #[cold]
    pub(super) fn too_costly(self) -> AccessDecision<'a> {
        // A decision names the dialect that it comes from, which `strictest` is not.
        let dialect = match self.dialect {
            Dialect::Strictest => Dialect::Rfc9309,
            dialect => dialect,
        };
        let crawler = Self { dialect, ..self };
        crawler.decision_without_rule(AccessVerdict::Disallow, AccessReason::TooCostly)
    }

    /// Returns the decision that follows from the outcome of matching a file.
    #[inline(always)]
    pub(super) fn decision_from(
        self,
        outcome: MatchOutcome,
        robots: &'a RobotsTxt,
    ) -> AccessDecision<'a> {
        let (verdict, reason, rule) = match outcome {
            MatchOutcome::NoGroup => {
                return self
                    .decision_without_rule(AccessVerdict::Allow, AccessReason::NoMatchingGroup);
            }
            MatchOutcome::TooCostly => {
                return self
                    .decision_without_rule(AccessVerdict::Disallow, AccessReason::TooCostly);
            }
            MatchOutcome::NoRule => (AccessVerdict::Allow, AccessReason::NoMatchingRule, None),
            MatchOutcome::Rule(rule) => {
                // In Google's parser an empty value matches, but does not decide.
                let decides = !rule.is_empty() || self.dialect != Dialect::Google;
                let verdict = AccessVerdict::from_allowed(rule.is_allow() || !decides);
                (verdict, AccessReason::Rule, Some(rule))
            }
        };
        AccessDecision { rule, robots: Some(robots), ..self.decision_without_rule(verdict, reason) }
    }
}
