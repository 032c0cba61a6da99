//! The hash chain of the decision log: each line carries the SHA-256 of the line before it, and each file ends in a signed
//! head. `docs/evidence.md` describes the format for those who check it without this program.
//!
//! ```text
//!  hash_chain    appends lines to a file and signs its heads
//!    ├─ head     the signature over all lines of a file so far
//!    ├─ event    lines that are not decisions
//!    ├─ link     the member by which a line names the line before it
//!    └─ tree     one digest for all lines, which can be checked without having all of them
//! ```

pub(crate) mod event;
mod hash_chain;
pub(crate) mod head;
pub(crate) mod link;
pub(crate) mod tree;

pub(crate) use self::hash_chain::HashChain;
pub(crate) use self::head::TreeHead;
pub(crate) use self::tree::MerkleTree;
