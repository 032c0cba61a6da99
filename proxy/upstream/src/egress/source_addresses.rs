//! The local addresses from which connections are made.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

use super::check::CheckedAddress;
use super::error::EgressError;

/// The addresses to dial from. If empty, the system chooses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SourceAddresses(Vec<IpAddr>);

impl SourceAddresses {
    pub(super) fn new(addresses: Vec<IpAddr>) -> Self {
        Self(addresses)
    }

    /// Returns the addresses to dial `host` from, at most one of each family: only `own`, if there is one. Otherwise
    /// a host always gets the same shared address, so that to it and to its rate limits, requests and robots.txt
    /// fetches come from one client.
    pub(super) fn for_host(&self, host: &str, own: Option<IpAddr>) -> Self {
        if let Some(own) = own {
            return Self(vec![own]);
        }
        let (v4, v6): (Vec<IpAddr>, Vec<IpAddr>) = self.0.iter().partition(|ip| ip.is_ipv4());
        // This hasher has fixed keys, so a host keeps its address after a restart.
        let mut hasher = DefaultHasher::new();
        host.hash(&mut hasher);
        let number = hasher.finish();
        let one_of = |all: &[IpAddr]| {
            let count = u64::try_from(all.len()).ok().filter(|&count| count > 0)?;
            all.get(usize::try_from(number % count).ok()?).copied()
        };
        Self([one_of(&v4), one_of(&v6)].into_iter().flatten().collect())
    }

    /// Returns those of `addresses` that can be dialled from here.
    ///
    /// # Errors
    ///
    /// If there were some, and none is left.
    pub(super) fn reachable(
        &self,
        mut addresses: Vec<CheckedAddress>,
    ) -> Result<Vec<CheckedAddress>, EgressError> {
        let Some(&first) = self.0.first() else {
            return Ok(addresses);
        };
        addresses.retain(|address| self.matching_family(address.socket_address()).is_some());
        if addresses.is_empty() {
            return Err(EgressError::NoSourceForFamily { source: first });
        }
        Ok(addresses)
    }

    /// Returns the address from which to dial `address`.
    pub(super) fn matching_family(&self, address: SocketAddr) -> Option<IpAddr> {
        self.0.iter().copied().find(|ip| ip.is_ipv4() == address.is_ipv4())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn hosts_are_spread_and_each_keeps_its_source_address() {
        let all = ["192.0.2.1", "192.0.2.2", "2001:db8::1"].map(ip);
        let sources = SourceAddresses::new(all.to_vec());
        let mut used = Vec::new();
        for number in 0..100 {
            let host = format!("host{number}.test");
            let chosen = sources.for_host(&host, None);
            assert_eq!(chosen, sources.for_host(&host, None), "{host}");
            assert_eq!(chosen.0.len(), 2, "one of each family");
            used.extend(chosen.0);
        }
        assert!(all.iter().all(|one| used.contains(one)));
    }

    #[test]
    fn crawler_source_address_replaces_the_shared_ones() {
        let sources = SourceAddresses::new(vec![ip("192.0.2.1")]);
        let own = sources.for_host("shop.test", Some(ip("2001:db8::1")));
        assert_eq!(own.0, [ip("2001:db8::1")]);
        assert_eq!(own.matching_family("192.0.2.9:80".parse().unwrap()), None);
    }
}
