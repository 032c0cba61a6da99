//! Units that share one pace: an origin, all origins of a registrable domain, or all of a network.

use std::fmt;

use ipnet::IpNet;
use wayleave_fairness::registrable_domain;
use wayleave_robots_txt::Origin;

/// The setting of who shares one pace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PaceShare {
    /// The origin: each has a pace of its own, and each crawler there.
    #[default]
    Origin,
    /// The origins of a registrable domain.
    Domain,
    /// The origins whose addresses are in one network.
    Address,
}

impl PaceShare {
    /// Returns the spelling used in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Origin => "origin",
            Self::Domain => "domain",
            Self::Address => "address",
        }
    }
}

/// An origin, or several that share one pace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PaceUnit {
    Origin(Origin),
    /// A registrable domain, or a host that has none.
    Domain(Box<str>),
    Network(IpNet),
}

const DOMAIN: &str = "domain:";
const ADDRESS: &str = "address:";

impl PaceUnit {
    /// Returns the registrable domain of an origin, by the public suffix list. An address, and a name without one, is a unit of
    /// its own.
    pub fn of_domain(origin: &Origin) -> Self {
        Self::Domain(registrable_domain(origin.host()).into())
    }

    /// Returns whether several origins may share the pace.
    pub fn is_shared(&self) -> bool {
        !matches!(self, Self::Origin(_))
    }

    /// Returns the network whose addresses share the pace.
    pub fn network(&self) -> Option<IpNet> {
        match self {
            Self::Network(network) => Some(*network),
            Self::Origin(_) | Self::Domain(_) => None,
        }
    }

    /// Parses a name used in the fleet.
    pub(super) fn parse(name: &str) -> Option<Self> {
        if let Some(domain) = name.strip_prefix(DOMAIN) {
            return Some(Self::Domain(domain.into()));
        }
        match name.strip_prefix(ADDRESS) {
            Some(network) => Some(Self::Network(network.parse().ok()?)),
            None => Some(Self::Origin(Origin::parse(name).ok()?)),
        }
    }
}

/// Writes the name used in the fleet.
impl fmt::Display for PaceUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Origin(origin) => origin.fmt(f),
            Self::Domain(domain) => write!(f, "{DOMAIN}{domain}"),
            Self::Network(network) => write!(f, "{ADDRESS}{network}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_of_a_domain_is_by_the_public_suffix_list() {
        for (origin, unit) in [
            ("https://a.b.shop.example", "domain:shop.example"),
            ("http://shop.example:8080", "domain:shop.example"),
            ("https://a.shop.co.uk", "domain:shop.co.uk"),
            ("https://co.uk", "domain:co.uk"),
            ("https://me.github.io", "domain:me.github.io"),
            // In the list as a U-label: 食狮.公司.cn.
            ("https://www.xn--85x722f.xn--55qx5d.cn", "domain:xn--85x722f.xn--55qx5d.cn"),
            ("http://localhost", "domain:localhost"),
            ("http://192.0.2.7:81", "domain:192.0.2.7"),
            ("http://[2001:db8::7]", "domain:[2001:db8::7]"),
        ] {
            let of_domain = PaceUnit::of_domain(&Origin::parse(origin).unwrap());
            assert_eq!(of_domain.to_string(), unit, "{origin}");
            assert_eq!(PaceUnit::parse(unit), Some(of_domain));
        }
    }

    #[test]
    fn names_of_units_round_trip() {
        for name in ["https://shop.test", "address:192.0.2.0/24", "address:2001:db8:1::/48"] {
            assert_eq!(PaceUnit::parse(name).map(|unit| unit.to_string()).as_deref(), Some(name));
        }
        for name in ["", "shop.test", "address:shop.test", "address:"] {
            assert_eq!(PaceUnit::parse(name), None, "{name}");
        }
    }
}
