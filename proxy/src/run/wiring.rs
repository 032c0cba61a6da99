//! Builds the parts of the proxy from the configuration, at the start and at each reload.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

use anyhow::Context;
use rustls::{ClientConfig, RootCertStore};
use wayleave_policy::lifecycle::Lifetimes;

use crate::clock::Clock;
use crate::config::{self, Config};
use crate::flow::decide::settings::{Options, Settings};
use crate::identity::Crawlers;
use crate::observe::decisions::{Journal, JournalOptions};
use crate::observe::metrics::Metrics;
use crate::observe::traces::Traces;
use crate::origin::egress::{self, Egress};
use crate::origin::{self, Upstream};
use crate::robots::{self, FetchOptions, HttpFetch, Shares, StoreOptions};
use crate::rules::Rules;
use crate::tls;

/// Of this process alone: nodes that started together do not come to an origin together.
static SPREAD: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(()));

/// Sessions with origins kept for resumption.
const TLS_SESSIONS: usize = 10_000;

/// The ways to origins: for requests, and for their robots.txt files.
pub(crate) struct Ways {
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) fetch: HttpFetch,
}

/// Opens the ways to origins, whose certificates are checked as `tls` says, but none to `own_listeners`. Within a tokio
/// runtime.
///
/// # Errors
///
/// Returns an error if the system's DNS configuration is asked for and cannot be read.
pub(crate) fn ways(
    config: &Config,
    tls: &ClientConfig,
    own_listeners: Vec<SocketAddr>,
    clock: Clock,
    metrics: &Arc<Metrics>,
    traces: Option<Arc<Traces>>,
) -> anyhow::Result<Ways> {
    let egress = egress(config, own_listeners)?;
    let options = origin::Options {
        connect_timeout: config.upstream.connect_timeout,
        response_timeout: config.upstream.response_timeout,
        idle_connections: config.upstream.idle_connections,
    };
    let upstream = Upstream::new(options, Arc::clone(&egress), tls, Arc::clone(metrics));
    let fetch = HttpFetch::new(egress, tls, fetch_options(config), clock);
    Ok(Ways {
        fetch: fetch
            .handing_over(upstream.idle())
            .traced(traces)
            .counted(Arc::clone(metrics)),
        upstream: Arc::new(upstream),
    })
}

/// What fetches robots.txt for `wayleave check`, as the proxy would.
///
/// # Errors
///
/// As [`ways`] and [`tls_config`].
pub(crate) fn robots_fetch(config: &Config, clock: Clock) -> anyhow::Result<HttpFetch> {
    let egress = egress(config, Vec::new())?;
    let tls = tls_config(&config.upstream)?;
    let options = fetch_options(config);
    Ok(HttpFetch::new(egress, &tls, options, clock))
}

fn egress(config: &Config, own_listeners: Vec<SocketAddr>) -> anyhow::Result<Arc<Egress>> {
    let egress = Egress::new(egress::Options {
        allow_private: config.upstream.allow_private.clone(),
        servers: config.dns.servers.clone(),
        overrides: config.dns.overrides.clone(),
        own_listeners,
    });
    let egress = egress.context("reading the system's DNS configuration")?;
    Ok(Arc::new(egress))
}

/// How certificates are checked: by the system's roots and the configured ones.
///
/// # Errors
///
/// Returns an error if a root cannot be trusted.
pub(crate) fn tls_config(upstream: &config::Upstream) -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let system = rustls_native_certs::load_native_certs();
    for error in &system.errors {
        tracing::warn!(%error, "a system root certificate could not be read");
    }
    let (added, _) = roots.add_parsable_certificates(system.certs);
    if added == 0 {
        tracing::warn!("the system has no root certificates (Debian: install ca-certificates)");
    }
    for certificate in upstream.extra_root_certificates() {
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

/// How robots.txt files are fetched.
pub(crate) fn fetch_options(config: &Config) -> FetchOptions {
    let robots = &config.robots;
    FetchOptions {
        user_agent: robots.user_agent.clone(),
        timeout: robots.fetch_timeout,
        connect_timeout: config.upstream.connect_timeout,
        max_redirects: robots.max_redirects,
        max_size: robots.max_size,
        memory: Shares::of(robots.memory).fetches,
    }
}

/// How robots.txt files are kept.
pub(crate) fn robots_options(robots: &config::Robots) -> robots::Options {
    robots::Options {
        lifetimes: Lifetimes {
            max_age: robots.max_age,
            max_stale: robots.max_stale,
            error_ttl: robots.error_ttl,
            spread: *SPREAD,
            ..Lifetimes::default()
        },
        fetch_timeout: robots.fetch_timeout,
        memory: Shares::of(robots.memory).entries,
        ..robots::Options::default()
    }
}

/// How what was learned is kept on disk.
pub(crate) fn store_options(robots: &config::Robots, max_size: u64) -> StoreOptions {
    StoreOptions {
        max_size,
        memory: Shares::of(robots.memory).store,
        ..StoreOptions::default()
    }
}

/// The decision log's open file, if there is to be one.
///
/// # Errors
///
/// Returns an error if it cannot be opened.
pub(crate) fn journal(log: &config::Log) -> anyhow::Result<Option<Journal>> {
    let options = log.decisions.clone().map(|path| JournalOptions {
        path,
        max_size_bytes: log.decisions_max_size,
        max_age: log.decisions_max_age,
        keep: log.decisions_keep,
    });
    options.map(Journal::open).transpose()
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
    Settings {
        configuration: before.map_or(1, |before| before.configuration + 1),
        options: Options {
            name: config.proxy.name.clone(),
            header_timeout: config.proxy.header_timeout,
            idle_timeout: config.proxy.idle_timeout,
            shutdown_grace: config.proxy.shutdown_grace,
        },
        https: config.https.way.clone(),
        crawlers: Crawlers::instead_of(
            before.map(|before| &before.crawlers),
            config.crawlers.clone(),
        ),
        rules,
        politeness: config.politeness,
        upstream,
    }
}
