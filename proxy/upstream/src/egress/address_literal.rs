//! Hosts that are literal addresses.

use std::net::{IpAddr, Ipv4Addr};

/// Returns the address that `host` spells; `None` if it is a name.
pub fn parse_literal(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?.parse().ok().map(IpAddr::V6),
        None => host.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
    }
}
