//! `upstream.proxy` and `upstream.proxy_bypass`: the proxy between this one and origins, and the hosts that are
//! reached without it.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::BytesMut;
use ipnet::IpNet;
use percent_encoding::percent_decode_str;
use url::Url;
use wayleave_http_wire::http1::write_fields;
use wayleave_robots_txt::HostPattern;

use super::address_literal::parse_literal;

/// The protocol of a parent proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParentProtocol {
    Http,
    /// HTTP inside TLS.
    Https,
    /// SOCKS5 (RFC 1928). It gets names, not addresses.
    Socks5,
}

/// A parent proxy.
#[derive(Clone, PartialEq, Eq)]
pub struct ParentProxy {
    /// The URL as configured.
    url: String,
    pub protocol: ParentProtocol,
    /// The host as `Origin::host` returns it: a lower-case name, or an address, IPv6 in brackets.
    pub host: String,
    pub port: u16,
    /// User name and password.
    pub credentials: Option<(String, String)>,
}

impl ParentProxy {
    /// Returns host and port, by which messages and `Proxy-Status` name the parent.
    pub fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Returns the URL as configured, with its password.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the value of `Proxy-Authorization` (RFC 7617), if credentials are configured.
    fn authorization(&self) -> Option<String> {
        let (user, password) = self.credentials.as_ref()?;
        let encoded = STANDARD.encode(format!("{user}:{password}"));
        Some(format!("Basic {encoded}"))
    }

    /// Adds our credentials, if any, to the head of a request to the parent.
    pub fn write_authorization(&self, head: &mut BytesMut) {
        if let Some(value) = self.authorization() {
            write_fields(head, [(&b"Proxy-Authorization"[..], value.as_bytes())]);
        }
    }

    /// Returns whether the parent forwards plain HTTP, instead of tunnelling it.
    pub(crate) fn forwards_http(&self) -> bool {
        self.protocol != ParentProtocol::Socks5
    }
}

const EXPECTED: &str =
    "is not a proxy, such as \"http://proxy.corp:3128\" or \"socks5://proxy.corp:1080\"";

impl FromStr for ParentProxy {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let url = Url::parse(text).map_err(|_| EXPECTED)?;
        let (protocol, default_port) = match url.scheme() {
            "http" => (ParentProtocol::Http, 80),
            "https" => (ParentProtocol::Https, 443),
            // curl looks names up itself for `socks5`; here both leave that to the proxy.
            "socks5" | "socks5h" => (ParentProtocol::Socks5, 1080),
            _ => return Err("has a scheme other than http, https and socks5"),
        };
        if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
            return Err("has more than a host, a port and credentials");
        }
        let host = url.host_str().ok_or(EXPECTED)?.to_ascii_lowercase();
        // The host is repeated in log lines and in Proxy-Status.
        if host.is_empty()
            || !host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_[]:".contains(&byte))
        {
            return Err("has a host that is neither a name in ASCII nor an address");
        }
        Ok(Self {
            url: text.to_owned(),
            credentials: credentials(&url, protocol)?,
            protocol,
            port: url.port().unwrap_or(default_port),
            host,
        })
    }
}

fn credentials(
    url: &Url,
    protocol: ParentProtocol,
) -> Result<Option<(String, String)>, &'static str> {
    let decode = |text: &str| {
        let decoded = percent_decode_str(text).decode_utf8().map_err(|_| EXPECTED)?.into_owned();
        // RFC 7617 section 2 excludes them.
        if decoded.chars().any(char::is_control) {
            return Err("has a control character in its credentials");
        }
        Ok(decoded)
    };
    let user = decode(url.username())?;
    let password = decode(url.password().unwrap_or_default())?;
    if user.is_empty() && password.is_empty() {
        return Ok(None);
    }
    let is_short = |text: &str| (1..=255).contains(&text.len());
    match protocol {
        ParentProtocol::Socks5 if !is_short(&user) || !is_short(&password) => {
            Err("has a user name or password that is not 1 to 255 bytes (RFC 1929)")
        }
        ParentProtocol::Http | ParentProtocol::Https if user.contains(':') => {
            Err("has a user name with a colon (RFC 7617 section 2)")
        }
        _ => Ok(Some((user, password))),
    }
}

/// Leaves the credentials out.
impl fmt::Debug for ParentProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ParentProxy").field(&self.authority()).finish()
    }
}

/// Hosts that are reached without the parent proxy: an item of `upstream.proxy_bypass`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyBypass {
    /// A host, or those below one.
    Hosts(HostPattern),
    /// Addresses that the URL itself spells: names are not looked up for this.
    Addresses(IpNet),
}

impl ProxyBypass {
    /// Returns whether `host` is dialled directly.
    pub fn matches(&self, host: &str) -> bool {
        match self {
            Self::Hosts(pattern) => pattern.matches(host),
            // An IPv4-mapped address is the IPv4 address on the wire.
            Self::Addresses(net) => {
                parse_literal(host).is_some_and(|address| net.contains(&address.to_canonical()))
            }
        }
    }
}

impl FromStr for ProxyBypass {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // First, because an IPv4 address is a host pattern as well.
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Addresses(address.into()));
        }
        if let Ok(net) = text.parse::<IpNet>() {
            return Ok(Self::Addresses(net.trunc()));
        }
        text.parse().map(Self::Hosts).map_err(|_| {
            format!("{text:?} is not a host, such as \"*.corp.example\", or a network, such as \"10.0.0.0/8\"")
        })
    }
}

impl fmt::Display for ProxyBypass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hosts(pattern) => pattern.fmt(f),
            Self::Addresses(net) => net.fmt(f),
        }
    }
}

/// Suffixes that RFC 6761, RFC 6762, RFC 8375 and ICANN reserve, and those that networks invent.
const INTERNAL_SUFFIXES: &[&str] = &[
    "localhost",
    "localdomain",
    "local",
    "internal",
    "intranet",
    "private",
    "corp",
    "home",
    "lan",
    "home.arpa",
];

/// Returns whether a name cannot be that of a public host. It is refused where its addresses cannot be checked. Names
/// of one label are internal, too.
pub(super) fn is_internal_name(host: &str) -> bool {
    let name = host.trim_end_matches('.');
    !name.contains('.')
        || INTERNAL_SUFFIXES.iter().any(|suffix| {
            name.strip_suffix(*suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> ParentProxy {
        text.parse().unwrap()
    }

    #[test]
    fn proxy_url_gives_protocol_host_and_credentials() {
        let squid = parse("http://us%40er:p%3Ass@Proxy.Corp:3128/");
        assert_eq!(squid.protocol, ParentProtocol::Http);
        assert_eq!(squid.authority(), "proxy.corp:3128");
        let (user, password) = squid.credentials.as_ref().unwrap();
        assert_eq!((&**user, &**password), ("us@er", "p:ss"));
        let authorization = squid.authorization();
        assert_eq!(authorization.as_deref(), Some("Basic dXNAZXI6cDpzcw=="));
        assert_eq!(format!("{squid:?}"), "ParentProxy(\"proxy.corp:3128\")");
        assert_eq!(parse("socks5://[::1]").authority(), "[::1]:1080");
        assert_eq!(parse("https://proxy.corp").authority(), "proxy.corp:443");
    }

    #[test]
    fn invalid_proxy_urls_are_rejected() {
        for wrong in [
            "proxy.corp:3128",
            "ftp://proxy.corp",
            "http://",
            "http://proxy.corp/path",
            "http://a:b@proxy.corp?x",
            "http://a%0d:b@proxy.corp",
            "http://a%3Ab:c@proxy.corp",
            "socks5://user@proxy.corp",
        ] {
            assert!(wrong.parse::<ParentProxy>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn bypass_matches_hosts_and_literal_addresses() {
        let covers = |item: &str, host: &str| item.parse::<ProxyBypass>().unwrap().matches(host);
        assert!(covers("*.corp.example", "a.corp.example"));
        assert!(!covers("*.corp.example", "corp.example"));
        assert!(covers("10.0.0.0/8", "10.1.2.3"));
        assert!(covers("10.0.0.0/8", "[::ffff:10.1.2.3]"));
        assert!(!covers("10.0.0.0/8", "10.example"));
        assert!("a b".parse::<ProxyBypass>().is_err());
    }

    #[test]
    fn internal_names_are_recognised() {
        let internal = ["localhost", "a.localhost", "printer", "db.corp", "x.home.arpa"];
        for host in internal.iter().chain(&["metadata.google.internal", "nas.local."]) {
            assert!(is_internal_name(host), "{host}");
        }
        let public = ["shop.test", "local.example", "mylocal.example"];
        for host in public.iter().chain(&["arpa.example", "x.xcorp"]) {
            assert!(!is_internal_name(host), "{host}");
        }
    }
}
