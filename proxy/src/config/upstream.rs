//! `[upstream]` and `[dns]`: name resolution and connections to origin servers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::file::{
    MOST, Node, Parsed, Section, Show, count, list, network, or_empty, path_in, positive_duration,
    secret, tried,
};
use crate::connection::listeners::Listen;
use crate::origin;
use crate::origin::egress::{self, Exempt, Override, Parent};
use crate::tls::pem_file::PemFile;

/// The connections to origin servers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Upstream {
    /// The addresses that may be dialled, and how they are resolved. The proxy's own addresses are added once it listens.
    pub(crate) egress: egress::Options,
    /// The roots to trust in addition to the system's.
    pub(crate) extra_roots: Vec<PemFile>,
    /// Timeouts and the size of the pool.
    pub(crate) origin: origin::Options,
}

/// Reads `[upstream]` and `[dns]`. Paths are relative to `dir`.
pub(super) fn upstream(root: &mut Section<'_>, dir: &Path, listen: &[Listen]) -> Upstream {
    let second = Duration::from_secs(1);
    let mut upstream = root.section("upstream", |section| Upstream {
        egress: egress::Options {
            allow_private: section.key("allow_private", Vec::new(), list(network)),
            parent: parent(section, listen).map(Arc::new),
            exempt: section.key(
                "proxy_bypass",
                Vec::new(),
                list(|node| tried(node, str::parse)),
            ),
            sources: section.key("source_addresses", Vec::new(), list(own_address)),
            ..egress::Options::default()
        },
        extra_roots: section.key("extra_roots", Vec::new(), list(|node| pem_file(node, dir))),
        origin: origin::Options {
            connect_timeout: section.key("connect_timeout", 10 * second, positive_duration),
            response_timeout: section.key("response_timeout", 60 * second, positive_duration),
            name: String::new(),
            idle_connections: section.key("idle_connections", 1024, count(1, MOST)),
        },
    });
    root.section("dns", |section| {
        upstream.egress.servers = section.key("servers", Vec::new(), list(dns_server));
        upstream.egress.overrides = overrides(section);
    });
    upstream
}

/// Reads the parent proxy, and reports it if it is this proxy itself.
fn parent(section: &mut Section<'_>, listen: &[Listen]) -> Option<Parent> {
    let parsed = |node: &Node<'_>| tried(node, str::parse::<Parent>);
    let parent = section.key(secret("proxy"), None, or_empty(parsed))?;
    let address = match &*parent.host {
        "localhost" => Some(Ipv4Addr::LOCALHOST.into()),
        host => egress::literal(host),
    };
    let is_here = |own: SocketAddr, address: IpAddr| {
        let is_any = own.ip().is_unspecified() && egress::is_of_this_machine(address);
        own.port() == parent.port && (own.ip() == address || is_any)
    };
    if address.is_some_and(|address| listen.iter().any(|own| is_here(own.address, address))) {
        section.mistake("proxy", "is this proxy itself, which listens there");
    }
    Some(parent)
}

impl Show for Parent {
    fn show(&self) -> toml::Value {
        self.url().into()
    }
}

impl Show for Exempt {
    fn show(&self) -> toml::Value {
        self.to_string().into()
    }
}

/// Reads the names that are resolved without DNS; none may occur twice.
fn overrides(section: &mut Section<'_>) -> Vec<Override> {
    let mut keys = Vec::new();
    section.entries("overrides", |name, node| {
        let entry = tried(node, |value| Override::parse(name, value))?;
        if keys.contains(&entry.key()) {
            return tried(node, |_| {
                Err(format!("is another spelling of {:?}", entry.key()))
            });
        }
        keys.push(entry.key());
        Ok(entry)
    })
}

impl Show for Override {
    fn show(&self) -> toml::Value {
        self.value().into()
    }
}

/// Parses the address of a DNS server; the default port is 53.
fn dns_server(node: &Node<'_>) -> Parsed<SocketAddr> {
    tried(node, |text| {
        let with_port = text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 53));
        with_port.or_else(|_| text.parse()).map_err(|_| {
            format!("{text:?} is not an IP address, such as \"192.0.2.53\" or \"127.0.0.1:5353\"")
        })
    })
}

/// Parses an address of this machine that connections can be made from.
pub(super) fn own_address(node: &Node<'_>) -> Parsed<IpAddr> {
    tried(node, |text| {
        let parsed = text.parse::<IpAddr>().map_err(|_| {
            format!("{text:?} is not an IP address, such as \"203.0.113.7\" or \"2001:db8::7\"")
        });
        let address = parsed?.to_canonical();
        if address.is_unspecified() || address.is_multicast() {
            return Err(format!("{text:?} is not an address to send from"));
        }
        match egress::is_of_this_machine(address) {
            true => Ok(address),
            false => Err(format!("{text:?} is not an address of this machine")),
        }
    })
}

impl Show for PemFile {
    fn show(&self) -> toml::Value {
        self.path.show()
    }
}

pub(super) fn pem_file(node: &Node<'_>, dir: &Path) -> Parsed<PemFile> {
    let path = path_in(dir)(node)?;
    tried(node, |_| PemFile::read(path))
}
