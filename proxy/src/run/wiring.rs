//! Builds the parts of the proxy from the configuration: at the start, and at each reload.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use rustls::{ClientConfig, RootCertStore};

use crate::clock::Clock;
use crate::config::{self, Config};
use crate::decide::settings::Settings;
use crate::fleet::redis::{self, Address, Redis};
use crate::fleet::{self, Fleet, OnLoss};
use crate::identity::Crawlers;
use crate::observe::chain::event::program;
use crate::observe::decisions::{Clients, Configuration, Journal};
use crate::observe::digest::Digest;
use crate::observe::metrics::Metrics;
use crate::origin::egress::{self, Egress};
use crate::origin::{self, Upstream};
use crate::robots::{self, FetchOptions, HttpFetch};
use crate::rules::Rules;
use crate::run::kept;
use crate::signing::{self, Signer};
use crate::tls;
use crate::tls::pem_file::PemFile;

/// A random number of this process, so that nodes that start together do not refresh the same robots.txt together.
static SPREAD: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(()));

/// The TLS sessions with origins that are kept for resumption.
const TLS_SESSIONS: usize = 10_000;

/// The warning about the check that is not possible through a parent proxy.
pub(crate) const UNCHECKED: &str = "upstream.proxy looks names up: that they lead to no internal address is not checked here, only \
    names that are internal by spelling and internal addresses in URLs are refused";

/// The part of the configuration that outbound clients are built from. A reload rebuilds them only if any of it changed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WaysOptions {
    egress: egress::Options,
    origin: origin::Options,
    extra_roots: Vec<PemFile>,
    fetch: FetchOptions,
    /// Whether the requests of some crawlers are signed.
    signs: bool,
}

impl WaysOptions {
    /// Takes the part of `config`. No outbound connection may lead to `own_listeners`.
    pub(crate) fn of(config: &Config, own_listeners: &[SocketAddr]) -> Self {
        Self {
            egress: egress::Options {
                own_listeners: own_listeners.to_vec(),
                ..config.upstream.egress.clone()
            },
            origin: origin::Options {
                name: config.proxy.options.name.clone(),
                ..config.upstream.origin.clone()
            },
            extra_roots: config.upstream.extra_roots.clone(),
            fetch: config.robots.fetch.clone(),
            // The keys are not part of it: they are in `Settings`, and a new key needs no new connections.
            signs: config.signing.options.mode != signing::Mode::Off,
        }
    }
}

/// The clients that connect to origins: for requests, and for robots.txt files.
pub(crate) struct Ways {
    pub(crate) options: WaysOptions,
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) fetch: HttpFetch,
}

/// Builds the clients that connect to origins. Must be called within a tokio runtime.
///
/// # Errors
///
/// Returns an error if the system's DNS configuration is needed and cannot be read, or if a root cannot be trusted.
pub(crate) fn ways(
    options: WaysOptions,
    clock: Clock,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<Ways> {
    if let Some(parent) = &options.egress.parent {
        tracing::warn!(proxy = %parent.authority(), "{UNCHECKED}");
    }
    let upstream = Arc::new(upstream(&options, metrics)?);
    let fetch = HttpFetch::new(Arc::clone(&upstream), options.fetch.clone(), clock);
    Ok(Ways {
        fetch: fetch.beside_signatures(options.signs),
        upstream,
        options,
    })
}

/// Builds the client that fetches robots.txt for `wayleave check` as the proxy would.
///
/// # Errors
///
/// As [`ways`].
pub(crate) fn robots_fetch(config: &Config, clock: Clock) -> anyhow::Result<HttpFetch> {
    let options = WaysOptions::of(config, &[]);
    let upstream = upstream(&options, &Arc::new(Metrics::new()?))?;
    Ok(HttpFetch::new(Arc::new(upstream), options.fetch, clock))
}

fn upstream(options: &WaysOptions, metrics: &Arc<Metrics>) -> anyhow::Result<Upstream> {
    let tls = tls_config(&options.extra_roots)?;
    let egress = Egress::new(options.egress.clone());
    let egress = egress.context("reading the system's DNS configuration")?;
    let (options, metrics) = (options.origin.clone(), Arc::clone(metrics));
    Ok(Upstream::new(options, egress, &tls, metrics))
}

/// Returns a TLS configuration that verifies origins by the system's roots and `extra_roots`.
///
/// # Errors
///
/// Returns an error if a root cannot be trusted.
pub(crate) fn tls_config(extra_roots: &[PemFile]) -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let system = rustls_native_certs::load_native_certs();
    // One unreadable root must not keep the proxy from starting: only its origins fail to verify.
    for error in &system.errors {
        tracing::warn!(%error, "a system root certificate could not be read");
    }
    let (added, _) = roots.add_parsable_certificates(system.certs);
    if added == 0 {
        tracing::warn!("the system has no root certificates (Debian: install ca-certificates)");
    }
    for certificate in extra_roots.iter().flat_map(|file| &file.certificates) {
        roots
            .add(certificate.clone())
            .context("adding a certificate of upstream.extra_roots")?;
    }
    let provider = tls::provider();
    let mut tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.resumption = rustls::client::Resumption::in_memory_sessions(TLS_SESSIONS);
    Ok(tls)
}

/// Returns the robots.txt cache's configuration, with this process's own spread of lifetimes.
pub(crate) fn robots_options(config: &Config) -> robots::Options {
    let mut options = config.robots.cache.clone();
    options.lifetimes.spread = *SPREAD;
    options
}

/// Joins the fleet of `[store]`, or returns an empty one if there is none.
///
/// # Errors
///
/// Returns an error if a file that `[store]` names cannot be read, or if the engine is reachable but rejects this node.
pub(crate) async fn fleet(config: &Config, metrics: &Arc<Metrics>) -> anyhow::Result<Fleet> {
    let store = &config.fleet;
    let Some(engine) = engine(store, config)? else {
        return Ok(Fleet::default());
    };
    let secret = store.key_file.as_deref().map(read_key).transpose()?;
    let options = fleet::Options {
        node: engine.node().to_owned(),
        about: env!("CARGO_PKG_VERSION").to_owned(),
        on_loss: store.on_loss,
        keep: store.keep,
        key: secret.map(|secret| fleet::Key::new(&secret, &store.prefix)),
    };
    let joined = Fleet::join(Box::new(engine), options, Arc::clone(metrics)).await;
    joined.context("[store]: joining the fleet")
}

/// Returns the engine of `[store]`, not connected yet.
///
/// Each node fetches robots.txt for all, so nodes must agree on how: the engine compares these settings of `[robots]`.
///
/// # Errors
///
/// As [`fleet`].
pub(crate) fn engine(store: &config::Store, config: &Config) -> anyhow::Result<Option<Redis>> {
    let Some(urls) = store.engine.clone() else {
        return Ok(None);
    };
    let read = |key: &str, path: &Option<PathBuf>| {
        let read = path.as_ref().map(|path| {
            let read = std::fs::read(path);
            read.with_context(|| format!("store.{key}: reading {}", path.display()))
        });
        read.transpose()
    };
    let password = read("password_file", &store.password_file)?;
    let address = Address {
        urls,
        is_cluster: store.is_cluster,
        password: password.map(|text| String::from_utf8_lossy(&text).trim().to_owned()),
        ca: read("ca_file", &store.ca_file)?,
    };
    let options = redis::Options {
        address,
        prefix: store.prefix.clone(),
        partitions: store.partitions,
        timeout: store.timeout,
        node: store.node.clone().unwrap_or_else(node_name),
        settings: format!(
            "dialect {}, max_size {}, max_redirects {}",
            config.robots.dialect.as_str(),
            config.robots.fetch.max_size,
            config.robots.fetch.max_redirects
        ),
        home_for: match store.on_loss {
            OnLoss::Refuse => Duration::ZERO,
            OnLoss::Home => fleet::BACK_WITHIN,
        },
    };
    Ok(Some(Redis::new(options).context("store.url")?))
}

/// Returns a name for this node: the host's name, and a part that no other process has.
fn node_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}-{:08x}", host.trim(), *SPREAD as u32)
}

fn read_key(path: &Path) -> anyhow::Result<[u8; 32]> {
    let read = std::fs::read(path);
    let bytes = read.with_context(|| format!("store.key_file: reading {}", path.display()))?;
    if let Ok(key) = <[u8; 32]>::try_from(bytes.as_slice()) {
        return Ok(key);
    }
    let digits = str::from_utf8(&bytes).ok().map(str::trim);
    let key = digits.and_then(Digest::from_hex).map(|digest| digest.0);
    key.with_context(|| {
        format!(
            "store.key_file: {} is neither 32 bytes nor 64 hexadecimal digits",
            path.display()
        )
    })
}

/// Opens the decision log's file, if one is configured, and prepares how client addresses are recorded in it.
///
/// # Errors
///
/// Returns an error if the file cannot be opened, or if the key that hides addresses cannot be read or created.
pub(crate) fn journal(config: &Config) -> anyhow::Result<(Option<Journal>, Clients)> {
    let log = &config.log;
    let options = log.decisions.clone();
    let key = config.state.dir.join("client-address.key");
    let clients = Clients::new(log.client_address, &key).context("log.client_address")?;
    Ok((options.map(Journal::open).transpose()?, clients))
}

/// Archives, without its secrets, the configuration that is in effect from now on in a process that `started_with` another,
/// and returns the digest by which the decision log refers to it.
///
/// # Errors
///
/// Returns an error if it cannot be written.
pub(crate) fn keep_configuration(
    config: &Config,
    started_with: &Config,
    number: u64,
) -> anyhow::Result<Configuration> {
    let text = config.in_use(started_with);
    Ok(Configuration {
        program: program(),
        configuration: number,
        config_sha256: kept::keep(&started_with.state.dir, text.as_bytes())?,
    })
}

/// Builds the settings for all further requests, to replace those in effect `before`. Logs the rules that have expired.
pub(crate) fn settings(
    config: &Config,
    before: Option<&Settings>,
    upstream: Arc<Upstream>,
    now: SystemTime,
) -> Settings {
    let rules = Rules::new(config.rules.clone());
    for expired in rules.count(now).1 {
        tracing::warn!(rule = %expired, "this rule has expired and has no effect");
    }
    // An unchanged TLS endpoint keeps its sessions: clients can resume them.
    let entrance = config.proxy.entrance.as_ref().map(|entrance| {
        let kept = before.and_then(|before| before.entrance.as_ref());
        Arc::clone(kept.filter(|kept| *kept == entrance).unwrap_or(entrance))
    });
    Settings {
        configuration: before.map_or(1, |before| before.configuration + 1),
        options: config.proxy.options.clone(),
        https: config.https.way.clone(),
        crawlers: Crawlers::instead_of(
            before.map(|before| &before.crawlers),
            config.crawlers.clone(),
        )
        .trusting(entrance.clone()),
        rules,
        preferences: config.preferences.clone(),
        politeness: config.politeness,
        upstream,
        entrance,
        signer: Arc::new(Signer::new(
            config.signing.options.clone(),
            config.signing.keys.clone(),
        )),
        on_failure: config.log.on_failure,
    }
}
