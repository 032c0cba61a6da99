//! The names of rules and reasons, as reports have them and filters of decisions take them.

use std::borrow::Cow;

use wayleave_decision::Reason;
use wayleave_record::{DecisionRecord, Word};
use wayleave_usage_preferences::{Preference, PreferenceStage};

/// Returns the name of a `[[rule]]`.
pub(super) fn of_policy(number: usize, reason: Option<&str>) -> String {
    let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
    format!("[[rule]] {number}{reason}")
}

/// Returns the name of a line of an origin's robots.txt.
pub(super) fn of_line(rule: &str, origin: Option<&str>, line: u32) -> String {
    format!("{rule} ({}/robots.txt:{line})", origin.unwrap_or_default())
}

/// Returns the name of a preference, such as `train-ai by content-signal`.
pub(super) fn of_preference(purpose: &str, source: Option<&str>) -> String {
    format!("{purpose} by {}", source.unwrap_or("nothing said"))
}

/// Returns the precedence of a preference that can refuse: refusals by the stage at which they are known, then purposes for
/// which nothing is stated. Lower comes first.
pub(super) fn rank_of_preference(
    preference: &Word<Preference>,
    stage: Option<&Word<PreferenceStage>>,
) -> Option<u8> {
    match preference.known()? {
        Preference::Refuse => Some(match stage.and_then(Word::known) {
            Some(PreferenceStage::Before) | None => 0,
            Some(PreferenceStage::Head) => 1,
            Some(PreferenceStage::Body) => 2,
        }),
        Preference::Unstated => Some(3),
        Preference::Allow => None,
    }
}

/// Returns the name of the rule that decided; the reason if no rule did.
pub fn of_decision(decision: &DecisionRecord) -> Cow<'_, str> {
    let line =
        decision.finding.as_ref().and_then(|found| Some((found.line?, found.rule.as_ref()?)));
    let ranked = decision.preferences.iter().filter_map(|preference| {
        let rank = rank_of_preference(&preference.preference, preference.stage.as_ref())?;
        Some((rank, preference))
    });
    // By the reason: a line may also name a rule of robots.txt that allowed the request.
    let name = match (decision.reason.known(), &decision.policy, line) {
        (Some(Reason::PolicyRule), Some(policy), _) => {
            Some(of_policy(policy.number, policy.reason.as_deref()))
        }
        (Some(Reason::Rule), _, Some((line, rule))) => {
            Some(of_line(rule, decision.origin.as_deref(), line))
        }
        (Some(Reason::Preference), ..) => {
            let deciding = ranked.min_by_key(|(rank, _)| *rank);
            deciding.map(|(_, it)| of_preference(&it.purpose, it.source.as_deref()))
        }
        _ => None,
    };
    name.map_or(Cow::Borrowed(&*decision.reason), Cow::Owned)
}
