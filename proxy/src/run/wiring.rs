//! Builds the parts of the proxy from the configuration, at the start and at each reload.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

use anyhow::Context;
use rustls::{ClientConfig, RootCertStore};

use crate::clock::Clock;
use crate::config::{self, Config};
use crate::decide::settings::Settings;
use crate::identity::Crawlers;
use crate::observe::decisions::Journal;
use crate::observe::metrics::Metrics;
use crate::observe::traces::Traces;
use crate::origin::Upstream;
use crate::origin::egress::{self, Egress};
use crate::robots::{self, HttpFetch};
use crate::rules::Rules;
use crate::signing::Signer;
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
    let upstream = Arc::new(upstream(config, tls, own_listeners, metrics)?);
    let options = config.robots.fetch.clone();
    let fetch = HttpFetch::new(Arc::clone(&upstream), options, clock);
    Ok(Ways {
        fetch: fetch.traced(traces),
        upstream,
    })
}

/// What fetches robots.txt for `wayleave check`, as the proxy would.
///
/// # Errors
///
/// As [`ways`] and [`tls_config`].
pub(crate) fn robots_fetch(config: &Config, clock: Clock) -> anyhow::Result<HttpFetch> {
    let tls = tls_config(&config.upstream)?;
    let upstream = upstream(config, &tls, Vec::new(), &Arc::new(Metrics::new()?))?;
    let options = config.robots.fetch.clone();
    Ok(HttpFetch::new(Arc::new(upstream), options, clock))
}

fn upstream(
    config: &Config,
    tls: &ClientConfig,
    own_listeners: Vec<SocketAddr>,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<Upstream> {
    let egress = Egress::new(egress::Options {
        own_listeners,
        ..config.upstream.egress.clone()
    });
    let egress = egress.context("reading the system's DNS configuration")?;
    let options = config.upstream.origin.clone();
    Ok(Upstream::new(options, egress, tls, Arc::clone(metrics)))
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
    let extra = upstream.extra_roots.iter();
    for certificate in extra.flat_map(|file| &file.certificates) {
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

/// The decision log's open file, if there is to be one.
///
/// # Errors
///
/// Returns an error if it cannot be opened.
pub(crate) fn journal(log: &config::Log) -> anyhow::Result<Option<Journal>> {
    let options = log.decisions.clone();
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
        options: config.proxy.options.clone(),
        https: config.https.way.clone(),
        crawlers: Crawlers::instead_of(
            before.map(|before| &before.crawlers),
            config.crawlers.clone(),
        ),
        rules,
        preferences: config.preferences.clone(),
        politeness: config.politeness,
        upstream,
        signer: Arc::new(Signer::new(
            config.signing.options.clone(),
            config.signing.keys.clone(),
        )),
    }
}
