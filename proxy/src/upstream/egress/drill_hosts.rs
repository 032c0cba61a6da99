//! Hosts of the drill: names that no client can know. Whatever addresses they have, connections to them lead to an origin inside
//! this process, so that a fault of enforcement sends nothing anywhere.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{LazyLock, OnceLock};

use data_encoding::HEXLOWER;
use ring::rand::{SecureRandom, SystemRandom};

/// The addresses of hosts that are meant to be reachable. They are global, so that they pass the check, but AS112's (RFC 7535),
/// where no crawler has an origin whose pace these hosts could share.
const PUBLIC: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(192, 31, 196, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 1)),
];
/// Those of the host with a pace of its own: in another network of IPv4, for `politeness.share = "address"`.
const PACED: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::new(192, 175, 48, 1)), PUBLIC[1]];
/// The label of that host.
pub(crate) const PACED_LABEL: &str = "paced";
/// The beginning of labels of hosts with one address, which follows with hyphens for dots.
const ADDRESS_LABEL: &str = "address-";

/// The random part of the names, which only this process knows.
static TOKEN: LazyLock<String> = LazyLock::new(|| {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).expect("the system has random bytes");
    HEXLOWER.encode(&bytes)
});
/// The origin that all of them lead to, once there is one.
static ORIGIN: OnceLock<SocketAddr> = OnceLock::new();

/// Returns the random part of the names.
pub(crate) fn token() -> &'static str {
    &TOKEN
}

/// Returns the host with this label. Each has a registrable domain of its own, and nobody can register any (RFC 6761 section 6.4).
pub(crate) fn host(label: &str) -> String {
    format!("{label}-{}.invalid", *TOKEN)
}

/// Returns the host whose only address is this one.
pub(crate) fn host_at(address: Ipv4Addr) -> String {
    host(&format!("{ADDRESS_LABEL}{}", address.to_string().replace('.', "-")))
}

/// Lets all hosts of the drill lead to the origin at this address of this machine from now on.
pub(crate) fn lead_to(origin: SocketAddr) {
    // A second drill of one process would have the origin of the first.
    let _ = ORIGIN.set(origin);
}

/// Returns whether `text`, such as an authority or a URL, names a host of the drill.
pub(crate) fn is_named_in(text: &str) -> bool {
    // Without a drill nobody pays for it.
    ORIGIN.get().is_some() && text.contains(TOKEN.as_str())
}

/// Returns the label of a host of the drill.
pub(crate) fn label_of(host: &str) -> Option<&str> {
    host.strip_suffix(".invalid")?.strip_suffix(TOKEN.as_str())?.strip_suffix('-')
}

/// Returns the origin that is dialled for `host`, if it is a host of the drill.
pub(super) fn origin_for(host: &str) -> Option<SocketAddr> {
    let origin = ORIGIN.get()?;
    label_of(host).map(|_| *origin)
}

/// Returns the addresses that `host` has, if it is a host of the drill.
pub(super) fn addresses_of(host: &str) -> Option<Vec<IpAddr>> {
    ORIGIN.get()?;
    let label = label_of(host)?;
    if let Some(address) = label.strip_prefix(ADDRESS_LABEL) {
        let address = address.replace('-', ".").parse().ok()?;
        return Some(vec![IpAddr::V4(address)]);
    }
    Some(if label == PACED_LABEL { PACED.to_vec() } else { PUBLIC.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_that_only_this_process_knows() {
        let host = host("open");
        assert_eq!(label_of(&host), Some("open"));
        for other in ["open.invalid", "open-0123.invalid", &host[..host.len() - 1], "invalid"] {
            assert_eq!(label_of(other), None, "{other}");
        }
        // Before there is an origin, the names lead nowhere.
        assert!(!is_named_in(&host));
        assert_eq!((origin_for(&host), addresses_of(&host)), (None, None));
    }

    #[test]
    fn the_addresses_of_reachable_hosts_are_global() {
        for address in PUBLIC.into_iter().chain(PACED) {
            assert_eq!(super::super::why_internal(address), None, "{address}");
        }
    }
}
