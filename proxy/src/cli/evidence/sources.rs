//! Where what decisions rest on is kept: the store, or the proxy that has it open.

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

/// The robots.txt files and configurations that are kept.
pub(super) struct Sources<'a> {
    config: &'a Config,
    bodies: Bodies,
}

enum Bodies {
    Store(Store, Runtime),
    /// A running proxy has the store.
    Proxy(SocketAddr),
    /// There is no store.
    None,
}

impl<'a> Sources<'a> {
    /// Opens what is kept as the configuration says.
    ///
    /// # Errors
    ///
    /// Returns an error if the store is there and cannot be opened.
    pub(super) fn open(config: &'a Config) -> anyhow::Result<Self> {
        let runtime = Runtime::new().context("starting the runtime")?;
        let dir = &config.state.dir;
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

    /// A robots.txt, if it is kept.
    pub(super) fn body(&self, digest: Digest) -> anyhow::Result<Option<Vec<u8>>> {
        let found = match &self.bodies {
            Bodies::Store(store, runtime) => {
                let found = runtime.block_on(store.body(digest.0));
                found.map(|bytes| bytes.to_vec())
            }
            Bodies::Proxy(admin) => ask_bytes(*admin, &format!("/v1/evidence/bodies/{digest}"))?,
            Bodies::None => None,
        };
        Ok(found.filter(|bytes| Digest::of(bytes) == digest))
    }

    /// A configuration, if it is kept.
    pub(super) fn configuration(&self, digest: Digest) -> Option<Vec<u8>> {
        let kept = fs::read(kept::path(&self.config.state.dir, digest)).ok();
        kept.filter(|text| Digest::of(text) == digest)
    }
}
