//! An index of the rules of one large group for one dialect.
//!
//! What stands before the first `*` of a rule, or all of it, is its prefix. The prefixes are
//! sorted, each knowing the longest other one it starts with, so one binary search finds all
//! that a path starts with, and the most specific literal rule among them. Rules with `*` hang on
//! their prefix in the order in which they would decide, so the search ends at the first that
//! matches; most are passed over because the path lacks a pair of octets they need.

use std::cmp::Reverse;

use super::found::Match;
use super::octets::Octets;
use super::pattern::{Path, Pattern, head, matches};
use super::search::Budget;

/// The rules of a group as one dialect reads them.
#[derive(Clone, Debug)]
pub(super) struct Index {
    pub(super) takes_first: bool,
    /// Where the group ends in the stream.
    pub(super) end: usize,
    /// The literal parts of all patterns, which start with their prefixes.
    pub(super) literals: Box<[u8]>,
    /// Where the parts of a pattern end, counted from its start.
    pub(super) stars: Box<[u32]>,
    /// So many octets all prefixes start with.
    pub(super) common: usize,
    /// The next octets of each prefix, to sort by; parallel to `prefixes`.
    pub(super) heads: Box<[u64]>,
    pub(super) prefixes: Box<[Prefix]>,
    /// What each rule with `*` needs; parallel to `wilds`.
    pub(super) needs: Box<[Octets]>,
    pub(super) wilds: Box<[Wild]>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Prefix {
    pub(super) start: u32,
    pub(super) length: u32,
    /// The longest prefix that this one starts with.
    pub(super) parent: Option<u32>,
    /// What decides among the literal rules of this prefix and those it starts with.
    pub(super) literal: Option<Match>,
    /// The rules with `*` that go on from here, the one that would decide before the others first.
    pub(super) wilds: (u32, u32),
    /// The longest prefix with such rules that this one starts with, perhaps itself.
    pub(super) wild_prefix: Option<u32>,
}

/// A rule with `*` or `$`: where its pattern is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wild {
    pub(super) start: u32,
    pub(super) length: u32,
    pub(super) stars: (u32, u32),
    pub(super) anchored: bool,
    pub(super) rule: Match,
}

impl Wild {
    pub(super) fn pattern<'a>(&self, literals: &'a [u8], stars: &'a [u32]) -> Pattern<'a> {
        Pattern {
            literals: &literals[self.start as usize..][..self.length as usize],
            stars: &stars[self.stars.0 as usize..self.stars.1 as usize],
            anchored: self.anchored,
        }
    }
}

impl Index {
    pub(super) fn end(&self) -> usize {
        self.end
    }

    /// The rule of this group that decides about a path.
    pub(super) fn find(&self, path: &Path<'_>, budget: &mut Budget) -> Option<Match> {
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
        path: &Path<'_>,
        budget: &mut Budget,
        best: Option<Match>,
    ) -> Option<Match> {
        const FEW: usize = 3;
        let range = prefix.wilds.0 as usize..prefix.wilds.1 as usize;
        let wilds = &self.wilds[range.clone()];
        let octets = match wilds.len() {
            ..=FEW => Octets::ALL,
            _ => path.held(),
        };
        for (wild, needs) in wilds.iter().zip(&self.needs[range]) {
            if !octets.holds(*needs) {
                continue;
            }
            if best.is_some_and(|best| !self.decides_before(wild.rule, best)) {
                break;
            }
            let pattern = wild.pattern(&self.literals, &self.stars);
            if matches(pattern.parts(), pattern.anchored, path.octets(), budget) {
                return Some(wild.rule);
            }
        }
        best
    }

    /// The longest prefix that the path starts with.
    fn longest_prefix(&self, path: &Path<'_>) -> Option<&Prefix> {
        let text = path.octets();
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
        let common = common_octets(self.text(prefix), text);
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

    fn decides_before(&self, rule: Match, other: Match) -> bool {
        decides(self.takes_first, rule) < decides(self.takes_first, other)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.literals.len()
            + size_of_val(&*self.stars)
            + size_of_val(&*self.heads)
            + size_of_val(&*self.prefixes)
            + size_of_val(&*self.needs)
            + size_of_val(&*self.wilds)
    }
}

/// How many octets two texts start with alike.
pub(super) fn common_octets(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

/// Sorts what decides first to the front.
pub(super) fn decides(takes_first: bool, rule: Match) -> Reverse<(u64, Match)> {
    Reverse((if takes_first { rule.early() } else { 0 }, rule))
}
