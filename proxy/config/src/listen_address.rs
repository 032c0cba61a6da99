//! The addresses where clients connect, as `proxy.listen` has them.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// The way in which the connections of a listener name their destinations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListenProtocol {
    /// HTTP requests to a proxy.
    Http,
    /// HTTP requests to a proxy, inside TLS.
    Https,
    /// SOCKS5 (RFC 1928).
    Socks5,
    /// The kernel redirects connections to the listener (REDIRECT or DNAT on this machine).
    Redirect,
    /// The kernel hands connections to the listener that keep their destination as their local address (TPROXY).
    Tproxy,
}

impl ListenProtocol {
    /// Every protocol by which connections of clients are captured that know no HTTP proxy.
    pub(crate) const CAPTURING: [Self; 3] = [Self::Socks5, Self::Redirect, Self::Tproxy];

    /// Returns the scheme of a listener's URL.
    pub const fn scheme(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Socks5 => "socks5",
            Self::Redirect => "redirect",
            Self::Tproxy => "tproxy",
        }
    }

    /// Returns whether clients send requests to the listener as to an HTTP proxy.
    pub(crate) const fn is_http_proxy(self) -> bool {
        matches!(self, Self::Http | Self::Https)
    }
}

/// An address of `proxy.listen`: where clients connect, and by which protocol. Displays as it is written there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenAddress {
    pub address: SocketAddr,
    pub protocol: ListenProtocol,
}

impl ListenAddress {
    /// Returns the address of a listener for plain HTTP.
    pub fn http(address: SocketAddr) -> Self {
        Self { address, protocol: ListenProtocol::Http }
    }

    /// Returns the address that a client on this machine connects to: loopback in place of a wildcard, which cannot be dialled.
    pub fn dialable(self) -> Self {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        Self { address, ..self }
    }

    /// Returns the address that suits clients on this machine best: the first HTTP proxy without TLS, otherwise the first one;
    /// `None` if there is no HTTP proxy.
    pub fn for_local_clients(all: impl Iterator<Item = Self>) -> Option<Self> {
        let proxies = all.filter(|listen| listen.protocol.is_http_proxy());
        proxies.min_by_key(|listen| listen.protocol).map(Self::dialable)
    }

    /// Returns the address as a URL.
    pub fn url(self) -> String {
        format!("{}://{}", self.protocol.scheme(), self.address)
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.protocol == ListenProtocol::Http {
            self.address.fmt(f)
        } else {
            f.write_str(&self.url())
        }
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let with_scheme = [ListenProtocol::Https].into_iter().chain(ListenProtocol::CAPTURING);
        let (protocol, address) = with_scheme
            .filter_map(|protocol| {
                Some((protocol, text.strip_prefix(protocol.scheme())?.strip_prefix("://")?))
            })
            .next()
            .unwrap_or((ListenProtocol::Http, text));
        let address = address.parse().map_err(|_| {
            format!(
                "{text:?} is not an IP address with a port, such as \"127.0.0.1:3128\", \"[::1]:3128\", \
                 \"https://0.0.0.0:3130\" or \"socks5://127.0.0.1:1080\""
            )
        })?;
        Ok(Self { address, protocol })
    }
}
