//! A reader that hashes what is read.

use std::io::Read;

use ring::digest::{Context, SHA256};

use crate::telemetry::digest::Sha256Digest;

/// A reader that computes the SHA-256 of what is read.
pub(super) struct HashingReader<R> {
    from: R,
    hasher: Context,
}

impl<R: Read> HashingReader<R> {
    pub(super) fn new(from: R) -> Self {
        Self {
            from,
            hasher: Context::new(&SHA256),
        }
    }

    pub(super) fn digest(self) -> Sha256Digest {
        self.hasher.finish().into()
    }
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.from.read(buffer)?;
        self.hasher.update(&buffer[..read]);
        Ok(read)
    }
}
