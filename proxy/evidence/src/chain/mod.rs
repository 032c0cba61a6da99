//! The hash chain of the decision log: each line carries the SHA-256 of the line before it, and each file ends in a signed
//! head. `proxy/evidence/README.md` describes the format for those who check it without this program.
//!
//! ```text
//!  hash_chain    appends lines to a file and signs its heads
//!    ├─ head     the signature over all lines of a file so far
//!    │   └─ handover  the change of the key that signs
//!    ├─ event    lines that are not decisions
//!    ├─ link     the member by which a line names the line before it
//!    └─ tree     one digest for all lines, which can be checked without having all of them
//! ```

pub mod event;
pub mod handover;
mod hash_chain;
pub mod head;
pub mod link;
pub mod tree;

pub use self::hash_chain::{HashChain, hand_over_head};
pub use self::head::{LogCount, TreeHead};
pub use self::tree::MerkleTree;
