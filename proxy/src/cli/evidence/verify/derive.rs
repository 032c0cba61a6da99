//! Derives a decision again from the documents and the configuration that its line names.

use serde::Serialize;
use wayleave_evidence::chain::link;
use wayleave_evidence::verify::CheckedMaterials;

use super::documents::ParsedDocuments;
use super::robots::ParsedRobots;
use super::settings::PastSettingsCache;
use crate::decide::rederive::asked_for;
use crate::decision_log::DecisionRecord;

/// The number of derived decisions by what they rest on. A decision may rest on several.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct DerivedCounts {
    pub(super) robots: u64,
    pub(super) rules: u64,
    pub(super) identities: u64,
    pub(super) preferences: u64,
    /// Decisions that rest on nothing in the export: malformed requests, requests that came too fast, and failures.
    pub(super) others: u64,
}

/// Derives decisions again.
pub(super) struct DecisionDeriver {
    materials: CheckedMaterials,
    robots: ParsedRobots,
    documents: ParsedDocuments,
    settings: PastSettingsCache,
}

impl DecisionDeriver {
    pub(super) fn new(materials: CheckedMaterials) -> Self {
        Self {
            materials,
            robots: ParsedRobots::new(),
            documents: ParsedDocuments::new(),
            settings: PastSettingsCache::default(),
        }
    }

    /// Derives the decision of `line` again, and counts it.
    ///
    /// # Errors
    ///
    /// Returns a description of what comes out differently, or is missing.
    pub(super) fn derive(
        &mut self,
        decision: &DecisionRecord,
        line: &[u8],
        derived: &mut DerivedCounts,
    ) -> Result<(), String> {
        let mut is_derived = false;
        let digest = link::config_digest(line).ok_or("the line names no configuration")?;
        let settings = self.settings.get(digest, &self.materials)?;
        if settings.identity(decision)? {
            derived.identities += 1;
            is_derived = true;
        }
        let was_heard = decision.finding.is_some() || decision.policy.is_some();
        if was_heard || decision.reason == "bypass" {
            let (target, scope) = asked_for(decision)?;
            if settings.rules(decision, (&target, scope))? {
                derived.rules += 1;
                is_derived = true;
            }
            if let Some(finding) = &decision.finding {
                self.robots.derive(decision, finding, &self.materials)?;
                derived.robots += 1;
                is_derived = true;
                let access = self.robots.access(finding, &self.materials)?;
                let read = |seen: &_| self.documents.read(seen, &self.materials);
                if settings.preferences(decision, &access, read)? {
                    derived.preferences += 1;
                }
            }
        }
        derived.others += u64::from(!is_derived);
        check_outcome(decision)
    }
}

/// Checks that the recorded outcome follows from the recorded decision.
fn check_outcome(decision: &DecisionRecord) -> Result<(), String> {
    let finding = decision.finding.as_ref();
    let verdict = finding.map(|finding| &*finding.verdict);
    let basis = finding.map(|finding| &*finding.basis);
    let (outcome, reason) = (&*decision.outcome, &*decision.reason);
    let is_exception = decision.policy.as_ref().is_some_and(|rule| rule.action == "allow");
    let is_by_robots_txt = matches!(
        reason,
        "rule"
            | "no-matching-rule"
            | "no-matching-group"
            | "unavailable"
            | "redirect-lost"
            | "unreachable"
            | "robots-txt-itself"
            | "too-costly"
    );
    let follows = match outcome {
        _ if decision.crawler == "wayleave" => true,
        "forwarded" | "tunnelled" => match reason {
            "policy-exception" => is_exception,
            "bypass" => decision.scope.as_deref() == Some("bypass"),
            _ => verdict == Some("allow") && basis == Some(reason),
        },
        "observed" => decision.mode == "observe",
        // A usage preference, rather than a rule, took too long to match.
        "refused" if reason == "too-costly" && verdict == Some("allow") => {
            let mut said = decision.preferences.iter();
            said.any(|it| it.preference == "refuse")
        }
        "refused" if is_by_robots_txt => match verdict {
            Some(verdict) => verdict == "disallow" && basis == Some(reason),
            // robots.txt was not fetched in time.
            None => reason == "unreachable",
        },
        "failed" if decision.failed_before_sending() => {
            basis == Some("unreachable") && matches!(reason, "dns_error" | "dns_timeout")
        }
        "refused" if reason == "policy-rule" => decision.policy.is_some() && !is_exception,
        _ => true,
    };
    if follows {
        Ok(())
    } else {
        Err(format!("{outcome} for {reason} does not follow from what was decided"))
    }
}
