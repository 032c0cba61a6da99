//! The names of what decides, as reports have them and filters of decisions take them.

use std::borrow::Cow;

use super::record::DecisionRecord;

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
pub(super) fn rank_of_preference(preference: &str, stage: Option<&str>) -> Option<usize> {
    let stages = ["before", "head", "body"];
    match preference {
        "refuse" => Some(stages.iter().position(|it| stage == Some(it)).unwrap_or_default()),
        "unstated" => Some(stages.len()),
        _ => None,
    }
}

/// Returns the name of the rule that decided; the reason if no rule did.
pub(super) fn of_decision(decision: &DecisionRecord) -> Cow<'_, str> {
    let line =
        decision.finding.as_ref().and_then(|found| Some((found.line?, found.rule.as_ref()?)));
    let ranked = decision.preferences.iter().filter_map(|preference| {
        Some((rank_of_preference(&preference.preference, preference.stage.as_deref())?, preference))
    });
    // By the reason: a line may also name a rule of robots.txt that allowed the request.
    let name = match (&*decision.reason, &decision.policy, line) {
        ("policy-rule", Some(policy), _) => {
            Some(of_policy(policy.number, policy.reason.as_deref()))
        }
        ("rule", _, Some((line, rule))) => Some(of_line(rule, decision.origin.as_deref(), line)),
        ("preference", ..) => {
            let deciding = ranked.min_by_key(|(rank, _)| *rank);
            deciding.map(|(_, it)| of_preference(&it.purpose, it.source.as_deref()))
        }
        _ => None,
    };
    name.map_or(Cow::Borrowed(&*decision.reason), Cow::Owned)
}
