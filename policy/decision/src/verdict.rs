//! The result of a decision.

use std::time::Duration;

use wayleave_robots_txt::Origin;
use wayleave_usage_preferences::PurposeSet;

use crate::preference_finding::PreferenceFinding;
use crate::reason::Reason;
use crate::refusal::Refusal;
use crate::robots::AccessFinding;
use crate::robots_answer::RobotsAnswer;
use crate::rules::RuleMatch;
use crate::subresource::{Subresource, SubresourceKind};
use crate::target::{ResolvedTarget, TargetScope};

/// The result of a decision, with everything that the log, the API and the response contain about it.
#[derive(Debug)]
pub struct Verdict {
    /// Findings that apply whether the request is forwarded or refused.
    pub facts: DecisionFacts,
    /// The permission to forward the request, or its refusal.
    pub result: Result<Permit, Refusal>,
}

/// Permission to forward a request to its origin.
#[derive(Debug)]
pub struct Permit {
    /// The target that was decided about.
    pub resolved: ResolvedTarget,
    /// The reason, from a closed set.
    pub reason: Reason,
    /// The refusal that is only observed, if there is one.
    pub observed: Option<Refusal>,
    /// The purposes that the crawler declares.
    pub purposes: PurposeSet,
    /// The kind that the response has to be of, if the request passed robots.txt as a page's subresource.
    pub subresource: Option<SubresourceKind>,
    /// The answer of the copy that decides, if the request is for robots.txt itself.
    pub robots_answer: Option<RobotsAnswer>,
}

/// Findings of a decision.
#[derive(Clone, Debug, Default)]
pub struct DecisionFacts {
    /// The origin of the target.
    pub origin: Option<Origin>,
    /// The part of the origin that the request is for.
    pub scope: Option<TargetScope>,
    /// The finding of robots.txt, if the decision depended on it.
    pub finding: Option<AccessFinding>,
    /// Statements about use, for a crawler with purposes.
    pub preferences: Option<PreferenceFinding>,
    /// The rule of the organisation that matched.
    pub rule: Option<RuleMatch>,
    /// The subresource as which the request passed robots.txt.
    pub subresource: Option<Subresource>,
    /// The time that robots.txt demands between requests.
    pub delay: Option<Duration>,
}
