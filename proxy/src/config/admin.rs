//! `[admin]`: the listener for operators.

use std::net::SocketAddr;

use super::file::{Node, Parsed, Section, Show, address, or_empty, secret, tried};
use super::proxy::{loopback, overlap};
use crate::admin::Guard;
use crate::connection::listeners::Listen;
use crate::observe::digest::Digest;

/// The operators' listener: metrics, health, API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Admin {
    /// A loopback address unless there is a token. Port 0 lets the system choose.
    pub(crate) listen: SocketAddr,
    /// The check that every request passes.
    pub(crate) guard: Guard,
}

/// Reads `[admin]`; `proxy` are the addresses that clients connect to.
pub(super) fn admin(section: &mut Section<'_>, proxy: &[Listen]) -> Admin {
    let token_sha256 = section.key(secret("token_sha256"), None, or_empty(digest));
    let listen = section.key("listen", loopback(3129), address);
    if let Some(proxy) = proxy.iter().find(|proxy| overlap(proxy.address, listen)) {
        section.mistake(
            "listen",
            format!("{listen} is in proxy.listen already, as {proxy}"),
        );
    }
    if !listen.ip().is_loopback() && token_sha256.is_none() && section.is_sound("token_sha256") {
        section.mistake(
            "listen",
            format!(
                "{listen} is not a loopback address: operators of other machines must show a token, so set admin.token_sha256"
            ),
        );
    }
    Admin {
        listen,
        guard: Guard {
            token_sha256: token_sha256.map(|digest| digest.0),
        },
    }
}

impl Show for Digest {
    fn show(&self) -> toml::Value {
        self.to_string().into()
    }
}

/// Parses a SHA-256 in hexadecimal.
fn digest(node: &Node<'_>) -> Parsed<Digest> {
    tried(node, |text| {
        Digest::from_hex(text).ok_or("is not the 64 hexadecimal digits of a SHA-256")
    })
}
