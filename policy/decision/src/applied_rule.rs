//! Applying the organisation's rules: a refusal, an exception or nothing.

use crate::crawler::EnforcementMode;
use crate::reason::Reason;
use crate::refusal::Refusal;
use crate::rules::{PolicyRules, RuleAction, RuleMatch, RuleQuery, blocked_by};
use crate::target::TargetScope;

/// Returns the rule that decides about a target.
pub(crate) fn find(
    rules: &PolicyRules,
    query: RuleQuery<'_>,
    scope: TargetScope,
    mode: EnforcementMode,
) -> Option<RuleMatch> {
    let found = match scope {
        // Reading it is always allowed (RFC 9309 section 2.2.2).
        TargetScope::RobotsTxt => None,
        TargetScope::Path | TargetScope::Server => rules.find(query),
        TargetScope::EveryPath => rules.find_for_every_request(query),
        TargetScope::Bypass => rules.find_for_host(query),
    }?;
    let is_observed = found.rule.action == RuleAction::Refuse && mode == EnforcementMode::Observe;
    let legal = if is_observed { find_legal_refusal(rules, query, scope) } else { None };
    legal.or(Some(found))
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
        // Of requests that are not seen, a refusal of any refuses all; an exception has to be for all.
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
            let blocked_by = found.rule.owner.as_deref().and_then(blocked_by);
            Some(Refusal {
                status: 451,
                title: "Unavailable for legal reasons",
                blocked_by: blocked_by.map(Into::into),
                // Mode "observe" is no excuse before the law.
                is_policy: false,
                ..refusal
            })
        }
    }
}
