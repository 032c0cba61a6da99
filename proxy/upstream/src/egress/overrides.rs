//! `[dns.overrides]`: addresses for names, like curl's `--resolve`.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use wayleave_robots_txt::HostPattern;

/// One line of `[dns.overrides]`: a host, with or without a port, and the address to dial instead of asking DNS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsOverride {
    key: OverrideKey,
    address: IpAddr,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct OverrideKey {
    /// A host, or all hosts below one.
    host: HostPattern,
    port: Option<u16>,
}

/// A reason why a line of `[dns.overrides]` is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDnsOverride {
    /// The key is neither `host`, `host:port`, `*.suffix` nor `*.suffix:port`.
    #[error("`{0}` is not a host, host:port, *.suffix or *.suffix:port")]
    Key(String),
    /// The value is neither `address` nor `address:port`.
    #[error("`{0}` is not an IP address or address:port (IPv6 with a port in brackets)")]
    Value(String),
}

impl DnsOverride {
    /// Parses one line. `key` is `host`, `host:port`, `*.suffix` or `*.suffix:port`; `value` is `address` or
    /// `address:port`, with IPv6 addresses in brackets if a port follows.
    ///
    /// A key without a port applies to every port. A value without one leaves the port unchanged.
    ///
    /// # Errors
    ///
    /// Returns the one of the two that cannot be parsed.
    pub fn parse(key: &str, value: &str) -> Result<Self, InvalidDnsOverride> {
        let parsed_key = parse_key(key).ok_or_else(|| InvalidDnsOverride::Key(key.to_owned()))?;
        let (address, port) =
            parse_value(value).ok_or_else(|| InvalidDnsOverride::Value(value.to_owned()))?;
        Ok(Self { key: parsed_key, address, port })
    }

    /// Returns the name that is overridden, in canonical form: two lines with the same key contradict each other.
    #[must_use]
    pub fn key(&self) -> String {
        let host = &self.key.host;
        match self.key.port {
            Some(port) => format!("{host}:{port}"),
            None => host.to_string(),
        }
    }

    /// Returns the address that is dialled instead: `address`, or `address:port`.
    #[must_use]
    pub fn value(&self) -> String {
        match self.port {
            Some(port) => SocketAddr::new(self.address, port).to_string(),
            None => self.address.to_string(),
        }
    }
}

fn parse_key(key: &str) -> Option<OverrideKey> {
    let (host, port) = split_port(key)?;
    let host: HostPattern = host.parse().ok()?;
    // Other patterns are not found by looking up suffixes.
    let is_usable = matches!(host, HostPattern::Exact(_)) || host.wildcard_parent().is_some();
    is_usable.then_some(OverrideKey { host, port })
}

fn parse_value(value: &str) -> Option<(IpAddr, Option<u16>)> {
    if let Ok(address) = value.parse::<IpAddr>() {
        return Some((address, None));
    }
    let (host, port) = split_port(value)?;
    let bare = host.strip_prefix('[').map_or(Some(host), |rest| rest.strip_suffix(']'))?;
    let address: IpAddr = bare.parse().ok()?;
    // Brackets belong to IPv6 addresses, and only to those.
    (address.is_ipv4() == (bare.len() == host.len())).then_some((address, port))
}

/// Splits off the port, if there is one. Port 0 is invalid, since it cannot be dialled.
fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    let host_end = text.rfind(']').map_or(0, |bracket| bracket + 1);
    let Some(colon) = text[host_end..].find(':').map(|at| at + host_end) else {
        return Some((text, None));
    };
    let digits = &text[colon + 1..];
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let port: u16 = digits.parse().ok().filter(|port| *port != 0)?;
    Some((&text[..colon], Some(port)))
}

/// All overrides, by key.
#[derive(Debug, Default)]
pub(super) struct DnsOverrides {
    by_key: HashMap<OverrideKey, (IpAddr, Option<u16>)>,
}

impl DnsOverrides {
    pub(super) fn new(overrides: Vec<DnsOverride>) -> Self {
        let by_key =
            overrides.into_iter().map(|line| (line.key, (line.address, line.port))).collect();
        Self { by_key }
    }

    /// Returns the address to dial for `host` (as `Origin::host` returns it) and `port`. The most specific key wins:
    /// the host before suffixes, longer suffixes before shorter ones, and each with a port before the same without.
    pub(super) fn find(&self, host: &str, port: u16) -> Option<SocketAddr> {
        if self.by_key.is_empty() {
            return None;
        }
        // In the form in which keys are compared.
        let Ok(HostPattern::Exact(host)) = host.parse() else {
            return None;
        };
        let dots = host.match_indices('.').map(|(dot, _)| dot);
        let above: Vec<_> =
            dots.map(|dot| HostPattern::Glob(format!("*{}", &host[dot..]))).collect();
        std::iter::once(HostPattern::Exact(host))
            .chain(above)
            .flat_map(|host| {
                let without_port = OverrideKey { host, port: None };
                [OverrideKey { port: Some(port), ..without_port.clone() }, without_port]
            })
            .find_map(|key| self.by_key.get(&key))
            .map(|&(address, other)| SocketAddr::new(address, other.unwrap_or(port)))
    }
}
