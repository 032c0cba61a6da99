//! DNS lookups, and a cache of their results for as long as the TTL allows.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::Name;
use hickory_resolver::{ResolverBuilder, TokioResolver};
use quick_cache::sync::Cache;

use super::error::{EgressError, NO_ADDRESSES, NOT_A_NAME, NXDOMAIN};
use super::lookup_limit::LookupLimiter;

/// The timeout of one query to one DNS server, which is sent up to three times.
const DNS_TRY_TIMEOUT: Duration = Duration::from_millis(1500);
/// The timeout of a lookup. Longer than three tries, so that a server that drops the queries for one address family
/// does not cost the answer for the other.
const DNS_TIMEOUT: Duration = Duration::from_secs(6);
/// The most names that are cached, each for as long as its TTL allows.
const MAX_CACHED_NAMES: usize = 65_536;
/// The most addresses that are cached for a name. A name can have thousands.
pub(super) const MAX_ADDRESSES: usize = 32;
/// The most concurrent queries to one DNS server before the resolver reports that it is busy.
const DNS_ACTIVE_QUERIES: usize = 4_096;

/// Finds the addresses of names.
#[derive(Debug)]
pub(super) struct DnsResolver {
    resolver: TokioResolver,
    /// The resolver's own cache limits the number of names only, not the size of their answers.
    cache: Cache<Name, Arc<CachedAddresses>>,
    pub(super) limiter: LookupLimiter,
}

/// The cached answer for a name.
#[derive(Debug)]
pub(super) struct CachedAddresses {
    pub(super) addresses: Box<[IpAddr]>,
    expires_at: Instant,
}

impl DnsResolver {
    /// Creates a resolver that queries `servers`, or the system's if there are none. Must be called within a tokio
    /// runtime.
    ///
    /// # Errors
    ///
    /// If the system's resolver configuration is needed and cannot be read.
    pub(super) fn new(servers: &[SocketAddr]) -> Result<Self, NetError> {
        let mut builder = resolver_builder(servers)?;
        let dns = builder.options_mut();
        dns.timeout = DNS_TRY_TIMEOUT;
        dns.attempts = 2;
        // The first of two errors is the one reported; that of IPv4 says more.
        dns.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        dns.use_hosts_file = ResolveHosts::Always;
        // `cache` replaces it.
        dns.cache_size = 0;
        dns.max_active_requests = DNS_ACTIVE_QUERIES;
        Ok(Self {
            resolver: builder.build()?,
            cache: Cache::new(MAX_CACHED_NAMES),
            limiter: LookupLimiter::default(),
        })
    }

    /// Returns the addresses of `host`, at least one. A lookup for a `client` waits until the client may start one.
    ///
    /// # Errors
    ///
    /// If DNS does not know the host, or does not answer.
    pub(super) async fn resolve(
        &self,
        host: &str,
        client: Option<IpAddr>,
    ) -> Result<Arc<CachedAddresses>, EgressError> {
        let name = absolute_name(host)?;
        if let Some(known) = self.fresh(&name) {
            return Ok(known);
        }
        let Some(client) = client else {
            return self.query(name).await;
        };
        let _permit = self.limiter.acquire(client).await.map_err(|_| EgressError::DnsTimeout)?;
        // The wait may have been for a lookup of the same name.
        match self.fresh(&name) {
            Some(known) => Ok(known),
            None => self.query(name).await,
        }
    }

    fn fresh(&self, name: &Name) -> Option<Arc<CachedAddresses>> {
        let known = self.cache.get(name)?;
        (known.expires_at > Instant::now()).then_some(known)
    }

    /// Returns the cached answer for a name, if it is valid and cached.
    #[cfg(test)]
    pub(super) fn cached(&self, host: &str) -> Option<Arc<CachedAddresses>> {
        self.cache.get(&absolute_name(host).ok()?)
    }

    async fn query(&self, name: Name) -> Result<Arc<CachedAddresses>, EgressError> {
        let lookup = tokio::time::timeout(DNS_TIMEOUT, self.resolver.lookup_ip(name.clone()))
            .await
            .map_err(|_| EgressError::DnsTimeout)?
            .map_err(|error| dns_failure(&error))?;
        let known = Arc::new(CachedAddresses {
            addresses: lookup.iter().take(MAX_ADDRESSES).collect(),
            expires_at: lookup.valid_until(),
        });
        if known.addresses.is_empty() {
            return Err(EgressError::Dns { rcode: NO_ADDRESSES.to_owned() });
        }
        self.cache.insert(name, Arc::clone(&known));
        Ok(known)
    }
}

/// Returns `host` as a name to which no search domain is appended: the name of an origin means one host, wherever the
/// proxy runs.
fn absolute_name(host: &str) -> Result<Name, EgressError> {
    let invalid = |_| EgressError::Dns { rcode: NOT_A_NAME.to_owned() };
    // Not `from_ascii`: names that are no host names of RFC 1123, such as `-a.example`, exist in DNS and resolve elsewhere.
    let labels = host.strip_suffix('.').unwrap_or(host).split('.').map(str::as_bytes);
    let mut name = Name::from_labels(labels).map_err(invalid)?;
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
    let config =
        ResolverConfig::from_parts(None, Vec::new(), servers.iter().map(name_server).collect());
    TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
}

fn name_server(address: &SocketAddr) -> NameServerConfig {
    let mut connections = vec![ConnectionConfig::udp(), ConnectionConfig::tcp()];
    for connection in &mut connections {
        connection.port = address.port();
    }
    // `true`: if it answers that a name does not exist, no other server is queried.
    NameServerConfig::new(address.ip(), true, connections)
}

fn dns_failure(error: &NetError) -> EgressError {
    let rcode = match error {
        NetError::Timeout => return EgressError::DnsTimeout,
        NetError::Dns(DnsError::NoRecordsFound(none)) => rcode_name(none.response_code),
        NetError::Dns(DnsError::ResponseCode(code)) => rcode_name(*code),
        NetError::NoConnections | NetError::Io(_) => {
            return EgressError::DnsUnavailable { why: "no DNS server can be reached" };
        }
        NetError::Busy => {
            return EgressError::DnsUnavailable { why: "too many queries are in progress" };
        }
        _ => return EgressError::DnsFailed { why: "the answer cannot be used" },
    };
    EgressError::Dns { rcode }
}

fn rcode_name(code: ResponseCode) -> String {
    match code {
        ResponseCode::NoError => NO_ADDRESSES.to_owned(),
        ResponseCode::FormErr => "FORMERR".to_owned(),
        ResponseCode::ServFail => "SERVFAIL".to_owned(),
        ResponseCode::NXDomain => NXDOMAIN.to_owned(),
        ResponseCode::NotImp => "NOTIMP".to_owned(),
        ResponseCode::Refused => "REFUSED".to_owned(),
        other => format!("RCODE {}", u16::from(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_no_host_names_are_asked_for() {
        for host in ["-a.example", "a-.example", "_a.example", "xn--a.example", "a.example."] {
            let name = absolute_name(host).unwrap();
            let labels: Vec<_> = name.iter().map(<[u8]>::to_vec).collect();
            assert_eq!(labels.join(&b'.'), host.trim_end_matches('.').as_bytes());
        }
        for host in ["", "a..example", &"a".repeat(64)] {
            assert!(absolute_name(host).is_err(), "{host}");
        }
    }
}
