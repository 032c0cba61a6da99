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

/// Returns the legal refusal after a plain one that is only observed: observing a refusal must not lift the law.
fn find_legal_refusal(
    rules: &PolicyRules,
    query: RuleQuery<'_>,
    scope: TargetScope,
) -> Option<RuleMatch> {
    let found = rules.find_skipping_plain_refusals(query, |found| match scope {
        TargetScope::RobotsTxt => false,
        TargetScope::Path | TargetScope::Server => rules.matches(found, query),
        // In a blind tunnel, refusing any request refuses all; an exception must apply to all.
        TargetScope::EveryPath => {
            found.rule.action == RuleAction::RefuseLegally || found.rule.applies_to_every_request()
        }
        TargetScope::Bypass => found.rule.applies_to_every_request(),
    });
    found.filter(|found| found.rule.action == RuleAction::RefuseLegally)
}

/// Returns the refusal that a rule demands; `None` if it is an exception.
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

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use wayleave_robots_txt::Target;
    use wayleave_usage_preferences::PurposeSet;

    use super::*;
    use crate::rules::PolicyRule;
    use crate::rules::tests::rule;

    fn found(
        rules: &PolicyRules,
        url: &str,
        scope: TargetScope,
        mode: EnforcementMode,
    ) -> Option<usize> {
        let target = Target::parse(url).unwrap();
        let query = RuleQuery {
            target: &target,
            method: "GET",
            crawler: "news",
            purposes: PurposeSet::NONE,
            now: SystemTime::UNIX_EPOCH,
        };
        find(rules, query, scope, mode).map(|found| found.number)
    }

    #[test]
    fn a_tunnel_obeys_the_rules_for_a_part_and_a_bypass_those_for_all() {
        let rules = PolicyRules::new(vec![
            rule(RuleAction::Refuse, &["part.test"], &["/x"]),
            rule(RuleAction::Refuse, &["whole.test"], &[]),
        ]);
        for (scope, part, whole) in [
            (TargetScope::Path, None, Some(2)),
            (TargetScope::Server, None, Some(2)),
            (TargetScope::RobotsTxt, None, None),
            (TargetScope::EveryPath, Some(1), Some(2)),
            (TargetScope::Bypass, None, Some(2)),
        ] {
            let number = |url| found(&rules, url, scope, EnforcementMode::Enforce);
            let numbers = ["https://part.test/", "https://whole.test/"].map(number);
            assert_eq!(numbers, [part, whole], "{scope:?}");
        }
    }

    #[test]
    fn observing_a_refusal_does_not_lift_the_law() {
        let rules = PolicyRules::new(vec![
            rule(RuleAction::Refuse, &["shop.test"], &[]),
            rule(RuleAction::Allow, &["shop.test"], &["/open"]),
            rule(RuleAction::RefuseLegally, &["shop.test"], &["/x", "/open"]),
            rule(RuleAction::Refuse, &["law.test"], &[]),
            rule(RuleAction::RefuseLegally, &["law.test"], &[]),
            rule(RuleAction::Refuse, &["part.test"], &[]),
            rule(RuleAction::RefuseLegally, &["part.test"], &["/x"]),
        ]);
        for (url, scope, enforced, observed) in [
            ("https://shop.test/a", TargetScope::Path, 1, 1),
            ("https://shop.test/x", TargetScope::Path, 1, 3),
            // The exception is before the law.
            ("https://shop.test/open", TargetScope::Path, 1, 1),
            ("https://shop.test/", TargetScope::EveryPath, 1, 3),
            ("https://law.test/", TargetScope::Bypass, 4, 5),
            ("https://part.test/", TargetScope::EveryPath, 6, 7),
            ("https://part.test/", TargetScope::Bypass, 6, 6),
        ] {
            let numbers = [EnforcementMode::Enforce, EnforcementMode::Observe]
                .map(|mode| found(&rules, url, scope, mode));
            assert_eq!(numbers, [Some(enforced), Some(observed)], "{url} {scope:?}");
        }
    }

    #[test]
    fn a_refusal_by_law_is_451_in_every_mode_and_names_who_blocks() {
        let legal = PolicyRule {
            owner: Some("https://law.test/1".to_owned()),
            ..rule(RuleAction::RefuseLegally, &["shop.test"], &[])
        };
        let [legal, own] = [legal, rule(RuleAction::Refuse, &["shop.test"], &[])]
            .map(|rule| refusal(&RuleMatch { number: 1, rule: rule.into() }).unwrap());
        assert_eq!((legal.status, legal.blocked_by.as_deref()), (451, Some("https://law.test/1")));
        assert_eq!((own.status, own.blocked_by.as_deref()), (403, None));
        assert!(legal.observe_or_refuse(EnforcementMode::Observe).is_err());
        assert!(own.observe_or_refuse(EnforcementMode::Observe).is_ok());
    }
}
