//! `[upstream]` and `[dns]`: name resolution and connections to origin servers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use wayleave_transport::tls::pem_file::PemFile;
use wayleave_upstream as upstream;
use wayleave_upstream::egress::{self, DnsOverride, ParentProxy, ProxyBypass};

use super::reader::{
    MAX_COUNT, ParseResult, Section, ToValue, ValueNode, count, list, network, none_if_empty,
    parse_with, path_in, positive_duration, secret,
};
use crate::ListenAddress;

/// The connections to origin servers.
#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamConfig {
    /// The addresses that may be dialled, and how they are resolved. The proxy's own addresses are added once it listens.
    pub egress: egress::EgressSettings,
    /// The roots to trust in addition to the system's.
    pub extra_roots: Vec<PemFile>,
    /// Timeouts and the size of the pool.
    pub connections: upstream::UpstreamSettings,
}

/// Reads `[upstream]` and `[dns]`. Paths are relative to `dir`.
pub(super) fn read(root: &mut Section<'_>, dir: &Path, listen: &[ListenAddress]) -> UpstreamConfig {
    let second = Duration::from_secs(1);
    let mut upstream = root.section("upstream", |section| UpstreamConfig {
        egress: egress::EgressSettings {
            allow_private: section.key("allow_private", Vec::new(), list(network)),
            parent: read_parent_proxy(section, listen).map(Arc::new),
            bypass: section.key(
                "proxy_bypass",
                Vec::new(),
                list(|node| parse_with(node, str::parse)),
            ),
            source_addresses: section.key(
                "source_addresses",
                Vec::new(),
                list(parse_local_address),
            ),
            ..egress::EgressSettings::default()
        },
        extra_roots: section.key("extra_roots", Vec::new(), list(|node| read_pem_file(node, dir))),
        connections: upstream::UpstreamSettings {
            connect_timeout: section.key("connect_timeout", 10 * second, positive_duration),
            response_timeout: section.key("response_timeout", 60 * second, positive_duration),
            // Set to proxy.name when the client is built.
            pseudonym: String::new(),
            idle_connections: section.key("idle_connections", 1024, count(1, MAX_COUNT)),
        },
    });
    root.section("dns", |section| {
        upstream.egress.dns_servers = section.key("servers", Vec::new(), list(parse_dns_server));
        upstream.egress.dns_overrides = read_overrides(section);
    });
    upstream
}

/// Reads the parent proxy, and reports it if it is this proxy itself.
fn read_parent_proxy(section: &mut Section<'_>, listen: &[ListenAddress]) -> Option<ParentProxy> {
    let parsed = |node: &ValueNode<'_>| parse_with(node, str::parse::<ParentProxy>);
    let parent = section.key(secret("proxy"), None, none_if_empty(parsed))?;
    // Other names would have to be resolved, and checking a file sends nothing.
    let address = match &*parent.host {
        "localhost" => Some(Ipv4Addr::LOCALHOST.into()),
        host => egress::parse_literal(host),
    };
    let is_here = |own: SocketAddr, address: IpAddr| {
        let is_any = own.ip().is_unspecified() && egress::is_local_address(address);
        own.port() == parent.port && (own.ip() == address || is_any)
    };
    if address.is_some_and(|address| listen.iter().any(|own| is_here(own.address, address))) {
        section.report("proxy", "is this proxy's own address");
    }
    Some(parent)
}

impl ToValue for ParentProxy {
    fn to_value(&self) -> toml::Value {
        self.url().into()
    }
}

impl ToValue for ProxyBypass {
    fn to_value(&self) -> toml::Value {
        self.to_string().into()
    }
}

/// Reads the names that are resolved without DNS; none may occur twice.
fn read_overrides(section: &mut Section<'_>) -> Vec<DnsOverride> {
    let mut keys = Vec::new();
    section.entries("overrides", |name, node| {
        let entry = parse_with(node, |value| DnsOverride::parse(name, value))?;
        // TOML rejects only the same spelling of a key twice.
        if keys.contains(&entry.key()) {
            return parse_with(node, |_| Err(format!("is another spelling of {:?}", entry.key())));
        }
        keys.push(entry.key());
        Ok(entry)
    })
}

impl ToValue for DnsOverride {
    fn to_value(&self) -> toml::Value {
        self.value().into()
    }
}

/// Parses the address of a DNS server; the default port is 53.
fn parse_dns_server(node: &ValueNode<'_>) -> ParseResult<SocketAddr> {
    parse_with(node, |text| {
        let with_port = text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 53));
        with_port.or_else(|_| text.parse()).map_err(|_| {
            format!("{text:?} is not an IP address, such as \"192.0.2.53\" or \"127.0.0.1:5353\"")
        })
    })
}

/// Parses an address of this machine that connections can be made from.
pub(super) fn parse_local_address(node: &ValueNode<'_>) -> ParseResult<IpAddr> {
    parse_with(node, |text| {
        let parsed = text.parse::<IpAddr>().map_err(|_| {
            format!("{text:?} is not an IP address, such as \"203.0.113.7\" or \"2001:db8::7\"")
        });
        let address = parsed?.to_canonical();
        if address.is_unspecified() || address.is_multicast() {
            return Err(format!("{text:?} cannot be a source address"));
        }
        if egress::is_local_address(address) {
            Ok(address)
        } else {
            Err(format!("{text:?} is not an address of this machine"))
        }
    })
}

impl ToValue for PemFile {
    fn to_value(&self) -> toml::Value {
        self.path.to_value()
    }
}

pub(super) fn read_pem_file(node: &ValueNode<'_>, dir: &Path) -> ParseResult<PemFile> {
    let path = path_in(dir)(node)?;
    parse_with(node, |_| PemFile::read(path))
}
