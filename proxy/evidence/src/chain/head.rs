//! A head: the signature over all lines of a file so far (a "signed tree head" in RFC 9162).

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::{Deserialize, Serialize};

use super::handover::{KeyHandover, keys_until};
use super::link::{append_members, split_signature};
use super::tree::MerkleTree;
use crate::clock_steps::ClockStep;
use crate::digest::Sha256Digest;

/// The members of a head, which are signed together with the digest of the line before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeHead {
    /// The file's number.
    pub file: u64,
    /// The number of lines before this one.
    pub lines: u64,
    /// The root of their Merkle tree.
    pub root_sha256: Sha256Digest,
    /// The number of the next file, if this line ends the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
    /// The size of the lines in bytes. Final heads of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Only in a head that is stored next to a file that is still being written: the roots of the complete subtrees, so that the next process can continue the tree without reading the file again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peaks: Vec<Sha256Digest>,
    /// Whether the process shut down properly, so that it wrote nothing after these lines.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stopped: bool,
    /// The log, and the decisions in it; final heads of earlier versions have none.
    #[serde(default, flatten, skip_serializing_if = "Option::is_none")]
    pub count: Option<LogCount>,
    /// The number of decisions that could not be written and that no line mentions yet. Only in a head that is stored next to a file,
    /// which a full disk still takes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
    /// The number of holds that the log records as in effect. Only in a head that is stored next to a file; earlier versions did not
    /// record them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<u64>,
    /// The steps of the clock that it had not kept for the grace when this was signed, the earliest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clock: Vec<ClockStep>,
    /// The handovers of the log from earlier keys to this one, the latest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handovers: Vec<KeyHandover>,
    /// The public half of the key (RFC 8037, `x`).
    pub key: String,
}

/// A log's id, and the number of its decisions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogCount {
    /// The id of the log, which it keeps for life.
    pub log: String,
    /// The number of decisions in the file.
    pub decisions: u64,
    /// The number of decisions in earlier files.
    pub earlier_decisions: u64,
    /// The number of decisions that are missing because the log was cut back behind a head that its node had published. Each cut
    /// counts as one decision at least.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_decisions: u64,
}

impl LogCount {
    /// Returns the count of an empty log.
    #[must_use]
    pub fn new(log: String) -> Self {
        Self { log, decisions: 0, earlier_decisions: 0, lost_decisions: 0 }
    }

    /// Returns the count at the beginning of the file.
    #[must_use]
    pub fn at_start_of_file(&self) -> Self {
        Self { decisions: 0, ..self.clone() }
    }

    /// Returns the count at the beginning of the next file.
    #[must_use]
    pub fn at_next_file(&self) -> Self {
        Self { decisions: 0, earlier_decisions: self.total(), ..self.clone() }
    }

    /// Returns the count with more decisions in the file.
    #[must_use]
    pub fn plus(&self, decisions: u64) -> Self {
        Self { decisions: self.decisions.saturating_add(decisions), ..self.clone() }
    }

    /// Returns the number of decisions in all files, deleted ones included.
    #[must_use]
    pub fn total(&self) -> u64 {
        // Saturating, because a head may come from anybody.
        self.earlier_decisions.saturating_add(self.decisions)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(value: &bool) -> bool {
    !value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl TreeHead {
    /// Returns the keys of the log, the one of this head last, and before it those that have handed the log over to the next.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        let log = self.count.as_ref().map_or("", |count| &count.log);
        keys_until(&self.key, log, &self.handovers)
    }

    /// Returns whether the log with this head had that key before, or still has.
    #[must_use]
    pub fn has_had_key(&self, key: &str) -> bool {
        self.key == key || self.keys().iter().any(|own| own == key)
    }

    /// Returns the tree so far; `None` if the head has no peaks, or they do not match its root.
    pub fn tree(&self) -> Option<MerkleTree> {
        // The peaks of an altered head would lead to another root.
        let tree = MerkleTree::from_peaks(self.lines, self.peaks.clone())?;
        (tree.root() == self.root_sha256).then_some(tree)
    }
}

/// Returns the public half of a key as base64url (RFC 8037 section 2, `x`).
pub fn public_key(key: &Ed25519KeyPair) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(key.public_key())
}

/// Returns the line with the signature over it added as its last member.
pub fn sign_line(line: &[u8], key: &Ed25519KeyPair) -> Vec<u8> {
    let signature = BASE64_URL_SAFE_NO_PAD.encode(key.sign(line).as_ref());
    append_members(line, &format!(",\"signature\":\"{signature}\""))
}

/// Returns whether the line was signed with the key whose public half is `public` (base64url).
pub fn is_signed_by(line: &[u8], public: &str) -> bool {
    let check = || {
        let (signed, signature) = split_signature(line)?;
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?;
        let public = BASE64_URL_SAFE_NO_PAD.decode(public).ok()?;
        UnparsedPublicKey::new(&ED25519, public).verify(&signed, &signature).ok()
    };
    check().is_some()
}
