//! The scope of a rest, and its name in the fleet.

use std::net::IpAddr;

use ring::digest::{SHA256, digest};
use wayleave_robots_txt::Target;

use super::unit::PaceUnit;
use crate::identity::per_client::client_network;

/// The part of an origin, or of what shares its pace, that rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RestScope {
    Whole,
    Part(PageAndClient),
}

/// A page, and a client that got a 503 for it, as digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageAndClient {
    pub(super) client: u64,
    pub(super) path: u64,
}

impl PageAndClient {
    pub(super) fn of(target: &Target, client: IpAddr, unit: Option<&PaceUnit>) -> Self {
        // Digests take the same small space for every path, and are the same on all nodes.
        let path = match unit {
            // Origins that share a pace have pages of the same path.
            Some(_) => short_digest(target.to_string().as_bytes()),
            None => short_digest(target.path().as_str().as_bytes()),
        };
        let client = match client_network(client) {
            IpAddr::V4(address) => short_digest(&address.octets()),
            IpAddr::V6(address) => short_digest(&address.octets()),
        };
        Self { client, path }
    }
}

impl RestScope {
    /// Returns the name used in the fleet: that of the unit, with a fragment for a part of it.
    pub(super) fn name(self, unit: &PaceUnit) -> String {
        match self {
            Self::Whole => unit.to_string(),
            Self::Part(PageAndClient { client, path }) => {
                format!("{unit}#{client:016x}{path:016x}")
            }
        }
    }

    /// Parses a name used in the fleet.
    pub(super) fn parse_name(name: &str) -> Option<(PaceUnit, Self)> {
        let Some((unit, part)) = name.split_once('#') else {
            return Some((PaceUnit::parse(name)?, Self::Whole));
        };
        let (client, path) = part.split_at_checked(16)?;
        let part = PageAndClient {
            client: u64::from_str_radix(client, 16).ok()?,
            path: u64::from_str_radix(path, 16).ok()?,
        };
        Some((PaceUnit::parse(unit)?, Self::Part(part)))
    }
}

fn short_digest(bytes: &[u8]) -> u64 {
    let first = digest(&SHA256, bytes).as_ref().first_chunk().copied();
    u64::from_be_bytes(first.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope_names_round_trip() {
        let target = Target::parse("https://shop.test:8443/a?b").unwrap();
        let part = PageAndClient::of(&target, [192, 0, 2, 1].into(), None);
        let origin = PaceUnit::Origin(target.origin().clone());
        for unit in [origin, PaceUnit::of_domain(target.origin())] {
            for resting in [RestScope::Whole, RestScope::Part(part)] {
                let name = resting.name(&unit);
                let read = RestScope::parse_name(&name);
                assert_eq!(read, Some((unit.clone(), resting)), "{name}");
            }
        }
        for name in ["", "shop.test", "https://shop.test#", "https://shop.test#x"] {
            assert_eq!(RestScope::parse_name(name), None, "{name}");
        }
    }
}
