//! Egress: turns a host into a route of addresses that may be dialled. There is no other way out.
//!
//! Requests and robots.txt fetches, every hop of a redirect, literal addresses, overrides and DNS answers all pass
//! the same check. The address that is dialled is the one that was checked: no name is looked up twice.

mod address_literal;
mod check;
mod dial;
mod dns;
mod error;
mod internal;
mod local_address;
mod name_servers;
mod overrides;
mod parent;
mod source_addresses;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hickory_resolver::net::NetError;
use ipnet::IpNet;

pub use address_literal::parse_literal;
use check::{AddressCheck, CheckedAddress};
use dns::DnsResolver;
pub use error::{DialError, EgressError};
pub use internal::why_internal;
pub use local_address::is_local_address;
pub use name_servers::SystemNames;
pub use name_servers::{HOSTS, RESOLV_CONF};
use overrides::DnsOverrides;
pub use overrides::{DnsOverride, InvalidDnsOverride};
pub use parent::ParentProtocol;
use parent::is_internal_name;
pub use parent::{ParentProxy, ProxyBypass};
use source_addresses::SourceAddresses;

/// The parts of `[upstream]` and `[dns]` in effect here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressSettings {
    /// Internal addresses that may be dialled despite the check.
    pub allow_private: Vec<IpNet>,
    /// The DNS servers to query, in order. If empty, the system's.
    pub dns_servers: Vec<SocketAddr>,
    /// The names and DNS servers of the system.
    pub system_names: SystemNames,
    /// Names that are not looked up. The addresses given for them pass the same check as all others.
    pub dns_overrides: Vec<DnsOverride>,
    /// Addresses on which this proxy listens. They are never dialled, whatever `allow_private` says. A wildcard
    /// address stands for every local address with that port.
    pub own_listeners: Vec<SocketAddr>,
    /// This machine's addresses from which connections are made. If empty, the system chooses.
    pub source_addresses: Vec<IpAddr>,
    /// The proxy that is dialled instead of origins, if there is one.
    pub parent: Option<Arc<ParentProxy>>,
    /// Hosts that are dialled without the parent proxy.
    pub bypass: Vec<ProxyBypass>,
}

/// The crawler and the client for which a route is looked up.
#[derive(Clone, Copy, Debug, Default)]
pub struct RouteRequester {
    /// The address to dial from; `None` for one of the shared ones.
    pub source: Option<IpAddr>,
    /// The client that sent the request, if there is one: the number of concurrent lookups is limited for each.
    pub client: Option<IpAddr>,
}

/// Finds routes to hosts.
#[derive(Debug)]
pub struct Egress {
    check: Arc<AddressCheck>,
    overrides: DnsOverrides,
    dns: DnsResolver,
    sources: SourceAddresses,
    parent: Option<Arc<ParentProxy>>,
    bypass: Vec<ProxyBypass>,
}

/// A route to a host: the addresses that are dialled. Only [`Egress::route`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The addresses in the order to try them (RFC 8305 section 4); never empty.
    addresses: Vec<CheckedAddress>,
    /// The addresses to dial from.
    sources: SourceAddresses,
    /// The parent proxy whose addresses these are; `None` if they are the host's.
    through: Option<ParentHop>,
}

/// A parent proxy on a route, which looks the host up itself.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ParentHop {
    parent: Arc<ParentProxy>,
    /// Whether nothing known about the host indicates that it is internal.
    is_public: bool,
}

impl Egress {
    /// Sets up the check and the resolver as `options` say. Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// If no resolver can be set up.
    pub fn new(options: EgressSettings) -> Result<Self, NetError> {
        Ok(Self {
            check: Arc::new(AddressCheck {
                allow_private: options.allow_private,
                own_listeners: options.own_listeners,
            }),
            overrides: DnsOverrides::new(options.dns_overrides),
            dns: DnsResolver::new(&options.dns_servers, &options.system_names)?,
            sources: SourceAddresses::new(options.source_addresses),
            parent: options.parent,
            bypass: options.bypass,
        })
    }

    /// Returns the route to `host` and `port`, with those of its addresses that may be dialled. Addresses that may
    /// not are left out silently while others may. `host` is spelt as `Origin::host` returns it: a lower-case name,
    /// or an address, IPv6 in brackets.
    ///
    /// # Errors
    ///
    /// If DNS does not know the host, if none of its addresses may be dialled, or if none has the family of the
    /// source address.
    pub async fn route(
        &self,
        host: &str,
        port: u16,
        requester: RouteRequester,
    ) -> Result<Route, EgressError> {
        if let Some(parent) = self.parent_for(host) {
            return self.route_through_parent(parent, host, port, requester).await;
        }
        let client = requester.client;
        self.resolve(host, port, client, |found| self.route_by(host, requester, found)).await
    }

    /// Returns the route by those of the addresses `found` for `host` that may be dialled.
    fn route_by(
        &self,
        host: &str,
        requester: RouteRequester,
        found: Vec<SocketAddr>,
    ) -> Result<Route, EgressError> {
        let mut permitted = Vec::with_capacity(found.len());
        let mut prohibited = None;
        for address in found {
            match self.check.check(address) {
                Ok(address) if permitted.contains(&address) => {}
                Ok(address) => permitted.push(address),
                // The first prohibited address is reported.
                Err(error) => prohibited = prohibited.or(Some(error)),
            }
        }
        match prohibited {
            Some(error) if permitted.is_empty() => Err(error),
            _ => {
                let sources = self.sources.for_host(host, requester.source);
                let addresses = interleave(sources.reachable(permitted)?);
                Ok(Route { addresses, sources, through: None })
            }
        }
    }

    /// Returns whether hosts are reached through a parent proxy.
    pub(crate) fn has_parent(&self) -> bool {
        self.parent.is_some()
    }

    /// Returns the route for data connections that belong to a control connection by `route`.
    pub(crate) fn data_route(&self, route: &Route) -> DataRoute {
        DataRoute { check: Arc::clone(&self.check), sources: route.sources.clone() }
    }

    /// Returns the parent proxy through which `host` is reached, if there is one.
    pub(crate) fn parent_for(&self, host: &str) -> Option<&Arc<ParentProxy>> {
        let parent = self.parent.as_ref()?;
        let is_exempt = self.bypass.iter().any(|exempt| exempt.matches(host));
        (!is_exempt).then_some(parent)
    }

    /// Returns the route to `host` through `parent`. The operator configured the parent, so it may be an internal
    /// address, but not this proxy.
    async fn route_through_parent(
        &self,
        parent: &Arc<ParentProxy>,
        host: &str,
        port: u16,
        requester: RouteRequester,
    ) -> Result<Route, EgressError> {
        let is_public = self.check_unresolved(host, port)?;
        let of_parent = |error| EgressError::ParentUnreachable {
            parent: parent.authority(),
            error: Box::new(error),
        };
        let route_by = |found: Vec<SocketAddr>| {
            // One address of our own is enough to refuse the parent: otherwise some requests would loop.
            let permitted = found
                .into_iter()
                .map(|address| self.check.check_configured(address))
                .collect::<Result<Vec<_>, _>>()?;
            let sources = self.sources.for_host(&parent.host, requester.source);
            let addresses = interleave(sources.reachable(permitted)?);
            let through = Some(ParentHop { parent: Arc::clone(parent), is_public });
            Ok(Route { addresses, sources, through })
        };
        // No client's limit counts the lookup: all of them need the parent.
        self.resolve(&parent.host, parent.port, None, route_by).await.map_err(of_parent)
    }

    /// Checks the addresses of a host that is not looked up here: an address that it spells or that an override
    /// gives, and the name itself. Returns whether the host may be public.
    fn check_unresolved(&self, host: &str, port: u16) -> Result<bool, EgressError> {
        let literal = parse_literal(host).map(|address| SocketAddr::new(address, port));
        match self.overrides.find(host, port).or(literal) {
            Some(address) => Ok(self.check.check(address)?.is_public()),
            None if is_internal_name(host) => Err(EgressError::InternalName),
            None => Ok(true),
        }
    }

    /// Returns the route that `route_by` makes of the addresses of a host, which are not checked yet.
    async fn resolve(
        &self,
        host: &str,
        port: u16,
        client: Option<IpAddr>,
        route_by: impl Fn(Vec<SocketAddr>) -> Result<Route, EgressError>,
    ) -> Result<Route, EgressError> {
        let with_port = |addresses: &[IpAddr]| {
            addresses.iter().map(|address| SocketAddr::new(*address, port)).collect()
        };
        if let Some(address) = self.overrides.find(host, port) {
            return route_by(vec![address]);
        }
        if let Some(address) = parse_literal(host) {
            return route_by(with_port(&[address]));
        }
        let known = self.dns.resolve(host, client).await?;
        match route_by(with_port(&known.addresses)) {
            // The other family may have an address that this one lacks.
            Err(_) if known.is_partial => {
                route_by(with_port(&self.dns.resolve_whole(host).await?.addresses))
            }
            routed => routed,
        }
    }
}

/// The route of connections that a server requests in addition to its control connection.
#[derive(Clone, Debug)]
pub(crate) struct DataRoute {
    check: Arc<AddressCheck>,
    sources: SourceAddresses,
}

impl Route {
    /// Returns whether the route may lead to a globally reachable address.
    pub fn is_public(&self) -> bool {
        if let Some(hop) = &self.through {
            return hop.is_public;
        }
        self.addresses.iter().any(|address| address.is_public())
    }

    /// Returns the proxy that the route goes through.
    pub fn parent(&self) -> Option<&Arc<ParentProxy>> {
        self.through.as_ref().map(|hop| &hop.parent)
    }

    /// Returns the network whose addresses share a pace with this route's host: a /24 of IPv4, or a /48 of IPv6 if it has no
    /// IPv4 address. `None` through a parent proxy, which looks the host up itself.
    pub fn network(&self) -> Option<IpNet> {
        if self.through.is_some() {
            return None;
        }
        let addresses = self.addresses.iter().map(|address| address.socket_address().ip());
        // The smallest, because servers rotate the order of a name's addresses.
        addresses.min().and_then(pace_network)
    }

    /// Puts the addresses in a network first. The others are dialled if none of them accepts a connection.
    pub(crate) fn put_first(&mut self, network: IpNet) {
        if self.through.is_none() {
            let is_elsewhere =
                |address: &CheckedAddress| !network.contains(&address.socket_address().ip());
            self.addresses.sort_by_key(is_elsewhere);
        }
    }

    /// Returns the route with only its globally reachable addresses, if there are any.
    pub fn public_only(mut self) -> Option<Self> {
        // The addresses are the parent's, which may be internal.
        if let Some(hop) = &self.through {
            return hop.is_public.then_some(self);
        }
        self.addresses.retain(|address| address.is_public());
        (!self.addresses.is_empty()).then_some(self)
    }
}

/// Returns the network whose addresses share a pace with `address`.
pub(super) fn pace_network(address: IpAddr) -> Option<IpNet> {
    let prefix = if address.is_ipv4() { 24 } else { 48 };
    IpNet::new(address, prefix).ok().map(|network| network.trunc())
}

/// Orders addresses by RFC 8305 section 4: IPv6 first, then alternating.
fn interleave(addresses: Vec<CheckedAddress>) -> Vec<CheckedAddress> {
    let (v6, v4): (Vec<_>, Vec<_>) = addresses
        .into_iter()
        .partition(|address: &CheckedAddress| address.socket_address().is_ipv6());
    let (mut v6, mut v4) = (v6.into_iter(), v4.into_iter());
    let mut ordered = Vec::with_capacity(v6.len() + v4.len());
    loop {
        let six = v6.next();
        let four = v4.next();
        if six.is_none() && four.is_none() {
            return ordered;
        }
        ordered.extend(six.into_iter().chain(four));
    }
}
