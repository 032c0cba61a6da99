//! The answer that a copy of robots.txt gives to a request for the file itself.

use wayleave_robots_txt::{AccessResult, Dialect, Target};

use crate::identity::Identity;
use crate::refusal::Refusal;
use crate::robots::{RobotsCopy, unreachable_refusal};

/// The status of an answer about a file whose redirects led nowhere: as if there were none (RFC 9309 section 2.3.1.2).
const NOT_FOUND: u16 = 404;

/// The answer to a request for robots.txt itself, by the copy that decides about the crawler's other requests.
#[derive(Clone, Debug)]
pub enum RobotsAnswer {
    /// The file, whose rules decide.
    File,
    /// The origin has none: the status that says so.
    Missing(u16),
    /// Nothing usable came from the origin, and no rules decide in the crawler's dialect.
    Unreachable(Box<Refusal>),
}

impl RobotsAnswer {
    /// Returns the answer of a copy of `target` to a crawler.
    pub(crate) fn new(copy: &RobotsCopy, identity: &Identity, target: &Target) -> Self {
        let access = copy.access();
        let decides = |dialect: &Dialect| access.rules(*dialect).is_some();
        match access {
            AccessResult::Unavailable { status } => Self::Missing(*status),
            AccessResult::RedirectLost => Self::Missing(NOT_FOUND),
            // A copy that has lapsed decides in some dialects, and in "strictest" only if it does in all.
            _ if identity.dialect().each().iter().all(decides) => Self::File,
            _ => Self::Unreachable(Box::new(unreachable_refusal(target, copy, identity.mode()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use wayleave_lifecycle::FetchErrorKind;
    use wayleave_robots_txt::RobotsTxt;

    use super::*;
    use crate::crawler::EnforcementMode;
    use crate::crawlers::{Crawlers, CrawlersConfig};
    use crate::reason::Reason;

    fn answer(
        access: AccessResult,
        error: Option<FetchErrorKind>,
        dialect: Dialect,
    ) -> RobotsAnswer {
        let copy = RobotsCopy::Archived {
            access: access.into(),
            error_kind: error,
            at: SystemTime::UNIX_EPOCH,
        };
        let identity = Identity::Asserted {
            claim: Crawlers::new(CrawlersConfig::default()).claim(b"ExampleBot/1.0"),
            dialect,
            mode: EnforcementMode::Enforce,
        };
        let target = Target::parse("https://shop.example/robots.txt").expect("a target");
        RobotsAnswer::new(&copy, &identity, &target)
    }

    #[test]
    fn the_answer_is_what_decides_in_the_dialect() {
        let file = RobotsTxt::parse(b"User-agent: *\nDisallow: /private\n");
        let five = [
            Dialect::Rfc9309,
            Dialect::Google,
            Dialect::Koster1996,
            Dialect::Selfhtml,
            Dialect::Strictest,
        ];
        for (access, expected) in [
            (AccessResult::Successful(file.clone()), ["file"; 5]),
            (AccessResult::Unavailable { status: 410 }, ["410"; 5]),
            (AccessResult::Unavailable { status: 401 }, ["401"; 5]),
            (AccessResult::RedirectLost, ["404"; 5]),
            (AccessResult::Unreachable, ["503"; 5]),
            (AccessResult::LongUnreachable, ["503"; 5]),
            (AccessResult::Lapsed(file.clone()), ["503", "file", "503", "503", "503"]),
            (AccessResult::LongLapsed(file.clone()), ["file", "file", "503", "file", "503"]),
        ] {
            let found = five.map(|dialect| match answer(access.clone(), None, dialect) {
                RobotsAnswer::File => "file".to_owned(),
                RobotsAnswer::Missing(status) => status.to_string(),
                RobotsAnswer::Unreachable(refusal) => {
                    assert!(refusal.retry_after.is_some(), "{refusal:?}");
                    refusal.status.to_string()
                }
            });
            assert_eq!(found, expected, "{}", access.as_str());
        }
    }

    #[test]
    fn a_name_or_an_address_that_leads_nowhere_is_named() {
        for (error, reason) in [
            (FetchErrorKind::NoSuchName, Reason::DnsError),
            (FetchErrorKind::DnsTimeout, Reason::DnsTimeout),
            (FetchErrorKind::Prohibited, Reason::DestinationIpProhibited),
            (FetchErrorKind::Connect, Reason::Unreachable),
        ] {
            let found = answer(AccessResult::Unreachable, Some(error), Dialect::Rfc9309);
            let RobotsAnswer::Unreachable(refusal) = found else { panic!("{found:?}") };
            assert_eq!(refusal.reason, reason);
        }
    }
}
