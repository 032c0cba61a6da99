//! Hosts that are addresses themselves.

use std::net::{IpAddr, Ipv4Addr};

/// The address that `host` spells, if it is not a name.
pub(crate) fn literal(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?.parse().ok().map(IpAddr::V6),
        None => host.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
    }
}
