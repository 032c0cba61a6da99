//! Applies the organisation's own rules: a refusal, an exception or nothing.

use super::refusal::Refusal;
use super::target::TargetScope;
use crate::http::proxy_status::ProxyErrorType;
use crate::identity::EnforcementMode;
use crate::rules::{PolicyRules, RuleAction, RuleMatch, RuleQuery, blocked_by};

/// Why a request goes on that robots.txt was not asked about.
pub(crate) const EXCEPTION: &str = "policy-exception";

/// Why a request is refused that robots.txt was not asked about.
pub(crate) const REFUSAL: &str = "policy-rule";

/// The rule that decides about what is for so much of an origin.
pub(crate) fn find(
    rules: &PolicyRules,
    asked: RuleQuery<'_>,
    scope: TargetScope,
    mode: EnforcementMode,
) -> Option<RuleMatch> {
    let found = match scope {
        TargetScope::RobotsTxt => None,
        TargetScope::Path | TargetScope::Server => rules.find(asked),
        TargetScope::EveryPath => rules.find_for_every_request(asked),
        TargetScope::Bypass => rules.find_for_host(asked),
    }?;
    let is_observed = found.rule.action == RuleAction::Refuse && mode == EnforcementMode::Observe;
    let law = if is_observed {
        behind(rules, asked, scope)
    } else {
        None
    };
    law.or(Some(found))
}

/// The rule of the law behind one that is only observed, which lifts no other.
fn behind(rules: &PolicyRules, asked: RuleQuery<'_>, scope: TargetScope) -> Option<RuleMatch> {
    let found = rules.find_beyond_refusals(asked, |found| match scope {
        TargetScope::RobotsTxt => false,
        TargetScope::Path | TargetScope::Server => rules.matches(found, asked),
        TargetScope::EveryPath => {
            found.rule.action == RuleAction::RefuseLegally || found.rule.is_for_every_request()
        }
        TargetScope::Bypass => found.rule.is_for_every_request(),
    });
    found.filter(|found| found.rule.action == RuleAction::RefuseLegally)
}

/// The refusal that a rule demands; none if it is an exception.
pub(crate) fn refusal(found: &RuleMatch) -> Option<Refusal> {
    let (status, phrase) = match found.rule.action {
        RuleAction::Allow => return None,
        RuleAction::Refuse => (403, "Refused by policy"),
        RuleAction::RefuseLegally => (451, "Unavailable for legal reasons"),
    };
    let is_legal = found.rule.action == RuleAction::RefuseLegally;
    let owner = found.rule.owner.as_deref().filter(|_| is_legal);
    Some(Refusal {
        // The law asks nobody whether he only looks on.
        is_policy: !is_legal,
        blocked_by: owner.and_then(blocked_by).map(Into::into),
        ..Refusal::new(
            status,
            phrase,
            ProxyErrorType::HttpRequestDenied,
            REFUSAL,
            found.to_string(),
        )
    })
}
