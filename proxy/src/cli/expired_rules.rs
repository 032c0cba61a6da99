//! Finds the `[[rule]]`s that have expired, for `wayleave report` and `wayleave config check`.

use std::fmt;
use std::time::SystemTime;

use serde::Serialize;
use wayleave_config::Config;
use wayleave_decision::PolicyRules;

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
        let number = self.number;
        let action = self.action;
        let at = &self.expired_at;
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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use wayleave_clock::Clock;

    use super::*;

    #[test]
    fn a_clock_that_is_wrong_for_a_minute_ends_no_rule() {
        let text =
            "[[rule]]\naction = \"refuse\"\nhosts = [\"shop.test\"]\nexpires = \"2027-01-01\"\n";
        let config = Config::from_toml("t.toml", text).unwrap();
        let shown = Arc::new(Mutex::new(humantime::parse_rfc3339("2026-12-01T00:00:00Z").unwrap()));
        let calendar = Arc::clone(&shown);
        let clock = Clock::with_calendar(move || *calendar.lock().unwrap());
        let day = Duration::from_hours(24);
        let mut expired = Vec::new();
        for (days, is_back) in [(0, false), (40, false), (40, true), (80, true)] {
            let mut shown = shown.lock().unwrap();
            *shown = if is_back { *shown - day * days } else { *shown + day * days };
            drop(shown);
            expired.push(find(&config, clock.now()).len());
        }
        assert_eq!(expired, [0, 1, 0, 0]);
    }
}
