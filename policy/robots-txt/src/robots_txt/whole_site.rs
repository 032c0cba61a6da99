//! Decisions about a whole site, for callers that cannot see the paths.

use std::collections::HashMap;

use super::budget::MatchBudget;
use super::groups::choice::GroupChoice;
use super::groups::semantics::DialectSemantics;
use super::matched_rule::{MatchOutcome, MatchedRule};
use super::pattern::{PatternBuffer, RulePattern, RuleValue};
use super::statements::stored::ParsedFile;
use crate::ProductToken;

impl ParsedFile {
    /// Returns the first rule that could disallow some path.
    ///
    /// A rule counts unless it clearly never decides: no path matches it, or an allow rule for exactly the same paths
    /// wins against it. Where that is hard to prove, it counts: a caller that sees no paths has to be sure.
    pub(super) fn find_disallow(
        &self,
        semantics: &DialectSemantics,
        tokens: &[ProductToken],
        budget: &mut MatchBudget,
    ) -> MatchOutcome {
        let Some(choice) = self.choose_group(semantics, tokens) else {
            return MatchOutcome::NoGroup;
        };
        let rules = self.matchable_rules(semantics, choice, budget);
        if budget.is_spent() {
            return MatchOutcome::TooCostly;
        }
        let mut allowed: HashMap<&PatternLanguage, MatchedRule> = HashMap::new();
        let mut everything = None;
        for (language, rule) in rules.iter().filter(|(_, rule)| rule.is_allow()) {
            // Of several allow rules for the same paths only the strongest matters.
            let strongest = allowed.entry(language).or_insert(*rule);
            *strongest = (*strongest).max(*rule);
            // Where order decides, an allow rule for all paths hides everything after it.
            if semantics.first_match_wins && language.matches_every_path() {
                everything = everything.max(Some(*rule));
            }
        }
        let disallow = rules.iter().find(|(language, rule)| {
            let stronger = everything.max(allowed.get(language).copied());
            !rule.is_allow() && Some(*rule) > stronger
        });
        disallow.map_or(MatchOutcome::NoRule, |(_, rule)| MatchOutcome::Rule(*rule))
    }

    /// Returns the rules of the chosen groups that some path matches, in the file's order, with the set of paths each
    /// matches.
    fn matchable_rules(
        &self,
        semantics: &DialectSemantics,
        choice: GroupChoice<'_>,
        budget: &mut MatchBudget,
    ) -> Vec<(PatternLanguage, MatchedRule)> {
        let mut patterns = PatternBuffer::default();
        let mut rules = Vec::new();
        for (at, rule) in self.chosen_statements(semantics, choice) {
            let value = self.text(at);
            // An empty value is no rule or, in Google's parser, one that decides nothing.
            if !semantics.sees_rule(rule) || value.is_empty() {
                continue;
            }
            if !budget.spend_on_keeping(value.len()) {
                break;
            }
            let value = RuleValue::read(value, semantics);
            let pattern = patterns.compile(value, semantics);
            if can_match(pattern) {
                let length = value.specificity(semantics.dialect);
                rules.push((
                    PatternLanguage::of_pattern(pattern),
                    semantics.weigh(length, rule, at),
                ));
            }
        }
        rules
    }
}

/// The set of paths that a pattern matches: the same for `/a` and `/a*`. Different values may still stand for the same
/// set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PatternLanguage {
    literals: Vec<u8>,
    stars: Vec<u32>,
    anchored: bool,
}

impl PatternLanguage {
    /// Returns the paths that a pattern matches, without regard to its length.
    fn of_pattern(pattern: RulePattern<'_>) -> Self {
        let mut stars = pattern.stars.to_vec();
        // A star at an open end matches nothing more.
        let is_at_end =
            |star: &mut u32| !pattern.anchored && *star as usize == pattern.literals.len();
        // `/a*`, `/a**` and `/a` match the same paths.
        while stars.pop_if(is_at_end).is_some() {}
        Self { literals: pattern.literals.into(), stars, anchored: pattern.anchored }
    }

    /// Returns whether every path is in the set.
    fn matches_every_path(&self) -> bool {
        !self.anchored && self.stars.is_empty() && matches!(&*self.literals, b"" | b"/")
    }
}

/// Returns whether a pattern matches any path. Every path begins with `/`.
fn can_match(pattern: RulePattern<'_>) -> bool {
    match pattern.prefix() {
        [first, ..] => *first == b'/',
        [] => !pattern.stars.is_empty() || !pattern.anchored,
    }
}

#[cfg(test)]
mod tests {
    use crate::{AccessResult, Dialect, ProductToken, RobotsTxt, decide_whole_site};

    /// The line of the rule by which `ExampleBot` may not fetch every path.
    fn forbidding(rules: &str, dialect: Dialect) -> Option<u32> {
        let access = AccessResult::Successful(RobotsTxt::parse(rules.as_bytes()));
        let tokens = [ProductToken::new("ExampleBot").unwrap()];
        decide_whole_site(&access, dialect, &tokens).line()
    }

    #[test]
    fn every_rule_that_may_decide_counts() {
        use Dialect::{Google, Koster1996, Rfc9309, Selfhtml, Strictest};
        let all = [Rfc9309, Google, Koster1996, Selfhtml, Strictest];
        for (rules, line) in [
            ("", None),
            ("User-agent: *\nDisallow:\n", None),
            ("User-agent: *\nAllow: /\n", None),
            ("User-agent: *\nDisallow: /\n", Some(2)),
            ("User-agent: *\nAllow: /a\nDisallow: /b\n", Some(3)),
            ("User-agent: Other\nDisallow: /\n", None),
            ("User-agent: *\nDisallow: /\n\nUser-agent: ExampleBot\nDisallow:\n", None),
            ("User-agent: *\nDisallow:\n\nUser-agent: ExampleBot\nDisallow: /x\n", Some(5)),
            ("User-agent: *\nAllow: /x\nDisallow: /x\n", None),
            ("User-agent: *\nDisallow: no-slash\n", None),
            ("User-agent: *\nAllow: /b$\nDisallow: /b\n", Some(3)),
        ] {
            for dialect in all {
                assert_eq!(forbidding(rules, dialect), line, "{dialect}: {rules:?}");
            }
        }
    }

    #[test]
    fn each_dialect_weighs_as_it_does_for_one_path() {
        use Dialect::{Google, Koster1996, Rfc9309, Selfhtml, Strictest};
        let allow_first = "User-agent: *\nAllow: /\nDisallow: /x\n";
        let allow_wins_tie = "User-agent: *\nDisallow: /\nAllow: /\n";
        let wild = "User-agent: *\nDisallow: /a\nAllow: /a*\n";
        for (rules, dialect, line) in [
            (allow_first, Rfc9309, Some(3)),
            (allow_first, Google, Some(3)),
            (allow_first, Koster1996, None),
            (allow_first, Selfhtml, None),
            (allow_first, Strictest, Some(3)),
            (allow_wins_tie, Rfc9309, None),
            (allow_wins_tie, Google, None),
            (allow_wins_tie, Selfhtml, Some(2)),
            (wild, Rfc9309, None),
            (wild, Koster1996, Some(2)),
            ("User-agent: *\nAllow: /\nDisallow: *\n", Rfc9309, Some(3)),
            ("User-agent: *\nDisallow: *x$\n", Rfc9309, Some(2)),
            ("User-agent: *\nDisallow: *x$\n", Koster1996, None),
            ("User-agent: *\nDisallow: $\n", Rfc9309, None),
        ] {
            assert_eq!(forbidding(rules, dialect), line, "{dialect}: {rules:?}");
        }
    }

    #[test]
    fn without_a_file_a_site_is_judged_like_one_path() {
        let verdict = |access: &AccessResult, dialect| {
            let decision = decide_whole_site(access, dialect, &[]);
            (decision.verdict().as_str(), decision.reason().as_str())
        };
        let forbidden = AccessResult::Unavailable { status: 403 };
        assert_eq!(verdict(&forbidden, Dialect::Rfc9309), ("allow", "unavailable"));
        assert_eq!(verdict(&forbidden, Dialect::Koster1996), ("disallow", "unavailable"));
        assert_eq!(verdict(&forbidden, Dialect::Strictest), ("disallow", "unavailable"));
        let unreachable = AccessResult::Unreachable;
        assert_eq!(verdict(&unreachable, Dialect::Rfc9309), ("disallow", "unreachable"));
    }
}
