//! What an export consists of, signed with the key of the log.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::log::Log;
use crate::observe::digest::Digest;

/// Where it lies in an export.
pub(super) const PATH: &str = "manifest.json";

/// No file of an export is as long, but those of the log: a robots.txt is the longest.
pub(super) const LONGEST: u64 = 1 << 30;
/// No manifest is as long: that is a million files.
pub(super) const LONGEST_MANIFEST: u64 = 256 << 20;

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
    /// What was there of the log; earlier versions do not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) window: Option<Window>,
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

/// What was there of a log when it was exported, shown or not.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Window {
    /// The number of the oldest file.
    pub(super) first_file: u64,
    /// The number before it, and of those behind it that are not there: the log must say that they were deleted.
    pub(super) missing_files: Vec<u64>,
    /// How many lines are behind those that were signed; they are left out.
    pub(super) unsigned_lines: u64,
    /// The newest head that was kept.
    pub(super) head: String,
}

impl Window {
    pub(super) fn of(log: &Log) -> Self {
        Self {
            first_file: log.files.first().map_or(0, |file| file.number),
            missing_files: log.missing.clone(),
            unsigned_lines: log.unsigned_lines,
            head: log.head.clone(),
        }
    }
}

/// A file of an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Listed {
    pub(super) path: String,
    pub(super) sha256: Digest,
    pub(super) bytes: u64,
}
