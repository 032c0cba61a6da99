//! Origins: scheme, host and port.

use std::fmt;
use std::str::FromStr;

use smol_str::SmolStr;

use crate::{excerpt, host};

/// The most bytes of a URI that is requested.
pub(crate) const MAX_URI_BYTES: usize = 16 * 1024;

/// A scheme over which robots.txt is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum UrlScheme {
    /// `http`, port 80 unless given.
    Http,
    /// `https`, port 443 unless given.
    Https,
    /// `ftp`, port 21 unless given.
    Ftp,
}

impl UrlScheme {
    /// Returns `http`, `https` or `ftp`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Ftp => "ftp",
        }
    }

    /// Returns the scheme's default port.
    #[must_use]
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
            Self::Ftp => 21,
        }
    }
}

impl fmt::Display for UrlScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for UrlScheme {
    type Err = InvalidUrl;

    fn from_str(name: &str) -> Result<Self, InvalidUrl> {
        [Self::Http, Self::Https, Self::Ftp]
            .into_iter()
            // RFC 3986 §3.1: schemes have no case.
            .find(|scheme| name.eq_ignore_ascii_case(scheme.as_str()))
            .ok_or_else(|| InvalidUrl::UnsupportedScheme(name.to_ascii_lowercase()))
    }
}

/// A scheme, host and port (RFC 9110 §4.3.1): the scope of one robots.txt.
///
/// Two origins are equal if they lead to the same place: hosts are stored in lower case, as A-labels, with IP addresses
/// in canonical form and without one trailing dot; a missing port equals the scheme's default. Cloning is cheap.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    // Seven hosts in eight are short enough to be stored inline, so comparing two origins rarely follows a pointer.
    host: SmolStr,
    port: u16,
    scheme: UrlScheme,
}

impl Origin {
    /// Parses `https://host` or `https://host:port`, optionally followed by one `/`.
    ///
    /// # Errors
    ///
    /// For other schemes, a missing or impossible host or port, userinfo, a path, a query.
    pub fn parse(uri: &str) -> Result<Self, InvalidUrl> {
        let (scheme, rest) = split_scheme(uri)?;
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        Self::from_authority(scheme, authority)
    }

    /// Parses the `host` or `host:port` of a `CONNECT` request or a `Host` field.
    ///
    /// # Errors
    ///
    /// If host or port is missing or impossible, or if there is userinfo: neither field may have a name before an `@`,
    /// and implementations disagree about which side is the host.
    pub fn from_authority(scheme: UrlScheme, authority: &str) -> Result<Self, InvalidUrl> {
        if authority.contains('@') {
            return Err(InvalidUrl::UserInfo);
        }
        let (host, port) = split_port(authority)?;
        // Reported apart from an invalid host, which has a spelling to quote.
        if host.is_empty() {
            return Err(InvalidUrl::MissingHost);
        }
        Ok(Self {
            host: host::canonical_host(host)
                .ok_or_else(|| InvalidUrl::Host(host.to_owned()))?
                .into(),
            port: port.unwrap_or(scheme.default_port()),
            scheme,
        })
    }

    /// Returns the scheme.
    #[must_use]
    pub fn scheme(&self) -> UrlScheme {
        self.scheme
    }

    /// Returns the host: a name in lower case, `127.0.0.1`, or `[::1]`.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the number of bytes it holds on the heap: those of a host too long to be stored inline.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        if self.host.is_heap_allocated() { self.host.len() } else { 0 }
    }

    /// Returns the port, which is the scheme's default if none was given.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the value for a `Host` field, without the port if it is the scheme's default.
    #[must_use]
    pub fn authority(&self) -> String {
        let mut authority = String::with_capacity(self.host.len() + ":65535".len());
        authority.push_str(&self.host);
        if self.port != self.scheme.default_port() {
            authority.push(':');
            authority.push_str(&self.port.to_string());
        }
        authority
    }

    /// Returns the URI of a path on this origin; of the origin itself if the path is empty.
    #[must_use]
    pub fn uri(&self, path: &str) -> String {
        [self.scheme.as_str(), "://", &self.authority(), path].concat()
    }

    /// Returns the URI of this origin's robots.txt (RFC 9309 §2.3).
    #[must_use]
    pub fn robots_txt_uri(&self) -> String {
        self.uri("/robots.txt")
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.uri(""))
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Origin({self})")
    }
}

impl FromStr for Origin {
    type Err = InvalidUrl;

    fn from_str(uri: &str) -> Result<Self, InvalidUrl> {
        Self::parse(uri)
    }
}

/// Splits an absolute URI after its authority.
pub(crate) fn split_url(uri: &str) -> Result<(Origin, &str), InvalidUrl> {
    let (scheme, rest) = split_scheme(uri)?;
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let host = match authority.split_once('@') {
        // Implementations disagree about which `@` ends the userinfo, which has been used to reach other hosts.
        Some((_, host)) if host.contains('@') => return Err(InvalidUrl::UserInfo),
        Some((_, host)) => host,
        None => authority,
    };
    if let Some(c) = authority.chars().find(|&c| c == '\\' || is_unsendable(c)) {
        return Err(InvalidUrl::Character(c));
    }
    Ok((Origin::from_authority(scheme, host)?, path))
}

/// Returns whether no request line may hold a character.
pub(crate) fn is_unsendable(c: char) -> bool {
    c.is_ascii_control() || c == ' '
}

/// Splits `scheme://rest`, whose scheme must be supported.
pub(crate) fn split_scheme(uri: &str) -> Result<(UrlScheme, &str), InvalidUrl> {
    match uri.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => {
            Ok((scheme.parse()?, rest.strip_prefix("//").ok_or(InvalidUrl::MissingHost)?))
        }
        // `/a:b` and `a b:c` have a colon, but nothing spelt like a scheme before it.
        _ => Err(InvalidUrl::NotAbsolute),
    }
}

/// Returns whether a text is spelt like a scheme (RFC 3986 §3.1).
pub(crate) fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
}

fn split_port(authority: &str) -> Result<(&str, Option<u16>), InvalidUrl> {
    // A colon inside an IPv6 literal does not begin a port.
    let after_literal = match authority.find(']') {
        Some(end) => end + 1,
        None if authority.starts_with('[') => return Err(InvalidUrl::Host(authority.to_owned())),
        None => 0,
    };
    let Some(colon) = authority[after_literal..].find(':') else {
        return Ok((authority, None));
    };
    let (host, port) = authority.split_at(after_literal + colon);
    let digits = &port[1..];
    // RFC 3986 §3.2.3 allows an empty port, which means the default.
    if digits.is_empty() {
        return Ok((host, None));
    }
    // Rust's parser also accepts a sign.
    let is_number = digits.bytes().all(|b| b.is_ascii_digit());
    match digits.parse() {
        Ok(port) if is_number && port != 0 => Ok((host, Some(port))),
        _ => Err(InvalidUrl::Port(digits.to_owned())),
    }
}

/// The reason why a URI or authority cannot be fetched from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidUrl {
    /// There is no scheme.
    NotAbsolute,
    /// An unsupported scheme, in lower case.
    UnsupportedScheme(String),
    /// There is no host.
    MissingHost,
    /// A host that no URI can have or the DNS cannot hold.
    Host(String),
    /// A port that is not a number from 1 to 65535.
    Port(String),
    /// Userinfo where none is allowed, or more than one `@`.
    UserInfo,
    /// White space, a control character or `\` where a URI cannot have one.
    Character(char),
    /// A path that does not start with `/`.
    Path(String),
    /// More than [`Target::MAX_BYTES`](crate::Target::MAX_BYTES), where
    /// [`Target::check_length`](crate::Target::check_length) is asked.
    TooLong,
}

impl fmt::Display for InvalidUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAbsolute => f.write_str("no scheme: expected http:// or https://"),
            Self::UnsupportedScheme(scheme) => {
                write!(f, "unsupported scheme {:?}", excerpt(scheme))
            }
            Self::MissingHost => f.write_str("no host"),
            Self::Host(host) => write!(f, "invalid host {:?}", excerpt(host)),
            Self::Port(port) => write!(f, "invalid port {:?}", excerpt(port)),
            Self::UserInfo => f.write_str("userinfo is not allowed here"),
            Self::Character(c) => write!(f, "invalid character {c:?}"),
            Self::Path(path) => {
                write!(f, "the path {:?} does not start with '/'", excerpt(path))
            }
            Self::TooLong => {
                write!(f, "longer than {} KiB, the most that is judged", MAX_URI_BYTES / 1024)
            }
        }
    }
}

impl std::error::Error for InvalidUrl {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_host_has_one_spelling() {
        for (authority, host) in [
            ("EXAMPLE.com", "example.com"),
            ("example.com.", "example.com"),
            ("ex%61mple.com", "example.com"),
            ("b\u{fc}cher.example", "xn--bcher-kva.example"),
            ("XN--BCHER-KVA.example", "xn--bcher-kva.example"),
            ("\u{ff45}xample\u{3002}com", "example.com"),
            ("stra\u{df}e.example", "xn--strae-oqa.example"),
            ("a_b.example", "a_b.example"),
            ("127.1", "127.0.0.1"),
            ("0x7f.1", "127.0.0.1"),
            ("0177.0.0.01", "127.0.0.1"),
            ("2130706433", "127.0.0.1"),
            ("127.0.0.1.", "127.0.0.1"),
            ("0x", "0.0.0.0"),
            ("0", "0.0.0.0"),
            ("[::1]", "[::1]"),
            ("[0:0::1]", "[::1]"),
            ("[2001:DB8:0:0:1:0:0:1]", "[2001:db8::1:0:0:1]"),
            ("[::ffff:127.0.0.1]", "[::ffff:7f00:1]"),
            ("[1:0:0:0:0:0:0:0]", "[1::]"),
            ("[1:2:3:4:5:6:0:8]", "[1:2:3:4:5:6:0:8]"),
            ("[::]", "[::]"),
        ] {
            let origin = Origin::from_authority(UrlScheme::Http, authority).unwrap();
            assert_eq!(origin.host(), host, "{authority}");
            let again = Origin::from_authority(UrlScheme::Http, origin.host()).unwrap();
            assert_eq!(again, origin, "{authority}");
        }
    }

    #[test]
    fn impossible_hosts_are_refused() {
        for authority in [
            "",
            ".",
            "..",
            "a..b",
            "example.com..",
            "256.1.1.1",
            "1.2.3.4.5",
            "127.0.0.0x100",
            "09.1",
            "a.1x.0xg.0",
            "4294967296",
            "exa mple",
            "a<b",
            "a^b",
            "a%",
            "a%00b",
            "[::1",
            "::1",
            "[::1%25eth0]",
            "[1.2.3.4]",
            "[::1]x",
            "user@host",
            "a:b:c",
            "host:99999",
            "host:-1",
            "host:+1",
            "a;b",
            "a,b",
            "a'b",
            "a!b.example",
            "xn--",
            "\u{ad}",
        ] {
            let origin = Origin::from_authority(UrlScheme::Https, authority);
            assert!(origin.is_err(), "{authority:?} became {origin:?}");
        }
        let long = format!("{}.example", "a".repeat(64));
        assert!(Origin::from_authority(UrlScheme::Http, &long).is_err());
    }

    #[test]
    fn origins_read_back_and_know_their_robots_txt() {
        let origin = Origin::parse("https://Example.com:8443/").unwrap();
        assert_eq!(origin.to_string(), "https://example.com:8443");
        assert_eq!(origin.authority(), "example.com:8443");
        assert_eq!(origin.robots_txt_uri(), "https://example.com:8443/robots.txt");
        assert_eq!(Origin::parse(&origin.to_string()), Ok(origin));
        let default = Origin::parse("http://example.com:80").unwrap();
        assert_eq!(default, Origin::parse("http://example.com:").unwrap());
        assert_eq!(default.authority(), "example.com");
        assert_ne!(default, Origin::parse("https://example.com").unwrap());
        assert!(Origin::parse("https://example.com/a").is_err());
        assert!(Origin::parse("https://example.com?x").is_err());
    }
}
