//! Settings that are valid, but weaken or end enforcement where few would expect it: for `wayleave config check`.

use std::net::{IpAddr, Ipv4Addr};
use std::time::SystemTime;

use ipnet::IpNet;
use wayleave_config::{Config, ConfigPlaces};
use wayleave_decision::{PolicyRule, RuleAction, well_known_owner};
use wayleave_fairness::is_public_suffix;
use wayleave_robots_txt::{HostPattern, ProductToken};
use wayleave_upstream::egress::why_internal;

use crate::publication::mixed_names;

/// The prefixes of the largest internal networks, 10.0.0.0/8 and fc00::/7.
const LARGEST_INTERNAL: [u8; 2] = [8, 7];

/// The address at which the machines of most clouds get their credentials.
const CLOUD_METADATA: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254));

/// Returns a warning about each such setting, with its file and line.
pub(super) fn find(config: &Config, places: &ConfigPlaces<'_>, now: SystemTime) -> Vec<String> {
    let mut warnings = Vec::new();
    warnings.extend(listener_warnings(config, places));
    warnings.extend(gateway_warning(config, places));
    warnings.extend(address_warnings(config, places));
    warnings.extend(bypass_warnings(config, places));
    warnings.extend(crawler_warnings(config, places));
    warnings.extend(mixed_names(config).into_iter().map(|name| {
        let place = places.key_in_table("crawler", name.number, name.key);
        format!("{place}: {}:\n{}", name.text, name.split.trim_end())
    }));
    warnings.extend(rule_warnings(&config.rules, places, now));
    warnings.extend(config.robots.pinned.iter().map(|pinned| {
        format!(
            "{}: for trials only: {} is judged by {}, whatever it serves itself",
            places.key("robots.pinned"),
            pinned.origin,
            pinned.file.display()
        )
    }));
    if config.log.decisions.is_none() {
        warnings.push(format!(
            "{}: no decision is logged, so nobody can tell later what was forwarded: reports, replay and evidence have nothing to read",
            places.key("log.decisions")
        ));
    }
    warnings
}

/// Returns a warning if anybody on the internet may use a listener without being a known crawler.
fn listener_warnings(config: &Config, places: &ConfigPlaces<'_>) -> Option<String> {
    let is_open = |ip: IpAddr| ip.is_unspecified() || why_internal(ip).is_none();
    let open = config.proxy.listen.iter().find(|listen| is_open(listen.address.ip()))?;
    (!config.crawlers.require_crawler).then(|| {
        format!(
            "{}: whoever reaches {open} can send requests through it under any name; with proxy.require_crawler = true only \
             those of a [[crawler]] are forwarded",
            places.key("proxy.listen")
        )
    })
}

/// Returns a warning if others than this machine may ask as a gateway does without a token.
fn gateway_warning(config: &Config, places: &ConfigPlaces<'_>) -> Option<String> {
    let mut listening = config.gateway.listen.iter();
    let open = listening.find(|gateway| !gateway.address.ip().is_loopback())?;
    config.gateway.tokens.is_empty().then(|| {
        format!(
            "{}: whoever reaches {open} can ask under any name and address, and use up slots; with gateway.tokens a gateway proves \
             whose requests they are",
            places.key("gateway.listen")
        )
    })
}

/// Returns warnings about networks that are larger than anybody's own.
fn address_warnings(config: &Config, places: &ConfigPlaces<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    let allowed = &config.upstream.egress.allow_private;
    let is_too_large = |network: &IpNet| {
        let [v4, v6] = LARGEST_INTERNAL;
        network.prefix_len() < if network.addr().is_ipv4() { v4 } else { v6 }
    };
    if let Some(network) = IpNet::aggregate(allowed).iter().find(|network| is_too_large(network)) {
        warnings.push(format!(
            "{}: {network} allows more than any internal network has, so crawlers can reach internal addresses, such as those of \
             this machine and of the cloud's credentials; list your own networks only",
            places.key("upstream.allow_private")
        ));
    } else if allowed.iter().any(|network| network.contains(&CLOUD_METADATA)) {
        warnings.push(format!(
            "{}: crawlers can reach {CLOUD_METADATA}, where clouds give this machine its credentials",
            places.key("upstream.allow_private")
        ));
    }
    if covers_a_family(&config.proxy.connections.proxy_protocol) {
        warnings.push(format!(
            "{}: every client can claim any address by the PROXY protocol, so match.addresses proves nothing; list your load \
             balancers only",
            places.key("proxy.proxy_protocol")
        ));
    }
    warnings
}

/// Returns warnings about whole public suffixes whose hosts are never judged.
fn bypass_warnings(config: &Config, places: &ConfigPlaces<'_>) -> Vec<String> {
    let bypassed = config.https.interception.bypass.iter();
    let wide = bypassed.filter(|pattern| is_for_whole_suffix(pattern));
    let warning = |pattern: &HostPattern| {
        format!(
            "{}: {:?} is for all hosts that anybody registers there: robots.txt of none of them counts for HTTPS",
            places.key("https.bypass"),
            pattern.to_string()
        )
    };
    wide.map(warning).collect()
}

/// Returns warnings about crawlers under others' names, and about addresses that match everybody.
fn crawler_warnings(config: &Config, places: &ConfigPlaces<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    for (crawler, number) in config.crawlers.crawlers.iter().zip(1..) {
        let tokens = crawler.tokens.iter().map(ProductToken::as_str);
        for (token, owner) in tokens.filter_map(|token| Some((token, well_known_owner(token)?))) {
            warnings.push(format!(
                "{}: {token:?} is the name of a crawler of {owner}: with it, a client that pretends to be that one is not refused, \
                 and gets what sites allow to {owner} alone; unless you are {owner}, use a name of your own",
                places.key_in_table("crawler", number, "tokens")
            ));
        }
        if let Some(folder) = config.signing.right_folder_for_key_of(crawler) {
            warnings.push(format!(
                "{}: signing.agent publishes every key in that folder: this one, too, as soon as the crawler has another; move it to {}",
                places.key_in_table("crawler", number, "signing_key"),
                folder.display()
            ));
        }
        let networks = IpNet::aggregate(&crawler.addresses);
        if networks.iter().filter(|network| network.prefix_len() == 0).count() == 2 {
            warnings.push(format!(
                "{}: addresses are all that there are, so they prove nothing",
                places.key_in_table("crawler", number, "match")
            ));
        }
    }
    warnings
}

/// Returns warnings about exceptions for all hosts, and about refusals that an exception before them disables.
fn rule_warnings(rules: &[PolicyRule], places: &ConfigPlaces<'_>, now: SystemTime) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut exceptions: Vec<(usize, &PolicyRule)> = Vec::new();
    for (rule, number) in rules.iter().zip(1..).filter(|(rule, _)| !rule.has_expired(now)) {
        if rule.action == RuleAction::Allow {
            warnings.extend(wide_exception_warning(rule, number, places));
            exceptions.push((number, rule));
            continue;
        }
        let covering = exceptions.iter().find(|(_, exception)| exception.covers(rule));
        if let Some((earlier, exception)) = covering {
            let end = exception.expires_at.map_or_else(String::new, |at| {
                format!(" until {}", humantime::format_rfc3339_seconds(at))
            });
            warnings.push(format!(
                "{}: this refusal never applies{end}: [[rule]] {earlier}, an exception that comes first, matches all the same \
                 requests; put the refusal first",
                places.key_in_table("rule", number, "action")
            ));
        }
    }
    warnings
}

fn wide_exception_warning(
    rule: &PolicyRule,
    number: usize,
    places: &ConfigPlaces<'_>,
) -> Option<String> {
    let is_for_all = |pattern: &HostPattern| {
        *pattern == HostPattern::Any
            || pattern.to_string().bytes().all(|byte| b"*.".contains(&byte))
    };
    let place = || places.key_in_table("rule", number, "hosts");
    if rule.hosts.iter().any(is_for_all) {
        let crawlers = if rule.crawlers.is_empty() {
            "any crawler".to_owned()
        } else {
            rule.crawlers.join(", ")
        };
        return Some(format!(
            "{}: this exception is for all hosts: it overrides every site's robots.txt for {crawlers}; name the hosts that agreed",
            place()
        ));
    }
    let wide = rule.hosts.iter().find(|pattern| is_for_whole_suffix(pattern))?;
    Some(format!(
        "{}: this exception is for all hosts that anybody registers at {:?}; name the hosts that agreed",
        place(),
        wide.to_string()
    ))
}

/// Returns whether a pattern matches all hosts below a public suffix, such as `*.com`.
fn is_for_whole_suffix(pattern: &HostPattern) -> bool {
    match pattern {
        HostPattern::Suffix(suffix) => is_public_suffix(suffix),
        _ => pattern.wildcard_parent().is_some_and(is_public_suffix),
    }
}

/// Returns whether networks contain every IPv4 address, or every IPv6 address.
fn covers_a_family(networks: &[IpNet]) -> bool {
    IpNet::aggregate(&networks.to_vec()).iter().any(|network| network.prefix_len() == 0)
}
