//! The lines of a robots.txt that count for a decision, with the effect of each.
//!
//! The rule that matches does not always decide: a preference, a delay or a `[[rule]]` may have. Beside a
//! refusal, "allow" alone would mislead.

use serde::Serialize;
use utoipa::ToSchema;
use wayleave_admission::refusal::is_delay_of_robots_txt;
use wayleave_decision::{Reason, RequestOutcome};
use wayleave_decision_log::DecisionRecord;
use wayleave_record::Word;
use wayleave_robots_txt::AccessVerdict;
use wayleave_usage_preferences::Preference;

/// A line that counts for a decision.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(super) struct MarkedLine {
    /// The line's number, from 1.
    pub(super) line: u32,
    /// `allow` or `disallow` if this line decided, else `overridden`.
    effect: &'static str,
    /// The effect in words, such as `decides: disallow`.
    note: String,
}

/// The rule of robots.txt that matches the request.
#[derive(Clone, Copy, Debug)]
pub(super) struct MatchedLine<'a> {
    pub(super) line: u32,
    /// `allow` or `disallow`.
    pub(super) verdict: &'a Word<AccessVerdict>,
}

/// Returns the lines that count for a decision, as far as the log says which they are.
pub(crate) fn decision_marks(decision: &DecisionRecord) -> impl Serialize {
    let finding = decision.finding.as_ref();
    let matched = finding
        .and_then(|finding| Some(MatchedLine { line: finding.line?, verdict: &finding.verdict }));
    marked_lines(decision, matched, None)
}

/// Returns the lines that count for a decision, in the file's order. `matched`: the rule that matches, if one does; `delay`:
/// the line that asks for the longest delay.
pub(super) fn marked_lines(
    decision: &DecisionRecord,
    matched: Option<MatchedLine<'_>>,
    delay: Option<u32>,
) -> Vec<MarkedLine> {
    let mut marked: Vec<_> = preference_lines(decision).collect();
    let is_by_delay = decision.reason == Reason::CrawlDelay
        && decision.details.as_deref().is_some_and(is_delay_of_robots_txt);
    if let (true, Some(line)) = (is_by_delay, delay) {
        let note = "decides: too soon after the last request".to_owned();
        marked.push(MarkedLine { line, effect: "disallow", note });
    }
    if let Some(matched) = matched {
        marked.push(matched_line(decision, matched));
    }
    marked.sort_by_key(|marked| marked.line);
    marked
}

/// Returns the lines whose statements about use were followed.
fn preference_lines(decision: &DecisionRecord) -> impl Iterator<Item = MarkedLine> {
    let decides = decision.reason == Reason::Preference;
    decision.preferences.iter().filter_map(move |stated| {
        let line = stated.carrier.as_deref()?.strip_prefix("robots.txt:")?.parse().ok()?;
        let purpose = &stated.purpose;
        Some(match stated.preference.known() {
            Some(Preference::Refuse) if decides => {
                let note = format!("decides: {purpose} is refused");
                MarkedLine { line, effect: "disallow", note }
            }
            Some(Preference::Refuse) => {
                let note = format!("refuses {purpose}; overridden");
                MarkedLine { line, effect: "overridden", note }
            }
            _ => MarkedLine { line, effect: "allow", note: format!("allows {purpose}") },
        })
    })
}

fn matched_line(decision: &DecisionRecord, matched: MatchedLine<'_>) -> MarkedLine {
    let MatchedLine { line, verdict } = matched;
    let allows = *verdict == AccessVerdict::Allow;
    let outcome = decision.request_outcome();
    let note = match &decision.policy {
        Some(policy) if decision.is_by_policy_rule() => {
            format!("would have decided: {verdict}; overridden by rule {}", policy.number)
        }
        _ if decision.reason == Reason::Rule || allows && decision.was_let_through() => {
            let effect = if allows { "allow" } else { "disallow" };
            return MarkedLine { line, effect, note: format!("decides: {verdict}") };
        }
        // Something else refused, or let it pass: never "decides: allow" beside a refusal.
        _ => {
            let fate = match outcome {
                Some(RequestOutcome::Observed) => "would be refused",
                Some(RequestOutcome::Tunnelled) => RequestOutcome::Forwarded.as_str(),
                _ => &decision.outcome,
            };
            format!("{verdict}, but {fate}: {}", decision.reason)
        }
    };
    MarkedLine { line, effect: "overridden", note }
}
