//! The sources of documents and configurations that decisions rest on: the store or, if a proxy has it open, that proxy.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context, bail};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use tokio::runtime::{Handle, Runtime};
use wayleave_clock::Clock;
use wayleave_config::Config;
use wayleave_evidence::{Sha256Digest, regular_file};
use wayleave_lifecycle::Resource;
use wayleave_notation::rfc3339;
use wayleave_robots_cache::{DocumentVersion, RobotsStore, StoreError};
use wayleave_telemetry::metrics::Metrics;

use crate::cli::admin_client::{request_bytes, request_json};
use crate::server::config_archive;

/// The stored robots.txt files and configurations.
pub(crate) struct MaterialSources<'a> {
    state_dir: &'a Path,
    bodies: BodySource,
}

enum BodySource {
    Store {
        store: RobotsStore,
        runtime: Handle,
        /// Keeps the runtime running, unless it is that of the process.
        _opened_in: Option<Runtime>,
    },
    /// The admin address of a running proxy, which has the store open.
    Proxy(SocketAddr),
    /// There is no store.
    None,
}

/// A version of an origin's robots.txt.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct KnownVersion {
    #[serde(deserialize_with = "rfc3339::deserialize")]
    pub(crate) first_seen_at: SystemTime,
    #[serde(deserialize_with = "rfc3339::deserialize")]
    pub(crate) last_seen_at: SystemTime,
    pub(crate) status: u16,
    pub(crate) sha256: Option<Sha256Digest>,
    pub(crate) is_cut: bool,
}

impl From<DocumentVersion> for KnownVersion {
    fn from(version: DocumentVersion) -> Self {
        Self {
            first_seen_at: version.first_seen_at,
            last_seen_at: version.last_seen_at,
            status: version.status,
            sha256: version.digest.map(Sha256Digest),
            is_cut: version.is_cut,
        }
    }
}

impl<'a> MaterialSources<'a> {
    /// Opens the store of the configuration.
    ///
    /// # Errors
    ///
    /// Returns an error if the store exists and cannot be opened, or is open in a proxy that does not answer.
    pub(crate) fn open(config: &'a Config) -> anyhow::Result<Self> {
        let runtime = Runtime::new().context("starting the runtime")?;
        let dir = &config.state.dir;
        let opened = dir.join("robots.redb").exists().then(|| {
            let _within = runtime.enter();
            let metrics = Arc::new(Metrics::new()?);
            match RobotsStore::open_to_read(dir, config.robots_store, Clock::start(), metrics) {
                Ok(store) => anyhow::Ok(Some(store)),
                Err(StoreError::Locked(_)) => Ok(None),
                Err(error) => Err(error.into()),
            }
        });
        let bodies = match opened.transpose()? {
            Some(Some(store)) => BodySource::Store {
                store,
                runtime: runtime.handle().clone(),
                _opened_in: Some(runtime),
            },
            Some(None) => {
                let admin = config.admin.listen;
                // Of a proxy that refuses to answer, everything would seem to be missing.
                request_bytes(admin, &body_path(Sha256Digest([0; 32])))?;
                BodySource::Proxy(admin)
            }
            None => BodySource::None,
        };
        Ok(Self { state_dir: dir, bodies })
    }

    /// Takes the store that this process has open in `state_dir`. The sources must be used on a thread that may block.
    pub(crate) fn of_own_store(state_dir: &'a Path, store: RobotsStore, runtime: Handle) -> Self {
        Self { state_dir, bodies: BodySource::Store { store, runtime, _opened_in: None } }
    }

    /// Returns a robots.txt or another document, if it is still stored.
    pub(crate) fn body(&self, digest: Sha256Digest) -> anyhow::Result<Option<Vec<u8>>> {
        let found = match &self.bodies {
            BodySource::Store { store, runtime, .. } => {
                let found = runtime.block_on(store.body(digest.0));
                // Of a store that fails, everything would seem to be missing.
                if let (None, Some(fault)) = (&found, store.fault()) {
                    bail!("the store cannot be read: {fault}");
                }
                found.map(|bytes| bytes.to_vec())
            }
            BodySource::Proxy(admin) => request_bytes(*admin, &body_path(digest))?,
            BodySource::None => None,
        };
        // Neither a damaged store nor another proxy at that address can get a different document into the export.
        Ok(found.filter(|bytes| Sha256Digest::of(bytes) == digest))
    }

    /// Returns the known versions of an origin's robots.txt, the oldest first; none if that is not known.
    pub(crate) fn versions(&self, origin: &str) -> Vec<KnownVersion> {
        match &self.bodies {
            BodySource::Store { store, runtime, .. } => {
                let resource = Resource::parse(origin).ok();
                let found = resource.map(|resource| runtime.block_on(store.history(resource)));
                found.into_iter().flatten().map(KnownVersion::from).collect()
            }
            BodySource::Proxy(admin) => {
                let name = utf8_percent_encode(origin, NON_ALPHANUMERIC);
                let shown = request_json(*admin, "GET", &format!("/v1/robots/{name}"));
                let versions = shown.ok().and_then(|mut shown| {
                    serde_json::from_value::<Vec<KnownVersion>>(shown["history"].take()).ok()
                });
                versions.unwrap_or_default()
            }
            BodySource::None => Vec::new(),
        }
    }

    /// Returns a configuration, if it is still stored.
    pub(crate) fn configuration(&self, digest: Sha256Digest) -> Option<Vec<u8>> {
        let kept = regular_file::read(&config_archive::path(self.state_dir, digest)).ok();
        kept.filter(|text| Sha256Digest::of(text) == digest)
    }
}

/// Returns the path at which the admin listener serves a document.
fn body_path(digest: Sha256Digest) -> String {
    format!("/v1/evidence/bodies/{digest}")
}
