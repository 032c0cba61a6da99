//! SHA-256, at once and in steps.

pub(crate) use wayleave_notation::{Sha256Digest, Sha256Hasher};
