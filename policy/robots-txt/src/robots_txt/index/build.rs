//! Builds an index: compiles and sorts the rules of a group.

use std::cmp::Reverse;
use std::ops::Range;

use super::super::byte_pairs::BytePairs;
use super::super::groups::semantics::DialectSemantics;
use super::super::head::head;
use super::super::matched_rule::MatchedRule;
use super::super::pattern::{PatternBuffer, PatternRange, RuleValue};
use super::super::statements::stored::ParsedFile;
use super::super::statements::{FileStatement, StatementKind};
use super::{IndexPrefix, IndexedRule, RuleIndex};
use crate::Dialect;

/// Builds an index of the rules of a group, given the range of its statements.
// Rarely called: inlined, its variables would slow down every search.
#[inline(never)]
pub(crate) fn build_index(
    file: &ParsedFile,
    semantics: &DialectSemantics,
    group: Range<usize>,
) -> RuleIndex {
    let mut builder = IndexBuilder {
        semantics,
        patterns: PatternBuffer::default(),
        // A group that gets an index has dozens of rules.
        rules: Vec::with_capacity(64),
    };
    for at in group.clone() {
        let statement = &file.statements[at];
        if semantics.sees_rule(statement) {
            builder.push(statement, file.text(at), at);
        }
    }
    builder.sort();
    builder.index(group.end)
}

struct IndexBuilder<'a> {
    semantics: &'a DialectSemantics,
    patterns: PatternBuffer,
    /// The rules, each with the head of its prefix, which decides most comparisons.
    rules: Vec<(u64, IndexedRule)>,
}

impl IndexBuilder<'_> {
    fn push(&mut self, statement: &FileStatement, value: &[u8], at: usize) {
        let semantics = self.semantics;
        // An empty value is no rule, except in Google's parser, where it is one that decides nothing.
        if value.is_empty() && semantics.dialect != Dialect::Google {
            return;
        }
        if statement.kind() == StatementKind::PlainRule {
            let range = self.patterns.push_plain(value);
            return self.push_rule(semantics.weigh(value.len(), statement, at), range);
        }
        for value in RuleValue::all_meanings(value, statement.is_allow(), semantics) {
            let length = value.specificity(semantics.dialect);
            let range = self.patterns.push(value, semantics);
            self.push_rule(semantics.weigh(length, statement, at), range);
        }
    }

    fn push_rule(&mut self, rule: MatchedRule, range: PatternRange) {
        let pattern = self.patterns.get(range);
        // A path that starts with the prefix has its pairs.
        let required_pairs = BytePairs::of_all(pattern.parts().skip(1));
        let rule = IndexedRule { rule, pattern: range, required_pairs };
        self.rules.push((head(pattern.prefix()).swap_bytes(), rule));
    }

    /// Sorts rules by prefix, then by which decides first.
    fn sort(&mut self) {
        let Self { patterns, rules, .. } = self;
        let prefix = |rule: &IndexedRule| patterns.get(rule.pattern).prefix();
        rules.sort_unstable_by(|(head, one), (other_head, other)| {
            let by_prefix = head.cmp(other_head).then_with(|| prefix(one).cmp(prefix(other)));
            // Within a prefix the rule that decides first comes first, so a search can stop at the first match.
            by_prefix.then_with(|| Reverse(one.rule).cmp(&Reverse(other.rule)))
        });
    }

    /// Collects the rules of each prefix, and links each prefix to the longest other one that it starts with.
    fn index(mut self, end: usize) -> RuleIndex {
        // Indexes are kept for as long as the file.
        self.patterns.shrink_to_fit();
        let small =
            |number: usize| u32::try_from(number).expect("far less than the limit of a file");
        let mut prefixes: Vec<IndexPrefix> = Vec::with_capacity(self.rules.len());
        for (at, &(head, rule)) in self.rules.iter().enumerate() {
            let text = self.patterns.get(rule.pattern).prefix();
            let known = |prefix: &IndexPrefix| self.patterns.literals(prefix.text);
            if let Some(last) =
                prefixes.last_mut().filter(|prefix| prefix.head == head && known(prefix) == text)
            {
                last.rules.1 = small(at + 1);
                continue;
            }
            // In sorted order, any prefix that this one starts with is the previous one or one of its ancestors.
            let mut parent = prefixes.len().checked_sub(1);
            while let Some(above) =
                parent.filter(|above| !text.starts_with(known(&prefixes[*above])))
            {
                parent = prefixes[above].parent.map(|parent| parent as usize);
            }
            let (start, _) = rule.pattern.literals;
            prefixes.push(IndexPrefix {
                head,
                text: (start, start + small(text.len())),
                parent: parent.map(small),
                rules: (small(at), small(at + 1)),
            });
        }
        RuleIndex {
            end,
            patterns: self.patterns,
            prefixes: prefixes.into(),
            rules: self.rules.into_iter().map(|(_, rule)| rule).collect(),
        }
    }
}
