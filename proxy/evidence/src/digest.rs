//! SHA-256 in steps.

use std::fmt;

pub(crate) use wayleave_notation::Sha256Digest;

/// A SHA-256 that is computed in steps.
#[derive(Clone)]
pub(crate) struct Sha256Hasher(ring::digest::Context);

impl Sha256Hasher {
    pub(crate) fn new() -> Self {
        Self(ring::digest::Context::new(&ring::digest::SHA256))
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> Sha256Digest {
        let digest = self.0.finish();
        Sha256Digest(digest.as_ref().try_into().expect("a SHA-256 has 32 bytes"))
    }
}

impl fmt::Debug for Sha256Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sha256Hasher").finish_non_exhaustive()
    }
}
