//! The documents and configurations that decisions of the past rest on.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::bail;
use serde::Deserialize;
use tokio::runtime::Handle;
use wayleave_decision_log::config_archive;
use wayleave_evidence::Sha256Digest;
use wayleave_lifecycle::Resource;
use wayleave_notation::rfc3339;
use wayleave_robots_cache::{DocumentVersion, RobotsStore};

/// A place where documents and configurations are kept.
pub trait PastMaterials {
    /// Returns a robots.txt or another document, if it is still stored.
    ///
    /// # Errors
    ///
    /// Returns an error if nobody can tell.
    fn body(&self, digest: Sha256Digest) -> anyhow::Result<Option<Vec<u8>>>;

    /// Returns the known versions of an origin's robots.txt, the oldest first; none if that is not known.
    fn versions(&self, origin: &str) -> Vec<KnownVersion>;

    /// Returns a configuration, if it is still stored.
    fn configuration(&self, digest: Sha256Digest) -> Option<Vec<u8>>;
}

/// A version of an origin's robots.txt.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct KnownVersion {
    #[serde(deserialize_with = "rfc3339::deserialize")]
    pub(crate) first_seen_at: SystemTime,
    #[serde(deserialize_with = "rfc3339::deserialize")]
    pub(crate) last_seen_at: SystemTime,
    pub(crate) status: u16,
    pub(crate) sha256: Option<Sha256Digest>,
    pub(crate) is_cut: bool,
}

impl KnownVersion {
    /// Returns the time between an instant and the span in which the version was seen: zero within it.
    pub(crate) fn distance_to(&self, at: SystemTime) -> Duration {
        let before = self.first_seen_at.duration_since(at).unwrap_or_default();
        let after = at.duration_since(self.last_seen_at).unwrap_or_default();
        before.max(after)
    }
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

/// A store that this process has open, and the state directory that it is in. Used on threads that may block.
pub struct StoreMaterials {
    state_dir: PathBuf,
    store: RobotsStore,
    runtime: Handle,
}

impl StoreMaterials {
    /// Takes a store and its runtime.
    pub fn new(state_dir: PathBuf, store: RobotsStore, runtime: Handle) -> Self {
        Self { state_dir, store, runtime }
    }
}

impl PastMaterials for StoreMaterials {
    fn body(&self, digest: Sha256Digest) -> anyhow::Result<Option<Vec<u8>>> {
        let found = self.runtime.block_on(self.store.body(digest.0));
        // If the store failed silently, every body would seem to be missing.
        if let (None, Some(fault)) = (&found, self.store.fault()) {
            bail!("the store cannot be read: {fault}");
        }
        // A damaged store passes off no other document for it.
        Ok(found.map(|bytes| bytes.to_vec()).filter(|bytes| Sha256Digest::of(bytes) == digest))
    }

    fn versions(&self, origin: &str) -> Vec<KnownVersion> {
        let Ok(resource) = Resource::parse(origin) else {
            return Vec::new();
        };
        let history = self.runtime.block_on(self.store.history(resource));
        history.into_iter().map(KnownVersion::from).collect()
    }

    fn configuration(&self, digest: Sha256Digest) -> Option<Vec<u8>> {
        config_archive::read(&self.state_dir, digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_as_far_as_the_nearer_end_of_its_span() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let version = KnownVersion {
            first_seen_at: at(100),
            last_seen_at: at(200),
            status: 200,
            sha256: None,
            is_cut: false,
        };
        for (instant, distance) in [(40, 60), (100, 0), (150, 0), (200, 0), (230, 30)] {
            assert_eq!(
                version.distance_to(at(instant)),
                Duration::from_secs(distance),
                "{instant}"
            );
        }
    }
}
