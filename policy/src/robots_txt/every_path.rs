//! Whether some path is disallowed: the question of whoever will not see the paths.

use std::collections::{HashMap, HashSet};

use super::choose::Choice;
use super::compiled::Compiled;
use super::found::{Found, Match};
use super::pattern::{Body, Language, Patterns};
use super::reader::Reader;
use super::search::Budget;
use super::stream::{ALLOW, Event};
use crate::{Dialect, ProductToken};

impl<'a> Compiled<'a> {
    /// The first rule by which some path could be disallowed.
    ///
    /// A rule counts unless it is plain that it never decides: no path matches it, or an allow rule for the very same
    /// paths wins against it. Where that would take more thought, it counts: who sees no paths must be sure.
    pub(super) fn find_disallow(
        self,
        reader: Reader,
        tokens: &[ProductToken],
        budget: &mut Budget,
    ) -> Found {
        let Some(choice) = self.choice(reader, tokens) else {
            return Found::NoGroup;
        };
        let disallow = if reader.takes_first {
            self.first_not_behind_an_allow(reader, choice, budget)
        } else {
            self.first_not_outweighed(reader, choice, budget)
        };
        if budget.is_spent() {
            return Found::TooCostly;
        }
        disallow.map_or(Found::NoRule, Found::Rule)
    }

    /// Where the first rule that matches decides: an allow rule hides the same paths behind it, and one for all paths
    /// hides everything.
    fn first_not_behind_an_allow(
        self,
        reader: Reader,
        choice: Choice<'_>,
        budget: &mut Budget,
    ) -> Option<Match> {
        let mut allowed = HashSet::new();
        for (event, language, _) in self.rules_that_match(reader, choice, budget) {
            if event.kind() == ALLOW {
                if language.is_every_path() {
                    return None;
                }
                allowed.insert(language);
            } else if !allowed.contains(&language) {
                return Some(Match::new(0, false, event.offset));
            }
        }
        None
    }

    /// Where the most specific rule decides: an allow rule wins that is as specific.
    fn first_not_outweighed(
        self,
        reader: Reader,
        choice: Choice<'_>,
        budget: &mut Budget,
    ) -> Option<Match> {
        let rules: Vec<_> = self.rules_that_match(reader, choice, budget).collect();
        let mut allowed: HashMap<&Language, usize> = HashMap::new();
        for (event, language, octets) in &rules {
            if event.kind() == ALLOW {
                let most = allowed.entry(language).or_default();
                *most = (*most).max(*octets);
            }
        }
        let counts = |(event, language, octets): &&(Event<'_>, Language, usize)| {
            let most = allowed.get(language);
            event.kind() != ALLOW && most.is_none_or(|most| most < octets)
        };
        let (event, _, octets) = rules.iter().find(counts)?;
        Some(Match::new(*octets, false, event.offset))
    }

    /// The rules of the groups chosen that some path matches, in the order of the file, with what they match and how
    /// specific they are.
    fn rules_that_match(
        self,
        reader: Reader,
        choice: Choice<'a>,
        budget: &'a mut Budget,
    ) -> impl Iterator<Item = (Event<'a>, Language, usize)> + 'a {
        let events = self.chosen_events(reader, choice);
        let rules = events.filter(move |event| event.is_rule() && event.tag & reader.sees != 0);
        // Once nothing is left, nothing more that is found counts.
        let rules = rules.take_while(move |event| {
            budget.spend_on_keeping(event.payload.len());
            !budget.is_spent()
        });
        let mut patterns = Patterns::default();
        rules.filter_map(move |event| {
            let (value, _) = event.rule();
            let body = Body::of(value, reader.dialect);
            let pattern = patterns.take_apart(body, reader.dialect);
            let (octets, language) = (pattern.octets(body, reader.dialect), pattern.language());
            // An empty value is no rule, or to Google's parser one that decides nothing.
            let is_rule = !value.is_empty() && (octets > 0 || reader.dialect != Dialect::Google);
            (is_rule && language.has_a_path()).then_some((event, language, octets))
        })
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
