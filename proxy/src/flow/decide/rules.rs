//! Applies the organisation's own rules: a refusal, an exception or nothing.

use super::refusal::Refusal;
use crate::http::proxy_status::ErrorType;
use crate::rules::{Action, Match, blocked_by};

/// Why a request goes on that robots.txt was not asked about.
pub(crate) const EXCEPTION: &str = "policy-exception";

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
            "policy-rule",
            found.to_string(),
        )
    })
}
