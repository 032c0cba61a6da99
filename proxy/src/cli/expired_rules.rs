//! Finds the `[[rule]]`s that have expired, for `wayleave report` and `wayleave config check`.

use std::fmt;
use std::time::SystemTime;

use serde::Serialize;
use wayleave_decision::PolicyRules;

use crate::config::Config;

/// A rule that has no effect any more.
#[derive(Debug, Serialize)]
pub(super) struct ExpiredRule {
    /// The number of the `[[rule]]` in the configuration, counted from 1.
    pub(super) number: usize,
    /// `allow` or `refuse`.
    pub(super) action: &'static str,
    pub(super) owner: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) expired_at: String,
}

impl ExpiredRule {
    /// Returns the reason and the owner.
    pub(super) fn explanation(&self) -> String {
        // Only exceptions to robots.txt must have both.
        let reason = self.reason.as_deref().unwrap_or("no reason");
        let owner = self.owner.as_deref().unwrap_or("nobody");
        format!("{reason} (owner {owner})")
    }
}

impl fmt::Display for ExpiredRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, action, at) = (self.number, self.action, &self.expired_at);
        let explanation = self.explanation();
        write!(
            f,
            "[[rule]] {number} ({action}) has had no effect since it expired at {at}: {explanation}"
        )
    }
}

/// Returns the rules that have expired by `now`.
pub(super) fn find(config: &Config, now: SystemTime) -> Vec<ExpiredRule> {
    let (_, expired) = PolicyRules::new(config.rules.clone()).count(now);
    expired
        .into_iter()
        .map(|found| {
            // Only a rule with an expiry can have expired.
            let expired_at = found.rule.expires_at.unwrap_or(now);
            ExpiredRule {
                number: found.number,
                action: found.rule.action.as_str(),
                owner: found.rule.owner.clone(),
                reason: found.rule.reason.clone(),
                expired_at: humantime::format_rfc3339_seconds(expired_at).to_string(),
            }
        })
        .collect()
}
