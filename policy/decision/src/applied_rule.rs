//! Applying the organisation's rules: a refusal, an exception or nothing.

use crate::crawler::EnforcementMode;
use crate::reason::Reason;
use crate::refusal::Refusal;
use crate::rules::{PolicyRules, RuleAction, RuleMatch, RuleQuery, blocked_by};
use crate::target::TargetScope;

/// Returns the rule that decides about a target.
pub fn find(
    rules: &PolicyRules,
    query: RuleQuery<'_>,
    scope: TargetScope,
    mode: EnforcementMode,
) -> Option<RuleMatch> {
    let found = match scope {
        TargetScope::RobotsTxt => None,
        TargetScope::Path | TargetScope::Server => rules.find(query),
        TargetScope::EveryPath => rules.find_for_every_request(query),
        TargetScope::Bypass => rules.find_for_host(query),
    }?;
    let is_observed = found.rule.action == RuleAction::Refuse && mode == EnforcementMode::Observe;
    let law = if is_observed { find_legal_refusal(rules, query, scope) } else { None };
    law.or(Some(found))
}

/// Returns the rule of the law after one that is only observed: observing a refusal must not lift the law.
fn find_legal_refusal(
    rules: &PolicyRules,
    query: RuleQuery<'_>,
    scope: TargetScope,
) -> Option<RuleMatch> {
    let found = rules.find_beyond_refusals(query, |found| match scope {
        TargetScope::RobotsTxt => false,
        TargetScope::Path | TargetScope::Server => rules.matches(found, query),
        TargetScope::EveryPath => {
            found.rule.action == RuleAction::RefuseLegally || found.rule.is_for_every_request()
        }
        TargetScope::Bypass => found.rule.is_for_every_request(),
    });
    found.filter(|found| found.rule.action == RuleAction::RefuseLegally)
}

/// Returns the refusal that a rule demands; none if it is an exception.
pub(crate) fn refusal(found: &RuleMatch) -> Option<Refusal> {
    let refusal = Refusal::by_policy(Reason::PolicyRule, found.to_string());
    match found.rule.action {
        RuleAction::Allow => None,
        RuleAction::Refuse => Some(refusal),
        RuleAction::RefuseLegally => {
            let owner = found.rule.owner.as_deref();
            Some(Refusal {
                status: 451,
                title: "Unavailable for legal reasons",
                blocked_by: owner.and_then(blocked_by).map(Into::into),
                // Mode "observe" is no excuse before the law.
                is_policy: false,
                ..refusal
            })
        }
    }
}
