//! Access results: the outcome of the last attempt to read an origin's robots.txt.

use super::decision::{AccessDecision, AccessReason, AccessVerdict, CrawlerInDialect};
use super::file::RobotsTxt;
use crate::Dialect;

/// The outcome of the last attempt to read an origin's robots.txt (RFC 9309 §2.3.1).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AccessResult {
    /// The file was read; its rules decide.
    Successful(RobotsTxt),
    /// The origin has no robots.txt: a status from 400 to 499 except 429. Everything is allowed, but `koster1996`
    /// treats 401 and 403 as a restriction of the whole site.
    Unavailable {
        /// The HTTP status.
        status: u16,
    },
    /// More redirects than are followed. Allowed as if unavailable (RFC 9309 §2.3.1.2), but disallowed in `koster1996`,
    /// which follows redirects "until a resource can be found".
    RedirectLost,
    /// No usable response: a server error, 429, or a network failure. Everything is disallowed.
    Unreachable,
    /// Unreachable for so long, such as 30 days, that RFC 9309 §2.3.1.4 treats it as unavailable;
    /// `koster1996` still disallows.
    LongUnreachable,
    /// Unreachable, and the last copy is too old to be used. Everything is disallowed, except in `google`, where the
    /// last copy still decides.
    Lapsed(RobotsTxt),
    /// Lapsed for so long that RFC 9309 §2.3.1.4 lets crawlers "continue to use a cached copy": the copy decides, but
    /// `koster1996` still disallows.
    LongLapsed(RobotsTxt),
}

impl From<RobotsTxt> for AccessResult {
    fn from(robots: RobotsTxt) -> Self {
        Self::Successful(robots)
    }
}

impl AccessResult {
    /// Returns the rules that decide in `dialect`; `None` if all paths get the same verdict. For `strictest`, call this
    /// for each of the four.
    #[must_use]
    pub fn rules(&self, dialect: Dialect) -> Option<&RobotsTxt> {
        match self {
            Self::Successful(robots) => Some(robots),
            Self::Lapsed(robots) if dialect == Dialect::Google => Some(robots),
            Self::LongLapsed(robots) if dialect != Dialect::Koster1996 => Some(robots),
            _ => None,
        }
    }

    /// Returns the number of statements in the file, if there is one: finding a group, or its rules, may be a walk
    /// through all of them.
    #[must_use]
    pub fn statements(&self) -> usize {
        match self {
            Self::Successful(robots) | Self::Lapsed(robots) | Self::LongLapsed(robots) => {
                robots.parsed().statements.len()
            }
            _ => 0,
        }
    }

    /// Returns the result in kebab case.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Successful(_) => "successful",
            Self::Unavailable { .. } => "unavailable",
            Self::RedirectLost => "redirect-lost",
            Self::Unreachable => "unreachable",
            Self::LongUnreachable => "long-unreachable",
            Self::Lapsed(_) => "lapsed",
            Self::LongLapsed(_) => "long-lapsed",
        }
    }

    /// Returns the decision about every path where no rules decide.
    pub(super) fn decision_without_rules<'a>(
        &self,
        crawler: CrawlerInDialect<'a>,
    ) -> AccessDecision<'a> {
        // The draft of 1996 is stricter than RFC 9309 wherever robots.txt could not be read.
        let koster = crawler.dialect == Dialect::Koster1996;
        let (allow, reason) = match self {
            // The draft of 1996 (§3.1): "access to the site completely restricted".
            Self::Unavailable { status } => {
                (!(koster && matches!(status, 401 | 403)), AccessReason::Unavailable)
            }
            // The draft of 1996 (§3.1) follows redirects "until a resource can be found": without one nothing is known.
            Self::RedirectLost => (!koster, AccessReason::RedirectLost),
            Self::LongUnreachable => (!koster, AccessReason::Unreachable),
            // A result with rules gets here only in a dialect in which they do not decide.
            Self::Successful(_) | Self::Unreachable | Self::Lapsed(_) | Self::LongLapsed(_) => {
                (false, AccessReason::Unreachable)
            }
        };
        crawler.decision_without_rule(AccessVerdict::from_allowed(allow), reason)
    }
}
