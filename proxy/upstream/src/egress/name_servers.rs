//! The DNS servers that are queried, and the names that the system knows without them.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::{Query, ResponseCode};
use hickory_resolver::proto::rr::{Name, RecordType};
use hickory_resolver::system_conf::parse_resolv_conf;
use hickory_resolver::{Hosts, TokioResolver};

/// The timeout of one query to one DNS server.
const TRY_TIMEOUT: Duration = Duration::from_millis(1500);
/// The number of times that each server is queried.
const TRIES: usize = 3;
/// The number of servers that are queried at the same time.
const CONCURRENT_SERVERS: usize = 2;
/// The most concurrent queries to one DNS server before the resolver reports that it is busy.
const ACTIVE_QUERIES: usize = 4_096;

pub const RESOLV_CONF: &str = "/etc/resolv.conf";
pub const HOSTS: &str = "/etc/hosts";

/// The system's files about names, as they were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SystemNames {
    /// `resolv.conf(5)`. Without a server in it, the one on this machine is queried.
    pub(crate) resolv_conf: Vec<u8>,
    /// `hosts(5)`.
    pub hosts: Vec<u8>,
}

impl SystemNames {
    /// Reads the files. One that is absent is empty.
    pub fn read() -> Self {
        Self { resolv_conf: read(Path::new(RESOLV_CONF)), hosts: read(Path::new(HOSTS)) }
    }

    /// Returns the servers to query and how.
    fn servers(&self) -> (Vec<NameServerConfig>, ResolverOpts) {
        // Names are absolute here, so a wrong search domain does no harm.
        let is_used = |line: &&[u8]| {
            let line = line.trim_ascii_start();
            line.starts_with(b"nameserver") || line.starts_with(b"options")
        };
        let lines = self.resolv_conf.split_inclusive(|byte| *byte == b'\n');
        let used: Vec<&[u8]> = lines.filter(is_used).collect();
        match parse_resolv_conf(used.concat()) {
            Ok((config, options)) => (config.name_servers().to_vec(), options),
            Err(_) => {
                let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 53));
                (vec![name_server(&local)], ResolverOpts::default())
            }
        }
    }
}

fn read(path: &Path) -> Vec<u8> {
    match std::fs::read(path) {
        Ok(text) => text,
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!(path = %path.display(), %error, "taken for empty");
            }
            Vec::new()
        }
    }
}

/// The servers that are queried.
#[derive(Debug)]
pub(super) struct NameServers {
    /// A resolver for each: one for all would take the first answer, even if it is that the server refuses.
    servers: Vec<TokioResolver>,
    hosts: Hosts,
    /// The server that answered last, which is queried first.
    preferred: AtomicUsize,
}

impl NameServers {
    /// Sets up `servers`, or those of the `system` if there are none.
    ///
    /// # Errors
    ///
    /// If the library cannot set one up.
    pub(super) fn new(servers: &[SocketAddr], system: &SystemNames) -> Result<Self, NetError> {
        let (configs, options) = if servers.is_empty() {
            system.servers()
        } else {
            (servers.iter().map(name_server).collect(), ResolverOpts::default())
        };
        let set_up = |config| resolver(config, &options);
        let mut hosts = Hosts::default();
        if let Err(error) = hosts.read_hosts_conf(&*system.hosts) {
            tracing::warn!(%error, "{HOSTS} is used up to a line that is not UTF-8");
        }
        Ok(Self {
            servers: configs.into_iter().map(set_up).collect::<Result<_, _>>()?,
            hosts,
            preferred: AtomicUsize::new(0),
        })
    }

    /// Returns the records of this type.
    ///
    /// # Errors
    ///
    /// Returns that there are none, or the error that says most if no server knows whether there are any.
    pub(super) async fn lookup(&self, name: &Name, kind: RecordType) -> Result<Lookup, NetError> {
        if let Some(known) = self.hosts.lookup_static_host(&Query::query(name.clone(), kind)) {
            return Ok(known);
        }
        let count = self.servers.len();
        let preferred = self.preferred.load(Ordering::Relaxed);
        let query = |server: usize| async move {
            (server, self.servers[server].lookup(name.clone(), kind).await)
        };
        let mut next = (preferred..preferred + count * TRIES).map(|turn| query(turn % count));
        let mut queried = FuturesUnordered::new();
        queried.extend(next.by_ref().take(count.min(CONCURRENT_SERVERS)));
        let mut failure = NetError::NoConnections;
        while let Some((server, answer)) = queried.next().await {
            match answer {
                Err(error) if !is_definite(&error) => {
                    failure = more_telling(failure, error);
                    queried.extend(next.next());
                }
                definite => {
                    self.preferred.store(server, Ordering::Relaxed);
                    return definite;
                }
            }
        }
        Err(failure)
    }
}

fn resolver(server: NameServerConfig, options: &ResolverOpts) -> Result<TokioResolver, NetError> {
    let config = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
    let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    let dns = builder.options_mut();
    *dns = options.clone();
    dns.timeout = TRY_TIMEOUT;
    // `NameServers` repeats queries.
    dns.attempts = 0;
    // It reads the file, too.
    dns.use_hosts_file = ResolveHosts::Never;
    // The resolver's cache limits the number of names only, not the size of their answers.
    dns.cache_size = 0;
    dns.max_active_requests = ACTIVE_QUERIES;
    builder.build()
}

fn name_server(address: &SocketAddr) -> NameServerConfig {
    let mut connections = vec![ConnectionConfig::udp(), ConnectionConfig::tcp()];
    for connection in &mut connections {
        connection.port = address.port();
    }
    NameServerConfig::new(address.ip(), true, connections)
}

/// Returns whether the answer is that the name, or a record of that type, does not exist.
fn is_definite(error: &NetError) -> bool {
    matches!(error, NetError::Dns(DnsError::NoRecordsFound(_)))
}

/// Returns the error that says more about the name.
fn more_telling(before: NetError, now: NetError) -> NetError {
    let rank = |error: &NetError| match error {
        NetError::Dns(DnsError::ResponseCode(ResponseCode::ServFail)) => 4,
        NetError::Dns(_) => 3,
        NetError::Timeout => 2,
        NetError::NoConnections => 0,
        _ => 1,
    };
    if rank(&before) >= rank(&now) { before } else { now }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(resolv_conf: &str) -> Vec<String> {
        let system = SystemNames { resolv_conf: resolv_conf.into(), ..SystemNames::default() };
        let (servers, _) = system.servers();
        servers.iter().map(|server| server.ip.to_string()).collect()
    }

    #[test]
    fn without_a_server_the_local_one_is_asked() {
        for nothing in ["", "# by a program\n", "search corp.example\n", "nameserver foo\n"] {
            assert_eq!(servers(nothing), ["127.0.0.1"], "{nothing:?}");
        }
        let two = "nameserver 192.0.2.1\nsearch \\ .. \n nameserver 2001:db8::1\noptions edns0";
        assert_eq!(servers(two), ["192.0.2.1", "2001:db8::1"]);
    }
}
