//! `Permit` and `Judged`: a request that was judged, and the permission to forward it.

use std::sync::Arc;

use super::identify::Identified;
use super::resolve::Resolved;
use super::settings::Settings;
use crate::flow::exchange::outcome::{Facts, Refusal};
use crate::politeness::Turn;

/// TunnelPermit to go on to the origin.
pub(crate) struct Permit<'a> {
    pub(crate) resolved: Resolved,
    pub(crate) reason: &'static str,
    /// Why it would have been refused if that were not only observed.
    pub(crate) observed: Option<Refusal>,
    /// Its turn at the origin, unless it goes out of turn because that is only observed.
    pub(crate) turn: Option<Turn<'a>>,
}

/// A request that was judged.
pub(crate) struct Judged<'a> {
    /// What held then.
    pub(crate) settings: Arc<Settings>,
    pub(crate) identified: Identified,
    /// The target if it was understood, else the request target as received.
    pub(crate) url: String,
    pub(crate) facts: Facts,
    /// `None`: the client left first.
    pub(crate) verdict: Option<Result<Permit<'a>, Refusal>>,
}
