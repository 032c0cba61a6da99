//! A head: the signature over all lines of a file so far.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::signature::{ED25519, UnparsedPublicKey};
use serde::{Deserialize, Serialize};

use super::link::{signed_part, with_members};
use super::tree::Tree;
use crate::observe::digest::Digest;
use crate::signing::Key;

/// What is signed, besides the digest of the line before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    /// The file's number.
    pub(crate) file: u64,
    /// How many lines are before this one.
    pub(crate) lines: u64,
    /// The root of their tree.
    pub(crate) root_sha256: Digest,
    /// The number of the next file, if this line ends the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<u64>,
    /// Beside a file that goes on: how many bytes the lines take, and the roots of the complete subtrees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) peaks: Vec<Digest>,
    /// Beside a file that goes on: its process stopped as it was told to, and wrote nothing behind these lines.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) stopped: bool,
    /// The public half of the key (RFC 8037, `x`).
    pub(crate) key: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(value: &bool) -> bool {
    !value
}

impl Head {
    /// The tree that it is the root of, if it says enough.
    pub(crate) fn tree(&self) -> Option<Tree> {
        let tree = Tree::of(self.lines, self.peaks.clone())?;
        (tree.root() == self.root_sha256).then_some(tree)
    }
}

/// A line with the signature over it as its last member.
pub(crate) fn signed(line: &[u8], key: &Key) -> Vec<u8> {
    let signature = BASE64_URL_SAFE_NO_PAD.encode(key.sign(line));
    with_members(line, &format!(",\"signature\":\"{signature}\""))
}

/// Whether a line was signed with the key that has this public half.
pub(crate) fn is_signed_by(line: &[u8], public: &str) -> bool {
    let check = || {
        let (signed, signature) = signed_part(line)?;
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?;
        let public = BASE64_URL_SAFE_NO_PAD.decode(public).ok()?;
        UnparsedPublicKey::new(&ED25519, public)
            .verify(&signed, &signature)
            .ok()
    };
    check().is_some()
}
