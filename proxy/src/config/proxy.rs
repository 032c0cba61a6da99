//! `[proxy]`: the listeners for clients.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::crawlers;
use super::file::{
    MOST, Section, boolean, checked, count, duration, filled_list, fixed, list, network, or_empty,
    path_in, positive_duration, text, tried,
};
use super::upstream::pem_file;
use crate::connection::limits;
use crate::connection::listeners::Listen;
use crate::decide::settings;
use crate::identity::Mode;
use crate::tls::entrance::{self, Entrance, OwnCertificate};

/// The listeners for clients, and the settings of their connections.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Proxy {
    /// The addresses to listen on: at least one, and no two that overlap. Port 0 lets the system choose.
    pub(crate) listen: Vec<Listen>,
    /// The certificate and TLS settings of `https://` listeners, if there is a certificate.
    pub(crate) entrance: Option<Arc<Entrance>>,
    /// The limits on concurrent connections.
    pub(crate) limits: limits::Options,
    /// The settings of each connection.
    pub(crate) options: settings::Options,
    /// The settings of requests that match no `[[crawler]]`.
    pub(super) others: crawlers::Others,
}

/// Reads `[proxy]`. Paths are relative to `dir`.
pub(super) fn proxy(section: &mut Section<'_>, dir: &Path) -> Proxy {
    let plain = Listen {
        address: loopback(3128),
        is_tls: false,
    };
    let listen = checked(filled_list(|node| tried(node, str::parse)), none_twice);
    let listen = section.key(fixed("listen"), vec![plain], listen);
    let second = Duration::from_secs(1);
    let entrance = entrance(section, &listen, dir);
    let asks_for_certificates = match &entrance {
        Some(entrance) => entrance.asks_clients(),
        // If these keys are wrong, that has been reported; do not report every crawler's certificate as well.
        None => !section.is_sound("certificate") || !section.is_sound("client_ca"),
    };
    Proxy {
        entrance,
        listen,
        options: settings::Options {
            header_timeout: section.key("header_timeout", 10 * second, positive_duration),
            idle_timeout: section.key("idle_timeout", 60 * second, positive_duration),
            shutdown_grace: section.key("shutdown_grace", 10 * second, duration),
            proxy_protocol: section.key("proxy_protocol", Vec::new(), list(network)),
            decision_id: section.key("decision_id", false, boolean),
            name: section.key("name", "wayleave".to_owned(), checked(text, pseudonym)),
        },
        limits: limits::Options {
            connections: section.key(fixed("max_connections"), 10_000, count(1, MOST)),
            per_client: section.key(fixed("max_connections_per_client"), 0, count(0, MOST)),
        },
        others: crawlers::Others {
            asks_for_certificates,
            require_crawler: section.key("require_crawler", false, boolean),
            mode: section.word("mode", Mode::Enforce, &crawlers::MODES),
        },
    }
}

/// Reads the certificate for `https://` listeners, and the CA of clients' certificates.
fn entrance(section: &mut Section<'_>, listen: &[Listen], dir: &Path) -> Option<Arc<Entrance>> {
    let certificate = section.key("certificate", None, or_empty(path_in(dir)));
    let key = section.key("key", None, or_empty(path_in(dir)));
    let clients = section.key("client_ca", None, or_empty(|node| pem_file(node, dir)));
    let Some((certificate, key)) = certificate.as_ref().zip(key.as_ref()) else {
        let wanting = listen.iter().find(|listen| listen.is_tls);
        if let Some(listen) = wanting.filter(|_| section.is_sound("listen")) {
            let message = format!("{listen} needs proxy.certificate and proxy.key");
            section.mistake("listen", message);
        } else if certificate.is_some() {
            section.mistake("certificate", "needs proxy.key beside it");
        } else if key.is_some() {
            section.mistake("key", "needs proxy.certificate beside it");
        } else if clients.is_some() {
            let message =
                "needs proxy.certificate and proxy.key: without TLS nobody shows a certificate";
            section.mistake("client_ca", message);
        }
        return None;
    };
    let read = OwnCertificate::read(certificate, key);
    match read.and_then(|certificate| {
        Entrance::new(entrance::Options {
            certificate,
            clients,
        })
    }) {
        Ok(entrance) => Some(Arc::new(entrance)),
        Err(error) => {
            section.mistake("certificate", format!("{error:#}"));
            None
        }
    }
}

pub(super) fn loopback(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

fn none_twice(addresses: &[Listen]) -> Result<(), String> {
    for (index, address) in addresses.iter().enumerate() {
        let earlier = addresses[..index]
            .iter()
            .find(|other| overlap(other.address, address.address));
        if let Some(earlier) = earlier {
            return Err(format!(
                "{earlier} and {address} overlap: listen on one of them"
            ));
        }
    }
    Ok(())
}

/// Returns whether the operating system would let only one of two listeners bind. `[::]` includes IPv4.
pub(super) fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let covers = |wide: SocketAddr, narrow: SocketAddr| {
        wide.ip().is_unspecified() && (wide.is_ipv6() || narrow.is_ipv4())
    };
    one.port() != 0
        && one.port() == other.port()
        && (one.ip() == other.ip() || covers(one, other) || covers(other, one))
}

/// Checks that a name is valid in `Via` (RFC 9110 section 7.6.3) and, unquoted, in `Proxy-Status` (RFC 9209 section 2).
fn pseudonym(name: &str) -> Result<(), String> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.bytes().all(is_token) {
        Ok(())
    } else {
        Err(format!(
            "{name:?} is not a letter followed by letters, digits, \"-\", \"_\" or \".\""
        ))
    }
}
