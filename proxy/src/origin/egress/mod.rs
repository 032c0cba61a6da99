//! Egress: the only way out. Turns a host into addresses that may be dialled.
//!
//! Requests and robots.txt fetches, every hop of a redirect, literal addresses, overrides and answers of DNS all pass
//! the same check, and what is dialled is exactly the address that was checked: a name is never looked up twice.

mod dial;
mod internal;
mod overrides;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::rr::Name;
use hickory_resolver::{ResolverBuilder, TokioResolver};
use ipnet::IpNet;
use quick_cache::sync::Cache;

use overrides::Overrides;
pub use overrides::{InvalidOverride, Override};

/// How long one question to one DNS server may take; asked up to three times.
const DNS_TRY_TIMEOUT: Duration = Duration::from_millis(1500);
/// How long a name may take in all. Longer than three tries, so that a server which swallows the questions for one
/// address family does not cost the answer for the other.
const DNS_TIMEOUT: Duration = Duration::from_secs(6);
/// Names kept with their addresses, for as long as the TTL says.
const KEPT_NAMES: usize = 65_536;
/// So many addresses of a name are enough. A name can have thousands, each of which would be kept.
const MAX_ADDRESSES: usize = 32;
/// Questions under way per DNS server before the resolver calls itself busy.
const DNS_ACTIVE_QUERIES: usize = 4_096;

const NXDOMAIN: &str = "NXDOMAIN";
const NOT_A_NAME: &str = "not a name that DNS can hold";

/// What egress needs to know; part of `[upstream]` and `[dns]`.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Internal addresses that may be dialled all the same. Empty: none.
    pub allow_private: Vec<IpNet>,
    /// DNS servers to ask, in order. Empty: the system's.
    pub servers: Vec<SocketAddr>,
    /// Names that DNS is not asked about. The addresses they give pass the same check as every other.
    pub overrides: Vec<Override>,
    /// Where this proxy itself listens; never dialled, whatever `allow_private` says. A wildcard address means every
    /// local address with that port.
    pub own_listeners: Vec<SocketAddr>,
}

/// Finds the addresses that may be dialled for a host.
#[derive(Debug)]
pub struct Egress {
    allow_private: Vec<IpNet>,
    own_listeners: Vec<SocketAddr>,
    overrides: Overrides,
    resolver: TokioResolver,
    /// The resolver's own cache is bounded by names only, whatever their answers hold.
    known: Cache<Name, Arc<Known>>,
}

/// What DNS said of a name.
#[derive(Debug)]
struct Known {
    addresses: Box<[IpAddr]>,
    until: Instant,
}

/// Why there is no address to dial for a host.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EgressError {
    /// Every address of the host is internal and not opened by `allow_private`, or is this proxy's own.
    Prohibited {
        /// The first of them.
        address: IpAddr,
        /// What kind of address it is, in a word or two.
        why: &'static str,
    },
    /// DNS answered that there is no address, or could not answer.
    Dns {
        /// The response code as DNS names it (`NXDOMAIN`, `SERVFAIL`, …; `NOERROR` if the name has no addresses), or
        /// what kept us from an answer.
        rcode: String,
    },
    /// DNS did not answer in time.
    DnsTimeout,
}

impl EgressError {
    /// The error type of RFC 9209 section 2.3 that says this.
    pub fn proxy_status(&self) -> &'static str {
        match self {
            Self::Prohibited { .. } => "destination_ip_prohibited",
            Self::Dns { .. } => "dns_error",
            Self::DnsTimeout => "dns_timeout",
        }
    }

    /// Whether the name does not exist: trying again is of no use before somebody registers it.
    pub fn is_no_such_name(&self) -> bool {
        matches!(self, Self::Dns { rcode } if rcode == NXDOMAIN || rcode == NOT_A_NAME)
    }
}

impl fmt::Display for EgressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prohibited { address, why } => write!(f, "{address} may not be dialled: {why}"),
            Self::Dns { rcode } => write!(f, "dns: {rcode}"),
            Self::DnsTimeout => f.write_str("dns did not answer in time"),
        }
    }
}

impl std::error::Error for EgressError {}

impl Egress {
    /// Opens the door as `options` say. Within a tokio runtime.
    ///
    /// # Errors
    ///
    /// If the system's resolver configuration is asked for and cannot be read.
    pub fn new(options: Options) -> Result<Self, NetError> {
        let mut builder = resolver_builder(&options.servers)?;
        let dns = builder.options_mut();
        dns.timeout = DNS_TRY_TIMEOUT;
        dns.attempts = 2;
        // The first of two errors is the one reported; that of IPv4 says more.
        dns.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        dns.use_hosts_file = ResolveHosts::Always;
        dns.cache_size = 0;
        dns.max_active_requests = DNS_ACTIVE_QUERIES;
        Ok(Self {
            allow_private: options.allow_private,
            own_listeners: options.own_listeners,
            overrides: Overrides::new(options.overrides),
            resolver: builder.build()?,
            known: Cache::new(KEPT_NAMES),
        })
    }

    /// The addresses that may be dialled for `host` and `port`, in the order to try them (RFC 8305 section 4). Never
    /// empty. `host` is spelt as `Origin::host` gives it: a lower-case name, or an address, IPv6 in brackets.
    ///
    /// # Errors
    ///
    /// If DNS does not know the host, or if none of its addresses may be dialled. While some may, the others are left
    /// out silently.
    pub async fn addresses(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, EgressError> {
        let found = self.find(host, port).await?;
        let mut permitted = Vec::with_capacity(found.len());
        let mut prohibited = None;
        for address in found {
            match self.check(address) {
                Ok(address) if permitted.contains(&address) => {}
                Ok(address) => permitted.push(address),
                Err(error) => prohibited = prohibited.or(Some(error)),
            }
        }
        match prohibited {
            Some(error) if permitted.is_empty() => Err(error),
            _ => Ok(interleave(permitted)),
        }
    }

    /// Whether an address is globally reachable.
    pub(crate) fn is_public(address: IpAddr) -> bool {
        internal::why_internal(address.to_canonical()).is_none()
    }

    /// The addresses of a host, unchecked.
    async fn find(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, EgressError> {
        if let Some(address) = self.overrides.find(host, port) {
            return Ok(vec![address]);
        }
        if let Some(address) = literal(host) {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let name = absolute_name(host)?;
        let known = match self.known.get(&name) {
            Some(known) if known.until > Instant::now() => known,
            _ => self.look_up(name).await?,
        };
        let with_port = |address: &IpAddr| SocketAddr::new(*address, port);
        Ok(known.addresses.iter().map(with_port).collect())
    }

    /// Asks DNS.
    async fn look_up(&self, name: Name) -> Result<Arc<Known>, EgressError> {
        let lookup = tokio::time::timeout(DNS_TIMEOUT, self.resolver.lookup_ip(name.clone()))
            .await
            .map_err(|_| EgressError::DnsTimeout)?
            .map_err(|error| dns_failure(&error))?;
        let known = Arc::new(Known {
            addresses: lookup.iter().take(MAX_ADDRESSES).collect(),
            until: lookup.valid_until(),
        });
        if known.addresses.is_empty() {
            let rcode = "NOERROR".to_owned();
            return Err(EgressError::Dns { rcode });
        }
        self.known.insert(name, Arc::clone(&known));
        Ok(known)
    }

    /// Lets `address` through, an IPv4-mapped one as the IPv4 address that it is on the wire.
    fn check(&self, address: SocketAddr) -> Result<SocketAddr, EgressError> {
        let ip = address.ip().to_canonical();
        let prohibited = |why| Err(EgressError::Prohibited { address: ip, why });
        if self.is_own_listener(ip, address.port()) {
            return prohibited("this proxy itself");
        }
        match internal::why_internal(ip) {
            Some(why) if !self.allow_private.iter().any(|net| net.contains(&ip)) => prohibited(why),
            _ => Ok(SocketAddr::new(ip, address.port())),
        }
    }

    fn is_own_listener(&self, ip: IpAddr, port: u16) -> bool {
        self.own_listeners
            .iter()
            .filter(|listener| listener.port() == port)
            .any(|listener| {
                let own = listener.ip().to_canonical();
                // Dialling the unspecified address reaches this machine.
                own == ip || ip.is_unspecified() || (own.is_unspecified() && is_local(ip))
            })
    }
}

/// Whether `ip` belongs to this machine: only then can a socket be bound to it.
fn is_local(ip: IpAddr) -> bool {
    ip.is_loopback() || UdpSocket::bind((ip, 0)).is_ok()
}

/// The address that `host` spells, if it is not a name.
fn literal(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?.parse().ok().map(IpAddr::V6),
        None => host.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
    }
}

/// `host` as a name that no search domain is tried behind: an origin's name means one host, wherever the proxy runs.
fn absolute_name(host: &str) -> Result<Name, EgressError> {
    let invalid = |_| EgressError::Dns {
        rcode: NOT_A_NAME.to_owned(),
    };
    let mut name = Name::from_ascii(host).map_err(invalid)?;
    name.set_fqdn(true);
    Ok(name)
}

fn resolver_builder(
    servers: &[SocketAddr],
) -> Result<ResolverBuilder<TokioRuntimeProvider>, NetError> {
    if !servers.is_empty() {
        return Ok(builder_for(servers));
    }
    match TokioResolver::builder_tokio() {
        // resolv.conf(5): without the file, the name server on this machine is asked.
        Err(NetError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => {
            Ok(builder_for(&[SocketAddr::from(([127, 0, 0, 1], 53))]))
        }
        other => other,
    }
}

fn builder_for(servers: &[SocketAddr]) -> ResolverBuilder<TokioRuntimeProvider> {
    let servers = servers.iter().map(name_server).collect();
    let config = ResolverConfig::from_parts(None, Vec::new(), servers);
    TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
}

fn name_server(address: &SocketAddr) -> NameServerConfig {
    let mut connections = vec![ConnectionConfig::udp(), ConnectionConfig::tcp()];
    for connection in &mut connections {
        connection.port = address.port();
    }
    NameServerConfig::new(address.ip(), true, connections)
}

fn dns_failure(error: &NetError) -> EgressError {
    let rcode = match error {
        NetError::Timeout => return EgressError::DnsTimeout,
        NetError::Dns(DnsError::NoRecordsFound(none)) => rcode_name(none.response_code),
        NetError::Dns(DnsError::ResponseCode(code)) => rcode_name(*code),
        other => other.to_string(),
    };
    EgressError::Dns { rcode }
}

fn rcode_name(code: hickory_resolver::proto::op::ResponseCode) -> String {
    use hickory_resolver::proto::op::ResponseCode;
    match code {
        ResponseCode::NoError => "NOERROR".to_owned(),
        ResponseCode::FormErr => "FORMERR".to_owned(),
        ResponseCode::ServFail => "SERVFAIL".to_owned(),
        ResponseCode::NXDomain => NXDOMAIN.to_owned(),
        ResponseCode::NotImp => "NOTIMP".to_owned(),
        ResponseCode::Refused => "REFUSED".to_owned(),
        other => format!("RCODE {}", u16::from(other)),
    }
}

/// Orders for RFC 8305 section 4: IPv6 first, then by turns.
fn interleave(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let (v6, v4): (Vec<_>, Vec<_>) = addresses.into_iter().partition(SocketAddr::is_ipv6);
    let (mut v6, mut v4) = (v6.into_iter(), v4.into_iter());
    let mut ordered = Vec::with_capacity(v6.len() + v4.len());
    loop {
        let (six, four) = (v6.next(), v4.next());
        if six.is_none() && four.is_none() {
            return ordered;
        }
        ordered.extend(six.into_iter().chain(four));
    }
}
