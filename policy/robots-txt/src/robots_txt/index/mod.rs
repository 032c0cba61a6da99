//! An index of the rules of one large group in one dialect.
//!
//! The prefix of a rule is the text before its first `*`, or all of it. Prefixes are sorted, and each links to the
//! longest other one that it starts with, so one binary search finds all prefixes of a path. The rules of a prefix are
//! stored in the order in which they would decide, so the search ends at the first that matches; most rules with `*`
//! are skipped because the path lacks a byte pair that they require.

pub(super) mod build;

use super::budget::MatchBudget;
use super::byte_pairs::BytePairs;
use super::matched_rule::MatchedRule;
use super::path_form::PathForm;
use super::pattern::{PatternBuffer, PatternRange};

/// The rules of a group in one dialect.
#[derive(Clone, Debug)]
pub(crate) struct RuleIndex {
    /// The index of the statement after the group.
    pub(crate) end: usize,
    patterns: PatternBuffer,
    prefixes: Box<[IndexPrefix]>,
    rules: Box<[IndexedRule]>,
}

#[derive(Clone, Copy, Debug)]
struct IndexPrefix {
    /// The first eight bytes of its text as a big-endian number, which sorts like the text.
    head: u64,
    /// The range of its text among the literals.
    text: (u32, u32),
    /// The longest prefix that this one starts with.
    parent: Option<u32>,
    /// The range of its rules, sorted so that the first match decides.
    rules: (u32, u32),
}

#[derive(Clone, Copy, Debug)]
struct IndexedRule {
    rule: MatchedRule,
    pattern: PatternRange,
    /// The byte pairs of every path that it matches.
    required_pairs: BytePairs,
}

impl RuleIndex {
    /// Returns the rule of this group that decides about a path.
    pub(crate) fn find(
        &self,
        path: &PathForm<'_>,
        budget: &mut MatchBudget,
    ) -> Option<MatchedRule> {
        let head = path.head().swap_bytes();
        let text = path.bytes();
        // The longest prefix of the path, if it has any, is among the last entry at or before it and its ancestors.
        let after = self
            .prefixes
            .partition_point(|prefix| (prefix.head, self.text(prefix)) <= (head, text));
        let mut next = after.checked_sub(1);
        let mut best = None;
        let mut is_ancestor = false;
        while let Some(at) = next {
            let prefix = &self.prefixes[at];
            // A path that starts with a prefix starts with all of its ancestors.
            is_ancestor = is_ancestor || text.starts_with(self.text(prefix));
            if budget.spend(1) && is_ancestor {
                best = self.find_at(prefix, path, budget, best);
            }
            next = prefix.parent.map(|parent| parent as usize);
        }
        best
    }

    /// Returns the deciding rule of `best` and the rules of one prefix, with which the path starts.
    fn find_at(
        &self,
        prefix: &IndexPrefix,
        path: &PathForm<'_>,
        budget: &mut MatchBudget,
        best: Option<MatchedRule>,
    ) -> Option<MatchedRule> {
        // For a few rules, computing the byte pairs of the path costs more than it saves.
        const FEW: usize = 3;
        let rules = &self.rules[prefix.rules.0 as usize..prefix.rules.1 as usize];
        let pairs = match rules.len() {
            ..=FEW => BytePairs::ALL,
            _ => path.byte_pairs(),
        };
        for rule in rules {
            // The rules are sorted, so none that follows decides before `best`.
            if best > Some(rule.rule) || !budget.spend(1) {
                break;
            }
            if !pairs.contains_all(rule.required_pairs) {
                continue;
            }
            let pattern = self.patterns.get(rule.pattern);
            if pattern.is_prefix() || pattern.matches(path.bytes(), budget) {
                return Some(rule.rule);
            }
        }
        best
    }

    fn text(&self, prefix: &IndexPrefix) -> &[u8] {
        self.patterns.literals(prefix.text)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.patterns.heap_bytes() + size_of_val(&*self.prefixes) + size_of_val(&*self.rules)
    }
}

#[cfg(test)]
mod tests {
    use crate::{AccessResult, Dialect, ProductToken, RobotsTxt, UrlPath, decide};

    /// Returns the bytes that decisions for these names add to a file, one after the other.
    fn added(body: &str, names: &[&str]) -> Vec<usize> {
        let robots = RobotsTxt::parse(body.as_bytes());
        let access = AccessResult::Successful(robots.clone());
        let decide_and_measure = |name: &&str| {
            let before = robots.heap_bytes();
            let tokens = [ProductToken::new(name).unwrap()];
            let _ = decide(&access, Dialect::Rfc9309, &tokens, &UrlPath::parse("/x").unwrap());
            robots.heap_bytes() - before
        };
        names.iter().map(decide_and_measure).collect()
    }

    fn rules(count: usize) -> String {
        (0..count).map(|n| format!("Disallow: /{n}\n")).collect()
    }

    #[test]
    fn every_name_of_a_group_shares_its_index() {
        let agents = "User-agent: a\nUser-agent: b\nCrawl-delay: 1\nUser-agent: c\n";
        let body = format!("{agents}{}", rules(100));
        let added = added(&body, &["b", "a", "c", "b", "unknown"]);
        assert!(added[0] > 100);
        assert_eq!(added[1..], [0; 4]);
    }

    #[test]
    fn groups_merged_by_some_dialects_have_separate_indexes() {
        let rules = rules(100);
        for (dialect, body) in [
            (Dialect::Google, format!("User-agent: a\n{rules}Useragent: b\n{rules}Disallow: /x\n")),
            (Dialect::Koster1996, format!("User-agent: a\n\nUser-agent: b\nDisallow: /x\n{rules}")),
        ] {
            let access = AccessResult::Successful(RobotsTxt::parse(body.as_bytes()));
            for (name, expected) in [("a", true), ("b", false), ("a", true)] {
                let tokens = [ProductToken::new(name).unwrap()];
                let decision = decide(&access, dialect, &tokens, &UrlPath::parse("/x").unwrap());
                assert_eq!(decision.verdict().is_allow(), expected, "{name} {dialect}");
            }
        }
    }

    #[test]
    fn groups_beyond_the_allowance_of_a_file_get_no_index() {
        // Only where the indexes would be.
        let body = format!("User-agent: a\n{}", rules(30_000));
        assert_eq!(added(&body, &["a", "a"]), [0, 0]);
        let body = format!("User-agent: a\n{}", rules(10_000));
        assert!(added(&body, &["a"])[0] > 10_000);
        // Nor does another decision build the second one: verdicts would depend on how many were made before.
        let group = |name| format!("User-agent: {name}\n{}", rules(9_000));
        let added = added(&[group("a"), group("b")].concat(), &["b", "a", "b"]);
        assert!(added[0] == 0 && added[1] > 9_000 && added[2] == 0, "{added:?}");
    }

    #[test]
    fn each_kind_of_reader_has_its_own_large_groups() {
        let wild =
            |field: &str| ('a'..='h').map(|c| format!("{field}: /{c}*x\n")).collect::<String>();
        // Only Google's parser reads the line without a colon, where the record of the others goes on.
        let body = format!("User-agent: a\nDisallow: /z\nUser-agent b\n{}", wild("Disallow"));
        let access = AccessResult::Successful(RobotsTxt::parse(body.as_bytes()));
        for (dialect, name, expected) in [
            (Dialect::Google, "a", true),
            (Dialect::Rfc9309, "a", false),
            (Dialect::Google, "b", false),
            (Dialect::Rfc9309, "b", true),
            (Dialect::Google, "a", true),
            (Dialect::Koster1996, "a", true),
            (Dialect::Selfhtml, "a", false),
        ] {
            let tokens = [ProductToken::new(name).unwrap()];
            let decision = decide(&access, dialect, &tokens, &UrlPath::parse("/a-x").unwrap());
            assert_eq!(decision.verdict().is_allow(), expected, "{name} {dialect}");
        }
    }
}
