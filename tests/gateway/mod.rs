//! Other proxies that ask whether a request is allowed, and send it themselves.

mod attempts;
mod equal;
mod examples;
mod floods;
mod grpc;
pub mod grpc_client;
mod http;
mod icap;
mod library;
mod limits;
mod nginx;
mod notices;
mod real;
mod record;
mod slow;
mod squid;

use std::net::SocketAddr;

use crate::harness::client::raw;
use crate::harness::ports::free_address;
use crate::harness::wayleave::Settings;
use crate::harness::{Origin, Response, Wayleave};

const ROBOTS: &str = "User-agent: *\nDisallow: /private\n";

/// A running proxy that gateways ask.
pub struct Gated {
    pub proxy: Wayleave,
    pub gateway: SocketAddr,
}

impl Gated {
    #[track_caller]
    pub fn start(origin: &Origin) -> Self {
        Self::start_with(origin, |settings| settings)
    }

    #[track_caller]
    pub fn start_with(origin: &Origin, change: impl FnOnce(Settings) -> Settings) -> Self {
        let gateway = free_address();
        let listen = format!("[\"http://{gateway}\"]");
        let proxy = Wayleave::start_with(origin, |settings| {
            change(settings.set("gateway.listen", &listen))
        });
        Self { proxy, gateway }
    }

    /// Starts a proxy that is asked by HTTP, and at the address that is returned by gRPC.
    #[track_caller]
    pub fn start_both(
        origin: &Origin,
        change: impl FnOnce(Settings) -> Settings,
    ) -> (Self, SocketAddr) {
        let gateway = free_address();
        let grpc = free_address();
        let listen = format!("[\"http://{gateway}\", \"grpc://{grpc}\"]");
        let proxy = Wayleave::start_with(origin, |settings| {
            change(settings.set("gateway.listen", &listen))
        });
        (Self { proxy, gateway }, grpc)
    }

    /// Sends a GET to the gateway's listener.
    #[track_caller]
    pub fn ask(&self, target: &str, fields: &[(&str, &str)]) -> Response {
        self.send("GET", target, fields)
    }

    #[track_caller]
    pub fn send(&self, method: &str, target: &str, fields: &[(&str, &str)]) -> Response {
        let mut head = format!("{method} {target} HTTP/1.1\r\n");
        if !fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head += &format!("Host: {}\r\n", self.gateway);
        }
        for (name, value) in fields {
            head += &format!("{name}: {value}\r\n");
        }
        raw(self.gateway, head + "Connection: close\r\n\r\n").expect("an answer")
    }

    /// Asks about a request by parameters.
    #[track_caller]
    pub fn check(&self, method: &str, url: &str, fields: &[(&str, &str)]) -> Response {
        self.ask(&check(method, url), fields)
    }

    /// Tells about a request.
    #[track_caller]
    pub fn tell(&self, path: &str, notice: &str, fields: &[(&str, &str)]) -> Response {
        let mut head = format!("POST {path} HTTP/1.1\r\nHost: {}\r\n", self.gateway);
        for (name, value) in fields {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("Content-Length: {}\r\nConnection: close\r\n\r\n{notice}", notice.len());
        raw(self.gateway, head).expect("an answer")
    }
}

/// Returns the target by which a request is asked about.
pub fn check(method: &str, url: &str) -> String {
    format!("/check?method={method}&url={}", escaped(url))
}

pub fn escaped(text: &str) -> String {
    let escape = |byte: u8| {
        if byte.is_ascii_alphanumeric() {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    text.bytes().map(escape).collect()
}

/// Returns the fields of nginx, Traefik and Caddy.
pub fn forwarded<'a>(
    method: &'a str,
    scheme: &'a str,
    host: &'a str,
    target: &'a str,
) -> [(&'static str, &'a str); 4] {
    [
        ("X-Forwarded-Method", method),
        ("X-Forwarded-Proto", scheme),
        ("X-Forwarded-Host", host),
        ("X-Forwarded-Uri", target),
    ]
}
