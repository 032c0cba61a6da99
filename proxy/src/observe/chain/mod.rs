//! The chain that the decision log is: each line carries the SHA-256 of the line before, and each file ends in a signed head.
//! `docs/evidence.md` describes the format for whoever checks it without this program.
//!
//! ```text
//!  writer        makes the lines of a file, one after the other
//!    ├─ head     a signature over all lines of a file so far
//!    ├─ event    lines that are not decisions
//!    ├─ link     what a line carries of the line before
//!    └─ tree     one digest for all lines, which can be checked without having all of them
//! ```

pub(crate) mod event;
pub(crate) mod head;
pub(crate) mod link;
pub(crate) mod tree;
mod writer;

pub(crate) use self::head::Head;
pub(crate) use self::tree::Tree;
pub(crate) use self::writer::Chain;
