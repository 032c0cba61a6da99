//! `Passage` and `Judged`: a request that was judged, and the permission to forward it.

use std::sync::Arc;

use super::exchange::{Facts, Refusal};
use super::identify::Identified;
use super::resolve::Resolved;
use super::settings::Settings;
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

/// A request that was judged.
pub(super) struct Judged<'a> {
    /// What held then.
    pub(super) settings: Arc<Settings>,
    pub(super) identified: Identified,
    /// The target if it was understood, else the request target as received.
    pub(super) url: String,
    pub(super) facts: Facts,
    /// `None`: the client left first.
    pub(super) verdict: Option<Result<Passage<'a>, Refusal>>,
}
