//! What was decided: the permission to forward a request or its refusal, and what deciding found out.

use std::time::{Duration, Instant};

use wayleave_robots_txt::Origin;
use wayleave_usage_preferences::PurposeSet;

use super::preference::PreferenceDecision;
use super::refusal::Refusal;
use super::target::{ResolvedTarget, TargetScope};
use crate::decision_log::FindingRecord;
use crate::rules::RuleMatch;

/// What was decided of a request.
#[derive(Debug)]
pub(crate) struct DecidedRequest {
    /// The target if it was understood, else the request target as received.
    pub(crate) url: String,
    pub(crate) facts: DecisionFacts,
    pub(crate) verdict: Result<Permit, Refusal>,
}

/// A request may go on to its origin.
#[derive(Debug)]
pub(crate) struct Permit {
    pub(crate) resolved: ResolvedTarget,
    pub(crate) reason: &'static str,
    /// Why it would have been refused if that were not only observed.
    pub(crate) observed: Option<Refusal>,
    /// What the crawler fetches for.
    pub(crate) purposes: PurposeSet,
}

/// What deciding found out, whatever became of the request.
#[derive(Clone, Debug, Default)]
pub(crate) struct DecisionFacts {
    pub(crate) origin: Option<Origin>,
    /// How much of it is asked for.
    pub(crate) scope: Option<TargetScope>,
    /// What robots.txt says, if it was asked.
    pub(crate) finding: Option<FindingRecord>,
    /// What is said about the use of what is asked for, to a crawler with purposes.
    pub(crate) preferences: Option<PreferenceDecision>,
    /// The organisation's rule that decided.
    pub(crate) rule: Option<RuleMatch>,
    /// The time that robots.txt wants between requests.
    pub(crate) delay: Option<Duration>,
    /// The group of robots.txt that gives an unknown client its pace, where that matters.
    pub(crate) group: String,
    /// When deciding began.
    pub(crate) decided_at: Option<Instant>,
    pub(crate) decided_in: Duration,
}
