//! The configuration file: its keys, the range of each, and which contradict each other.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytesize::ByteSize;
use url::Url;
use wayleave_policy::HostPattern;

use super::crawlers::{crawlers, others};
use super::mistake::Mistake;
use super::reader::{Reader, Section};
use super::rules::rules;
use super::sections::{Admin, Config, Dns, Https, Log, Proxy, Robots, State, Upstream};
use super::value::{
    Node, Parsed, address, checked, dialect, dns_server, duration, filled_list, integer, list,
    network, number, one_of, path, pem_file, positive_duration, size, string, text, tried,
    user_agent, word,
};
use crate::flow::decide::https_mode::{self, Mode};
use crate::observe::digest::Digest;
use crate::observe::logging::Format;
use crate::observe::traces;
use crate::origin::egress::Override;
use crate::politeness::{self, CrawlDelay};

/// RFC 9309 section 2.4: a robots.txt should not be used for longer without asking again.
const LONGEST_MAX_AGE: Duration = Duration::from_hours(24);

/// RFC 9309 section 2.5: what a crawler must at least read of a robots.txt.
const LEAST_MAX_SIZE: ByteSize = ByteSize::kib(500);

/// The store's file has room for a few of the largest robots.txt files then.
const LEAST_STORE: ByteSize = ByteSize::mib(8);

impl Config {
    /// Reads and checks a configuration file. Relative paths in it are relative to its directory, whoever reads it from
    /// wherever.
    ///
    /// # Errors
    ///
    /// Every mistake in it, in the order of lines; or one, that the file cannot be read.
    pub fn load(path: &Path) -> Result<Self, Vec<Mistake>> {
        Self::from_file(path, fs::read(path))
    }

    /// Checks what was `read` of the file at `path`.
    ///
    /// # Errors
    ///
    /// As [`Self::load`].
    pub(crate) fn from_file(path: &Path, read: io::Result<Vec<u8>>) -> Result<Self, Vec<Mistake>> {
        let name = path.display().to_string();
        let bytes = read
            .map_err(|error| vec![Mistake::of_file(&name, format!("cannot be read: {error}"))])?;
        match String::from_utf8(bytes) {
            Ok(text) => {
                let whole = std::path::absolute(path);
                let dir = whole.as_deref().unwrap_or(path).parent();
                Self::from_toml_in(dir.unwrap_or(Path::new("")), &name, &text)
            }
            Err(error) => {
                let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
                let line = 1 + valid.iter().filter(|&&byte| byte == b'\n').count();
                Err(vec![Mistake::of_line(&name, line, "", "is not UTF-8")])
            }
        }
    }

    /// Checks the text of a configuration; `name` stands for the file in mistakes.
    ///
    /// The files named by `upstream.extra_roots` are read.
    ///
    /// # Errors
    ///
    /// Every mistake, in the order of lines.
    pub fn from_toml(name: &str, text: &str) -> Result<Self, Vec<Mistake>> {
        Self::from_toml_in(Path::new(""), name, text)
    }

    /// What holds without a file: the defaults, below the current directory.
    pub fn built_in() -> Self {
        let here = std::env::current_dir().unwrap_or_default();
        Self::from_toml_in(&here, "", "").unwrap_or_default()
    }

    fn from_toml_in(dir: &Path, name: &str, text: &str) -> Result<Self, Vec<Mistake>> {
        Reader::new(name, text).read(|root| config(root, dir))
    }
}

/// Relative paths are relative to `dir`.
fn config(root: &mut Section<'_>, dir: &Path) -> Config {
    let (proxy, others) = root.section("proxy", |section| (proxy(section), others(section)));
    let admin = root.section("admin", |section| admin(section, &proxy.listen));
    // `https.ca_dir` and the dialect of crawlers rest on sections that the file may hold later: read those first.
    let state = root.section("state", |section| state(section, dir));
    let robots = root.section("robots", robots);
    let mut config = Config {
        https: root.section("https", |section| https(section, &state.dir)),
        upstream: root.section("upstream", |section| upstream(section, dir)),
        dns: root.section("dns", dns),
        crawlers: crawlers(root, others, robots.dialect),
        rules: Vec::new(),
        politeness: politeness::Options::default(),
        log: root.section("log", |section| log(section, &state.dir)),
        traces: root.section("traces", traces),
        proxy,
        admin,
        robots,
        state,
    };
    root.section("store", store);
    config.rules = rules(root, &config.crawlers.crawlers);
    config.politeness = root.section("politeness", polite);
    config
}

fn proxy(section: &mut Section<'_>) -> Proxy {
    let default = Proxy::default();
    Proxy {
        listen: section.value(
            "listen",
            checked(filled_list(address), none_twice),
            default.listen,
        ),
        header_timeout: section.value("header_timeout", positive_duration, default.header_timeout),
        idle_timeout: section.value("idle_timeout", positive_duration, default.idle_timeout),
        shutdown_grace: section.value("shutdown_grace", duration, default.shutdown_grace),
        max_connections: count(section, "max_connections", 1, default.max_connections),
        max_connections_per_client: count(section, "max_connections_per_client", 0, 0),
        name: section.value("name", checked(text, pseudonym), default.name),
    }
}

fn none_twice(addresses: &[SocketAddr]) -> Result<(), String> {
    for (index, address) in addresses.iter().enumerate() {
        let earlier = addresses[..index]
            .iter()
            .find(|other| overlap(**other, *address));
        if let Some(earlier) = earlier {
            return Err(format!(
                "{earlier} and {address} overlap: listen on one of them"
            ));
        }
    }
    Ok(())
}

/// Whether the system lets only one of two listeners have its address. `[::]` takes IPv4 in, too.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let covers = |wide: SocketAddr, narrow: SocketAddr| {
        wide.ip().is_unspecified() && (wide.is_ipv6() || narrow.is_ipv4())
    };
    one.port() != 0
        && one.port() == other.port()
        && (one.ip() == other.ip() || covers(one, other) || covers(other, one))
}

/// Takes what can stand in `Via` (RFC 9110 section 7.6.3) and, unquoted, in `Proxy-Status` (RFC 9209 section 2).
fn pseudonym(name: &str) -> Result<(), String> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.bytes().all(is_token) {
        Ok(())
    } else {
        Err(format!(
            "{name:?} is not a letter followed by letters, digits, \"-\", \"_\" or \".\""
        ))
    }
}

fn count(section: &mut Section<'_>, key: &'static str, least: u32, default: usize) -> usize {
    let value = section.optional(key, integer(least, 1_000_000_000));
    value.map_or(default, |value| value as usize)
}

fn admin(section: &mut Section<'_>, proxy: &[SocketAddr]) -> Admin {
    let default = Admin::default();
    let token_sha256 = section.value("token_sha256", optional_digest, default.token_sha256);
    let listen = section.value("listen", address, default.listen);
    if let Some(proxy) = proxy.iter().find(|proxy| overlap(**proxy, listen)) {
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
        token_sha256,
    }
}

fn https(section: &mut Section<'_>, state_dir: &Path) -> Https {
    let modes = [Mode::Intercept, Mode::Tunnel, Mode::Refuse];
    let modes = modes.map(|mode| (mode.as_str(), mode));
    Https {
        way: https_mode::Options {
            mode: section.value("mode", one_of(&modes), Mode::default()),
            bypass: section.value("bypass", list(bypassed), Vec::new()),
        },
        ca_dir: state_dir.join(section.value("ca_dir", path, PathBuf::from("ca"))),
    }
}

/// One host, or all below one: what is never judged should be plain to see.
fn bypassed(node: &Node<'_>) -> Parsed<HostPattern> {
    let pattern = tried(node, str::parse::<HostPattern>)?;
    tried(node, |text| match &pattern {
        HostPattern::Exact(_) => Ok(pattern.clone()),
        glob if glob.below().is_some() => Ok(pattern.clone()),
        _ => Err(format!(
            "{text:?} is neither a host nor all hosts below one (\"*.example.com\")"
        )),
    })
}

fn upstream(section: &mut Section<'_>, dir: &Path) -> Upstream {
    let default = Upstream::default();
    Upstream {
        allow_private: section.value("allow_private", list(network), default.allow_private),
        extra_roots: section.value(
            "extra_roots",
            list(|node: &Node<'_>| pem_file(node, dir)),
            default.extra_roots,
        ),
        connect_timeout: section.value(
            "connect_timeout",
            positive_duration,
            default.connect_timeout,
        ),
        response_timeout: section.value(
            "response_timeout",
            positive_duration,
            default.response_timeout,
        ),
        idle_connections: count(section, "idle_connections", 1, default.idle_connections),
    }
}

fn dns(section: &mut Section<'_>) -> Dns {
    let mut keys = Vec::new();
    let name_override = |name: &str, node: &Node<'_>| {
        let entry = tried(node, |value| Override::parse(name, value))?;
        if keys.contains(&entry.key()) {
            return tried(node, |_| {
                Err(format!("is another spelling of {:?}", entry.key()))
            });
        }
        keys.push(entry.key());
        Ok(entry)
    };
    Dns {
        servers: section.value("servers", list(dns_server), Vec::new()),
        overrides: section.entries("overrides", name_override),
    }
}

fn robots(section: &mut Section<'_>) -> Robots {
    let default = Robots::default();
    let robots = Robots {
        dialect: section.value("dialect", dialect, default.dialect),
        user_agent: section.value("user_agent", user_agent, default.user_agent),
        fetch_timeout: section.value("fetch_timeout", positive_duration, default.fetch_timeout),
        max_redirects: section
            .optional("max_redirects", integer(0, 20))
            .map_or(default.max_redirects, |value| value as usize),
        max_size: max_size(section, default.max_size),
        memory: memory(section, default.memory),
        max_age: section.value(
            "max_age",
            checked(positive_duration, max_age),
            default.max_age,
        ),
        max_stale: section.value("max_stale", duration, default.max_stale),
        error_ttl: section.value("error_ttl", positive_duration, default.error_ttl),
    };
    let is_comparable = section.is_sound("max_stale") && section.is_sound("max_age");
    if is_comparable && robots.max_stale < robots.max_age {
        let max_age = humantime::format_duration(robots.max_age);
        let key = if section.has("max_stale") {
            "max_stale"
        } else {
            "max_age"
        };
        section.mistake(
            key,
            format!("max_stale is shorter than max_age ({max_age})"),
        );
    }
    robots
}

fn max_size(section: &mut Section<'_>, default: usize) -> usize {
    let bounds = |size: &ByteSize| {
        if *size < LEAST_MAX_SIZE {
            Err("is less than 500KiB, which RFC 9309 section 2.5 makes the least".to_owned())
        } else if *size > ByteSize::mib(64) {
            Err("is more than 64MiB".to_owned())
        } else {
            Ok(())
        }
    };
    let size = section.optional("max_size", checked(size, bounds));
    size.and_then(|size| usize::try_from(size.as_u64()).ok())
        .unwrap_or(default)
}

/// Enough for one whole robots.txt at least.
fn memory(section: &mut Section<'_>, default: usize) -> usize {
    let bound = |size: &ByteSize| {
        if *size < ByteSize::mib(1) {
            Err("is less than 1MiB".to_owned())
        } else {
            Ok(())
        }
    };
    let size = section.optional("memory", checked(size, bound));
    size.and_then(|size| usize::try_from(size.as_u64()).ok())
        .unwrap_or(default)
}

fn max_age(value: &Duration) -> Result<(), String> {
    if *value > LONGEST_MAX_AGE {
        return Err(
            "is over 24h, the longest that RFC 9309 section 2.4 lets a robots.txt be used"
                .to_owned(),
        );
    }
    Ok(())
}

fn state(section: &mut Section<'_>, dir: &Path) -> State {
    let default = State::default();
    let at_least = |size: &ByteSize| match *size < LEAST_STORE {
        true => Err("is less than 8MiB".to_owned()),
        false => Ok(()),
    };
    let max_size = section.optional("max_size", checked(size, at_least));
    State {
        dir: dir.join(section.value("dir", path, default.dir)),
        max_size: max_size.map_or(default.max_size, |size| size.as_u64()),
    }
}

fn store(section: &mut Section<'_>) {
    section.later("kind", word(&["embedded", "redis"]), &"embedded");
    section.later_if_given("url", text);
}

fn polite(section: &mut Section<'_>) -> politeness::Options {
    let default = politeness::Options::default();
    let words = [CrawlDelay::Ignore, CrawlDelay::Wait, CrawlDelay::Reject];
    let words = words.map(|word| (word.as_str(), word));
    let options = politeness::Options {
        crawl_delay: section.value("crawl_delay", one_of(&words), default.crawl_delay),
        max_wait: section.value("max_wait", duration, default.max_wait),
        default_delay: section.value("default_delay", duration, default.default_delay),
        max_delay: section.value("max_delay", duration, default.max_delay),
        max_concurrent_per_origin: count(section, "max_concurrent_per_origin", 0, 0),
    };
    if options.default_delay > options.max_delay {
        let delays = [options.default_delay, options.max_delay].map(humantime::format_duration);
        let message = format!("{} is longer than max_delay, {}", delays[0], delays[1]);
        section.mistake("default_delay", message);
    }
    options
}

fn log(section: &mut Section<'_>, state_dir: &Path) -> Log {
    let formats = [("text", Format::Text), ("json", Format::Json)];
    let default = Log::default();
    let at_least = |size: &ByteSize| match *size < ByteSize::kib(64) {
        true => Err("is less than 64KiB".to_owned()),
        false => Ok(()),
    };
    let max_size = section.optional("decisions_max_size", checked(size, at_least));
    let decisions = section.value("decisions", optional_path, Some("decisions.jsonl".into()));
    Log {
        format: section.value("format", one_of(&formats), default.format),
        decisions: decisions.map(|file| state_dir.join(file)),
        decisions_max_size: max_size.map_or(default.decisions_max_size, |size| size.as_u64()),
        decisions_max_age: section.value(
            "decisions_max_age",
            positive_duration,
            default.decisions_max_age,
        ),
        decisions_keep: section.value("decisions_keep", duration, default.decisions_keep),
    }
}

/// SHA-256 in hexadecimal, or none if it is empty.
fn optional_digest(node: &Node<'_>) -> Parsed<Option<[u8; 32]>> {
    if string(node)?.is_empty() {
        return Ok(None);
    }
    tried(node, |text| {
        let digest =
            Digest::from_hex(text).ok_or("is not the 64 hexadecimal digits of a SHA-256")?;
        Ok::<_, &str>(Some(digest.0))
    })
}

fn traces(section: &mut Section<'_>) -> traces::Options {
    let default = traces::Options::default();
    let is_share = |ratio: &f64| match (0.0..=1.0).contains(ratio) {
        true => Ok(()),
        false => Err("is not between 0 and 1".to_owned()),
    };
    let sample_ratio = checked(number, is_share);
    traces::Options {
        otlp_endpoint: section.value("otlp_endpoint", collector, default.otlp_endpoint),
        sample_ratio: section.value("sample_ratio", sample_ratio, default.sample_ratio),
    }
}

/// An address of a collector, or none if it is empty.
fn collector(node: &Node<'_>) -> Parsed<Option<Url>> {
    if string(node)?.is_empty() {
        return Ok(None);
    }
    tried(node, |text| {
        let is_base = |url: &Url| {
            let is_http = matches!(url.scheme(), "http" | "https");
            is_http && url.has_host() && url.query().is_none() && url.fragment().is_none()
        };
        match Url::parse(text) {
            Ok(url) if is_base(&url) => Ok(Some(url)),
            _ => Err(format!(
                "{text:?} is not the URL of a collector, such as \"http://127.0.0.1:4318\""
            )),
        }
    })
}

/// A path, or none if it is empty.
fn optional_path(node: &Node<'_>) -> Parsed<Option<PathBuf>> {
    match string(node)? {
        "" => Ok(None),
        _ => path(node).map(Some),
    }
}
