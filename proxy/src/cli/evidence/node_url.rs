//! The URL of a node's admin listener, as an argument.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::str::FromStr;

use anyhow::Context;
use url::Url;

/// The admin listener of a node.
#[derive(Clone, Debug)]
pub(crate) struct NodeUrl(Url);

impl FromStr for NodeUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // The listener speaks plain HTTP, and has no other paths.
        let is_listener = |url: &Url| {
            url.scheme() == "http"
                && url.host().is_some()
                && url.path() == "/"
                && url.query().is_none()
                && url.username().is_empty()
                && url.password().is_none()
        };
        let url = text.parse::<Url>().ok().filter(is_listener);
        url.map(Self).ok_or_else(|| {
            format!("{text:?} is not an admin listener, such as http://10.0.0.2:3129")
        })
    }
}

impl NodeUrl {
    /// Returns its address.
    ///
    /// # Errors
    ///
    /// Returns an error if its name has none.
    pub(crate) fn address(&self) -> anyhow::Result<SocketAddr> {
        let host = self.0.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let port = self.0.port_or_known_default().unwrap_or(80);
        let mut found = (host, port).to_socket_addrs().context("its name cannot be resolved")?;
        found.next().context("its name has no address")
    }

    pub(crate) fn name(&self) -> String {
        self.0.as_str().trim_end_matches('/').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_admin_listeners_are_nodes() {
        for url in ["http://10.0.0.2:3129", "http://node-2:3129/", "http://[::1]:3129"] {
            assert!(url.parse::<NodeUrl>().is_ok(), "{url}");
        }
        for url in [
            "10.0.0.2:3129",
            "https://node-2",
            "http://node-2/v1",
            "http://",
            "http://me:secret@node-2:3129",
            "",
        ] {
            assert!(url.parse::<NodeUrl>().is_err(), "{url}");
        }
    }
}
