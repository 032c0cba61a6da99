//! How long robots.txt wants a crawler to wait between requests, and who shares a pace.

use std::time::Duration;

use wayleave_policy::{AccessResult, Dialect, Path, decide};

use super::identify::Identity;
use crate::politeness;

/// The names of the group that an unknown client falls into, if its pace matters: another name of its own choice gives it no other
/// pace. Empty if no group is for it.
pub(crate) fn group(
    access: &AccessResult,
    politeness: &politeness::Options,
    identity: &Identity,
    delay: Option<Duration>,
) -> String {
    if identity.crawler().is_some() || !politeness.keeps_a_pace(delay) {
        return String::new();
    }
    let decision = decide(access, identity.dialect(), identity.tokens(), &Path::ROOT);
    decision.group().join("\n")
}

/// The longest of what `Crawl-delay` and `Request-rate` ask of the crawler. A rate is kept evenly, at all hours.
pub(crate) fn delay(access: &AccessResult, identity: &Identity) -> Option<Duration> {
    let in_dialect = |dialect: Dialect| {
        let robots = access.rules(dialect)?;
        let tokens = identity.tokens();
        let rates = robots.request_rates(dialect, tokens).into_iter();
        let pauses = rates.map(|rate| {
            let never = rate.within.saturating_mul(u32::MAX);
            rate.within.checked_div(rate.requests).unwrap_or(never)
        });
        pauses.chain(robots.crawl_delay(dialect, tokens)).max()
    };
    match identity.dialect() {
        Dialect::Strictest => Dialect::ALL.into_iter().filter_map(in_dialect).max(),
        dialect => in_dialect(dialect),
    }
}
