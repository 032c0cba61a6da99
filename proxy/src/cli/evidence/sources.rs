//! The sources of documents and configurations that decisions rest on: the store or, if a proxy has it open, that proxy.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use tokio::runtime::Runtime;

use crate::cli::admin_client::ask_bytes;
use crate::clock::Clock;
use crate::config::Config;
use crate::observe::digest::Digest;
use crate::observe::metrics::Metrics;
use crate::robots::{Store, StoreError};
use crate::run::kept;

/// The stored robots.txt files and configurations.
pub(super) struct Sources<'a> {
    config: &'a Config,
    bodies: Bodies,
}

enum Bodies {
    Store(Store, Runtime),
    /// The admin address of a running proxy, which has the store open.
    Proxy(SocketAddr),
    /// There is no store.
    None,
}

impl<'a> Sources<'a> {
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
            match Store::open(dir, config.store, Clock::start(), metrics) {
                Ok(store) => anyhow::Ok(Some(store)),
                Err(StoreError::Locked(_)) => Ok(None),
                Err(error) => Err(error.into()),
            }
        });
        let bodies = match opened.transpose()? {
            Some(Some(store)) => Bodies::Store(store, runtime),
            Some(None) => Bodies::Proxy(config.admin.listen),
            None => Bodies::None,
        };
        Ok(Self { config, bodies })
    }

    /// Returns a robots.txt or another document, if it is still stored.
    pub(super) fn body(&self, digest: Digest) -> anyhow::Result<Option<Vec<u8>>> {
        let found = match &self.bodies {
            Bodies::Store(store, runtime) => {
                let found = runtime.block_on(store.body(digest.0));
                found.map(|bytes| bytes.to_vec())
            }
            Bodies::Proxy(admin) => ask_bytes(*admin, &format!("/v1/evidence/bodies/{digest}"))?,
            Bodies::None => None,
        };
        // Neither a damaged store nor another proxy at that address can get a different document into the export.
        Ok(found.filter(|bytes| Digest::of(bytes) == digest))
    }

    /// Returns a configuration, if it is still stored.
    pub(super) fn configuration(&self, digest: Digest) -> Option<Vec<u8>> {
        let kept = fs::read(kept::path(&self.config.state.dir, digest)).ok();
        kept.filter(|text| Digest::of(text) == digest)
    }
}
