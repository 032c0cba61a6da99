//! The chain as it grows: appends lines and signs heads over them.

use std::time::SystemTime;

use ring::signature::Ed25519KeyPair;

use super::event::{EventKind, LogEvent, program_version};
use super::handover::hand_over;
use super::head::{TreeHead, public_key, sign_line};
use super::link::{NO_PREVIOUS, link_line, previous_digest, push_linked};
use super::tree::MerkleTree;
use crate::digest::Sha256Digest;

/// The state of the chain after the last line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashChain {
    /// The file's number.
    pub file: u64,
    /// The digest of the last line, which may be in the previous file.
    pub last: Sha256Digest,
    pub tree: MerkleTree,
}

impl Default for HashChain {
    fn default() -> Self {
        Self::new()
    }
}

impl HashChain {
    /// Returns the state before the very first line.
    pub fn new() -> Self {
        Self { file: 1, last: NO_PREVIOUS, tree: MerkleTree::default() }
    }

    /// Returns the state before the first line of the next file.
    pub fn next_file(&self) -> Self {
        Self { file: self.file + 1, last: self.last, tree: MerkleTree::default() }
    }

    /// Returns the event that begins a file.
    pub fn file_event(&self, at: SystemTime) -> LogEvent {
        let file = self.file;
        let program = program_version();
        LogEvent::new(EventKind::File { file, program }, at)
    }

    /// Appends an object and returns it as a line, without the line feed.
    pub fn append(&mut self, object: &[u8]) -> Vec<u8> {
        let mut line = Vec::new();
        self.append_to(&mut line, object);
        line
    }

    /// Appends an object, and its line, without the line feed, to `lines`.
    pub fn append_to(&mut self, lines: &mut Vec<u8>, object: &[u8]) {
        let begin = lines.len();
        push_linked(lines, object, self.last);
        self.push_line(&lines[begin..]);
    }

    /// Appends a line that is already in the file, whatever it contains.
    pub fn push_line(&mut self, line: &[u8]) {
        self.last = Sha256Digest::of(line);
        self.tree.push(self.last);
    }

    /// Returns the head of the lines so far.
    #[must_use]
    pub fn tree_head(&self, key: &Ed25519KeyPair) -> TreeHead {
        TreeHead {
            file: self.file,
            lines: self.tree.lines(),
            root_sha256: self.tree.root(),
            next: None,
            bytes: None,
            peaks: Vec::new(),
            stopped: false,
            count: None,
            lost: 0,
            holds: None,
            clock: Vec::new(),
            handovers: Vec::new(),
            key: public_key(key),
        }
    }

    /// Returns a head of the lines so far, signed, without a line feed. One that names the next file ends the file.
    #[must_use]
    pub fn sign_head(&self, key: &Ed25519KeyPair, at: SystemTime, head: TreeHead) -> Vec<u8> {
        let object = LogEvent::new(EventKind::Head(head), at).to_json();
        // The signature covers the link, too, so that a head cannot be moved to other lines.
        sign_line(&link_line(&object, self.last), key)
    }

    /// Returns the head that ends the file as earlier versions wrote it.
    #[must_use]
    pub fn final_head(&self, key: &Ed25519KeyPair, at: SystemTime) -> Vec<u8> {
        let next = Some(self.file + 1);
        self.sign_head(key, at, TreeHead { next, ..self.tree_head(key) })
    }
}

/// Returns a saved head, a line, signed with another key to which its log is handed over; `None` if it is no head of a log.
#[must_use]
pub fn hand_over_head(line: &[u8], from: &Ed25519KeyPair, to: &Ed25519KeyPair) -> Option<Vec<u8>> {
    let LogEvent { kind: EventKind::Head(mut head), at } = LogEvent::parse(line)? else {
        return None;
    };
    let log = head.count.as_ref()?.log.clone();
    head.key = public_key(to);
    hand_over(&mut head.handovers, &log, from, &head.key);
    let chain = HashChain { last: previous_digest(line)?, ..HashChain::new() };
    Some(chain.sign_head(to, at, head))
}

#[cfg(test)]
mod tests {
    use super::super::head::{LogCount, is_signed_by};
    use super::*;

    #[test]
    fn head_signs_lines_and_names_key() {
        let key = Ed25519KeyPair::from_seed_unchecked(&[1; 32]).unwrap();
        let mut chain = HashChain::new();
        let first = chain.append(br#"{"a":1}"#);
        let second = chain.append(br#"{"a":2}"#);
        assert_eq!(previous_digest(&first), Some(NO_PREVIOUS));
        assert_eq!(previous_digest(&second), Some(Sha256Digest::of(&first)));
        let count = LogCount { decisions: 2, ..LogCount::new("a".to_owned()) };
        let head = TreeHead {
            bytes: Some(7),
            peaks: chain.tree.peaks().to_vec(),
            stopped: true,
            count: Some(count.clone()),
            ..chain.tree_head(&key)
        };
        let so_far = chain.sign_head(&key, SystemTime::UNIX_EPOCH, head);
        let end = chain.final_head(&key, SystemTime::UNIX_EPOCH);
        for line in [&so_far, &end] {
            assert_eq!(previous_digest(line), Some(Sha256Digest::of(&second)));
            assert!(is_signed_by(line, &public_key(&key)));
            let changed = String::from_utf8(line.clone()).unwrap();
            let changed = changed.replace("\"lines\":2", "\"lines\":3");
            assert!(!is_signed_by(changed.as_bytes(), &public_key(&key)));
        }
        let other = Ed25519KeyPair::from_seed_unchecked(&[2; 32]).unwrap();
        assert!(!is_signed_by(&end, &public_key(&other)));
        let head = LogEvent::parse(&so_far).unwrap();
        let EventKind::Head(head) = head.kind else {
            panic!("{head:?}");
        };
        assert!(head.stopped);
        assert_eq!(head.count, Some(count));
        assert_eq!(head.tree(), Some(chain.tree));
    }
}
