//! The owner of a share.

use std::net::{IpAddr, Ipv6Addr};

/// The owner of a share: an IPv4 address, an IPv6 /64, or wayleave itself, which is the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Holder(Option<IpAddr>);

impl Holder {
    /// The proxy itself, whose requests nobody asked for.
    pub const OWN: Self = Self(None);

    /// Returns the address that stands for it; `None` for the proxy itself.
    #[must_use]
    pub fn address(self) -> Option<IpAddr> {
        self.0
    }

    /// Returns the holder to whom a client's address belongs. A host on an IPv6 network has all addresses of a /64 to
    /// itself.
    #[must_use]
    pub fn of_client(client: IpAddr) -> Self {
        Self(Some(match client {
            IpAddr::V4(_) => client,
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_holds_its_whole_network() {
        let of = |address: &str| Holder::of_client(address.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_ne!(of("192.0.2.1"), Holder::OWN);
    }
}
