//! Stand-ins for lines that are left out of an export: the roots of as few subtrees as possible.

use serde::{Deserialize, Serialize};

use crate::chain::tree::MerkleSubtree;
use crate::digest::Sha256Digest;

/// The beginning of a stand-in. No line of a log begins like this.
pub(crate) const STANDIN_PREFIX: &[u8] = b"{\"standin\":";

/// A line of an export that stands for 2^`level` lines of the log.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StandIn {
    pub(crate) standin: MerkleSubtree,
}

/// Consecutive lines that are left out.
#[derive(Debug, Default)]
pub(crate) struct OmittedLines {
    /// The subtrees, each with the index of its first line.
    subtrees: Vec<(u64, MerkleSubtree)>,
}

impl OmittedLines {
    /// Leaves out the line with this index (from 0) and digest.
    pub(crate) fn push(&mut self, index: u64, digest: Sha256Digest) {
        self.subtrees.push((index, MerkleSubtree::leaf(digest)));
        // Two neighbours of the same size become one, provided that the left one begins where a subtree of twice the size can.
        while let [.., (left_at, left), (_, right)] = self.subtrees[..]
            && left.level == right.level
            && left_at.is_multiple_of(2 << left.level)
        {
            self.subtrees.truncate(self.subtrees.len() - 2);
            self.subtrees.push((left_at, right.with_left_sibling(left.sha256)));
        }
    }

    /// Returns the stand-ins for the lines left out so far, and starts over.
    pub(crate) fn drain_stand_ins(&mut self) -> Vec<Vec<u8>> {
        let line = |(_, standin)| {
            serde_json::to_vec(&StandIn { standin }).expect("strings and numbers serialise")
        };
        self.subtrees.drain(..).map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::MerkleTree;

    #[test]
    fn root_is_the_same_whatever_is_left_out() {
        let lines: Vec<Sha256Digest> = (0..37).map(|n: u8| Sha256Digest::of(&[n])).collect();
        let mut whole = MerkleTree::default();
        lines.iter().for_each(|line| whole.push(*line));
        for shown in 0..37_usize {
            let mut tree = MerkleTree::default();
            let mut out = OmittedLines::default();
            let mut count = 0;
            let mut take = |tree: &mut MerkleTree, out: &mut OmittedLines| {
                for line in out.drain_stand_ins() {
                    assert!(line.starts_with(STANDIN_PREFIX));
                    let read: StandIn = serde_json::from_slice(&line).unwrap();
                    assert!(tree.push_subtree(read.standin));
                    count += 1;
                }
            };
            for (index, line) in lines.iter().copied().enumerate() {
                if index == shown || index == 36 {
                    take(&mut tree, &mut out);
                    tree.push(line);
                } else {
                    out.push(index as u64, line);
                }
            }
            take(&mut tree, &mut out);
            assert_eq!(tree, whole, "{shown}");
            assert!(count <= 10, "{count} for {shown}");
        }
    }
}
