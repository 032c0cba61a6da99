//! Leave to go on.

use super::exchange::Refusal;
use super::resolve::Resolved;

/// Leave to go on to the origin.
#[derive(Debug)]
pub(super) struct Passage {
    pub(super) resolved: Resolved,
    pub(super) reason: &'static str,
    /// Why it would have been refused if that were not only observed.
    pub(super) observed: Option<Refusal>,
}
