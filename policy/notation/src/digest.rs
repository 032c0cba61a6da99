//! SHA-256 digests, by which robots.txt files, configurations and lines of the decision log are identified.

use std::borrow::Cow;
use std::fmt;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use ring::digest::{Context, SHA256, digest};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A SHA-256, written as 64 hexadecimal digits in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha256Digest(pub [u8; 32]);

impl Sha256Digest {
    /// Returns the SHA-256 of the bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let digest = digest(&SHA256, bytes);
        Self(digest.as_ref().try_into().expect("a SHA-256 has 32 bytes"))
    }

    /// Returns 64 hexadecimal digits in lower case.
    pub fn hex(self) -> [u8; 64] {
        let mut hex = [0; 64];
        HEXLOWER.encode_mut(&self.0, &mut hex);
        hex
    }

    /// Parses 64 hexadecimal digits in either case.
    pub fn from_hex(text: &str) -> Option<Self> {
        HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?.try_into().ok().map(Self)
    }
}

/// A SHA-256 that is computed in steps.
#[derive(Clone)]
pub struct Sha256Hasher(Context);

impl Sha256Hasher {
    /// Begins with no bytes.
    pub fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the digest of all bytes.
    pub fn finish(self) -> Sha256Digest {
        let digest = self.0.finish();
        Sha256Digest(digest.as_ref().try_into().expect("a SHA-256 has 32 bytes"))
    }
}

impl Default for Sha256Hasher {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Sha256Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sha256Hasher").finish_non_exhaustive()
    }
}

impl fmt::Display for Sha256Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(str::from_utf8(&self.hex()).expect("digits are ASCII"))
    }
}

impl Serialize for Sha256Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Sha256Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        Self::from_hex(&text).ok_or_else(|| serde::de::Error::custom("not 64 hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_survives_parsing() {
        let digest = Sha256Digest::of(b"abc");
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest.to_string(), expected);
        assert_eq!(Sha256Digest::from_hex(expected), Some(digest));
        for wrong in ["", "ba", &expected[1..], &expected.replace('b', "é")] {
            assert_eq!(Sha256Digest::from_hex(wrong), None, "{wrong}");
        }
    }
}
