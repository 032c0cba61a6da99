//! The results of the last drill.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

/// The part of the proxy that must refuse a drill's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DrillFamily {
    /// Nothing: it may be fetched, or the drill would prove nothing.
    Control,
    Robots,
    Rule,
    Preference,
    Pace,
    Internal,
    Identity,
}

impl DrillFamily {
    pub(crate) const ALL: [Self; 7] = [
        Self::Control,
        Self::Robots,
        Self::Rule,
        Self::Preference,
        Self::Pace,
        Self::Internal,
        Self::Identity,
    ];

    /// Returns the word in metrics, the log and the API.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Robots => "robots",
            Self::Rule => "rule",
            Self::Preference => "preference",
            Self::Pace => "pace",
            Self::Internal => "internal",
            Self::Identity => "identity",
        }
    }
}

/// The result of a drill for one family. Of several answers the last of these counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DrillResult {
    /// The configuration does not refuse it.
    NotEnforced,
    Right,
    /// Nothing could be learned.
    Failed,
    Wrong,
}

impl DrillResult {
    pub(crate) const ALL: [Self; 4] = [Self::NotEnforced, Self::Right, Self::Failed, Self::Wrong];

    /// Returns the word in metrics and the API.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::NotEnforced => "not-enforced",
            Self::Right => "right",
            Self::Failed => "failed",
            Self::Wrong => "wrong",
        }
    }
}

/// The verdict about one answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProbeVerdict {
    pub(super) result: DrillResult,
    /// The reason, unless it is right.
    pub(super) text: Option<String>,
}

impl ProbeVerdict {
    pub(super) const RIGHT: Self = Self { result: DrillResult::Right, text: None };

    pub(super) fn not_enforced(why: String) -> Self {
        Self { result: DrillResult::NotEnforced, text: Some(why) }
    }

    pub(super) fn wrong(text: String) -> Self {
        Self { result: DrillResult::Wrong, text: Some(text) }
    }

    pub(super) fn failed(text: String) -> Self {
        Self { result: DrillResult::Failed, text: Some(text) }
    }
}

/// The result for one family.
#[derive(Clone, Debug)]
pub(crate) struct FamilyResult {
    pub(crate) family: DrillFamily,
    pub(crate) result: DrillResult,
    /// The reason, unless it is right.
    pub(crate) text: Option<String>,
}

/// The result of one drill.
#[derive(Clone, Debug)]
pub(crate) struct DrillReport {
    pub(crate) at: SystemTime,
    pub(crate) families: Vec<FamilyResult>,
}

impl DrillReport {
    pub(super) fn new(at: SystemTime) -> Self {
        // Without an internal address to ask for, nothing is asked.
        let all = DrillFamily::ALL.map(|family| FamilyResult {
            family,
            result: DrillResult::NotEnforced,
            text: (family == DrillFamily::Internal)
                .then(|| "upstream.allow_private lists every address that is asked for".to_owned()),
        });
        Self { at, families: all.into() }
    }

    pub(super) fn add(&mut self, family: DrillFamily, verdict: ProbeVerdict) {
        let found = self.families.iter_mut().find(|result| result.family == family);
        let result = found.expect("it has all families");
        let is_unknown = result.result == DrillResult::NotEnforced && result.text.is_none();
        if verdict.result > result.result || is_unknown {
            (result.result, result.text) = (verdict.result, verdict.text);
        }
    }
}

/// The result of the last drill, if there was one under the configuration in effect.
#[derive(Debug, Default)]
pub(crate) struct DrillStatus(RwLock<Option<Arc<DrillReport>>>);

impl DrillStatus {
    pub(crate) fn last(&self) -> Option<Arc<DrillReport>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set(&self, report: DrillReport) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(report));
    }

    pub(super) fn clear(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(result: DrillResult, text: &str) -> ProbeVerdict {
        ProbeVerdict { result, text: Some(text.to_owned()) }
    }

    #[test]
    fn the_worst_answer_of_a_family_counts() {
        let mut report = DrillReport::new(SystemTime::UNIX_EPOCH);
        for (result, text) in [
            (DrillResult::Right, ""),
            (DrillResult::NotEnforced, "not this"),
            (DrillResult::Wrong, "a page was fetched"),
            (DrillResult::Failed, "nor this"),
        ] {
            report.add(DrillFamily::Robots, verdict(result, text));
        }
        report.add(DrillFamily::Rule, verdict(DrillResult::NotEnforced, "an exception"));
        let of = |family| report.families.iter().find(|it| it.family == family).unwrap();
        let robots = of(DrillFamily::Robots);
        assert_eq!(robots.result, DrillResult::Wrong);
        assert_eq!(robots.text.as_deref(), Some("a page was fetched"));
        assert_eq!(of(DrillFamily::Rule).text.as_deref(), Some("an exception"));
    }
}
