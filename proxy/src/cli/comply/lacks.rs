//! The keys that each crawler lacks for a duty, each with a value to set.

use serde::Serialize;
use wayleave_config::Config;
use wayleave_decision::{Crawler, EnforcementMode, SubresourcePolicy, contacts};
use wayleave_robots_cache::fetch_user_agent;

use crate::publication::{self, crawler_contacts};

/// A key of a crawler to set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Lack {
    pub(super) crawler: String,
    /// As `crawler.key`.
    pub(super) key: &'static str,
    /// A value as TOML, to be replaced by one's own.
    pub(super) set: String,
}

/// Returns the keys that a crawler lacks, with values.
pub(super) type Of = fn(&Config, &Crawler) -> Vec<(&'static str, String)>;

/// Returns the keys that crawlers lack, for each crawler.
pub(super) fn of_all(config: &Config, lacks: Of) -> Vec<Lack> {
    let crawlers = config.crawlers.crawlers.iter();
    let all = crawlers.flat_map(|crawler| {
        let lacks = lacks(config, crawler).into_iter();
        lacks.map(|(key, set)| Lack { crawler: crawler.name.clone(), key, set })
    });
    all.collect()
}

const CONTACT: &str = "\"https://example.com/bot\"";

/// Returns no key: the duty does not concern single crawlers.
pub(super) fn nothing(_: &Config, _: &Crawler) -> Vec<(&'static str, String)> {
    Vec::new()
}

pub(super) fn obedience(_: &Config, crawler: &Crawler) -> Vec<(&'static str, String)> {
    let mut lacks = Vec::new();
    if crawler.mode == EnforcementMode::Observe {
        lacks.push(("crawler.mode", "\"enforce\"".to_owned()));
    }
    if crawler.subresources == SubresourcePolicy::Page {
        lacks.push(("crawler.subresources", "\"judge\"".to_owned()));
    }
    lacks
}

pub(super) fn identity(config: &Config, crawler: &Crawler) -> Vec<(&'static str, String)> {
    let mut lacks = Vec::new();
    let user_agent = fetch_user_agent(crawler, &config.robots.fetch.user_agent);
    if contacts(&user_agent).is_empty() {
        lacks.push(("crawler.contact", CONTACT.to_owned()));
    }
    if !crawler.user_agent_must_contain_token {
        lacks.push(("crawler.user_agent_must_contain_token", "true".to_owned()));
    }
    lacks
}

pub(super) fn pace(config: &Config, crawler: &Crawler) -> Vec<(&'static str, String)> {
    let delay = config.politeness.delay(crawler.default_delay, crawler.min_delay);
    if delay.is_zero() { vec![("crawler.min_delay", "\"1s\"".to_owned())] } else { Vec::new() }
}

pub(super) fn address(config: &Config, crawler: &Crawler) -> Vec<(&'static str, String)> {
    let is_known = config.upstream.egress.parent.is_some()
        || !publication::addresses(config, crawler).is_empty();
    if is_known {
        Vec::new()
    } else {
        vec![("crawler.source_address", "\"203.0.113.7\"".to_owned())]
    }
}

pub(super) fn page(config: &Config, crawler: &Crawler) -> Vec<(&'static str, String)> {
    let user_agent = fetch_user_agent(crawler, &config.robots.fetch.user_agent);
    let has_url = contacts(&user_agent).iter().any(|uri| uri.starts_with("http"));
    let is_somewhere = has_url || config.signing.agent_of(crawler).is_some();
    if is_somewhere { Vec::new() } else { vec![("crawler.contact", CONTACT.to_owned())] }
}

pub(super) fn key(config: &Config, crawler: &Crawler) -> Vec<(&'static str, String)> {
    let mut lacks = Vec::new();
    if config.signing.agent_of(crawler).is_none() {
        lacks.push(("crawler.agent", "\"https://bot.example\"".to_owned()));
    }
    if crawler.signing_key.is_none() {
        lacks.push(("crawler.signing_key", format!("\"keys/{}.pem\"", crawler.name)));
    }
    lacks
}

pub(super) fn purposes(_: &Config, crawler: &Crawler) -> Vec<(&'static str, String)> {
    let states_some = !crawler.declaration.purposes.is_empty();
    if states_some { Vec::new() } else { vec![("crawler.purposes", "[\"search\"]".to_owned())] }
}

pub(super) fn contact(config: &Config, crawler: &Crawler) -> Vec<(&'static str, String)> {
    let has_one = !crawler_contacts(crawler, &config.robots.fetch.user_agent).is_empty();
    if has_one { Vec::new() } else { vec![("crawler.contact", CONTACT.to_owned())] }
}
