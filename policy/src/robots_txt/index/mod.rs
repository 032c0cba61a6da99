//! An index of the rules of one large group for one dialect.
//!
//! What stands before the first `*` of a rule, or all of it, is its prefix. The prefixes are
//! sorted, each knowing the longest other one it starts with, so one binary search finds all
//! that a path starts with, and the most specific literal rule among them. Rules with `*` hang on
//! their prefix in the order in which they would decide, so the search ends at the first that
//! matches; most are passed over because the path lacks a pair of bytes they need.

pub(super) mod build;
pub(super) mod cache;

use std::cmp::Reverse;

use super::budget::Budget;
use super::byte_pairs::BytePairs;
use super::head::head;
use super::matched_rule::MatchedRule;
use super::path_form::PathForm;
use super::pattern::{Pattern, matches};

/// The rules of a group as one dialect reads them.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    pub(crate) takes_first: bool,
    /// Where the group ends in the stream.
    pub(crate) end: usize,
    /// The literal parts of all patterns, which start with their prefixes.
    pub(crate) literals: Box<[u8]>,
    /// Where the parts of a pattern end, counted from its start.
    pub(crate) stars: Box<[u32]>,
    /// So many bytes all prefixes start with.
    pub(crate) common: usize,
    /// The next bytes of each prefix, to sort by; parallel to `prefixes`.
    pub(crate) heads: Box<[u64]>,
    pub(crate) prefixes: Box<[Prefix]>,
    /// What each rule with `*` needs; parallel to `wilds`.
    pub(crate) needs: Box<[BytePairs]>,
    pub(crate) wilds: Box<[Wild]>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Prefix {
    pub(crate) start: u32,
    pub(crate) length: u32,
    /// The longest prefix that this one starts with.
    pub(crate) parent: Option<u32>,
    /// What decides among the literal rules of this prefix and those it starts with.
    pub(crate) literal: Option<MatchedRule>,
    /// The rules with `*` that go on from here, the one that would decide before the others first.
    pub(crate) wilds: (u32, u32),
    /// The longest prefix with such rules that this one starts with, perhaps itself.
    pub(crate) wild_prefix: Option<u32>,
}

/// A rule with `*` or `$`: where its pattern is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wild {
    pub(crate) start: u32,
    pub(crate) length: u32,
    pub(crate) stars: (u32, u32),
    pub(crate) anchored: bool,
    pub(crate) rule: MatchedRule,
}

impl Wild {
    pub(crate) fn pattern<'a>(&self, literals: &'a [u8], stars: &'a [u32]) -> Pattern<'a> {
        Pattern {
            literals: &literals[self.start as usize..][..self.length as usize],
            stars: &stars[self.stars.0 as usize..self.stars.1 as usize],
            anchored: self.anchored,
        }
    }
}

impl Index {
    /// The rule of this group that decides about a path.
    pub(crate) fn find(&self, path: &PathForm<'_>, budget: &mut Budget) -> Option<MatchedRule> {
        let longest = self.longest_prefix(path)?;
        let mut best = longest.literal;
        let mut next = longest.wild_prefix;
        while let Some(index) = next {
            let prefix = &self.prefixes[index as usize];
            best = self.find_wild(prefix, path, budget, best);
            next = prefix
                .parent
                .and_then(|parent| self.prefixes[parent as usize].wild_prefix);
        }
        best
    }

    /// The rule that decides among `best` and the rules with `*` of one prefix.
    fn find_wild(
        &self,
        prefix: &Prefix,
        path: &PathForm<'_>,
        budget: &mut Budget,
        best: Option<MatchedRule>,
    ) -> Option<MatchedRule> {
        const FEW: usize = 3;
        let range = prefix.wilds.0 as usize..prefix.wilds.1 as usize;
        let wilds = &self.wilds[range.clone()];
        let held = match wilds.len() {
            ..=FEW => BytePairs::ALL,
            _ => path.held(),
        };
        for (wild, needs) in wilds.iter().zip(&self.needs[range]) {
            if !held.holds(*needs) {
                continue;
            }
            if best.is_some_and(|best| !self.decides_before(wild.rule, best)) {
                break;
            }
            let pattern = wild.pattern(&self.literals, &self.stars);
            if matches(pattern.parts(), pattern.anchored, path.bytes(), budget) {
                return Some(wild.rule);
            }
        }
        best
    }

    /// The longest prefix that the path starts with.
    fn longest_prefix(&self, path: &PathForm<'_>) -> Option<&Prefix> {
        let text = path.bytes();
        let rest = text.strip_prefix(self.common_text()?)?;
        let path_head = head(rest).swap_bytes();
        let after = self.heads.partition_point(|&head| head < path_head);
        let same = match self.heads[after..].first() {
            Some(&head) if head == path_head => {
                self.heads[after..].partition_point(|&head| head == path_head)
            }
            _ => 0,
        };
        let after = after
            + self.prefixes[after..after + same]
                .partition_point(|prefix| self.text(prefix) <= text);
        let mut prefix = self.prefixes.get(after.checked_sub(1)?)?;
        // All that this prefix starts with agrees with the path as far as this one does.
        let common = common_length(self.text(prefix), text);
        while prefix.length as usize > common {
            prefix = &self.prefixes[prefix.parent? as usize];
        }
        Some(prefix)
    }

    fn common_text(&self) -> Option<&[u8]> {
        Some(&self.text(self.prefixes.first()?)[..self.common])
    }

    fn text(&self, prefix: &Prefix) -> &[u8] {
        &self.literals[prefix.start as usize..][..prefix.length as usize]
    }

    fn decides_before(&self, rule: MatchedRule, other: MatchedRule) -> bool {
        decides(self.takes_first, rule) < decides(self.takes_first, other)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.literals.len()
            + size_of_val(&*self.stars)
            + size_of_val(&*self.heads)
            + size_of_val(&*self.prefixes)
            + size_of_val(&*self.needs)
            + size_of_val(&*self.wilds)
    }
}

/// How many bytes two texts start with alike.
pub(crate) fn common_length(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

/// Sorts what decides first to the front.
pub(crate) fn decides(takes_first: bool, rule: MatchedRule) -> Reverse<(u64, MatchedRule)> {
    Reverse((if takes_first { rule.early() } else { 0 }, rule))
}
