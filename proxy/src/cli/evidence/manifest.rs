//! What an export consists of, signed with the key of the log.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::observe::digest::Digest;

/// Where it lies in an export.
pub(super) const PATH: &str = "manifest.json";

/// One line of JSON, whose last member is a signature as that of a head.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// The version of the format: 1.
    pub(super) evidence: u32,
    pub(super) program: String,
    pub(super) made_at: String,
    /// What was asked for.
    pub(super) wanted: Value,
    /// How many decisions are shown.
    pub(super) decisions: u64,
    /// The log's files, the oldest first.
    pub(super) logs: Vec<Listed>,
    /// All others.
    pub(super) files: Vec<Listed>,
    /// Digests that decisions name, of what is not kept any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) missing: Vec<String>,
    /// Of the bytes of all records of a WARC file before the one that holds this, decompressed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) records_sha256: Option<Digest>,
    /// The public half of the key.
    pub(super) key: String,
}

/// A file of an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Listed {
    pub(super) path: String,
    pub(super) sha256: Digest,
    pub(super) bytes: u64,
}
