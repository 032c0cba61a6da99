//! Builds the parts of the proxy from the configuration, at the start and at each reload.

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

/// Of this process alone: nodes that started together do not come to an origin together.
static SPREAD: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(()));

/// Sessions with origins kept for resumption.
const TLS_SESSIONS: usize = 10_000;

/// What a parent proxy takes away.
pub(crate) const UNCHECKED: &str = "upstream.proxy looks names up: that they lead to no internal address is not checked here, only \
    names that are internal by spelling and internal addresses in URLs are refused";

/// Everything of the configuration that the ways to origins are built from, and nothing else is: a reload that changes any of it
/// builds them anew.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WaysOptions {
    egress: egress::Options,
    origin: origin::Options,
    extra_roots: Vec<PemFile>,
    fetch: FetchOptions,
    /// Whether requests of some crawlers are signed.
    signs: bool,
}

impl WaysOptions {
    /// Returns what `config` says of the ways. None leads to `own_listeners`.
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
            signs: config.signing.options.mode != signing::Mode::Off,
        }
    }
}

/// The ways to origins: for requests, and for their robots.txt files.
pub(crate) struct Ways {
    pub(crate) options: WaysOptions,
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) fetch: HttpFetch,
}

/// Opens the ways to origins. Within a tokio runtime.
///
/// # Errors
///
/// Returns an error if the system's DNS configuration is asked for and cannot be read, or if a root cannot be trusted.
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

/// What fetches robots.txt for `wayleave check`, as the proxy would.
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

/// How certificates are checked: by the system's roots and these.
///
/// # Errors
///
/// Returns an error if a root cannot be trusted.
pub(crate) fn tls_config(extra_roots: &[PemFile]) -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let system = rustls_native_certs::load_native_certs();
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

/// How robots.txt files are kept: each process has its own spread.
pub(crate) fn robots_options(config: &Config) -> robots::Options {
    let mut options = config.robots.cache.clone();
    options.lifetimes.spread = *SPREAD;
    options
}

/// What this node shares with others, and in what.
///
/// # Errors
///
/// Returns an error if a file of it cannot be read, or if the engine is there and does not let this node join.
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

/// The engine of `[store]`, not connected yet.
///
/// Nodes have to agree on what one of them fetches for all, so some of `[robots]` is compared.
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

/// The host's name, and a part that no other process has.
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

/// The decision log's open file, if there is to be one, and how clients are written down.
///
/// # Errors
///
/// Returns an error if it cannot be opened, or the key of the latter cannot be read or made.
pub(crate) fn journal(config: &Config) -> anyhow::Result<(Option<Journal>, Clients)> {
    let log = &config.log;
    let options = log.decisions.clone();
    let key = config.state.dir.join("client-address.key");
    let clients = Clients::new(log.client_address, &key).context("log.client_address")?;
    Ok((options.map(Journal::open).transpose()?, clients))
}

/// Keeps what a process that `started_with` one configuration goes by from now on, without its secrets, and says by which
/// digest the decision log names it.
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

/// What requests go by from now on, instead of what they went by `before`. Says which rules have expired.
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
    // With its sessions, unless something changed.
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
