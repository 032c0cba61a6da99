//! `[admin]`: the listener for operators.

use std::net::SocketAddr;

use wayleave_evidence::Sha256Digest;

use super::proxy::{loopback, overlaps};
use super::reader::{
    ParseResult, Section, ToValue, ValueNode, address, none_if_empty, parse_with, secret,
};
use crate::admin::AdminGuard;
use crate::downstream::listeners::ListenAddress;

/// The operators' listener: metrics, health, API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AdminConfig {
    /// A loopback address unless there is a token. Port 0 lets the system choose.
    pub(crate) listen: SocketAddr,
    /// The check that every request passes.
    pub(crate) guard: AdminGuard,
}

/// Reads `[admin]`; `proxy` are the addresses that clients connect to.
pub(super) fn read(section: &mut Section<'_>, proxy: &[ListenAddress]) -> AdminConfig {
    let token_sha256 = section.key(secret("token_sha256"), None, none_if_empty(parse_digest));
    let listen = section.key("listen", loopback(3129), address);
    if let Some(proxy) = proxy.iter().find(|proxy| overlaps(proxy.address, listen)) {
        section.report("listen", format!("{listen} is already in proxy.listen, as {proxy}"));
    }
    // On loopback, everybody who can connect is an operator. A wrong token has been reported already.
    if !listen.ip().is_loopback() && token_sha256.is_none() && section.is_valid("token_sha256") {
        section.report(
            "listen",
            format!(
                "{listen} is not a loopback address, so operators must send a token: set admin.token_sha256"
            ),
        );
    }
    AdminConfig { listen, guard: AdminGuard { token_sha256: token_sha256.map(|digest| digest.0) } }
}

impl ToValue for Sha256Digest {
    fn to_value(&self) -> toml::Value {
        self.to_string().into()
    }
}

/// Parses a SHA-256 in hexadecimal.
fn parse_digest(node: &ValueNode<'_>) -> ParseResult<Sha256Digest> {
    parse_with(node, |text| {
        Sha256Digest::from_hex(text).ok_or("is not a SHA-256 of 64 hexadecimal digits")
    })
}
