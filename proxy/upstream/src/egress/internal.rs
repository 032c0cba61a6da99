//! Internal addresses: all that are not globally reachable.
//!
//! The tables follow the IANA special-purpose address registries (RFC 6890 and its updates), read strictly: an
//! address that is not clearly part of the global internet counts as internal.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6(segments: [u16; 4], prefix: u8) -> Ipv6Net {
    let [a, b, c, d] = segments;
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0), prefix)
}

const INTERNAL_V4: &[(Ipv4Net, &str)] = &[
    (v4(0, 0, 0, 0, 32), "unspecified"),
    (v4(0, 0, 0, 0, 8), "this network"),
    (v4(10, 0, 0, 0, 8), "private"),
    (v4(100, 64, 0, 0, 10), "shared (carrier-grade NAT)"),
    (v4(127, 0, 0, 0, 8), "loopback"),
    // Azure's, which is in no registry.
    (v4(168, 63, 129, 16, 32), "cloud metadata"),
    // Before the block that contains it: the first match gives the message.
    (v4(169, 254, 169, 254, 32), "cloud metadata"),
    (v4(169, 254, 0, 0, 16), "link-local"),
    (v4(172, 16, 0, 0, 12), "private"),
    (v4(192, 0, 0, 0, 24), "protocol assignments"),
    (v4(192, 0, 2, 0, 24), "documentation"),
    (v4(192, 88, 99, 0, 24), "6to4 relay anycast"),
    (v4(192, 168, 0, 0, 16), "private"),
    (v4(198, 18, 0, 0, 15), "benchmarking"),
    (v4(198, 51, 100, 0, 24), "documentation"),
    (v4(203, 0, 113, 0, 24), "documentation"),
    (v4(224, 0, 0, 0, 4), "multicast"),
    (v4(255, 255, 255, 255, 32), "broadcast"),
    (v4(240, 0, 0, 0, 4), "reserved"),
];

/// Blocks listed only for the message, or internal although inside 2000::/3.
const INTERNAL_V6: &[(Ipv6Net, &str)] = &[
    (v6([0x64, 0xff9b, 1, 0], 48), "local-use NAT64"),
    (v6([0x100, 0, 0, 0], 64), "discard-only"),
    (v6([0x2001, 2, 0, 0], 48), "benchmarking"),
    (v6([0x2001, 0, 0, 0], 23), "protocol assignments"),
    (v6([0x2001, 0xdb8, 0, 0], 32), "documentation"),
    (v6([0x3fff, 0, 0, 0], 20), "documentation"),
    (v6([0x5f00, 0, 0, 0], 16), "segment routing"),
    (v6([0xfc00, 0, 0, 0], 7), "unique local"),
    (v6([0xfe80, 0, 0, 0], 10), "link-local"),
    (v6([0xfec0, 0, 0, 0], 10), "site-local"),
    (v6([0xff00, 0, 0, 0], 8), "multicast"),
];

/// The only block from which global unicast addresses are assigned.
const GLOBAL_UNICAST: Ipv6Net = v6([0x2000, 0, 0, 0], 3);
const NAT64: Ipv6Net = v6([0x64, 0xff9b, 0, 0], 96);
const SIX_TO_FOUR: Ipv6Net = v6([0x2002, 0, 0, 0], 16);
const TEREDO: Ipv6Net = v6([0x2001, 0, 0, 0], 32);

/// Returns why `address` is internal, in a word or two; `None` if it is globally reachable.
///
/// An IPv6 address that embeds IPv4 addresses (mapped, compatible, NAT64, 6to4, Teredo) is classified by those.
pub fn why_internal(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => why_internal_v4(address),
        IpAddr::V6(address) => why_internal_v6(address),
    }
}

/// Returns the addresses to which packets for `address` may be delivered: itself, and the IPv4 addresses that it
/// embeds.
pub(super) fn delivery_addresses(address: IpAddr) -> Vec<IpAddr> {
    let embedded = match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(address) => embedded_v4(address),
    };
    embedded.into_iter().flatten().map(IpAddr::V4).chain([address]).collect()
}

fn why_internal_v4(address: Ipv4Addr) -> Option<&'static str> {
    let (_, why) = INTERNAL_V4.iter().find(|(net, _)| net.contains(&address))?;
    Some(why)
}

fn why_internal_v6(address: Ipv6Addr) -> Option<&'static str> {
    if address.is_unspecified() {
        return Some("unspecified");
    }
    if address.is_loopback() {
        return Some("loopback");
    }
    if let Some(embedded) = embedded_v4(address) {
        return embedded.into_iter().find_map(why_internal_v4);
    }
    if let Some((_, why)) = INTERNAL_V6.iter().find(|(net, _)| net.contains(&address)) {
        return Some(why);
    }
    (!GLOBAL_UNICAST.contains(&address)).then_some("not global unicast")
}

/// Returns the IPv4 addresses to which packets for `address` are delivered, by the transition mechanism that its
/// prefix indicates.
fn embedded_v4(address: Ipv6Addr) -> Option<[Ipv4Addr; 2]> {
    let octets = address.octets();
    let v4_at = |i: usize| Ipv4Addr::new(octets[i], octets[i + 1], octets[i + 2], octets[i + 3]);
    // IPv4-compatible or IPv4-mapped (RFC 4291 section 2.5.5).
    if let Some(mapped) = address.to_ipv4() {
        return Some([mapped; 2]);
    }
    // RFC 6052 section 2.2: after a prefix of 96 bits.
    if NAT64.contains(&address) {
        return Some([v4_at(12); 2]);
    }
    // RFC 3056 section 2: after the prefix of 16 bits.
    if SIX_TO_FOUR.contains(&address) {
        return Some([v4_at(2); 2]);
    }
    // RFC 4380 section 4: the server as it is, the client with every bit inverted.
    let client = Ipv4Addr::from_bits(!v4_at(12).to_bits());
    TEREDO.contains(&address).then(|| [v4_at(4), client])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_for_an_address_with_another_in_it_may_be_delivered_to_both() {
        for (address, embedded) in [
            ("::ffff:1.2.3.4", &["1.2.3.4"][..]),
            ("::1.2.3.4", &["1.2.3.4"]),
            ("64:ff9b::1.2.3.4", &["1.2.3.4"]),
            ("2002:102:304::1", &["1.2.3.4"]),
            ("2001:0:102:304::f0f1:f2f3", &["1.2.3.4", "15.14.13.12"]),
            ("2600::1", &[]),
            ("1.2.3.4", &[]),
        ] {
            let address: IpAddr = address.parse().unwrap();
            let mut expected: Vec<IpAddr> = embedded.iter().map(|it| it.parse().unwrap()).collect();
            expected.push(address);
            let mut found = delivery_addresses(address);
            found.dedup();
            assert_eq!(found, expected, "{address}");
        }
    }
}
