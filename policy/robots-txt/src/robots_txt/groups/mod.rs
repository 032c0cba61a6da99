//! Groups, and the choice of those that apply to a crawler.

pub(crate) mod agent;
pub(crate) mod choice;
pub(crate) mod semantics;
