//! The access result: what came of the last attempt to read an origin's robots.txt.

use super::decision::{Crawler, Decision, Reason, Verdict};
use super::file::RobotsTxt;
use crate::Dialect;

/// What came of the last attempt to read an origin's robots.txt (RFC 9309 §2.3.1).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AccessResult {
    /// It was read; its rules decide.
    Successful(RobotsTxt),
    /// The origin says that there is none: a status from 400 to 499 but 429. All is allowed, but
    /// `koster1996` takes 401 and 403 as a restriction of the whole site.
    Unavailable {
        /// The HTTP status.
        status: u16,
    },
    /// More redirects than are followed. Allowed as if unavailable (RFC 9309 §2.3.1.2), but
    /// disallowed in `koster1996`, which follows redirects "until a resource can be found".
    RedirectLost,
    /// No answer that counts: a server error, 429, or no answer. All is disallowed.
    Unreachable,
    /// Unreachable for so long (30 days unless configured) that RFC 9309 §2.3.1.4 treats it as
    /// unavailable; `koster1996` goes on to disallow.
    LongUnreachable,
    /// Unreachable, and the last copy is too old to stand for the origin. All is disallowed, but in
    /// `google`, where the last copy goes on to decide.
    Lapsed(RobotsTxt),
    /// Lapsed for so long that RFC 9309 §2.3.1.4 lets crawlers "continue to use a cached copy": it
    /// decides, but `koster1996` goes on to disallow.
    LongLapsed(RobotsTxt),
}

impl AccessResult {
    /// The rules that decide in `dialect`; `None` if all paths are judged alike. For `strictest`,
    /// ask about each of the four.
    #[must_use]
    pub fn rules(&self, dialect: Dialect) -> Option<&RobotsTxt> {
        match self {
            Self::Successful(robots) => Some(robots),
            Self::Lapsed(robots) if dialect == Dialect::Google => Some(robots),
            Self::LongLapsed(robots) if dialect != Dialect::Koster1996 => Some(robots),
            _ => None,
        }
    }

    /// The result in kebab case.
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

    /// What is said of every path where no rules decide.
    pub(super) fn without_rules<'a>(&self, crawler: Crawler<'a>) -> Decision<'a> {
        let koster = crawler.dialect == Dialect::Koster1996;
        let (allow, reason) = match self {
            Self::Unavailable { status } => (
                !(koster && matches!(status, 401 | 403)),
                Reason::Unavailable,
            ),
            Self::RedirectLost => (!koster, Reason::RedirectLost),
            Self::LongUnreachable => (!koster, Reason::Unreachable),
            // Of those with rules, what is left is where they do not decide.
            Self::Successful(_) | Self::Unreachable | Self::Lapsed(_) | Self::LongLapsed(_) => {
                (false, Reason::Unreachable)
            }
        };
        crawler.decision(Verdict::from_allow(allow), reason)
    }
}
