//! Builds an index: compiles and sorts the rules of a group.

use std::cmp::Reverse;

use super::super::budget::Budget;
use super::super::byte_pairs::BytePairs;
use super::super::groups::semantics::Semantics;
use super::super::head::head;
use super::super::pattern::{Patterns, Value};
use super::super::statements::stored::Stored;
use super::super::statements::{Form, Statement};
use super::{Index, Prefix, Rule};
use crate::Dialect;

/// Builds an index of the rules from a statement to the end of its group; `None` if the budget does not cover it.
// Rarely called: inlined, its variables would slow down every search.
#[inline(never)]
pub(crate) fn build(
    stored: &Stored,
    semantics: &Semantics,
    start: usize,
    budget: &mut Budget,
) -> Option<Index> {
    let mut rules = Rules {
        semantics,
        patterns: Patterns::default(),
        all: Vec::new(),
    };
    let mut end = start;
    for statement in &stored.statements[start..] {
        if semantics.ends_at(statement) {
            break;
        }
        if semantics.sees_rule(statement) {
            let value = stored.text(end);
            // This decision searches the group without an index; a later one may afford it.
            if !budget.spend_on_index(value.len(), statement.form == Form::Plain) {
                return None;
            }
            rules.push(statement, value, end);
        }
        end += 1;
    }
    rules.sort();
    Some(rules.index(end))
}

struct Rules<'a> {
    semantics: &'a Semantics,
    patterns: Patterns,
    all: Vec<Rule>,
}

impl Rules<'_> {
    fn push(&mut self, statement: &Statement, value: &[u8], at: usize) {
        let semantics = self.semantics;
        // An empty value is no rule, except in Google's parser, where it is one that decides nothing.
        if value.is_empty() && semantics.dialect != Dialect::Google {
            return;
        }
        for value in Value::all(value, statement.is_allow(), semantics) {
            let length = value.specificity(semantics.dialect);
            let place = self.patterns.push(value, semantics);
            let pattern = self.patterns.at(place);
            self.all.push(Rule {
                rule: semantics.matched(length, statement, at),
                pattern: place,
                needs: BytePairs::of_all(pattern.parts()),
            });
        }
    }

    /// Sorts rules by prefix, then by which decides first.
    fn sort(&mut self) {
        let Self { patterns, all, .. } = self;
        let prefix = |rule: &Rule| patterns.at(rule.pattern).prefix();
        all.sort_unstable_by(|one, other| {
            let texts = prefix(one).cmp(prefix(other));
            // Within a prefix the rule that decides first comes first, so a search can stop at the first match.
            texts.then_with(|| Reverse(one.rule).cmp(&Reverse(other.rule)))
        });
    }

    /// Collects the rules of each prefix, and links each prefix to the longest other one that it starts with.
    fn index(mut self, end: usize) -> Index {
        self.patterns.shrink_to_fit();
        let text = |rule: usize| self.patterns.at(self.all[rule].pattern).prefix();
        let small =
            |number: usize| u32::try_from(number).expect("far less than the limit of a file");
        let mut prefixes: Vec<Prefix> = Vec::new();
        for rule in 0..self.all.len() {
            let first = |prefix: &Prefix| text(prefix.rules.0 as usize);
            if let Some(last) = prefixes.last_mut().filter(|it| first(it) == text(rule)) {
                last.rules.1 = small(rule + 1);
                continue;
            }
            // In sorted order, any prefix that this one starts with is the previous one or one of its ancestors.
            let mut parent = prefixes.len().checked_sub(1);
            while let Some(above) =
                parent.filter(|it| !text(rule).starts_with(first(&prefixes[*it])))
            {
                parent = prefixes[above].parent.map(|parent| parent as usize);
            }
            let (start, _) = self.all[rule].pattern.literals;
            prefixes.push(Prefix {
                head: head(text(rule)).swap_bytes(),
                text: (start, start + small(text(rule).len())),
                parent: parent.map(small),
                rules: (small(rule), small(rule + 1)),
            });
        }
        Index {
            end,
            patterns: self.patterns,
            prefixes: prefixes.into(),
            rules: self.all.into(),
        }
    }
}
