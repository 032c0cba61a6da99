//! Builds the parts from the configuration: at the start, and at each reload.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use arc_swap::ArcSwap;
use data_encoding::HEXLOWER_PERMISSIVE;
use rustls::client::WebPkiServerVerifier;
use rustls::{ClientConfig, RootCertStore};
use wayleave_admission::identity::Authenticator;
use wayleave_admission::settings::Settings;
use wayleave_clock::Clock;
use wayleave_config::{self as config, Config};
use wayleave_decision::{Crawlers, PolicyRules};
use wayleave_decision_log::{ClientMask, ConfigRevision, Journal, config_archive};
use wayleave_evidence::chain::event::program_version;
use wayleave_fleet::redis::{self, RedisAddress, RedisEngine};
use wayleave_fleet::{self as fleet, Fleet, OnLoss};
use wayleave_robots_cache::{
    self as robots_cache, FetchConfig, FetchIdentities, HttpFetcher, PinnedFiles, PinnedText,
};
use wayleave_signing::MessageSigner;
use wayleave_telemetry::collector::CollectorTls;
use wayleave_telemetry::metrics::Metrics;
use wayleave_transport::tls;
use wayleave_transport::tls::listed_certificates::ListedCertificates;
use wayleave_transport::tls::pem_file::PemFile;
use wayleave_transport::tls::roots::SystemRoots;
use wayleave_upstream::egress::{self, Egress, SystemNames};
use wayleave_upstream::{self as upstream, Upstream};

/// A random number of this process, so that nodes that start together do not refresh the same robots.txt together.
static PROCESS_SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(()));

/// The number of the configuration that a process starts with.
pub const FIRST_CONFIGURATION: u64 = 1;

/// The most tickets that are kept to resume TLS with origins. rustls keeps up to eight for a host, so these are for 1,250
/// hosts; each takes 2 to 5 KiB, and its certificates.
const MAX_TLS_SESSIONS: usize = 10_000;

/// The warning about a pace by address through a parent proxy.
pub const UNSHARED_PARENT_WARNING: &str = "politeness.share is \"address\", but upstream.proxy resolves names: origins \
behind it have a pace each";

/// The warning about the check that is not possible through a parent proxy.
pub const UNCHECKED_PARENT_WARNING: &str = "upstream.proxy resolves names, so their addresses are not checked here: only \
    names that are internal by spelling and internal addresses in URLs are refused";

/// The part of the configuration that outbound clients are built from. A reload rebuilds them only if any of it changed.
#[derive(Clone, Debug, PartialEq)]
pub struct OutboundConfig {
    egress: egress::EgressSettings,
    upstream: upstream::UpstreamSettings,
    extra_roots: Vec<PemFile>,
    system_roots: SystemRoots,
    fetch: FetchConfig,
}

impl OutboundConfig {
    /// Takes the part of `config`, and reads the system's name servers and roots: they may change as well. No
    /// outbound connection may lead to `own_listeners`.
    pub fn new(config: &Config, own_listeners: &[SocketAddr]) -> Self {
        Self {
            egress: egress::EgressSettings {
                own_listeners: own_listeners.to_vec(),
                system_names: SystemNames::read(),
                ..config.upstream.egress.clone()
            },
            upstream: upstream::UpstreamSettings {
                pseudonym: config.proxy.connections.name.clone(),
                ..config.upstream.connections.clone()
            },
            extra_roots: config.upstream.extra_roots.clone(),
            system_roots: SystemRoots(tls::roots::system_roots()),
            // The crawlers' identities and keys are not part of it: they are in `Settings`, and a new key needs no new connections.
            fetch: config.robots.fetch.clone(),
        }
    }
}

#[cfg(any(test, feature = "test-util"))]
impl OutboundConfig {
    /// Makes it one that was read while the system had other roots.
    pub fn forget_system_roots(&mut self) {
        self.system_roots = SystemRoots(vec![vec![0].into()]);
    }
}

/// The clients that connect to origins: for requests, and for robots.txt files.
pub struct OutboundClients {
    pub config: OutboundConfig,
    pub upstream: Arc<Upstream>,
    pub fetcher: HttpFetcher,
    /// Collectors are verified as origins are.
    pub collector_tls: CollectorTls,
}

/// Builds the clients that connect to origins. Must be called within a tokio runtime.
///
/// # Errors
///
/// Returns an error if DNS cannot be set up, or if a root cannot be trusted.
pub fn outbound_clients(
    config: OutboundConfig,
    clock: Clock,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<OutboundClients> {
    if let Some(parent) = &config.egress.parent {
        tracing::warn!(proxy = %parent.authority(), "{UNCHECKED_PARENT_WARNING}");
    }
    // Shared, because a fetch hands its connection on to the requests that waited for the file.
    let tls = tls_config(&config.system_roots, &config.extra_roots)?;
    let upstream = Arc::new(build_upstream(&config, &tls, metrics)?);
    let fetcher = HttpFetcher::new(Arc::clone(&upstream), config.fetch.clone(), clock);
    Ok(OutboundClients {
        fetcher,
        upstream,
        collector_tls: Arc::new(ArcSwap::from_pointee(tls)),
        config,
    })
}

/// Builds the client that fetches robots.txt for `wayleave check` as the proxy would.
///
/// # Errors
///
/// As [`outbound_clients`].
pub fn fetcher_for_check(config: &Config, clock: Clock) -> anyhow::Result<HttpFetcher> {
    let outbound = OutboundConfig::new(config, &[]);
    let tls = tls_config(&outbound.system_roots, &outbound.extra_roots)?;
    let upstream = build_upstream(&outbound, &tls, &Arc::new(Metrics::new()?))?;
    let fetcher = HttpFetcher::new(Arc::new(upstream), outbound.fetch, clock);
    fetcher.set_identities(Arc::new(fetch_identities(config, message_signer(config))));
    Ok(fetcher)
}

fn build_upstream(
    config: &OutboundConfig,
    tls: &ClientConfig,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<Upstream> {
    let egress = Egress::new(config.egress.clone()).context("setting DNS up")?;
    Ok(Upstream::new(config.upstream.clone(), egress, tls, Arc::clone(metrics)))
}

/// Returns a TLS configuration that verifies origins by the system's roots and `extra_roots`, which may also be
/// certificates of origins themselves.
fn tls_config(system: &SystemRoots, extra_roots: &[PemFile]) -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(system.0.iter().cloned());
    // Not fatal: a proxy that serves only plain HTTP, or only origins of `extra_roots`, needs none.
    if added == 0 {
        tracing::warn!("the system has no root certificates (Debian: install ca-certificates)");
    }
    let listed: Vec<_> = extra_roots.iter().flat_map(|file| &file.certificates).cloned().collect();
    for certificate in &listed {
        roots.add(certificate.clone()).context("adding a certificate of upstream.extra_roots")?;
    }
    let builder = ClientConfig::builder_with_provider(tls::provider())
        .with_safe_default_protocol_versions()?;
    let mut tls = if listed.is_empty() {
        builder.with_root_certificates(roots).with_no_client_auth()
    } else {
        let issued = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), tls::provider())
            .build()?;
        let verifier = ListedCertificates::new(issued, listed);
        // Not weaker than the roots alone: it only adds certificates that the operator lists, byte by byte.
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth()
    };
    tls.resumption = rustls::client::Resumption::in_memory_sessions(MAX_TLS_SESSIONS);
    Ok(tls)
}

/// Returns the robots.txt cache's configuration, with this process's own spread of lifetimes.
pub fn robots_cache_config(config: &Config) -> robots_cache::RobotsCacheConfig {
    let mut options = config.robots.cache.clone();
    options.lifetimes.jitter_seed = *PROCESS_SEED;
    options
}

/// Joins the fleet of `[store]`, or returns an empty one if there is none.
///
/// # Errors
///
/// Returns an error if a file that `[store]` names cannot be read, or if the engine is reachable but rejects this node.
pub async fn join_fleet(config: &Config, metrics: &Arc<Metrics>) -> anyhow::Result<Fleet> {
    let store = &config.fleet;
    let Some(engine) = redis_engine(store, config)? else {
        return Ok(Fleet::default());
    };
    let secret = store.key_file.as_deref().map(read_key).transpose()?;
    let options = fleet::FleetSettings {
        node: engine.node().to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        on_loss: store.on_loss,
        retention: store.keep,
        key: secret.map(|secret| fleet::FleetKey::new(&secret, &store.prefix)),
    };
    Fleet::join(Box::new(engine), options, Arc::clone(metrics))
        .await
        .context("[store]: joining the fleet")
}

/// Returns the engine of `[store]`, not connected yet.
///
/// Each node fetches robots.txt for all, so nodes must agree on how: the engine compares these settings of `[robots]`.
///
/// # Errors
///
/// As [`join_fleet`].
pub fn redis_engine(
    store: &config::StoreConfig,
    config: &Config,
) -> anyhow::Result<Option<RedisEngine>> {
    let Some(urls) = store.urls.clone() else {
        return Ok(None);
    };
    let read = |key: &str, path: &Option<PathBuf>| {
        path.as_ref()
            .map(|path| {
                std::fs::read(path)
                    .with_context(|| format!("store.{key}: reading {}", path.display()))
            })
            .transpose()
    };
    // Files, read again at each start, so that secrets are neither in the configuration nor in the process's environment.
    let password = read("password_file", &store.password_file)?;
    let address = RedisAddress {
        urls,
        is_cluster: store.is_cluster,
        password: password.map(|text| String::from_utf8_lossy(&text).trim().to_owned()),
        ca: read("ca_file", &store.ca_file)?,
    };
    let options = redis::RedisSettings {
        address,
        prefix: store.prefix.clone(),
        partitions: store.partitions,
        timeout: store.timeout,
        node: store.node.clone().unwrap_or_else(node_name),
        shared_settings: format!(
            "dialect {}, max_size {}, max_redirects {}",
            config.robots.dialect.as_str(),
            config.robots.fetch.max_size_bytes,
            config.robots.fetch.max_redirects
        ),
        home_window: match store.on_loss {
            OnLoss::Refuse => Duration::ZERO,
            OnLoss::Home => fleet::RETURN_WINDOW,
        },
    };
    Ok(Some(RedisEngine::new(options).context("store.url")?))
}

/// Returns a name for this node: the host's name, and a part that no other process has.
fn node_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}-{:08x}", host.trim(), *PROCESS_SEED as u32)
}

/// Reads the fleet's key: 32 bytes, or 64 hexadecimal digits as `openssl rand -hex 32` prints them.
fn read_key(path: &Path) -> anyhow::Result<[u8; 32]> {
    let bytes = std::fs::read(path)
        .with_context(|| format!("store.key_file: reading {}", path.display()))?;
    if let Ok(key) = <[u8; 32]>::try_from(bytes.as_slice()) {
        return Ok(key);
    }
    let digits = HEXLOWER_PERMISSIVE.decode(bytes.trim_ascii()).ok();
    digits.and_then(|key| <[u8; 32]>::try_from(key).ok()).with_context(|| {
        format!("store.key_file: {} is neither 32 bytes nor 64 hexadecimal digits", path.display())
    })
}

/// Opens the decision log's file, if one is configured, and prepares how client addresses are recorded in it.
///
/// # Errors
///
/// Returns an error if the file cannot be opened, or if the key that hides addresses cannot be read or created.
pub fn open_journal(
    config: &Config,
    clock: Clock,
) -> anyhow::Result<(Option<Journal>, ClientMask)> {
    let log = &config.log;
    let file = log.decisions.clone();
    let key = config.state.dir.join("client-address.key");
    let clients = ClientMask::new(log.client_address, &key).context("log.client_address")?;
    Ok((file.map(|file| Journal::open(file, clock)).transpose()?, clients))
}

/// Archives the pinned robots.txt files, and parses them. They were read at `now`.
///
/// # Errors
///
/// Returns an error if they cannot be written.
pub fn pinned_files(config: &Config, now: SystemTime) -> anyhow::Result<Arc<PinnedFiles>> {
    let pinned = &config.robots.pinned;
    robots_cache::archive_pinned(&config.state.dir, pinned.iter().map(|pinned| &*pinned.text))
        .context("archiving the files of [[robots.pinned]]")?;
    Ok(Arc::new(PinnedFiles::new(pinned, now)))
}

/// Archives the configuration with this number, which is in effect from now on, as TOML without secrets. Returns the digest
/// by which the decision log refers to it.
///
/// # Errors
///
/// Returns an error if it cannot be written.
pub fn archive_config(
    public_toml: &str,
    state_dir: &Path,
    number: u64,
) -> anyhow::Result<ConfigRevision> {
    Ok(ConfigRevision {
        program: program_version(),
        configuration: number,
        config_sha256: config_archive::store(state_dir, public_toml.as_bytes())?,
    })
}

/// Builds the settings for all further requests, to replace those in effect `before`. Logs the rules that have expired, and the
/// origins that are `pinned`.
pub fn build_settings(
    config: &Config,
    before: Option<&Settings>,
    upstream: Arc<Upstream>,
    pinned: Arc<PinnedFiles>,
    now: SystemTime,
) -> Settings {
    let rules = PolicyRules::new(config.rules.clone());
    // A rule that no longer applies is easily overlooked in the file.
    for expired in rules.count(now).1 {
        tracing::warn!(rule = %expired, "this rule has expired and has no effect");
    }
    for PinnedText { origin, file, .. } in &config.robots.pinned {
        let file = file.display();
        tracing::warn!(
            %origin,
            %file,
            "robots.pinned: this file counts as the robots.txt of the origin, which is not asked for its own"
        );
    }
    let signer = message_signer(config);
    // An unchanged TLS endpoint keeps its sessions: clients can resume them.
    let server_tls = config.proxy.tls.as_ref().map(|server_tls| {
        let in_effect = before.and_then(|before| before.entrance.as_ref());
        Arc::clone(in_effect.filter(|in_effect| *in_effect == server_tls).unwrap_or(server_tls))
    });
    Settings {
        configuration: before.map_or(FIRST_CONFIGURATION, |before| before.configuration + 1),
        options: config.proxy.connections.clone(),
        https: config.https.interception.clone(),
        authenticator: Authenticator::replacing(
            before.map(|before| &before.authenticator),
            &config.crawlers.crawlers,
            server_tls.clone(),
        ),
        crawlers: Crawlers::new(config.crawlers.clone()),
        rules,
        preferences: config.preferences.clone(),
        robots_txt_source: config.robots.answer,
        pinned,
        pacing: config.politeness,
        upstream,
        entrance: server_tls,
        identities: Arc::new(fetch_identities(config, Arc::clone(&signer))),
        signer,
        on_failure: config.log.on_failure,
        digests_bodies: config.log.digests_bodies,
        gateway_tokens: config.gateway.tokens.clone(),
    }
}

fn message_signer(config: &Config) -> Arc<MessageSigner> {
    Arc::new(MessageSigner::new(config.signing.options.clone(), config.signing.agents.clone()))
}

/// Returns the identities of the configured crawlers, as which documents are fetched.
fn fetch_identities(config: &Config, signer: Arc<MessageSigner>) -> FetchIdentities {
    FetchIdentities::new(&config.crawlers.crawlers, &config.robots.fetch.user_agent, signer)
}
