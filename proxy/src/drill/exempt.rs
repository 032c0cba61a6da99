//! Exemptions: refusals that the configuration in effect does not enforce, so that no drill can expect them. This reads settings and
//! asks no part that decides: a fault there must not look like a setting.

use std::time::Duration;

use wayleave_decision::{EnforcementMode, HttpsMode, PolicyRule, RuleAction};
use wayleave_usage_preferences::PreferenceSource;

use super::probes::{Probe, RightAnswer, SHORTEST_PERIOD, UNREACHABLE};
use super::report::DrillFamily;
use crate::decider::settings::{RefusedResponse, Settings};
use crate::pacing::{CrawlDelayMode, PacingConfig};
use crate::upstream::egress::drill_hosts::label_of;

/// The token of the crawler whose name the drill takes once.
const FOREIGN_TOKEN: &str = "Googlebot";

/// Returns why a request may be answered otherwise; none: it may not.
pub(super) fn why(settings: &Settings, probe: &Probe) -> Option<String> {
    let family = probe.family;
    if matches!(family, DrillFamily::Control | DrillFamily::Internal) {
        return None;
    }
    why_observed(settings, family).or_else(|| allowing_rule(settings, probe)).or_else(|| {
        match family {
            DrillFamily::Robots
                if label_of(&probe.host).is_some_and(|it| it.starts_with(UNREACHABLE)) =>
            {
                let is_short = settings.drill.unreachable_for < SHORTEST_PERIOD;
                is_short.then(|| "robots.max_stale is too short".to_owned())
            }
            DrillFamily::Preference => why_unstated(settings, probe),
            DrillFamily::Identity => {
                let mut tokens = settings.crawlers.all().flat_map(|crawler| &crawler.tokens);
                let is_own = tokens.any(|token| token.as_str().eq_ignore_ascii_case(FOREIGN_TOKEN));
                is_own.then(|| format!("a [[crawler]] has the token {FOREIGN_TOKEN}"))
            }
            _ => None,
        }
    })
}

/// Returns whether tunnels to `host` are inspected.
pub(super) fn is_intercepted(settings: &Settings, host: &str) -> bool {
    let https = &settings.https;
    https.mode == HttpsMode::Intercept && !https.bypass.iter().any(|it| it.matches(host))
}

/// Returns the time that must lie between requests to an origin that asks for this Crawl-delay.
pub(super) fn kept_delay(pacing: &PacingConfig, crawl_delay: Duration) -> Duration {
    let kept = match pacing.crawl_delay {
        CrawlDelayMode::Ignore => Duration::ZERO,
        CrawlDelayMode::Wait | CrawlDelayMode::Reject => crawl_delay.min(pacing.max_delay),
    };
    kept.max(pacing.min_delay)
}

/// Returns why an answer says nothing about what comes after it in a decision; none: it should not have come first.
pub(super) fn refusing_rule(settings: &Settings, host: &str) -> Option<String> {
    let is_refusal = |rule: &PolicyRule| rule.action != RuleAction::Allow;
    first_rule(settings, host, is_refusal).map(|number| format!("[[rule]] {number} refuses before"))
}

fn why_observed(settings: &Settings, family: DrillFamily) -> Option<String> {
    let crawlers = &settings.crawlers;
    let mut modes = crawlers.all().map(|crawler| crawler.mode).chain([crawlers.mode]);
    let observed = EnforcementMode::Observe;
    let is_observed = match family {
        // Whose request it is taken for depends on the address, and so on the whole list.
        DrillFamily::Identity => modes.any(|mode| mode == observed),
        _ => modes.all(|mode| mode == observed),
    };
    is_observed.then(|| "refusals are only observed (mode = \"observe\")".to_owned())
}

/// Returns the rule that allows every host, the drill's included.
fn allowing_rule(settings: &Settings, probe: &Probe) -> Option<String> {
    let is_exception = |rule: &PolicyRule| rule.action == RuleAction::Allow;
    let number = first_rule(settings, &probe.host, is_exception)?;
    Some(format!("[[rule]] {number} allows it"))
}

fn first_rule(
    settings: &Settings,
    host: &str,
    is_meant: impl Fn(&PolicyRule) -> bool,
) -> Option<usize> {
    let is_for = |rule: &PolicyRule| rule.hosts.iter().any(|pattern| pattern.matches(host));
    let mut rules = settings.rules.all();
    rules.find(|(_, rule)| is_meant(rule) && is_for(rule)).map(|(number, _)| number)
}

fn why_unstated(settings: &Settings, probe: &Probe) -> Option<String> {
    let mut crawlers = settings.crawlers.all();
    if crawlers.all(|crawler| crawler.declaration.purposes.is_empty()) {
        return Some("no [[crawler]] declares purposes".to_owned());
    }
    let preferences = &settings.preferences;
    if !preferences.reading.sources.contains(PreferenceSource::ContentUsage) {
        return Some("preferences.sources has no \"content-usage\"".to_owned());
    }
    let is_by_response = matches!(probe.right, RightAnswer::Withheld(_));
    let is_labelled = preferences.refused_response == RefusedResponse::Label;
    (is_by_response && is_labelled).then(|| "preferences.on_answer is \"label\"".to_owned())
}
