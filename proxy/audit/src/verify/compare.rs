//! Compares a verdict with the decision that a line of the log records.

use wayleave_decision::{
    AccessFinding, PreferenceFinding, Reason, RequestOutcome, RuleMatch, Verdict,
};
use wayleave_decision_log::{DecisionRecord, FindingRecord, RuleRecord, UsePreference};
use wayleave_record::Word;
use wayleave_robots_txt::excerpt;
use wayleave_usage_preferences::{Preference, PreferenceStage};

/// Compares everything that the verdict rests on, and the outcome.
///
/// # Errors
///
/// Returns a description of each difference.
pub(super) fn compare(verdict: &Verdict, decision: &DecisionRecord) -> Result<(), String> {
    let facts = &verdict.facts;
    compare_rules(facts.rule.as_ref(), decision.policy.as_ref())?;
    compare_findings(facts.finding.as_ref(), decision.finding.as_ref())?;
    compare_preferences(facts.preferences.as_ref(), decision)?;
    if facts.subresource.is_none() && decision.subresource.is_some() {
        return Err("the request does not pass robots.txt as a page's subresource".to_owned());
    }
    check_outcome(verdict, decision)
}

fn compare_rules(derived: Option<&RuleMatch>, said: Option<&RuleRecord>) -> Result<(), String> {
    let is_said = match (derived, said) {
        (Some(derived), Some(said)) => {
            derived.number == said.number && Word::Known(derived.rule.action) == said.action
        }
        (None, None) => true,
        _ => false,
    };
    if is_said {
        return Ok(());
    }
    let name = |number: Option<usize>| {
        number.map_or("none".to_owned(), |number| format!("[[rule]] {number}"))
    };
    let derived = derived.map(|rule| rule.number);
    let said = said.map(|rule| rule.number);
    Err(format!("the rule is {}, not {}", name(derived), name(said)))
}

fn compare_findings(
    derived: Option<&AccessFinding>,
    said: Option<&FindingRecord>,
) -> Result<(), String> {
    let (derived, said) = match (derived, said) {
        (Some(derived), Some(said)) => (derived, said),
        (None, Some(_)) => return Err("the decision is not based on robots.txt".to_owned()),
        // A robots.txt that the line does not name had not come in time, and then there is no finding.
        (_, None) => return Ok(()),
    };
    let same = |member: &str, derived: &str, said: &str| {
        if derived == said { Ok(()) } else { Err(format!("{member} is {derived:?}, not {said:?}")) }
    };
    let line = |line: Option<u32>| line.map_or("none".to_owned(), |line| line.to_string());
    same("verdict", derived.verdict.as_str(), &said.verdict)?;
    same("basis", derived.basis.as_str(), &said.basis)?;
    same("dialect", derived.dialect.as_str(), &said.dialect)?;
    same("line", &line(derived.line), &line(said.line))?;
    same(
        "rule",
        derived.rule.as_deref().unwrap_or_default(),
        // Earlier versions recorded long rules in full.
        &excerpt(said.rule.as_deref().unwrap_or_default()),
    )
}

/// Returns whether a line has preferences about use, and none of them from the response, which is not archived.
pub(super) fn has_derivable_preferences(decision: &DecisionRecord) -> bool {
    !decision.preferences.is_empty()
        && !decision.preferences.iter().any(|said| {
            let stage = said.stage.as_ref().and_then(Word::known);
            matches!(stage, Some(PreferenceStage::Head | PreferenceStage::Body))
        })
}

fn compare_preferences(
    derived: Option<&PreferenceFinding>,
    decision: &DecisionRecord,
) -> Result<(), String> {
    let said = &decision.preferences;
    if !said.is_empty() && !has_derivable_preferences(decision) {
        return Ok(());
    }
    let derived = derived.map_or(&[][..], |derived| derived.judgement.by_purpose.as_slice());
    if derived.len() != said.len() {
        return Err("the preferences about use are for other purposes".to_owned());
    }
    for (derived, said) in derived.iter().map(UsePreference::from).zip(said) {
        if !derived.agrees_with(said) {
            return Err(format!(
                "the preference for {} is {} by {:?}, not {} by {:?}",
                said.purpose,
                derived.preference,
                derived.statement,
                said.preference,
                said.statement
            ));
        }
    }
    Ok(())
}

/// Checks that the recorded outcome follows from the verdict. After a permission a request may still come too soon, fail, or be
/// refused because of its response.
fn check_outcome(verdict: &Verdict, decision: &DecisionRecord) -> Result<(), String> {
    let reason = &decision.reason;
    // A word of another version follows from nothing that is known here.
    let Some(outcome) = decision.request_outcome() else {
        return Err(does_not_follow(decision));
    };
    let follows = match &verdict.result {
        // Its reason states its purpose, and its pace may refuse it.
        _ if decision.is_own_request() => {
            verdict.result.is_err() == (*reason == Reason::PolicyRule)
        }
        Err(refusal) => {
            let is_so_called = match outcome {
                // Earlier versions called a name that leads nowhere refused, too. A gateway shows responses to requests that it
                // was refused, or never asked about.
                RequestOutcome::Refused => !decision.reached_origin || decision.via.is_some(),
                RequestOutcome::Failed => refusal.is_failure,
                _ => false,
            };
            is_so_called && *reason == refusal.reason
        }
        Ok(permit) => match outcome {
            RequestOutcome::Forwarded | RequestOutcome::Tunnelled => {
                let is_known = *reason == permit.reason || *reason == Reason::Payment;
                let is_blind = permit.resolved.is_blind();
                permit.observed.is_none()
                    && is_known
                    && is_blind == (outcome == RequestOutcome::Tunnelled)
            }
            // If the request was decided before under other settings, a refusal that was observed then counts, too.
            RequestOutcome::Observed => {
                let observed = permit.observed.as_ref();
                let is_observed = observed.is_none_or(|refusal| *reason == refusal.reason);
                decision.is_observed() && is_observed
            }
            RequestOutcome::Refused if *reason == Reason::SubresourceType => {
                permit.subresource.is_some() && decision.reached_origin
            }
            RequestOutcome::Refused => may_refuse_after_permission(decision),
            RequestOutcome::Failed => true,
        },
    };
    if follows { Ok(()) } else { Err(does_not_follow(decision)) }
}

/// Checks the outcome of a request that was not decided about.
///
/// # Errors
///
/// Returns an error if only a decision leads to that outcome.
pub(super) fn check_undecided(decision: &DecisionRecord) -> Result<(), String> {
    let follows = match decision.request_outcome() {
        Some(RequestOutcome::Refused) => {
            let reason = decision.reason.known();
            !reason.is_some_and(|reason| is_by_documents(reason) || is_by_configuration(reason))
        }
        outcome => outcome == Some(RequestOutcome::Failed),
    };
    if follows { Ok(()) } else { Err(does_not_follow(decision)) }
}

fn does_not_follow(DecisionRecord { outcome, reason, .. }: &DecisionRecord) -> String {
    format!("{outcome} for {reason} does not follow from the decision")
}

/// Returns whether a request that was permitted may have been refused for the recorded reason.
pub(crate) fn may_refuse_after_permission(decision: &DecisionRecord) -> bool {
    let Some(reason) = decision.reason.known() else {
        return true;
    };
    match reason {
        // The response stated it.
        Reason::Preference => decision.reached_origin,
        Reason::TooCostly => {
            let mut said = decision.preferences.iter();
            decision.reached_origin
                && said.any(|preference| preference.preference == Preference::Refuse)
        }
        reason => !is_by_documents(reason) && !is_by_configuration(reason) && !is_objection(reason),
    }
}

/// Returns whether a decision has this reason by robots.txt, or by other documents.
fn is_by_documents(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Rule
            | Reason::NoMatchingRule
            | Reason::NoMatchingGroup
            | Reason::RobotsTxtItself
            | Reason::Unavailable
            | Reason::RedirectLost
            | Reason::Unreachable
            | Reason::TooCostly
            | Reason::Preference
    )
}

/// Returns whether a decision has this reason by `[[rule]]` or by `[https]`.
fn is_by_configuration(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::PolicyRule | Reason::PolicyException | Reason::Bypass | Reason::HttpsRefused
    )
}

/// Returns whether it is an objection to the crawler.
fn is_objection(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Unidentified
            | Reason::ForeignToken
            | Reason::PurposeNotDeclared
            | Reason::TokenMissing
            | Reason::WrongPassword
            | Reason::WrongCertificate
            | Reason::PasswordChecks
    )
}
