//! The requests of a drill, and the answer that each request must get.

use std::net::Ipv4Addr;
use std::time::Duration;

use wayleave_decision::Reason;

use super::report::DrillFamily;

/// The product token of the drill's requests.
pub(super) const TOKEN: &str = "WayleaveDrill";
/// The internal addresses that a drill asks for: cloud metadata, a private network, this machine.
pub(super) const INTERNAL: [Ipv4Addr; 3] =
    [Ipv4Addr::new(169, 254, 169, 254), Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::LOCALHOST];

/// The labels of the drill's origins.
pub(super) const LABELS: [&str; 6] = [OPEN, SITE, RULED, STATED, UNREACHABLE, PACED];
pub(super) const OPEN: &str = "open";
pub(super) const SITE: &str = "site";
pub(super) const RULED: &str = "ruled";
pub(super) const STATED: &str = "stated";
pub(super) const UNREACHABLE: &str = "unreachable";
pub(super) const PACED: &str = "paced";

/// The beginning of the paths that are asked for; whatever else arrives, such as a request for robots.txt, is the proxy's own.
pub(super) const PATHS: &str = "/drill";
/// The path that a `[[rule]]` refuses, if the operator wrote it.
pub(super) const RULED_PATH: &str = "/drill/ruled/";
/// The shortest `robots.max_stale` for which an unreachable origin is asked for.
pub(super) const SHORTEST_PERIOD: Duration = Duration::from_secs(120);
/// The delay that one of the origins asks for.
pub(super) const CRAWL_DELAY: Duration = Duration::from_secs(2);
/// A well-known crawler of somebody else.
const FOREIGN_AGENT: &str = "Mozilla/5.0 (compatible; Googlebot/2.1)";

/// A path whose rule has a wildcard, which two of the dialects do not know.
pub(super) const BY_WILDCARD: &str = "/drill/a/b.pdf";

/// The robots.txt of the origin with rules. They are for whichever crawler the proxy takes the drill for, and the group of another
/// must not apply to it.
pub(super) const ROBOTS_TXT: &str = "User-agent: OtherBot
Allow: /

User-agent: WayleaveDrill
User-agent: *
Disallow: /drill/closed
Allow: /drill/closed/but/not/this
Disallow: /drill/*.pdf$
Content-Usage: /drill/stated train-ai=n
";

/// The way in which a request must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RightAnswer {
    /// It is forwarded.
    Forwarded,
    /// It is refused for one of these reasons, and never arrives.
    Refused(&'static [Reason]),
    /// It is refused because of the response, so it does arrive.
    Withheld(Reason),
}

/// The host that a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DrillHost {
    /// The drill's origin with this label.
    Label(&'static str),
    /// This address, at the default port.
    Address(Ipv4Addr),
}

/// One request.
#[derive(Clone, Debug)]
pub(super) struct Probe {
    pub(super) family: DrillFamily,
    /// The subject of the request, in words.
    pub(super) what: &'static str,
    pub(super) host: DrillHost,
    pub(super) path: &'static str,
    /// The User-Agent, if it is not the drill's.
    pub(super) user_agent: Option<&'static str>,
    pub(super) right: RightAnswer,
}

impl Probe {
    fn new(
        family: DrillFamily,
        what: &'static str,
        (label, path): (&'static str, &'static str),
        right: RightAnswer,
    ) -> Self {
        Self { family, what, host: DrillHost::Label(label), path, user_agent: None, right }
    }
}

/// Returns all requests but those for the pace. `prohibited` are internal addresses.
pub(super) fn all(prohibited: &[Ipv4Addr]) -> Vec<Probe> {
    let mut all = of_sites();
    all.extend(prohibited.iter().map(|address| Probe {
        host: DrillHost::Address(*address),
        ..Probe::new(
            DrillFamily::Internal,
            "a page of an internal address",
            (OPEN, "/drill/page"),
            RightAnswer::Refused(&[Reason::DestinationIpProhibited]),
        )
    }));
    all.push(Probe {
        user_agent: Some(FOREIGN_AGENT),
        ..Probe::new(
            DrillFamily::Identity,
            "a page, by a name that belongs to another",
            (OPEN, "/drill/page"),
            RightAnswer::Refused(&[Reason::ForeignToken, Reason::Unidentified]),
        )
    });
    all
}

/// Returns the requests that are answered by statements of sites, and by a rule.
fn of_sites() -> Vec<Probe> {
    use DrillFamily::{Control, Preference, Robots, Rule};
    use RightAnswer::{Forwarded, Refused, Withheld};
    let by_robots = Refused(&[Reason::Rule]);
    let by_rule = Refused(&[Reason::PolicyRule]);
    let by_use = Refused(&[Reason::Preference]);
    let rows = [
        (Control, "a page that may be fetched", (OPEN, "/drill/page"), Forwarded),
        (Robots, "a disallowed path", (SITE, "/drill/closed/a"), by_robots),
        (
            Robots,
            "a disallowed path in another spelling",
            (SITE, "/drill/x/../%63losed/a"),
            by_robots,
        ),
        (Robots, "a disallowed path with a query", (SITE, "/drill/closed?a=b"), by_robots),
        (Robots, "a path that a wildcard disallows", (SITE, BY_WILDCARD), by_robots),
        (
            Robots,
            "a page of an origin whose robots.txt cannot be fetched",
            (UNREACHABLE, "/drill/page"),
            Refused(&[Reason::Unreachable]),
        ),
        (Rule, "a path that a [[rule]] refuses", (RULED, "/drill/ruled/a"), by_rule),
        (
            Rule,
            "a path that a [[rule]] refuses, in another spelling",
            (RULED, "/drill//%72uled/a"),
            by_rule,
        ),
        (
            Preference,
            "a page whose use for training robots.txt refuses",
            (SITE, "/drill/stated/a"),
            by_use,
        ),
        (
            Preference,
            "a page whose use for training its response refuses",
            (STATED, "/drill/by-field"),
            Withheld(Reason::Preference),
        ),
    ];
    rows.map(|(family, what, place, right)| Probe::new(family, what, place, right)).into()
}

/// Returns the request that is sent too fast.
pub(super) fn paced() -> Probe {
    let right = RightAnswer::Refused(&[Reason::CrawlDelay]);
    Probe::new(DrillFamily::Pace, "a page too soon after another", (PACED, "/drill/page"), right)
}
