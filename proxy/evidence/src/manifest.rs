//! The manifest of an export, signed with the key of the log.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::Sha256Digest;
use crate::signed_log::SignedLog;

/// The path of the manifest in an export.
pub const MANIFEST_PATH: &str = "manifest.json";

/// The most bytes of a file other than log files; the longest are robots.txt files, which are far shorter.
pub(crate) const MAX_FILE_BYTES: u64 = 1 << 30;
/// The most bytes of a manifest: about a million files.
pub(crate) const MAX_MANIFEST_BYTES: u64 = 256 << 20;

/// One line of JSON whose last member is a signature like that of a head.
#[derive(Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of the format: 1.
    pub evidence: u32,
    pub program: String,
    pub made_at: String,
    /// The selection that was exported.
    pub wanted: Value,
    /// The number of decisions in the export.
    pub decisions: u64,
    /// The log files, the oldest first.
    pub logs: Vec<ListedFile>,
    /// The state of the whole log; missing in exports of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<LogWindow>,
    /// All other files.
    pub files: Vec<ListedFile>,
    /// Digests in decisions of documents and configurations that are no longer stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// The digest of all records of a WARC file before that of the manifest, uncompressed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records_sha256: Option<Sha256Digest>,
    /// The public half of the key.
    pub key: String,
}

/// The state of the whole log at the time of the export.
#[derive(Debug, Serialize, Deserialize)]
pub struct LogWindow {
    /// The number of the oldest file.
    pub first_file: u64,
    /// The number of the file before the oldest, and of missing files after it. The log must say that they were deleted.
    pub missing_files: Vec<u64>,
    /// The number of lines after the signed ones, which are not exported.
    pub unsigned_lines: u64,
    /// The newest saved head.
    pub head: String,
    /// Files beside the log that do not belong to it, each with the reason, and other things that nobody but its process may have
    /// put there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub foreign: Vec<String>,
}

impl LogWindow {
    pub(crate) fn from_log(log: &SignedLog) -> Self {
        Self {
            first_file: log.files.first().map_or(0, |file| file.number),
            missing_files: log.missing.clone(),
            unsigned_lines: log.unsigned_lines,
            head: log.head.clone(),
            foreign: log.foreign.clone(),
        }
    }
}

/// A file of an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedFile {
    pub path: String,
    pub sha256: Sha256Digest,
    pub bytes: u64,
}
