//! Whether some path is disallowed: the question of whoever will not see the paths.

use std::collections::{HashMap, HashSet};

use super::budget::Budget;
use super::groups::choice::Choice;
use super::groups::semantics::Semantics;
use super::matched_rule::{Answer, MatchedRule};
use super::pattern::{Pattern, Patterns, Value};
use super::statements::event::{ALLOW, Event};
use super::statements::stored::Statements;
use crate::ProductToken;

impl<'a> Statements<'a> {
    /// The first rule by which some path could be disallowed.
    ///
    /// A rule counts unless it is plain that it never decides: no path matches it, or an allow rule for the very same
    /// paths wins against it. Where that would take more thought, it counts: who sees no paths must be sure.
    pub(super) fn find_disallow(
        self,
        semantics: Semantics,
        tokens: &[ProductToken],
        budget: &mut Budget,
    ) -> Answer {
        let Some(choice) = self.choice(semantics, tokens) else {
            return Answer::NoGroup;
        };
        let disallow = if semantics.takes_first {
            self.first_not_behind_an_allow(semantics, choice, budget)
        } else {
            self.first_not_outweighed(semantics, choice, budget)
        };
        if budget.is_spent() {
            return Answer::TooCostly;
        }
        disallow.map_or(Answer::NoRule, Answer::Rule)
    }

    /// Where the first rule that matches decides: an allow rule hides the same paths behind it, and one for all paths
    /// hides everything.
    fn first_not_behind_an_allow(
        self,
        semantics: Semantics,
        choice: Choice<'_>,
        budget: &mut Budget,
    ) -> Option<MatchedRule> {
        let mut allowed = HashSet::new();
        for (event, language, _) in self.rules_that_match(semantics, choice, budget) {
            if event.kind() == ALLOW {
                if language.is_every_path() {
                    return None;
                }
                allowed.insert(language);
            } else if !allowed.contains(&language) {
                return Some(MatchedRule::new(0, false, event.offset));
            }
        }
        None
    }

    /// Where the most specific rule decides: an allow rule wins that is as specific.
    fn first_not_outweighed(
        self,
        semantics: Semantics,
        choice: Choice<'_>,
        budget: &mut Budget,
    ) -> Option<MatchedRule> {
        let rules: Vec<_> = self.rules_that_match(semantics, choice, budget).collect();
        let mut allowed: HashMap<&Language, usize> = HashMap::new();
        for (event, language, length) in &rules {
            if event.kind() == ALLOW {
                let most = allowed.entry(language).or_default();
                *most = (*most).max(*length);
            }
        }
        let counts = |(event, language, length): &&(Event<'_>, Language, usize)| {
            let most = allowed.get(language);
            event.kind() != ALLOW && most.is_none_or(|most| most < length)
        };
        let (event, _, length) = rules.iter().find(counts)?;
        Some(MatchedRule::new(*length, false, event.offset))
    }

    /// The rules of the groups chosen that some path matches, in the order of the file, with what they match and how
    /// specific they are.
    fn rules_that_match(
        self,
        semantics: Semantics,
        choice: Choice<'a>,
        budget: &'a mut Budget,
    ) -> impl Iterator<Item = (Event<'a>, Language, usize)> + 'a {
        let events = self.chosen_events(semantics, choice);
        let rules = events.filter(move |event| event.is_rule() && event.tag & semantics.sees != 0);
        // Once nothing is left, nothing more that is found counts.
        let rules = rules.take_while(move |event| budget.spend_on_keeping(event.payload.len()));
        let mut patterns = Patterns::default();
        rules.filter_map(move |event| {
            let (value, _) = event.rule();
            // An empty value is no rule, or to Google's parser one that decides nothing.
            if value.is_empty() {
                return None;
            }
            let value = Value::read(value, semantics);
            let pattern = patterns.take_apart(value, semantics);
            has_a_path(pattern)
                .then(|| (event, Language::of(pattern), value.specificity(semantics)))
        })
    }
}

/// The set of paths that a pattern matches: the same for `/a` and `/a*`. Two that differ may still hold the same paths.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Language {
    literals: Vec<u8>,
    stars: Vec<u32>,
    anchored: bool,
}

impl Language {
    /// What the pattern matches, whatever its length.
    fn of(pattern: Pattern<'_>) -> Self {
        let mut stars = pattern.stars;
        if !pattern.anchored {
            // A star at an open end matches nothing more.
            while let [before @ .., last] = stars
                && *last as usize == pattern.literals.len()
            {
                stars = before;
            }
        }
        Self {
            literals: pattern.literals.into(),
            stars: stars.into(),
            anchored: pattern.anchored,
        }
    }

    /// Whether every path is in it.
    fn is_every_path(&self) -> bool {
        !self.anchored && self.stars.is_empty() && matches!(&*self.literals, b"" | b"/")
    }
}

/// Whether a pattern matches any path. Every path begins with `/`.
fn has_a_path(pattern: Pattern<'_>) -> bool {
    match pattern.literals[..pattern.prefix_length()] {
        [first, ..] => first == b'/',
        [] => !pattern.stars.is_empty() || !pattern.anchored,
    }
}

#[cfg(test)]
mod tests {
    use crate::{AccessResult, Dialect, ProductToken, RobotsTxt, decide_every_path};

    /// The line of the rule by which `ExampleBot` may not fetch every path.
    fn forbidding(rules: &str, dialect: Dialect) -> Option<u32> {
        let access = AccessResult::Successful(RobotsTxt::parse(rules.as_bytes()));
        let tokens = [ProductToken::new("ExampleBot").unwrap()];
        decide_every_path(&access, dialect, &tokens).line()
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
            (
                "User-agent: *\nDisallow: /\n\nUser-agent: ExampleBot\nDisallow:\n",
                None,
            ),
            (
                "User-agent: *\nDisallow:\n\nUser-agent: ExampleBot\nDisallow: /x\n",
                Some(5),
            ),
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
            ("User-agent: *\nDisallow: *x$\n", Rfc9309, Some(2)),
            ("User-agent: *\nDisallow: *x$\n", Koster1996, None),
            ("User-agent: *\nDisallow: $\n", Rfc9309, None),
        ] {
            assert_eq!(forbidding(rules, dialect), line, "{dialect}: {rules:?}");
        }
    }

    #[test]
    fn what_is_no_file_is_judged_as_for_one_path() {
        let verdict = |access: &AccessResult, dialect| {
            let decision = decide_every_path(access, dialect, &[]);
            (decision.verdict().as_str(), decision.reason().as_str())
        };
        let forbidden = AccessResult::Unavailable { status: 403 };
        assert_eq!(
            verdict(&forbidden, Dialect::Rfc9309),
            ("allow", "unavailable")
        );
        assert_eq!(
            verdict(&forbidden, Dialect::Koster1996),
            ("disallow", "unavailable")
        );
        assert_eq!(
            verdict(&forbidden, Dialect::Strictest),
            ("disallow", "unavailable")
        );
        let unreachable = AccessResult::Unreachable;
        assert_eq!(
            verdict(&unreachable, Dialect::Rfc9309),
            ("disallow", "unreachable")
        );
    }
}
