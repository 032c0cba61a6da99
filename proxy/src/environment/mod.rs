//! The variables that make a client use the proxy and trust its CA, as `wayleave env`, the proxy at its start and the page
//! print them.

use std::str::FromStr;

use clap::ValueEnum;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use url::{Position, Url};
use wayleave_config::ListenAddress;
use wayleave_robots_txt::{Origin, UrlScheme};

/// The lines for a POSIX shell that suit most clients.
const GENERAL_TEMPLATE: &str = include_str!("general.sh");

/// The variables, in lower or upper case, that make clients use a proxy, or not.
pub(crate) const PROXY_VARIABLES: [&str; 6] =
    ["http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy", "node_use_env_proxy"];

/// The hosts that clients reach directly: the proxy refuses internal addresses, such as that of its own admin listener.
const NO_PROXY: &str = "localhost,127.0.0.1,::1";

/// The characters to escape in a user name and a password, in addition to those of the URL standard: all that have a meaning
/// in a shell.
const USER_INFO: &AsciiSet = &NON_ALPHANUMERIC.remove(b'%').remove(b'-').remove(b'.').remove(b'_');

/// The URL of the proxy as a client uses it: `http` or `https`, an optional user name and password, a host and a port.
#[derive(Clone, Debug)]
pub(crate) struct ProxyUrl {
    url: String,
    /// The URL without user name and password.
    server: String,
    /// The host without the brackets of an IPv6 address.
    host: String,
    port: u16,
}

impl ProxyUrl {
    /// Returns the URL, with user name and password.
    pub(crate) fn as_str(&self) -> &str {
        &self.url
    }

    /// Returns whether clients use TLS to the proxy itself.
    pub(crate) fn is_tls(&self) -> bool {
        self.url.starts_with("https://")
    }
}

impl From<ListenAddress> for ProxyUrl {
    fn from(listen: ListenAddress) -> Self {
        Self {
            url: listen.url(),
            server: listen.url(),
            host: listen.address.ip().to_string(),
            port: listen.address.port(),
        }
    }
}

impl FromStr for ProxyUrl {
    type Err = &'static str;

    /// Parses `http://HOST:PORT`, or the same with `https`. The result goes into lines for a shell, so only hosts that an origin
    /// can have are accepted: the URL standard allows `$`, `(` and others in hosts.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected a URL such as http://proxy.example:3128";
        let url = Url::parse(text).map_err(|_| EXPECTED)?;
        // Anything more would be missing from the variables.
        if !matches!(&url[Position::BeforePath..], "" | "/") {
            return Err(EXPECTED);
        }
        let authority = &url[Position::BeforeHost..Position::AfterPort];
        let scheme: UrlScheme = url.scheme().parse().map_err(|_| EXPECTED)?;
        if !matches!(scheme, UrlScheme::Http | UrlScheme::Https) {
            return Err(EXPECTED);
        }
        let origin = Origin::from_authority(scheme, authority).map_err(|_| EXPECTED)?;
        let host = origin.host();
        let port = origin.port();
        // The port is always written, even the scheme's default: without one, curl uses 1080.
        Ok(Self {
            url: format!("{scheme}://{}{host}:{port}", user_info(&url)),
            server: format!("{scheme}://{host}:{port}"),
            host: host.trim_matches(['[', ']']).to_owned(),
            port,
        })
    }
}

/// Returns the user name and password of a URL in the form that precedes its host, or an empty string.
fn user_info(url: &Url) -> String {
    let escaped = |text| utf8_percent_encode(text, USER_INFO).to_string();
    match (url.username(), url.password()) {
        ("", None) => String::new(),
        (name, None) => format!("{}@", escaped(name)),
        (name, Some(password)) => format!("{}:{}@", escaped(name), escaped(password)),
    }
}

/// The note for clients that cannot use a proxy over TLS.
pub(crate) const NO_TLS_NOTE: &str =
    "# This client does not support TLS to proxies: give it an http:// listener.\n";
pub(crate) const AIOHTTP_NOTE: &str =
    "# aiohttp ignores an https:// proxy, and goes around it: give it an http:// listener.\n";
pub(crate) const ROOTS_NOTE: &str =
    "# The CA file must also contain the CA of proxy.certificate.\n";

/// Returns the lines for `client`, or without one those that suit most clients.
pub(crate) fn shell_lines(
    client: Option<KnownClient>,
    proxy: &ProxyUrl,
    certificate: &str,
) -> String {
    let template = client.map_or(GENERAL_TEMPLATE, KnownClient::template);
    let lines = fill_template(template, proxy, certificate);
    let notes: &[&str] = match client {
        _ if !proxy.is_tls() => &[],
        Some(KnownClient::Java | KnownClient::Scrapy | KnownClient::Wget) => &[NO_TLS_NOTE],
        Some(KnownClient::Python) | None => &[AIOHTTP_NOTE, ROOTS_NOTE],
        Some(_) => &[ROOTS_NOTE],
    };
    notes.concat() + &lines
}

/// Returns the variables that suit most clients, with their values as they are, for files that are no shell's.
pub(crate) fn general_variables(
    proxy: &ProxyUrl,
    certificate: &str,
) -> Vec<(&'static str, String)> {
    let exports = GENERAL_TEMPLATE.lines().filter_map(|line| line.strip_prefix("export "));
    let pairs = exports.flat_map(str::split_whitespace).filter_map(|pair| pair.split_once('='));
    let value = |value: &str| match value {
        "@URL@" => proxy.url.clone(),
        "@NO_PROXY@" => NO_PROXY.to_owned(),
        "@CERTIFICATE@" => certificate.to_owned(),
        plain => plain.to_owned(),
    };
    pairs.map(|(name, placeholder)| (name, value(placeholder))).collect()
}

/// Returns the names of the variables that make clients trust the certificates in a file.
pub(crate) fn trust_variables() -> impl Iterator<Item = &'static str> {
    let lines = GENERAL_TEMPLATE.lines();
    lines.filter_map(|line| line.strip_prefix("export ")?.strip_suffix("=@CERTIFICATE@"))
}

/// Fills the address of the proxy and the path of its CA's certificate into a template.
pub(crate) fn fill_template(template: &str, proxy: &ProxyUrl, certificate: &str) -> String {
    // The certificate must be last: its path is the only value that could itself contain a placeholder.
    template
        .replace("@URL@", &shell_quoted(&proxy.url))
        .replace("@SERVER@", &proxy.server)
        .replace("@HOST@", &proxy.host)
        .replace("@PORT@", &proxy.port.to_string())
        .replace("@NO_PROXY@", NO_PROXY)
        .replace("@CERTIFICATE@", &shell_quoted(certificate))
}

/// Quotes text as one word of a POSIX shell.
pub(crate) fn shell_quoted(text: &str) -> String {
    if !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./:,@%+".contains(&byte))
    {
        text.to_owned()
    } else {
        // Nothing can be escaped inside single quotes, so a quote is written outside of them.
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// A client that wayleave knows the settings of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KnownClient {
    Curl,
    Python,
    Scrapy,
    Node,
    Java,
    Go,
    Wget,
    Playwright,
}

impl KnownClient {
    /// Every client, with its display name.
    pub(crate) const ALL: [(Self, &'static str); 8] = [
        (Self::Curl, "curl"),
        (Self::Python, "Python"),
        (Self::Scrapy, "Scrapy"),
        (Self::Go, "Go"),
        (Self::Node, "Node"),
        (Self::Playwright, "Chromium (Playwright)"),
        (Self::Java, "Java"),
        (Self::Wget, "wget"),
    ];

    /// Returns the template for this client, with the lines that it needs in addition to variables.
    pub(crate) fn template(self) -> &'static str {
        match self {
            Self::Curl => include_str!("curl.sh"),
            Self::Python => include_str!("python.sh"),
            Self::Scrapy => include_str!("scrapy.sh"),
            Self::Node => include_str!("node.sh"),
            Self::Java => include_str!("java.sh"),
            Self::Go => include_str!("go.sh"),
            Self::Wget => include_str!("wget.sh"),
            Self::Playwright => include_str!("playwright.sh"),
        }
    }
}

#[cfg(test)]
mod tests;
