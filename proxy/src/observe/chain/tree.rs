//! The Merkle tree of RFC 9162 section 2.1.1 over the digests of a file's lines. Its root can be computed from some of the
//! lines and the digests of the others, so that part of a log can be shown without the rest.
//!
//! A leaf is the SHA-256 of a line, which the next line carries anyway, so each line is hashed only once.

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

use crate::observe::digest::Digest;

/// Leaves and inner nodes are hashed with different prefixes, so that neither can pass for the other (RFC 9162 section 2.1.1).
const LEAF: u8 = 0;
const NODE: u8 = 1;

/// A Merkle tree to which leaves are appended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tree {
    lines: u64,
    /// The roots of the complete subtrees, the largest first: one for each bit of `lines` that is set.
    peaks: Vec<Digest>,
}

/// The root of a complete subtree of 2^`level` lines; in an export it stands for lines that are not shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Subtree {
    pub(crate) level: u32,
    pub(crate) sha256: Digest,
}

impl Tree {
    /// Returns the tree with these complete subtrees; `None` if a tree of `lines` lines has another number of them.
    pub(crate) fn of(lines: u64, peaks: Vec<Digest>) -> Option<Self> {
        (peaks.len() == lines.count_ones() as usize).then_some(Self { lines, peaks })
    }

    /// Returns the number of lines.
    pub(crate) fn lines(&self) -> u64 {
        self.lines
    }

    pub(crate) fn peaks(&self) -> &[Digest] {
        &self.peaks
    }

    /// Appends the line with this digest.
    pub(crate) fn push(&mut self, line: Digest) {
        self.add(Subtree::leaf(line));
    }

    /// Appends a subtree. Returns `false`, and changes nothing, if no complete subtree of its size can begin here.
    pub(crate) fn push_subtree(&mut self, subtree: Subtree) -> bool {
        // A complete subtree of 2^n lines begins at a multiple of 2^n. The bound on `level` keeps the number of lines from
        // overflowing; the level comes from a file that anybody may have written.
        let is_aligned = subtree.level < 48 && self.lines.trailing_zeros() >= subtree.level;
        if is_aligned {
            self.add(subtree);
        }
        is_aligned
    }

    fn add(&mut self, added: Subtree) {
        let mut subtree = added;
        // Like binary addition: each set bit is a complete subtree of that size, which the carry merges with the new one.
        let mut full = self.lines >> added.level;
        while full & 1 == 1 {
            let left = self
                .peaks
                .pop()
                .expect("there is one for each bit that is set");
            subtree = subtree.behind(left);
            full >>= 1;
        }
        self.peaks.push(subtree.sha256);
        self.lines += 1 << added.level;
    }

    /// Returns the root: one digest for all lines.
    pub(crate) fn root(&self) -> Digest {
        // The last subtrees are the smallest, and RFC 9162 splits at the largest power of two: fold from the right.
        let mut peaks = self.peaks.iter().rev().copied();
        let Some(last) = peaks.next() else {
            return Digest::of(b"");
        };
        peaks.fold(last, |right, left| node(left, right))
    }
}

impl Subtree {
    /// Returns the subtree that is the line with this digest.
    pub(crate) fn leaf(line: Digest) -> Self {
        Self {
            level: 0,
            sha256: digest(&[&[LEAF], &line.0]),
        }
    }

    /// Returns the subtree of twice the size that has `left` as its left half and this one as its right half.
    pub(crate) fn behind(self, left: Digest) -> Self {
        Self {
            level: self.level + 1,
            sha256: node(left, self.sha256),
        }
    }
}

fn node(left: Digest, right: Digest) -> Digest {
    digest(&[&[NODE], &left.0, &right.0])
}

fn digest(parts: &[&[u8]]) -> Digest {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(part);
    }
    context.finish().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The recursive definition of RFC 9162, against which the incremental computation is checked.
    fn by_definition(lines: &[Digest]) -> Digest {
        match lines {
            [] => Digest::of(b""),
            [line] => Subtree::leaf(*line).sha256,
            _ => {
                let left = lines.len().next_power_of_two() / 2;
                let (left, right) = lines.split_at(left);
                node(by_definition(left), by_definition(right))
            }
        }
    }

    fn lines(count: u8) -> Vec<Digest> {
        (0..count).map(|n| Digest::of(&[n])).collect()
    }

    #[test]
    fn root_is_that_of_rfc_9162() {
        for count in 0..70 {
            let lines = lines(count);
            let mut tree = Tree::default();
            for line in &lines {
                tree.push(*line);
            }
            assert_eq!(tree.root(), by_definition(&lines), "{count}");
            let again = Tree::of(tree.lines(), tree.peaks().to_vec());
            assert_eq!(again, Some(tree));
        }
    }

    #[test]
    fn aligned_subtree_replaces_its_lines() {
        let lines = lines(7);
        let leaf = |line: usize| Subtree::leaf(lines[line]);
        let pair = leaf(3).behind(leaf(2).sha256);
        let mut tree = Tree::default();
        tree.push(lines[0]);
        assert!(!tree.push_subtree(pair), "it would begin at an odd line");
        tree.push(lines[1]);
        assert!(tree.push_subtree(pair));
        for line in &lines[4..] {
            tree.push(*line);
        }
        assert_eq!(tree.root(), by_definition(&lines));
    }
}
