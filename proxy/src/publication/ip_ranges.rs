//! The addresses that the crawlers' requests come from, in the format JAFAR (draft-illyes-webbotauth-jafar-00).

use std::net::IpAddr;
use std::time::SystemTime;

use ipnet::IpNet;
use serde::Serialize;
use serde_json::{Value, json};
use wayleave_config::Config;
use wayleave_decision::Crawler;
use wayleave_evidence::Sha256Digest;
use wayleave_upstream::egress::why_internal;

/// The address ranges of all crawlers.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct IpRanges {
    /// Required by earlier versions of the format; later ones ignore it.
    format_version: &'static str,
    /// A word that changes if the ranges do.
    synctoken: String,
    creation_time: String,
    prefixes: Vec<IpPrefix>,
}

/// One address of one crawler.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct IpPrefix {
    #[serde(skip_serializing_if = "Option::is_none")]
    ipv4_prefix: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ipv6_prefix: Option<String>,
    /// The crawler's product token. Later versions of the format have a list of them instead.
    service: String,
    services: [String; 1],
}

impl IpPrefix {
    fn new(address: IpAddr, crawler: &Crawler) -> Self {
        let service = crawler.tokens[0].to_string();
        let (ipv4_prefix, ipv6_prefix) = match range(address) {
            range if address.is_ipv4() => (Some(range), None),
            range => (None, Some(range)),
        };
        Self { ipv4_prefix, ipv6_prefix, services: [service.clone()], service }
    }
}

/// Returns the file of the address ranges of `crawlers`.
pub(super) fn file<'c>(
    config: &'c Config,
    crawlers: impl Iterator<Item = &'c Crawler>,
    now: SystemTime,
) -> String {
    let prefixes = prefixes(config, crawlers);
    let json = serde_json::to_vec(&prefixes).expect("strings are JSON");
    let file = IpRanges {
        format_version: "1.0",
        synctoken: Sha256Digest::of(&json).to_string(),
        creation_time: humantime::format_rfc3339_seconds(now).to_string(),
        prefixes,
    };
    serde_json::to_string_pretty(&file).expect("strings are JSON") + "\n"
}

/// Returns whether a published file has the ranges of `crawlers`.
pub(super) fn agrees<'c>(
    file: &Value,
    config: &'c Config,
    crawlers: impl Iterator<Item = &'c Crawler>,
) -> bool {
    file["prefixes"] == json!(prefixes(config, crawlers))
}

/// Returns the addresses that origins see of a crawler, as far as the configuration says.
pub(crate) fn addresses<'a>(config: &'a Config, crawler: &'a Crawler) -> &'a [IpAddr] {
    // Origins see the parent's, whatever this machine's are.
    if config.upstream.egress.parent.is_some() {
        return &[];
    }
    match &crawler.source_address {
        Some(address) => std::slice::from_ref(address),
        None => &config.upstream.egress.source_addresses,
    }
}

/// Returns the range that is one address.
pub(super) fn range(address: IpAddr) -> String {
    IpNet::from(address).to_string()
}

fn prefixes<'c>(config: &'c Config, crawlers: impl Iterator<Item = &'c Crawler>) -> Vec<IpPrefix> {
    let prefixes = crawlers.flat_map(|crawler| {
        addresses(config, crawler).iter().map(move |address| IpPrefix::new(*address, crawler))
    });
    prefixes.collect()
}

/// Returns warnings about addresses that are not known, or that origins cannot see.
pub(crate) fn warnings(config: &Config) -> Vec<String> {
    if config.upstream.egress.parent.is_some() {
        let warning = "origins see the addresses of upstream.proxy, so there are none in ips.json";
        return vec![warning.to_owned()];
    }
    let mut warnings = Vec::new();
    for crawler in &config.crawlers.crawlers {
        let name = &crawler.name;
        let addresses = addresses(config, crawler);
        if addresses.is_empty() {
            warnings.push(format!(
                "{name:?} has no source_address, and there are no upstream.source_addresses: none of its addresses is in ips.json"
            ));
        }
        for address in addresses {
            if let Some(why) = why_internal(*address) {
                warnings.push(format!(
                    "{address} of {name:?} is internal ({why}): origins see another address"
                ));
            }
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_address_is_a_range_of_its_own_kind() {
        let crawler = "[[crawler]]\nname = \"news\"\ntokens = [\"NewsBot\"]\n";
        let config = Config::from_toml("t.toml", crawler).unwrap();
        let address = "2001:db8::7".parse().unwrap();
        assert_eq!(
            json!(IpPrefix::new(address, &config.crawlers.crawlers[0])),
            json!({ "ipv6Prefix": "2001:db8::7/128", "service": "NewsBot", "services": ["NewsBot"] })
        );
    }
}
