//! `Permit` and `Judged`: a request that was judged, and the permission to forward it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use wayleave_policy::Origin;

use super::identify::Identified;
use super::refusal::Refusal;
use super::resolve::Resolved;
use super::settings::Settings;
use crate::http::http1::oddities::Oddities;
use crate::observe::decisions::Finding;
use crate::politeness::Turn;
use crate::rules::Match;

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

/// What deciding found out, whatever became of the request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) origin: Option<Origin>,
    /// What robots.txt says, if it was asked.
    pub(crate) finding: Option<Finding>,
    /// The organisation's rule that decided.
    pub(crate) rule: Option<Match>,
    /// The time that robots.txt wants between requests.
    pub(crate) delay: Option<Duration>,
    /// The group of robots.txt that gives an unknown client its pace, where that matters.
    pub(crate) group: String,
    /// When deciding began.
    pub(crate) decided_at: Option<Instant>,
    pub(crate) decided_in: Duration,
    /// How long it waited for its turn.
    pub(crate) waited: Duration,
    /// What had to be mended of the origin's response.
    pub(crate) oddities: Oddities,
}
