//! Hashes files while they are read.

use std::io::Read;

use crate::digest::{Sha256Digest, Sha256Hasher};

/// A reader that computes the SHA-256 of the bytes that it reads.
pub(super) struct HashingReader<R> {
    inner: R,
    hasher: Sha256Hasher,
}

impl<R: Read> HashingReader<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, hasher: Sha256Hasher::new() }
    }

    pub(super) fn digest(self) -> Sha256Digest {
        self.hasher.finish()
    }
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..read]);
        Ok(read)
    }
}
