//! DNS lookups, and a cache of their results for as long as the TTL allows.

use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{Either, select};
use hickory_resolver::MAX_TTL;
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use quick_cache::sync::Cache;
use wayleave_fairness::{Holder, KeyedSemaphores};

use super::error::{EgressError, NO_ADDRESSES, NOT_A_NAME, NXDOMAIN, SERVFAIL};
use super::name_servers::{NameServers, SystemNames};

/// The timeout of a lookup. Longer than three tries, so that a server that drops the queries for one address family
/// does not cost an error in the other.
const DNS_TIMEOUT: Duration = Duration::from_secs(6);
/// The most names that are cached, each for as long as its TTL allows.
const MAX_CACHED_NAMES: usize = 65_536;
/// The most addresses that are cached for a name. A name can have thousands.
pub(super) const MAX_ADDRESSES: usize = 32;
/// The wait for the addresses of one family once those of the other are known (RFC 8305 section 3).
const RESOLUTION_DELAY: Duration = Duration::from_millis(50);
/// The most concurrent lookups for one client. Even if each takes 20 ms, this allows 1,600 a second.
pub(super) const MAX_LOOKUPS_PER_CLIENT: usize = 32;
/// The longest time for which the addresses of one family are used alone: those of the other are only late, or lost.
const ONE_FAMILY_LIFETIME: Duration = Duration::from_secs(1);

/// Finds the addresses of names.
#[derive(Debug)]
pub(super) struct DnsResolver {
    servers: NameServers,
    cache: Cache<Name, Arc<CachedAddresses>>,
    /// The lookups in progress and waiting, by client, so that a client with many delays only itself.
    pub(super) lookups: KeyedSemaphores<Holder>,
}

/// The cached answer for a name.
#[derive(Debug)]
pub(super) struct CachedAddresses {
    pub(super) addresses: Box<[IpAddr]>,
    /// Whether those of one family were not waited for.
    pub(super) is_partial: bool,
    expires_at: Instant,
}

impl DnsResolver {
    /// Creates a resolver that queries `servers`, or those of the `system` if there are none. Must be called within a
    /// tokio runtime.
    ///
    /// # Errors
    ///
    /// If the library cannot set a server up.
    pub(super) fn new(servers: &[SocketAddr], system: &SystemNames) -> Result<Self, NetError> {
        Ok(Self {
            servers: NameServers::new(servers, system)?,
            cache: Cache::new(MAX_CACHED_NAMES),
            lookups: KeyedSemaphores::new(MAX_LOOKUPS_PER_CLIENT),
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
            return self.query(name, RESOLUTION_DELAY).await;
        };
        let _permit = self.lookups.acquire(Holder::of_client(client)).await;
        // The wait may have been for a lookup of the same name.
        match self.fresh(&name) {
            Some(known) => Ok(known),
            None => self.query(name, RESOLUTION_DELAY).await,
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

    /// Returns all addresses of `host`, of which [`Self::resolve`] has returned those of one family.
    ///
    /// # Errors
    ///
    /// As [`Self::resolve`].
    pub(super) async fn resolve_whole(
        &self,
        host: &str,
    ) -> Result<Arc<CachedAddresses>, EgressError> {
        self.query(absolute_name(host)?, DNS_TIMEOUT).await
    }

    /// Queries both families, and waits for the second as long as `patience` says if the first has addresses.
    async fn query(
        &self,
        name: Name,
        patience: Duration,
    ) -> Result<Arc<CachedAddresses>, EgressError> {
        // Boxed because it is rare: most names are cached.
        let querying = Box::pin(self.query_families(&name, patience));
        let (v4, v6) = tokio::time::timeout(DNS_TIMEOUT, querying)
            .await
            .map_err(|_| EgressError::DnsTimeout)?;
        let is_partial = v4.is_none() || v6.is_none();
        let mut addresses = Vec::new();
        let mut failure = None;
        let longest = Duration::from_secs(u64::from(MAX_TTL));
        let mut expires_at =
            Instant::now() + if is_partial { ONE_FAMILY_LIFETIME } else { longest };
        for answer in [v4, v6].into_iter().flatten() {
            match answer {
                Ok(lookup) => {
                    expires_at = expires_at.min(lookup.valid_until());
                    let data = lookup.answers().iter().map(|record| &record.data);
                    addresses.extend(data.filter_map(RData::ip_addr));
                }
                // The first of two errors is the one reported; that of IPv4 says more.
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        addresses.truncate(MAX_ADDRESSES);
        if addresses.is_empty() {
            let none = || EgressError::Dns { rcode: NO_ADDRESSES.to_owned() };
            return Err(failure.as_ref().map_or_else(none, dns_failure));
        }
        let addresses = addresses.into_boxed_slice();
        let known = Arc::new(CachedAddresses { addresses, is_partial, expires_at });
        self.cache.insert(name, Arc::clone(&known));
        Ok(known)
    }

    /// Returns the answers for IPv4 and IPv6; `None` for one that was not waited for.
    async fn query_families(
        &self,
        name: &Name,
        patience: Duration,
    ) -> (Option<Answer>, Option<Answer>) {
        let v4 = pin!(self.servers.lookup(name, RecordType::A));
        let v6 = pin!(self.servers.lookup(name, RecordType::AAAA));
        match select(v4, v6).await {
            Either::Left((first, v6)) => {
                let second = second_answer(&first, v6, patience).await;
                (Some(first), second)
            }
            Either::Right((first, v4)) => {
                let second = second_answer(&first, v4, patience).await;
                (second, Some(first))
            }
        }
    }
}

type Answer = Result<Lookup, NetError>;

/// Returns the answer for the second family, unless the first has addresses and this one takes longer than `patience`.
async fn second_answer(
    first: &Answer,
    second: Pin<&mut impl Future<Output = Answer>>,
    patience: Duration,
) -> Option<Answer> {
    match first {
        Ok(found) if !found.answers().is_empty() => {
            tokio::time::timeout(patience, second).await.ok()
        }
        _ => Some(second.await),
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
        ResponseCode::ServFail => SERVFAIL.to_owned(),
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
