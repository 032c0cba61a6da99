//! The results of a drill.

use std::time::SystemTime;

use serde::Serialize;
use wayleave_notation::harmless::escape_controls;

use crate::cli::terminal::pretty_json;

/// The part of the proxy that must refuse a drill's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DrillFamily {
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
    pub(super) const ALL: [Self; 7] = [
        Self::Control,
        Self::Robots,
        Self::Rule,
        Self::Preference,
        Self::Pace,
        Self::Internal,
        Self::Identity,
    ];

    /// Returns whether its requests are refused before a robots.txt is looked for.
    pub(super) fn is_refused_before_robots_txt(self) -> bool {
        matches!(self, Self::Rule | Self::Internal | Self::Identity)
    }

    /// Returns the word in the output.
    pub(super) const fn as_str(self) -> &'static str {
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
pub(super) enum DrillResult {
    /// The configuration does not refuse it.
    NotEnforced,
    Right,
    /// Nothing could be learned.
    Failed,
    Wrong,
}

impl DrillResult {
    pub(super) const ALL: [Self; 4] = [Self::NotEnforced, Self::Right, Self::Failed, Self::Wrong];

    /// Returns the word in the output.
    pub(super) const fn as_str(self) -> &'static str {
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
pub(super) struct FamilyResult {
    pub(super) family: DrillFamily,
    /// The worst of its answers.
    pub(super) verdict: ProbeVerdict,
}

/// The result of one drill.
#[derive(Clone, Debug)]
pub(super) struct DrillReport {
    pub(super) at: SystemTime,
    pub(super) families: Vec<FamilyResult>,
}

impl DrillReport {
    pub(super) fn new(at: SystemTime) -> Self {
        // Without an internal address to ask for, nothing is asked.
        let all = DrillFamily::ALL.map(|family| FamilyResult {
            family,
            verdict: ProbeVerdict {
                result: DrillResult::NotEnforced,
                text: (family == DrillFamily::Internal).then(|| {
                    "upstream.allow_private lists every address that is asked for".to_owned()
                }),
            },
        });
        Self { at, families: all.into() }
    }

    pub(super) fn add(&mut self, family: DrillFamily, verdict: ProbeVerdict) {
        let mut families = self.families.iter_mut();
        let found = families.find(|found| found.family == family).expect("it has all families");
        let known = &mut found.verdict;
        let is_unknown = known.result == DrillResult::NotEnforced && known.text.is_none();
        if verdict.result > known.result || is_unknown {
            *known = verdict;
        }
    }

    /// Returns the worst result of all families.
    pub(super) fn worst(&self) -> DrillResult {
        let results = self.families.iter().map(|found| found.verdict.result);
        results.max().expect("it has all families")
    }

    /// Returns a line for each family.
    pub(super) fn to_text(&self) -> String {
        let line = |found: &FamilyResult| {
            let ProbeVerdict { result, text } = &found.verdict;
            let line = format!("{:<11} {:<12}", found.family.as_str(), result.as_str());
            let text = escape_controls(text.as_deref().unwrap_or_default());
            format!("{line} {text}").trim_end().to_owned() + "\n"
        };
        self.families.iter().map(line).collect()
    }

    pub(super) fn to_json(&self) -> String {
        let families = self.families.iter().map(|found| FamilyJson {
            family: found.family.as_str(),
            result: found.verdict.result.as_str(),
            text: found.verdict.text.as_deref(),
        });
        let at = humantime::format_rfc3339_millis(self.at).to_string();
        pretty_json(&DrillReportJson { at, families: families.collect() })
    }
}

#[derive(Serialize)]
struct DrillReportJson<'a> {
    at: String,
    families: Vec<FamilyJson<'a>>,
}

#[derive(Serialize)]
struct FamilyJson<'a> {
    family: &'static str,
    result: &'static str,
    /// The reason, unless it is right.
    text: Option<&'a str>,
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
        let of = |family| {
            let mut families = report.families.iter();
            &families.find(|found| found.family == family).unwrap().verdict
        };
        let robots = of(DrillFamily::Robots);
        assert_eq!(robots.result, DrillResult::Wrong);
        assert_eq!(robots.text.as_deref(), Some("a page was fetched"));
        assert_eq!(of(DrillFamily::Rule).text.as_deref(), Some("an exception"));
    }
}
