//! The sources of documents and configurations that decisions rest on: the store or, if a proxy has it open, that proxy.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use tokio::runtime::Runtime;
use wayleave_evidence::Sha256Digest;

use crate::cli::admin_client::request_bytes;
use crate::clock::Clock;
use crate::config::Config;
use crate::robots_cache::{RobotsStore, StoreError};
use crate::server::config_archive;
use crate::telemetry::metrics::Metrics;

/// The stored robots.txt files and configurations.
pub(super) struct MaterialSources<'a> {
    config: &'a Config,
    bodies: BodySource,
}

enum BodySource {
    Store(RobotsStore, Runtime),
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
    /// Returns an error if the store exists and cannot be opened.
    pub(super) fn open(config: &'a Config) -> anyhow::Result<Self> {
        let runtime = Runtime::new().context("starting the runtime")?;
        let dir = &config.state.dir;
        // Opening would create a missing store.
        let opened = dir.join("robots.redb").exists().then(|| {
            let _within = runtime.enter();
            let metrics = Arc::new(Metrics::new()?);
            match RobotsStore::open(dir, config.robots_store, Clock::start(), metrics) {
                Ok(store) => anyhow::Ok(Some(store)),
                Err(StoreError::Locked(_)) => Ok(None),
                Err(error) => Err(error.into()),
            }
        });
        let bodies = match opened.transpose()? {
            Some(Some(store)) => BodySource::Store(store, runtime),
            Some(None) => BodySource::Proxy(config.admin.listen),
            None => BodySource::None,
        };
        Ok(Self { config, bodies })
    }

    /// Returns a robots.txt or another document, if it is still stored.
    pub(super) fn body(&self, digest: Sha256Digest) -> anyhow::Result<Option<Vec<u8>>> {
        let found = match &self.bodies {
            BodySource::Store(store, runtime) => {
                let found = runtime.block_on(store.body(digest.0));
                found.map(|bytes| bytes.to_vec())
            }
            BodySource::Proxy(admin) => {
                request_bytes(*admin, &format!("/v1/evidence/bodies/{digest}"))?
            }
            BodySource::None => None,
        };
        // Neither a damaged store nor another proxy at that address can get a different document into the export.
        Ok(found.filter(|bytes| Sha256Digest::of(bytes) == digest))
    }

    /// Returns a configuration, if it is still stored.
    pub(super) fn configuration(&self, digest: Sha256Digest) -> Option<Vec<u8>> {
        let kept = fs::read(config_archive::path(&self.config.state.dir, digest)).ok();
        kept.filter(|text| Sha256Digest::of(text) == digest)
    }
}
