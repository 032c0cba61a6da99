//! `[dns.overrides]`: addresses for names, as curl's `--resolve` has them.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use wayleave_robots_txt::HostPattern;

/// One line of `[dns.overrides]`: a host, with or without a port, and the address to dial instead of asking DNS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    key: Key,
    address: IpAddr,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    /// One host, or all below one.
    host: HostPattern,
    port: Option<u16>,
}

/// Why a line of `[dns.overrides]` cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidOverride {
    /// The key is neither `host`, `host:port`, `*.suffix` nor `*.suffix:port`.
    Key(String),
    /// The value is neither `address` nor `address:port`.
    Value(String),
}

impl std::fmt::Display for InvalidOverride {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Key(key) => write!(
                f,
                "`{key}` is not a host, host:port, *.suffix or *.suffix:port"
            ),
            Self::Value(value) => write!(
                f,
                "`{value}` is not an IP address or address:port (IPv6 with a port in brackets)"
            ),
        }
    }
}

impl std::error::Error for InvalidOverride {}

impl Override {
    /// Reads one line: `key` is `host`, `host:port`, `*.suffix` or `*.suffix:port`, `value` is `address` or
    /// `address:port`; IPv6 addresses stand in brackets where a port follows.
    ///
    /// Without a port in the key every port is meant, without one in the value the port stays as it was.
    ///
    /// # Errors
    ///
    /// Tells which of the two cannot be read.
    pub fn parse(key: &str, value: &str) -> Result<Self, InvalidOverride> {
        let parsed_key = parse_key(key).ok_or_else(|| InvalidOverride::Key(key.to_owned()))?;
        let (address, port) =
            parse_value(value).ok_or_else(|| InvalidOverride::Value(value.to_owned()))?;
        Ok(Self {
            key: parsed_key,
            address,
            port,
        })
    }

    /// What is overridden, in the one spelling of it: two lines with the same key contradict each other.
    #[must_use]
    pub fn key(&self) -> String {
        let host = &self.key.host;
        match self.key.port {
            Some(port) => format!("{host}:{port}"),
            None => host.to_string(),
        }
    }

    /// What is dialled instead: `address`, or `address:port`.
    #[must_use]
    pub fn value(&self) -> String {
        match self.port {
            Some(port) => SocketAddr::new(self.address, port).to_string(),
            None => self.address.to_string(),
        }
    }
}

fn parse_key(key: &str) -> Option<Key> {
    let (host, port) = split_port(key)?;
    let host: HostPattern = host.parse().ok()?;
    let is_usable = matches!(host, HostPattern::Exact(_)) || host.below().is_some();
    is_usable.then_some(Key { host, port })
}

fn parse_value(value: &str) -> Option<(IpAddr, Option<u16>)> {
    if let Ok(address) = value.parse::<IpAddr>() {
        return Some((address, None));
    }
    let (host, port) = split_port(value)?;
    let bare = host
        .strip_prefix('[')
        .map_or(Some(host), |rest| rest.strip_suffix(']'))?;
    let address: IpAddr = bare.parse().ok()?;
    (address.is_ipv4() == (bare.len() == host.len())).then_some((address, port))
}

/// Splits a port off, if there is one. Port 0 cannot be dialled.
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

/// All overrides, ready to be asked.
#[derive(Debug, Default)]
pub(super) struct Overrides {
    by_key: HashMap<Key, (IpAddr, Option<u16>)>,
}

impl Overrides {
    pub(super) fn new(overrides: Vec<Override>) -> Self {
        let by_key = overrides
            .into_iter()
            .map(|line| (line.key, (line.address, line.port)))
            .collect();
        Self { by_key }
    }

    /// The address to dial for `host` (as `Origin::host` gives it) and `port`, by the most exact key: host and port,
    /// host, then the longest suffix, with a port before without.
    pub(super) fn find(&self, host: &str, port: u16) -> Option<SocketAddr> {
        if self.by_key.is_empty() {
            return None;
        }
        let Ok(HostPattern::Exact(host)) = host.parse() else {
            return None;
        };
        let dots = host.match_indices('.').map(|(dot, _)| dot);
        let above: Vec<_> = dots
            .map(|dot| HostPattern::Glob(format!("*{}", &host[dot..])))
            .collect();
        std::iter::once(HostPattern::Exact(host))
            .chain(above)
            .flat_map(|host| {
                let without_port = Key { host, port: None };
                [
                    Key {
                        port: Some(port),
                        ..without_port.clone()
                    },
                    without_port,
                ]
            })
            .find_map(|key| self.by_key.get(&key))
            .map(|&(address, other)| SocketAddr::new(address, other.unwrap_or(port)))
    }
}
