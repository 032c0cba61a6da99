//! Groups: whose rules count for a crawler, as a dialect chooses them.

pub(crate) mod agent;
pub(crate) mod choice;
pub(crate) mod semantics;
