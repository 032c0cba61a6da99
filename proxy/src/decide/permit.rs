//! What was decided: the permission to forward a request or its refusal, and what deciding found out.

use std::time::{Duration, Instant};

use wayleave_robots_txt::Origin;
use wayleave_robots_txt::preferences::Purposes;

use super::preference::Said;
use super::refusal::Refusal;
use super::resolve::{Resolved, Scope};
use crate::observe::decisions::Finding;
use crate::rules::Match;

/// What was decided of a request.
#[derive(Debug)]
pub(crate) struct Decided {
    /// The target if it was understood, else the request target as received.
    pub(crate) url: String,
    pub(crate) facts: Facts,
    pub(crate) verdict: Result<Permit, Refusal>,
}

/// A request may go on to its origin.
#[derive(Debug)]
pub(crate) struct Permit {
    pub(crate) resolved: Resolved,
    pub(crate) reason: &'static str,
    /// Why it would have been refused if that were not only observed.
    pub(crate) observed: Option<Refusal>,
    /// What the crawler fetches for.
    pub(crate) purposes: Purposes,
}

/// What deciding found out, whatever became of the request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) origin: Option<Origin>,
    /// How much of it is asked for.
    pub(crate) scope: Option<Scope>,
    /// What robots.txt says, if it was asked.
    pub(crate) finding: Option<Finding>,
    /// What is said about the use of what is asked for, to a crawler with purposes.
    pub(crate) preferences: Option<Said>,
    /// The organisation's rule that decided.
    pub(crate) rule: Option<Match>,
    /// The time that robots.txt wants between requests.
    pub(crate) delay: Option<Duration>,
    /// The group of robots.txt that gives an unknown client its pace, where that matters.
    pub(crate) group: String,
    /// When deciding began.
    pub(crate) decided_at: Option<Instant>,
    pub(crate) decided_in: Duration,
}
