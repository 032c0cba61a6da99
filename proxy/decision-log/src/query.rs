//! Filters of decisions.

use std::time::SystemTime;

use wayleave_decision::RequestOutcome;
use wayleave_record::{AskedVia, DecisionRecord, Word};
use wayleave_robots_txt::Target;

use super::chosen_crawler::ChosenCrawler;
use super::rule_name;

/// A filter of decisions. A member that is `None` or empty matches every decision; words but the owner and rules are compared
/// ignoring ASCII case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DecisionQuery {
    pub crawler: Option<ChosenCrawler>,
    /// The owner of the crawler, as the configuration named it then.
    pub owner: Option<String>,
    /// The outcomes, of which a decision has one.
    pub outcomes: Vec<RequestOutcome>,
    pub reason: Option<String>,
    pub host: Option<String>,
    /// The names of rules, or of reasons for which no rule decides, as reports have them; one of them decided.
    pub rules: Vec<String>,
    /// Text that the URL, the rule, the reason, the details, the id, the client or a token must contain, ignoring ASCII case.
    pub text: Option<String>,
    /// The URL: its origin, and its path and query byte for byte.
    pub url: Option<Target>,
    /// The way in which the request came to be decided, if not by the proxy itself.
    pub via: Option<AskedVia>,
}

impl DecisionQuery {
    /// Returns whether requests with this outcome match.
    pub(super) fn has_outcome(&self, outcome: &Word<RequestOutcome>) -> bool {
        self.outcomes.is_empty() || self.outcomes.iter().any(|wanted| *outcome == *wanted)
    }

    /// Returns whether `decision` matches.
    pub fn matches(&self, decision: &DecisionRecord) -> bool {
        let is = |expected: Option<&str>, value: &str| {
            expected.is_none_or(|expected| expected.eq_ignore_ascii_case(value))
        };
        self.owner.as_deref().is_none_or(|owner| decision.owner.as_deref() == Some(owner))
            && is(self.crawler.as_deref(), &decision.crawler)
            && self.has_outcome(&decision.outcome)
            && is(self.reason.as_deref(), &decision.reason)
            && is(self.host.as_deref(), decision.host().unwrap_or_default())
            && (self.rules.is_empty()
                || self.rules.iter().any(|name| *name == rule_name::of_decision(decision)))
            && self.via.is_none_or(|via| decision.via.as_ref().is_some_and(|word| *word == via))
            && self.text.as_deref().is_none_or(|text| mentions(decision, text))
            && self
                .url
                .as_ref()
                .is_none_or(|url| decision.target().is_ok_and(|found| found == *url))
    }
}

fn mentions(decision: &DecisionRecord, text: &str) -> bool {
    let contains = |value: &str| {
        // Windows cannot be empty, but an empty text is in every value.
        let mut parts = value.as_bytes().windows(text.len().max(1));
        text.is_empty() || parts.any(|part| part.eq_ignore_ascii_case(text.as_bytes()))
    };
    let rule = decision.finding.as_ref().and_then(|found| found.rule.as_deref());
    let explanations = decision.policy.iter().flat_map(|policy| [&policy.reason, &policy.owner]);
    contains(&decision.url)
        || contains(&decision.reason)
        || decision.details.as_deref().is_some_and(contains)
        || explanations.flatten().any(|text| contains(text))
        || rule.is_some_and(contains)
        || decision.tokens.iter().any(|token| contains(token))
        || contains(&decision.client.to_string())
        || contains(&decision.id.to_string())
}

/// A time range, both ends included; an end that is `None` is open.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimeRange {
    pub since: Option<SystemTime>,
    pub until: Option<SystemTime>,
}

impl TimeRange {
    pub(super) fn contains(&self, at: SystemTime) -> bool {
        self.since.is_none_or(|since| at >= since) && self.until.is_none_or(|until| at <= until)
    }
}
