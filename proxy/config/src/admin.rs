//! `[admin]`: the listener for operators.

use std::net::SocketAddr;
use std::sync::Arc;

use url::Url;

use super::listen_address::ListenAddress;
use super::proxy::{loopback, overlaps};
use super::reader::{
    ParseResult, Section, ValueNode, address, fixed, none_if_empty, parse_digest, parse_with,
    secret, text,
};

/// The role of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminRole {
    /// Sees.
    Read,
    /// Changes as well.
    Operate,
}

/// A token of `[admin]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminToken {
    pub sha256: [u8; 32],
    /// The name in the log; without one, the first digits of the digest are used.
    pub name: Option<String>,
    pub role: AdminRole,
    /// The owner of the only crawlers that it is about; none: of all.
    pub team: Option<Arc<str>>,
}

/// The operators' listener: metrics, health, API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminConfig {
    /// A loopback address unless there are tokens. Port 0 lets the system choose.
    pub listen: SocketAddr,
    /// The URL of a copy of the documentation, without a slash at its end.
    pub docs_url: Option<String>,
    /// The tokens, of which a request must have one; empty: none is required.
    pub tokens: Vec<AdminToken>,
}

/// Reads `[admin]`; `proxy` are the addresses that clients connect to, and on a reload `in_use` is the address that the process
/// listens on.
pub(super) fn read(
    section: &mut Section<'_>,
    proxy: &[ListenAddress],
    in_use: Option<SocketAddr>,
) -> AdminConfig {
    let token_sha256 = section.key(secret("token_sha256"), None, none_if_empty(parse_digest));
    let listen = section.key(fixed("listen"), loopback(3129), address);
    if let Some(proxy) = proxy.iter().find(|proxy| overlaps(proxy.address, listen)) {
        section.report("listen", format!("{listen} is already in proxy.listen, as {proxy}"));
    }
    let mut tokens: Vec<AdminToken> = Vec::new();
    let only = token_sha256.map(|digest| AdminToken {
        sha256: digest.0,
        name: None,
        role: AdminRole::Operate,
        team: None,
    });
    tokens.extend(only);
    section.tables("tokens", |section| {
        let token = read_token(section);
        if section.is_valid("sha256") && tokens.iter().any(|earlier| earlier.sha256 == token.sha256)
        {
            section.report("sha256", "is that of another token");
        }
        tokens.push(token);
    });
    // On loopback, everybody who can connect is an operator. A wrong token has been reported already.
    let exposed =
        [Some(listen), in_use].into_iter().flatten().find(|address| !address.ip().is_loopback());
    if let Some(exposed) = exposed
        && tokens.is_empty()
        && section.is_valid("token_sha256")
        && section.is_valid("tokens")
    {
        section.report(
            "listen",
            format!(
                "{exposed} is not a loopback address, so operators must send a token: set admin.token_sha256 or admin.tokens"
            ),
        );
    }
    let docs_url = section.key(fixed("docs_url"), None, none_if_empty(parse_docs_url));
    AdminConfig { listen, docs_url, tokens }
}

fn read_token(section: &mut Section<'_>) -> AdminToken {
    let sha256 = section.required(secret("sha256"), parse_digest);
    let role = section.required_word("role", &["read", "operate"]);
    AdminToken {
        // A missing digest has been reported, so this one is never used.
        sha256: sha256.map_or([0; 32], |digest| digest.0),
        name: section.optional("name", text),
        role: if role == Some("operate") { AdminRole::Operate } else { AdminRole::Read },
        team: section.optional("team", text).map(Arc::from),
    }
}

/// Parses the URL that the names of documents are appended to.
fn parse_docs_url(node: &ValueNode<'_>) -> ParseResult<String> {
    parse_with(node, |text| {
        let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let url = url.filter(|url| url.query().is_none() && url.fragment().is_none());
        url.map(|url| url.as_str().trim_end_matches('/').to_owned())
            .ok_or("is not a URL such as https://wiki.example/wayleave/docs")
    })
}
