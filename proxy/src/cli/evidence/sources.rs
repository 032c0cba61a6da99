//! The sources of documents and configurations that decisions rest on: the store or, if a proxy has it open, that proxy.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::runtime::Runtime;
use wayleave_audit::{KnownVersion, PastMaterials, StoreMaterials};
use wayleave_clock::Clock;
use wayleave_config::Config;
use wayleave_decision_log::config_archive;
use wayleave_evidence::Sha256Digest;
use wayleave_robots_cache::{RobotsStore, StoreError};
use wayleave_telemetry::metrics::Metrics;

use crate::cli::admin_client::{request_bytes, request_json};

/// The stored robots.txt files and configurations.
pub(crate) struct MaterialSources<'a> {
    state_dir: &'a Path,
    bodies: BodySource,
}

enum BodySource {
    Store {
        materials: StoreMaterials,
        /// Keeps the runtime running.
        _opened_in: Runtime,
    },
    /// The admin address of a running proxy, which has the store open.
    Proxy(SocketAddr),
    /// There is no store.
    None,
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
                materials: StoreMaterials::new(dir.clone(), store, runtime.handle().clone()),
                _opened_in: runtime,
            },
            Some(None) => {
                let admin = config.admin.listen;
                // If the proxy refused to answer, every body would seem to be missing.
                request_bytes(admin, &body_path(Sha256Digest([0; 32])))?;
                BodySource::Proxy(admin)
            }
            None => BodySource::None,
        };
        Ok(Self { state_dir: dir, bodies })
    }
}

impl PastMaterials for MaterialSources<'_> {
    fn body(&self, digest: Sha256Digest) -> anyhow::Result<Option<Vec<u8>>> {
        match &self.bodies {
            BodySource::Store { materials, .. } => materials.body(digest),
            BodySource::Proxy(admin) => {
                let found = request_bytes(*admin, &body_path(digest))?;
                // Another proxy at that address cannot get a different document into the export.
                Ok(found.filter(|bytes| Sha256Digest::of(bytes) == digest))
            }
            BodySource::None => Ok(None),
        }
    }

    fn versions(&self, origin: &str) -> Vec<KnownVersion> {
        match &self.bodies {
            BodySource::Store { materials, .. } => materials.versions(origin),
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

    fn configuration(&self, digest: Sha256Digest) -> Option<Vec<u8>> {
        config_archive::read(self.state_dir, digest)
    }
}

/// Returns the path at which the admin listener serves a document.
fn body_path(digest: Sha256Digest) -> String {
    format!("/v1/evidence/bodies/{digest}")
}
