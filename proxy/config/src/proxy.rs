//! `[proxy]`: the listeners for clients.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use wayleave_admission::settings;
use wayleave_decision::EnforcementMode;
use wayleave_transport::tls::server::{self, ServerCertificate, ServerTls};

use super::crawlers;
use super::listen_address::{ListenAddress, ListenProtocol};
use super::reader::{
    MAX_COUNT, Section, boolean, checked, count, duration, fixed, list, network, non_empty_list,
    none_if_empty, parse_with, path_in, positive_duration, text,
};
use super::upstream::read_pem_file;

/// The limits, as read from the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimitsConfig {
    /// The connections in total; further ones are answered with 503.
    pub connections: usize,
    /// The connections of one client address (IPv6: of one /64); 0 means no limit.
    pub per_client: usize,
}

/// The listeners for clients, and the settings of their connections.
#[derive(Clone, Debug, PartialEq)]
pub struct ProxyConfig {
    /// The addresses to listen on: at least one, and no two that overlap. Port 0 lets the system choose.
    pub listen: Vec<ListenAddress>,
    /// The certificate and TLS settings of `https://` listeners, if there is a certificate.
    pub tls: Option<Arc<ServerTls>>,
    /// The limits on concurrent connections.
    pub limits: ConnectionLimitsConfig,
    /// The settings of each connection.
    pub connections: settings::ConnectionSettings,
    /// The settings of requests that match no `[[crawler]]`.
    pub(super) crawler_defaults: crawlers::CrawlerDefaults,
}

/// Reads `[proxy]`. Paths are relative to `dir`.
pub(super) fn read(section: &mut Section<'_>, dir: &Path) -> ProxyConfig {
    let plain = ListenAddress::http(loopback(3128));
    let check = |listen: &Vec<ListenAddress>| check_overlaps(listen, |listener| listener.address);
    let parse_listen = checked(non_empty_list(|node| parse_with(node, str::parse)), check);
    let listen = section.key(fixed("listen"), vec![plain], parse_listen);
    let second = Duration::from_secs(1);
    let tls = read_tls(section, &listen, dir);
    let asks_for_certificates = match &tls {
        Some(tls) => tls.requests_client_certificates(),
        // If these keys are wrong, that has been reported; do not report every crawler's certificate as well.
        None => !section.is_valid("certificate") || !section.is_valid("client_ca"),
    };
    ProxyConfig {
        tls,
        listen,
        connections: settings::ConnectionSettings {
            header_timeout: section.key("header_timeout", 10 * second, positive_duration),
            idle_timeout: section.key("idle_timeout", 60 * second, positive_duration),
            shutdown_grace: section.key("shutdown_grace", 10 * second, duration),
            proxy_protocol: section.key("proxy_protocol", Vec::new(), list(network)),
            decision_id: section.key("decision_id", false, boolean),
            name: section.key("name", "wayleave".to_owned(), checked(text, check_pseudonym)),
        },
        limits: ConnectionLimitsConfig {
            connections: section.key(fixed("max_connections"), 10_000, count(1, MAX_COUNT)),
            per_client: section.key(fixed("max_connections_per_client"), 0, count(0, MAX_COUNT)),
        },
        crawler_defaults: crawlers::CrawlerDefaults {
            asks_for_certificates,
            require_crawler: section.key("require_crawler", false, boolean),
            mode: section.word("mode", EnforcementMode::Enforce, &crawlers::MODES),
        },
    }
}

/// Reads the certificate for `https://` listeners, and the CA of clients' certificates.
fn read_tls(
    section: &mut Section<'_>,
    listen: &[ListenAddress],
    dir: &Path,
) -> Option<Arc<ServerTls>> {
    let certificate = section.key("certificate", None, none_if_empty(path_in(dir)));
    let key = section.key("key", None, none_if_empty(path_in(dir)));
    let clients = section.key("client_ca", None, none_if_empty(|node| read_pem_file(node, dir)));
    let Some((certificate, key)) = certificate.as_ref().zip(key.as_ref()) else {
        // One message is enough: both files together solve all of these.
        let tls_listener = listen.iter().find(|listen| listen.protocol == ListenProtocol::Https);
        if let Some(listen) = tls_listener.filter(|_| section.is_valid("listen")) {
            section.report("listen", format!("{listen} needs proxy.certificate and proxy.key"));
        } else if certificate.is_some() {
            section.report("certificate", "needs proxy.key");
        } else if key.is_some() {
            section.report("key", "needs proxy.certificate");
        } else if clients.is_some() {
            section.report(
                "client_ca",
                "needs proxy.certificate and proxy.key: clients send certificates only over TLS",
            );
        }
        return None;
    };
    let tls = ServerCertificate::read(certificate, key).and_then(|certificate| {
        ServerTls::new(server::ServerTlsSettings { certificate, client_authorities: clients })
    });
    match tls {
        Ok(tls) => Some(Arc::new(tls)),
        Err(error) => {
            section.report("certificate", format!("{error:#}"));
            None
        }
    }
}

pub(super) fn loopback(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

/// Checks that each of these listeners could bind.
pub(super) fn check_overlaps<L: fmt::Display>(
    listeners: &[L],
    address: impl Fn(&L) -> SocketAddr,
) -> Result<(), String> {
    for (index, listener) in listeners.iter().enumerate() {
        let mut earlier = listeners[..index].iter();
        if let Some(earlier) = earlier.find(|other| overlaps(address(other), address(listener))) {
            return Err(format!("{earlier} and {listener} overlap: listen on one of them"));
        }
    }
    Ok(())
}

/// Returns whether the operating system would let only one of two listeners bind. `[::]` includes IPv4.
pub(super) fn overlaps(one: SocketAddr, other: SocketAddr) -> bool {
    let covers = |wide: SocketAddr, narrow: SocketAddr| {
        wide.ip().is_unspecified() && (wide.is_ipv6() || narrow.is_ipv4())
    };
    // With port 0 the system chooses a free one for each listener.
    one.port() != 0
        && one.port() == other.port()
        && (one.ip() == other.ip() || covers(one, other) || covers(other, one))
}

/// Checks that a name is valid in `Via` (RFC 9110 section 7.6.3) and, unquoted, in `Proxy-Status` (RFC 9209 section 2).
fn check_pseudonym(name: &str) -> Result<(), String> {
    if name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
    {
        Ok(())
    } else {
        Err(format!("{name:?} is not a letter followed by letters, digits, \"-\", \"_\" or \".\""))
    }
}
