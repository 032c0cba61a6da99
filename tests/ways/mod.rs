//! The ways out of the proxy: from which address, and by whom.

mod parent;
mod programs;
mod source;
