//! The check of addresses that may be dialled. Its result has a type that nothing else can make.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use super::error::EgressError;
use super::internal;
use super::local_address::is_local_address;

/// An address that may be dialled: only [`AddressCheck`] makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CheckedAddress(SocketAddr);

impl CheckedAddress {
    pub(super) fn socket_address(self) -> SocketAddr {
        self.0
    }

    /// Returns whether the address is globally reachable, and not this machine's own.
    pub(super) fn is_public(self) -> bool {
        why_internal(self.0.ip()).is_none()
    }
}

/// The conditions for addresses to be dialled.
#[derive(Debug, Default)]
pub(super) struct AddressCheck {
    pub(super) allow_private: Vec<IpNet>,
    pub(super) own_listeners: Vec<SocketAddr>,
}

impl AddressCheck {
    /// Permits `address`, unless it is internal or our own. An IPv4-mapped address is treated as the IPv4 address
    /// that it is on the wire.
    pub(super) fn check(&self, address: SocketAddr) -> Result<CheckedAddress, EgressError> {
        let checked = self.check_configured(address)?;
        let ip = checked.0.ip();
        match why_internal(ip) {
            Some(why) if !self.allow_private.iter().any(|net| net.contains(&ip)) => {
                Err(EgressError::Prohibited { address: ip, why })
            }
            _ => Ok(checked),
        }
    }

    /// Permits an address that the operator configured, unless it is our own.
    pub(super) fn check_configured(
        &self,
        address: SocketAddr,
    ) -> Result<CheckedAddress, EgressError> {
        let ip = address.ip().to_canonical();
        if self.is_own_listener(ip, address.port()) {
            return Err(EgressError::Prohibited { address: ip, why: "this proxy itself" });
        }
        Ok(CheckedAddress(SocketAddr::new(ip, address.port())))
    }

    fn is_own_listener(&self, ip: IpAddr, port: u16) -> bool {
        self.own_listeners.iter().filter(|listener| listener.port() == port).any(|listener| {
            let own = listener.ip().to_canonical();
            // A connection to the unspecified address reaches this machine.
            own == ip || ip.is_unspecified() || (own.is_unspecified() && is_local_address(ip))
        })
    }
}

/// Returns why `ip` is internal, in a word or two. An address of this machine is internal even if it is global: from
/// here, services on it are reached behind the firewall.
fn why_internal(ip: IpAddr) -> Option<&'static str> {
    internal::why_internal(ip).or_else(|| {
        let mut ends_at = internal::delivery_addresses(ip).into_iter();
        ends_at.any(is_local_address).then_some("this machine")
    })
}
