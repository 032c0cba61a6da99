//! Counts recent decisions by host, crawler, reason, rule or who sent them.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wayleave_record::DecisionRecord;

use super::report::ReportDimension;

/// The property by which decisions are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = By)]
pub enum RankBy {
    Host,
    Origin,
    Crawler,
    Reason,
    /// The deciding rule together with its origin.
    Rule,
    /// The first product token.
    Token,
    UserAgent,
    /// The client as the log names it.
    Client,
}

impl RankBy {
    /// Returns the dimension of a report that counts the same.
    pub fn dimension(self) -> ReportDimension {
        match self {
            Self::Host => ReportDimension::Host,
            Self::Origin => ReportDimension::Origin,
            Self::Crawler => ReportDimension::Crawler,
            Self::Reason => ReportDimension::Reason,
            Self::Rule => ReportDimension::Rule,
            Self::Token => ReportDimension::Token,
            Self::UserAgent => ReportDimension::UserAgent,
            Self::Client => ReportDimension::Client,
        }
    }
}

/// A value of that property, and the number of decisions that have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Ranked)]
pub struct RankedName {
    pub name: String,
    pub count: u64,
}

/// Returns the `limit` most frequent values; equally frequent ones are in alphabetical order.
pub(super) fn top(
    by: RankBy,
    decisions: impl Iterator<Item = Arc<DecisionRecord>>,
    limit: usize,
) -> Vec<RankedName> {
    let mut counts: HashMap<String, u64> = HashMap::new();
    for decision in decisions {
        if let Some(name) = name(by, &decision) {
            *counts.entry(name).or_default() += 1;
        }
    }
    let mut ranked: Vec<_> =
        counts.into_iter().map(|(name, count)| RankedName { name, count }).collect();
    ranked.sort_unstable_by(|one, other| {
        (other.count.cmp(&one.count)).then_with(|| one.name.cmp(&other.name))
    });
    ranked.truncate(limit);
    ranked
}

fn name(by: RankBy, decision: &DecisionRecord) -> Option<String> {
    match by {
        RankBy::Host => decision.host().map(str::to_owned),
        RankBy::Origin => decision.origin.clone(),
        RankBy::Crawler => Some(decision.crawler.clone().into_owned()),
        RankBy::Reason => Some(decision.reason.to_string()),
        RankBy::Token => decision.tokens.first().cloned(),
        RankBy::UserAgent => decision.user_agent.clone(),
        RankBy::Client => Some(decision.client.to_string()),
        RankBy::Rule => {
            if let Some(policy) = &decision.policy {
                return Some(format!("[[rule]] {}", policy.number));
            }
            let finding = decision.finding.as_ref()?;
            let line = finding.line?;
            let rule = finding.rule.as_deref()?;
            let origin = decision.origin.as_deref()?;
            Some(format!("{rule} ({origin}/robots.txt:{line})"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::decision;
    use super::*;

    #[test]
    fn most_frequent_value_comes_first() {
        let named = |crawler: &'static str| {
            let mut decision = decision();
            decision.crawler = crawler.into();
            Arc::new(decision)
        };
        let decisions = ["b", "c", "a", "c"].map(named);
        let ranked = top(RankBy::Crawler, decisions.into_iter(), 2);
        let names: Vec<_> = ranked.iter().map(|r| (r.name.as_str(), r.count)).collect();
        assert_eq!(names, [("c", 2), ("a", 1)]);
    }

    #[test]
    fn rule_is_named_with_its_line() {
        let ranked = top(RankBy::Rule, [Arc::new(decision())].into_iter(), 9);
        assert_eq!(ranked[0].name, "Disallow: /a (https://[::1]:8443/robots.txt:2)");
    }
}
