//! Exemptions: refusals that the configuration does not enforce, so that no drill can expect them. This reads keys and
//! asks no part that decides: a fault there must not look like a setting.

use std::net::Ipv4Addr;
use std::time::Duration;

use wayleave_admission::settings::RefusedResponse;
use wayleave_config::Config;
use wayleave_decision::{Crawler, EnforcementMode, HttpsMode, PolicyRule, RuleAction};
use wayleave_pacing::{CrawlDelayMode, PacingConfig};
use wayleave_robots_txt::Dialect;
use wayleave_usage_preferences::{PreferenceSource, Purpose};

use super::probes::{
    BY_WILDCARD, DrillHost, Probe, RULED_PATH, RightAnswer, SHORTEST_PERIOD, TOKEN, UNREACHABLE,
};
use super::report::DrillFamily;

/// The token of the crawler whose name the drill takes once.
const FOREIGN_TOKEN: &str = "Googlebot";

/// Returns why a request to the drill's origins, which are at `address`, may be answered otherwise; none: it may not.
pub(super) fn why(config: &Config, probe: &Probe, address: Ipv4Addr) -> Option<String> {
    let family = probe.family;
    if matches!(family, DrillFamily::Control | DrillFamily::Internal) {
        return None;
    }
    let host = address.to_string();
    why_observed(config, family).or_else(|| allowing_rule(config, &host)).or_else(|| match family {
        DrillFamily::Robots => why_unread(config, probe),
        DrillFamily::Rule => {
            let is_written = first_rule(config, &host, is_drills).is_some();
            let missing = || format!("no [[rule]] refuses {RULED_PATH} at {host}");
            (!is_written).then(missing)
        }
        DrillFamily::Preference => why_unstated(config, probe),
        DrillFamily::Identity => {
            let mut tokens = config.crawlers.crawlers.iter().flat_map(|crawler| &crawler.tokens);
            let is_own = tokens.any(|token| token.as_str().eq_ignore_ascii_case(FOREIGN_TOKEN));
            is_own.then(|| format!("a [[crawler]] has the token {FOREIGN_TOKEN}"))
        }
        _ => None,
    })
}

/// Returns whether tunnels to `host` are inspected.
pub(super) fn is_intercepted(config: &Config, host: &str) -> bool {
    let https = &config.https.interception;
    https.mode == HttpsMode::Intercept && !https.bypass.iter().any(|pattern| pattern.matches(host))
}

/// Returns the time that must lie between requests to an origin that asks for this Crawl-delay.
pub(super) fn kept_delay(pacing: &PacingConfig, crawl_delay: Duration) -> Duration {
    let kept = match pacing.crawl_delay {
        CrawlDelayMode::Ignore => Duration::ZERO,
        CrawlDelayMode::Wait | CrawlDelayMode::Reject => crawl_delay.min(pacing.max_delay),
    };
    kept.max(pacing.min_delay)
}

/// Returns why an answer says nothing about the later steps of a decision; none: it should not have come first.
pub(super) fn refusing_rule(config: &Config, host: DrillHost, address: Ipv4Addr) -> Option<String> {
    let host = match host {
        DrillHost::Label(_) => address,
        DrillHost::Address(address) => address,
    };
    first_rule(config, &host.to_string(), |rule| {
        rule.action != RuleAction::Allow && !is_drills(rule)
    })
    .map(|number| format!("[[rule]] {number} refuses before"))
}

/// Returns whether a rule is the one that the drill asks for.
fn is_drills(rule: &PolicyRule) -> bool {
    rule.action != RuleAction::Allow && rule.paths == [RULED_PATH]
}

/// Returns the crawler that the configuration has for drills.
fn own_crawler(config: &Config) -> Option<&Crawler> {
    let mut crawlers = config.crawlers.crawlers.iter();
    crawlers.find(|crawler| crawler.tokens.iter().any(|token| token.as_str() == TOKEN))
}

fn why_observed(config: &Config, family: DrillFamily) -> Option<String> {
    let crawlers = &config.crawlers;
    let observed = EnforcementMode::Observe;
    let is_observed = match family {
        // Whose request it is taken for depends on the address, and so on the whole list.
        DrillFamily::Identity => {
            crawlers.mode == observed
                || crawlers.crawlers.iter().any(|crawler| crawler.mode == observed)
        }
        _ => own_crawler(config).map_or(crawlers.mode, |crawler| crawler.mode) == observed,
    };
    is_observed.then(|| "refusals are only observed (mode = \"observe\")".to_owned())
}

/// Returns the rule that allows every host, the drill's included.
fn allowing_rule(config: &Config, host: &str) -> Option<String> {
    first_rule(config, host, |rule| rule.action == RuleAction::Allow)
        .map(|number| format!("[[rule]] {number} allows it"))
}

fn first_rule(
    config: &Config,
    host: &str,
    is_meant: impl Fn(&PolicyRule) -> bool,
) -> Option<usize> {
    let is_for = |rule: &PolicyRule| rule.hosts.iter().any(|pattern| pattern.matches(host));
    let mut rules = (1..).zip(&config.rules);
    rules.find(|(_, rule)| is_meant(rule) && is_for(rule)).map(|(number, _)| number)
}

fn why_unread(config: &Config, probe: &Probe) -> Option<String> {
    let max_stale = config.robots.cache.lifetimes.max_stale;
    if probe.host == DrillHost::Label(UNREACHABLE) && max_stale < SHORTEST_PERIOD {
        return Some("robots.max_stale is too short".to_owned());
    }
    let dialect = own_crawler(config).map_or(config.crawlers.dialect, |crawler| crawler.dialect);
    let is_old = matches!(dialect, Dialect::Koster1996 | Dialect::Selfhtml);
    (probe.path == BY_WILDCARD && is_old).then(|| format!("the dialect {dialect} has no wildcards"))
}

fn why_unstated(config: &Config, probe: &Probe) -> Option<String> {
    let mut purposes =
        own_crawler(config).into_iter().flat_map(|crawler| crawler.declaration.purposes.iter());
    if !purposes.any(|purpose| purpose == Purpose::TrainAi) {
        return Some(format!("no [[crawler]] with the token {TOKEN} declares train-ai"));
    }
    let preferences = &config.preferences;
    if !preferences.reading.sources.contains(PreferenceSource::ContentUsage) {
        return Some("preferences.sources has no \"content-usage\"".to_owned());
    }
    let is_by_response = matches!(probe.right, RightAnswer::Withheld(_));
    let is_labelled = preferences.refused_response == RefusedResponse::Label;
    (is_by_response && is_labelled).then(|| "preferences.on_answer is \"label\"".to_owned())
}
