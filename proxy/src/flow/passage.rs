//! Leave to go on.

use super::exchange::Refusal;
use super::resolve::Resolved;
use crate::politeness::Turn;

/// Leave to go on to the origin.
pub(super) struct Passage<'a> {
    pub(super) resolved: Resolved,
    pub(super) reason: &'static str,
    /// Why it would have been refused if that were not only observed.
    pub(super) observed: Option<Refusal>,
    /// Its turn at the origin, unless it goes out of turn because that is only observed.
    pub(super) turn: Option<Turn<'a>>,
}
