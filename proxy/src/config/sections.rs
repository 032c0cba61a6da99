//! The configuration as used: one type for each section of the file, with the built-in defaults.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use rustls::pki_types::CertificateDer;
use wayleave_policy::Dialect;

use crate::flow::decide::https_mode;
use crate::identity;
use crate::observe::logging::Format;
use crate::observe::traces;
use crate::origin::egress::Override;
use crate::politeness;
use crate::rules::Rule;

/// Everything the proxy was told, checked and ready for use.
///
/// Paths that were written relative are already joined to the directory of the file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Config {
    /// `[proxy]`: the listeners for clients.
    pub proxy: Proxy,
    /// `[admin]`: the listener for operators.
    pub admin: Admin,
    /// `[https]`: interception.
    pub https: Https,
    /// `[upstream]`: connections to origin servers.
    pub upstream: Upstream,
    /// `[dns]`: names to addresses.
    pub dns: Dns,
    /// `[robots]`: fetching and keeping robots.txt.
    pub robots: Robots,
    /// `[state]`: what outlives the process.
    pub state: State,
    /// `[[crawler]]`, in the order of the file, and what `[proxy]` says about requests that match none.
    pub crawlers: identity::Options,
    /// `[[rule]]`, in the order of the file; the first that matches a request is used.
    pub rules: Vec<Rule>,
    /// `[politeness]`.
    pub politeness: politeness::Options,
    /// `[log]`.
    pub log: Log,
    /// `[traces]`.
    pub traces: traces::Options,
}

/// The listeners for clients.
#[derive(Debug, Clone, PartialEq)]
pub struct Proxy {
    /// Where clients connect; at least one, none twice. Port 0 lets the system choose.
    pub listen: Vec<SocketAddr>,
    /// How long a client may take to send a complete request head.
    pub header_timeout: Duration,
    /// How long a kept-alive connection may wait for its next request.
    pub idle_timeout: Duration,
    /// How long exchanges under way may go on after SIGTERM; may be zero.
    pub shutdown_grace: Duration,
    /// Client connections at one time; at least one.
    pub max_connections: usize,
    /// Connections of one client address (IPv6: one /64) at one time; 0: no bound.
    pub max_connections_per_client: usize,
    /// The pseudonym in `Via` and `Proxy-Status`: an HTTP token that begins with a letter.
    pub name: String,
}

impl Default for Proxy {
    fn default() -> Self {
        Self {
            listen: vec![loopback(3128)],
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            shutdown_grace: Duration::from_secs(10),
            max_connections: 10_000,
            max_connections_per_client: 0,
            name: "wayleave".to_owned(),
        }
    }
}

/// The listener for operators: metrics, health, API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// A loopback address unless there is a token. Port 0 lets the system choose.
    pub listen: SocketAddr,
    /// The SHA-256 of what operators must show; none: whoever reaches the listener is one.
    pub token_sha256: Option<[u8; 32]>,
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            listen: loopback(3129),
            token_sha256: None,
        }
    }
}

/// Whether and how HTTPS is intercepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Https {
    /// Where `ca.crt` and `ca.key` are, already joined to [`State::dir`].
    pub ca_dir: PathBuf,
    /// What a `CONNECT` leads to.
    pub way: https_mode::Options,
}

impl Default for Https {
    fn default() -> Self {
        Self {
            ca_dir: State::default().dir.join("ca"),
            way: https_mode::Options::default(),
        }
    }
}

/// Connections to origin servers.
#[derive(Debug, Clone, PartialEq)]
pub struct Upstream {
    /// Internal networks that may be dialled; all other internal addresses are refused.
    pub allow_private: Vec<IpNet>,
    /// Roots trusted besides the system's.
    pub extra_roots: Vec<PemFile>,
    /// Bound of one connect, the name's look-up and TLS included.
    pub connect_timeout: Duration,
    /// Bound of the wait for the first byte of an answer, and between bytes.
    pub response_timeout: Duration,
    /// Idle connections kept for reuse; at least one.
    pub idle_connections: usize,
}

impl Default for Upstream {
    fn default() -> Self {
        Self {
            allow_private: Vec::new(),
            extra_roots: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            response_timeout: Duration::from_secs(60),
            idle_connections: 1024,
        }
    }
}

impl Upstream {
    /// The certificates of all [`Upstream::extra_roots`], each of which a root store takes.
    pub fn extra_root_certificates(&self) -> impl Iterator<Item = &CertificateDer<'static>> {
        self.extra_roots.iter().flat_map(|file| &file.certificates)
    }
}

/// A PEM file and what was in it when the configuration was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PemFile {
    /// The file.
    pub path: PathBuf,
    /// Its certificates; at least one.
    pub certificates: Vec<CertificateDer<'static>>,
}

/// Names to addresses.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Dns {
    /// The servers to ask; empty means the system's.
    pub servers: Vec<SocketAddr>,
    /// Names that are not asked for, like `curl --resolve`.
    pub overrides: Vec<Override>,
}

/// Fetching and keeping robots.txt.
#[derive(Debug, Clone, PartialEq)]
pub struct Robots {
    /// How robots.txt is read for a crawler that names no dialect itself.
    pub dialect: Dialect,
    /// `User-Agent` of the fetches: a valid field value.
    pub user_agent: String,
    /// Bound of one fetch, all redirects together.
    pub fetch_timeout: Duration,
    /// Redirects followed in one fetch.
    pub max_redirects: usize,
    /// Bytes of a robots.txt that are read, at least 500 KiB (RFC 9309 section 2.5); the rest is ignored.
    pub max_size: usize,
    /// How long a robots.txt decides without being asked for again, at most 24 h (RFC 9309 section 2.4).
    pub max_age: Duration,
    /// How old a copy may become while its origin is unreachable; not less than [`Robots::max_age`].
    pub max_stale: Duration,
    /// How long an origin found unreachable is left alone at first.
    pub error_ttl: Duration,
    /// Bytes that entries, and what their store needs, may hold in memory; other entries are on disk.
    pub memory: usize,
}

impl Default for Robots {
    fn default() -> Self {
        Self {
            dialect: Dialect::Rfc9309,
            user_agent: "wayleave/0.1".to_owned(),
            fetch_timeout: Duration::from_secs(10),
            max_redirects: 5,
            max_size: 500 * 1024,
            max_age: Duration::from_hours(24),
            max_stale: Duration::from_hours(30 * 24),
            error_ttl: Duration::from_secs(60),
            memory: 256 << 20,
        }
    }
}

/// What outlives the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// The directory of everything the proxy keeps; made when it is first needed.
    pub dir: PathBuf,
    /// Bytes that the file of robots.txt entries may take.
    pub max_size: u64,
}

impl Default for State {
    fn default() -> Self {
        Self {
            dir: PathBuf::from("wayleave-state"),
            max_size: 10 << 30,
        }
    }
}

/// How events and decisions are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// For people or for programs.
    pub format: Format,
    /// The decision log's file, already joined to [`State::dir`]; none: decisions are only events.
    pub decisions: Option<PathBuf>,
    /// A file of decisions this large is rotated away, in bytes.
    pub decisions_max_size: u64,
    /// A file of decisions this old is rotated away.
    pub decisions_max_age: Duration,
    /// Files of decisions that were rotated away longer ago are deleted.
    pub decisions_keep: Duration,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            format: Format::default(),
            decisions: Some(State::default().dir.join("decisions.jsonl")),
            decisions_max_size: 100 << 20,
            decisions_max_age: Duration::from_hours(24),
            decisions_keep: Duration::from_hours(30 * 24),
        }
    }
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}
