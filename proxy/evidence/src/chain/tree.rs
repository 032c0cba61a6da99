//! The Merkle tree of RFC 9162 section 2.1.1 over the digests of a file's lines. Its root can be computed from some of the
//! lines and the digests of the others, so that part of a log can be shown without the rest.
//!
//! A leaf is the SHA-256 of a line, which the next line carries anyway, so each line is hashed only once.

use serde::{Deserialize, Serialize};

use crate::digest::{Sha256Digest, Sha256Hasher};

/// Leaves and inner nodes are hashed with different prefixes, so that neither can pass for the other (RFC 9162 section 2.1.1).
const LEAF_PREFIX: u8 = 0;
const NODE_PREFIX: u8 = 1;

/// A Merkle tree to which leaves are appended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MerkleTree {
    lines: u64,
    /// The roots of the complete subtrees, the largest first: one for each bit of `lines` that is set.
    peaks: Vec<Sha256Digest>,
}

/// The root of a complete subtree of 2^`level` lines; in an export it stands for lines that are not shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MerkleSubtree {
    pub level: u32,
    pub sha256: Sha256Digest,
}

impl MerkleTree {
    /// Returns the tree with these complete subtrees; `None` if a tree of `lines` lines has another number of them.
    pub fn from_peaks(lines: u64, peaks: Vec<Sha256Digest>) -> Option<Self> {
        (peaks.len() == lines.count_ones() as usize).then_some(Self { lines, peaks })
    }

    /// Returns the number of lines.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    pub fn peaks(&self) -> &[Sha256Digest] {
        &self.peaks
    }

    /// Appends the line with this digest.
    pub fn push(&mut self, line: Sha256Digest) {
        self.add(MerkleSubtree::leaf(line));
    }

    /// Appends a subtree. Returns `false`, and changes nothing, if no complete subtree of its size can begin here.
    pub fn push_subtree(&mut self, subtree: MerkleSubtree) -> bool {
        // A complete subtree of 2^n lines begins at a multiple of 2^n. The level comes from a file that anybody may have
        // written, so that the number of lines must not overflow.
        let is_aligned = subtree.level < 48
            && self.lines.trailing_zeros() >= subtree.level
            && self.lines < 1 << 62;
        if is_aligned {
            self.add(subtree);
        }
        is_aligned
    }

    fn add(&mut self, added: MerkleSubtree) {
        let mut subtree = added;
        // Like binary addition: each set bit is a complete subtree of that size, which the carry merges with the new one.
        let mut full = self.lines >> added.level;
        while full & 1 == 1 {
            let left = self.peaks.pop().expect("there is one for each bit that is set");
            subtree = subtree.with_left_sibling(left);
            full >>= 1;
        }
        self.peaks.push(subtree.sha256);
        self.lines += 1 << added.level;
    }

    /// Returns the root: one digest for all lines.
    pub fn root(&self) -> Sha256Digest {
        // The last subtrees are the smallest, and RFC 9162 splits at the largest power of two: fold from the right.
        let mut peaks = self.peaks.iter().rev().copied();
        let Some(last) = peaks.next() else {
            return Sha256Digest::of(b"");
        };
        peaks.fold(last, |right, left| node_digest(left, right))
    }
}

impl MerkleSubtree {
    /// Returns the subtree that is the line with this digest.
    pub fn leaf(line: Sha256Digest) -> Self {
        Self { level: 0, sha256: digest_parts(&[&[LEAF_PREFIX], &line.0]) }
    }

    /// Returns the subtree of twice the size that has `left` as its left half and this one as its right half.
    pub fn with_left_sibling(self, left: Sha256Digest) -> Self {
        Self { level: self.level + 1, sha256: node_digest(left, self.sha256) }
    }
}

fn node_digest(left: Sha256Digest, right: Sha256Digest) -> Sha256Digest {
    digest_parts(&[&[NODE_PREFIX], &left.0, &right.0])
}

fn digest_parts(parts: &[&[u8]]) -> Sha256Digest {
    let mut hasher = Sha256Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The recursive definition of RFC 9162, against which the incremental computation is checked.
    fn root_by_definition(lines: &[Sha256Digest]) -> Sha256Digest {
        match lines {
            [] => Sha256Digest::of(b""),
            [line] => MerkleSubtree::leaf(*line).sha256,
            _ => {
                let left = lines.len().next_power_of_two() / 2;
                let (left, right) = lines.split_at(left);
                node_digest(root_by_definition(left), root_by_definition(right))
            }
        }
    }

    fn lines(count: u8) -> Vec<Sha256Digest> {
        (0..count).map(|n| Sha256Digest::of(&[n])).collect()
    }

    #[test]
    fn root_is_that_of_rfc_9162() {
        for count in 0..70 {
            let lines = lines(count);
            let mut tree = MerkleTree::default();
            for line in &lines {
                tree.push(*line);
            }
            assert_eq!(tree.root(), root_by_definition(&lines), "{count}");
            let again = MerkleTree::from_peaks(tree.lines(), tree.peaks().to_vec());
            assert_eq!(again, Some(tree));
        }
    }

    #[test]
    fn aligned_subtree_replaces_its_lines() {
        let lines = lines(7);
        let leaf = |line: usize| MerkleSubtree::leaf(lines[line]);
        let pair = leaf(3).with_left_sibling(leaf(2).sha256);
        let mut tree = MerkleTree::default();
        tree.push(lines[0]);
        assert!(!tree.push_subtree(pair), "it would begin at an odd line");
        tree.push(lines[1]);
        assert!(tree.push_subtree(pair));
        for line in &lines[4..] {
            tree.push(*line);
        }
        assert_eq!(tree.root(), root_by_definition(&lines));
    }
}
