//! Applies the organisation's own rules: a refusal, an exception or nothing.

use super::refusal::Refusal;
use super::resolve::Scope;
use crate::http::proxy_status::ErrorType;
use crate::identity::Mode;
use crate::rules::{Action, Asked, Match, Rules, blocked_by};

/// Why a request goes on that robots.txt was not asked about.
pub(crate) const EXCEPTION: &str = "policy-exception";

/// Why a request is refused that robots.txt was not asked about.
pub(crate) const REFUSAL: &str = "policy-rule";

/// The rule that decides about what is for so much of an origin.
pub(crate) fn find(rules: &Rules, asked: Asked<'_>, scope: Scope, mode: Mode) -> Option<Match> {
    let found = match scope {
        Scope::RobotsTxt => None,
        Scope::Path | Scope::Server => rules.find(asked),
        Scope::EveryPath => rules.find_for_every_request(asked),
        Scope::Bypass => rules.find_for_host(asked),
    }?;
    let is_observed = found.rule.action == Action::Refuse && mode == Mode::Observe;
    let law = if is_observed {
        behind(rules, asked, scope)
    } else {
        None
    };
    law.or(Some(found))
}

/// The rule of the law behind one that is only observed, which lifts no other.
fn behind(rules: &Rules, asked: Asked<'_>, scope: Scope) -> Option<Match> {
    let found = rules.find_beyond_refusals(asked, |found| match scope {
        Scope::RobotsTxt => false,
        Scope::Path | Scope::Server => rules.is_met(found, asked),
        Scope::EveryPath => {
            found.rule.action == Action::RefuseLegally || found.rule.is_for_every_request()
        }
        Scope::Bypass => found.rule.is_for_every_request(),
    });
    found.filter(|found| found.rule.action == Action::RefuseLegally)
}

/// The refusal that a rule demands; none if it is an exception.
pub(crate) fn refusal(found: &Match) -> Option<Refusal> {
    let (status, phrase) = match found.rule.action {
        Action::Allow => return None,
        Action::Refuse => (403, "Refused by policy"),
        Action::RefuseLegally => (451, "Unavailable for legal reasons"),
    };
    let is_legal = found.rule.action == Action::RefuseLegally;
    let owner = found.rule.owner.as_deref().filter(|_| is_legal);
    Some(Refusal {
        // The law asks nobody whether he only looks on.
        is_policy: !is_legal,
        blocked_by: owner.and_then(blocked_by).map(Into::into),
        ..Refusal::new(
            status,
            phrase,
            ErrorType::HttpRequestDenied,
            REFUSAL,
            found.to_string(),
        )
    })
}
