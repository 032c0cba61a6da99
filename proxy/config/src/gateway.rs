//! `[gateway]`: the listeners for other proxies, which ask about requests and send them themselves.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use wayleave_admission::settings::GatewayToken;
use wayleave_decision::Crawler;

use super::listen_address::ListenAddress;
use super::proxy::{check_overlaps, overlaps};
use super::reader::{
    Section, ToValue, checked, fixed, list, parse_digest, parse_with, secret, text,
};

/// The protocol by which gateways ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewayProtocol {
    /// HTTP/1.1, in one of several forms.
    Http,
    /// gRPC over HTTP/2: `envoy.service.auth.v3.Authorization`.
    Grpc,
    /// ICAP (RFC 3507), by which gateways also show responses.
    Icap,
}

impl GatewayProtocol {
    fn scheme(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
            Self::Icap => "icap",
        }
    }
}

/// An address where gateways ask. Displays as it is written in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewayListen {
    pub protocol: GatewayProtocol,
    pub address: SocketAddr,
}

/// The listeners for gateways, and their credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayConfig {
    /// The addresses to listen on; empty: no gateway may ask. Port 0 lets the system choose.
    pub listen: Vec<GatewayListen>,
    /// The tokens, each of one crawler. A gateway that sends none is identified as its clients are.
    pub tokens: Vec<GatewayToken>,
}

/// Reads `[gateway]`. `proxy` and `admin` are the other addresses of the process.
pub(super) fn read(
    section: &mut Section<'_>,
    proxy: &[ListenAddress],
    admin: SocketAddr,
    crawlers: &[Crawler],
) -> GatewayConfig {
    let check = |listen: &Vec<GatewayListen>| check_overlaps(listen, |listener| listener.address);
    let parse_listen = checked(list(|node| parse_with(node, str::parse)), check);
    let listen: Vec<GatewayListen> = section.key(fixed("listen"), Vec::new(), parse_listen);
    for gateway in &listen {
        let is_taken = |other: SocketAddr| overlaps(other, gateway.address);
        if let Some(proxy) = proxy.iter().find(|proxy| is_taken(proxy.address)) {
            section.report("listen", format!("{gateway} is already in proxy.listen, as {proxy}"));
        } else if is_taken(admin) {
            section.report("listen", format!("{gateway} is already admin.listen, {admin}"));
        }
    }
    let mut tokens: Vec<GatewayToken> = Vec::new();
    section.tables("tokens", |section| {
        let sha256 = section.required(secret("sha256"), parse_digest);
        let crawler = section.required("crawler", text);
        if let Some(name) = &crawler
            && !crawlers.iter().any(|known| known.name == *name)
        {
            section.report("crawler", format!("no [[crawler]] is named {name:?}"));
        }
        let Some((sha256, crawler)) = sha256.zip(crawler) else {
            return;
        };
        if tokens.iter().any(|earlier| earlier.sha256 == sha256) {
            section.report("sha256", "is that of another token");
        }
        tokens.push(GatewayToken { sha256, crawler });
    });
    GatewayConfig { listen, tokens }
}

impl fmt::Display for GatewayListen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.protocol.scheme(), self.address)
    }
}

impl ToValue for GatewayListen {
    fn to_value(&self) -> toml::Value {
        self.to_string().into()
    }
}

impl FromStr for GatewayListen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = match text.split_once("://") {
            Some(("http", address)) => Some((GatewayProtocol::Http, address)),
            Some(("grpc", address)) => Some((GatewayProtocol::Grpc, address)),
            Some(("icap", address)) => Some((GatewayProtocol::Icap, address)),
            _ => None,
        };
        let listen = parsed.and_then(|(protocol, address)| {
            Some(Self { protocol, address: address.parse().ok()? })
        });
        listen.ok_or_else(|| {
            format!("{text:?} is not an address with a port, such as \"http://127.0.0.1:3141\"")
        })
    }
}
