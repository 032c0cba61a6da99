//! `[proxy]`: the listeners for clients.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::crawlers;
use super::file::{
    MOST, Section, address, boolean, checked, count, duration, filled_list, fixed, list, network,
    positive_duration, text,
};
use crate::connection::limits;
use crate::decide::settings;
use crate::identity::Mode;

/// The listeners for clients, and what holds for their connections.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Proxy {
    /// Where clients connect; at least one, none twice. Port 0 lets the system choose.
    pub(crate) listen: Vec<SocketAddr>,
    /// Connections at one time.
    pub(crate) limits: limits::Options,
    /// What holds for each.
    pub(crate) options: settings::Options,
    /// What holds for requests that match no `[[crawler]]`.
    pub(super) others: crawlers::Others,
}

pub(super) fn proxy(section: &mut Section<'_>) -> Proxy {
    let listen = checked(filled_list(address), none_twice);
    let second = Duration::from_secs(1);
    Proxy {
        listen: section.key(fixed("listen"), vec![loopback(3128)], listen),
        options: settings::Options {
            header_timeout: section.key("header_timeout", 10 * second, positive_duration),
            idle_timeout: section.key("idle_timeout", 60 * second, positive_duration),
            shutdown_grace: section.key("shutdown_grace", 10 * second, duration),
            proxy_protocol: section.key("proxy_protocol", Vec::new(), list(network)),
            name: section.key("name", "wayleave".to_owned(), checked(text, pseudonym)),
        },
        limits: limits::Options {
            connections: section.key(fixed("max_connections"), 10_000, count(1, MOST)),
            per_client: section.key(fixed("max_connections_per_client"), 0, count(0, MOST)),
        },
        others: crawlers::Others {
            require_crawler: section.key("require_crawler", false, boolean),
            mode: section.word("mode", Mode::Enforce, &crawlers::MODES),
        },
    }
}

pub(super) fn loopback(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

fn none_twice(addresses: &[SocketAddr]) -> Result<(), String> {
    for (index, address) in addresses.iter().enumerate() {
        let earlier = addresses[..index]
            .iter()
            .find(|other| overlap(**other, *address));
        if let Some(earlier) = earlier {
            return Err(format!(
                "{earlier} and {address} overlap: listen on one of them"
            ));
        }
    }
    Ok(())
}

/// Whether the system lets only one of two listeners have its address. `[::]` takes IPv4 in, too.
pub(super) fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let covers = |wide: SocketAddr, narrow: SocketAddr| {
        wide.ip().is_unspecified() && (wide.is_ipv6() || narrow.is_ipv4())
    };
    one.port() != 0
        && one.port() == other.port()
        && (one.ip() == other.ip() || covers(one, other) || covers(other, one))
}

/// Takes what can stand in `Via` (RFC 9110 section 7.6.3) and, unquoted, in `Proxy-Status` (RFC 9209 section 2).
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
