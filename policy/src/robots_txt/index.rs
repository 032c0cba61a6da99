//! An index of a large group's rules for one dialect, built when first asked.
//!
//! Literal rules are sorted, each knowing the longest other literal it starts with, so the most
//! specific that matches is found by one binary search. Rules with `*` stand in the order in
//! which they would decide, so the search ends at the first that matches; most are passed over
//! because the path lacks a pair of octets they need.

use std::cmp::Reverse;
use std::sync::OnceLock;

use super::pattern::{Path, Pattern, head};
use super::rules::Match;
use super::stream::{ALLOW, Event};
use crate::Dialect;

/// All indexes built so far. Large groups are few, so they hang on one chain.
#[derive(Clone, Debug, Default)]
pub(crate) struct Indexes(OnceLock<Box<Link>>);

#[derive(Clone, Debug)]
struct Link {
    key: (usize, Dialect),
    index: Index,
    next: Indexes,
}

impl Indexes {
    pub(crate) fn get_or_insert_with(
        &self,
        key: (usize, Dialect),
        build: impl Fn() -> Index,
    ) -> &Index {
        let mut links = self;
        loop {
            let link = links.0.get_or_init(|| {
                Box::new(Link {
                    key,
                    index: build(),
                    next: Self::default(),
                })
            });
            if link.key == key {
                return &link.index;
            }
            links = &link.next;
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let mut sum = 0;
        let mut links = self;
        while let Some(link) = links.0.get() {
            sum += size_of::<Link>() + link.index.heap_bytes();
            links = &link.next;
        }
        sum
    }
}

/// The rules of one group as one dialect reads them.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    takes_first: bool,
    /// The texts of all literals.
    texts: Box<[u8]>,
    /// Sorted by text; parallel to `literals`.
    heads: Box<[u64]>,
    literals: Box<[Literal]>,
    /// In the order in which they would decide; parallel to `wilds`.
    needs: Box<[Octets]>,
    wilds: Box<[Wild]>,
}

#[derive(Clone, Copy, Debug)]
struct Literal {
    start: u32,
    length: u32,
    /// The longest literal that this one starts with.
    parent: Option<u32>,
    /// What decides among this rule and those it starts with.
    best: Match,
}

#[derive(Clone, Debug)]
struct Wild {
    pattern: Pattern,
    rule: Match,
}

/// A small set of single octets and pairs, with false positives.
#[derive(Clone, Copy, Debug, Default)]
struct Octets {
    singles: u64,
    pairs: u64,
}

impl Octets {
    fn add(&mut self, text: &[u8]) {
        let mut last = None;
        for &byte in text {
            let single = u32::from(byte).wrapping_mul(0x9E37_79B1) >> 26;
            self.singles |= 1u64 << single;
            if let Some(last) = last {
                self.pairs |= 1u64 << ((single ^ last) & 63);
            }
            last = Some((single << 1 | single >> 5) ^ (single >> 2));
        }
    }

    fn holds(self, other: Self) -> bool {
        other.singles & !self.singles == 0 && other.pairs & !self.pairs == 0
    }
}

impl Index {
    pub(crate) fn new<'a>(dialect: Dialect, events: impl Iterator<Item = Event<'a>>) -> Self {
        let takes_first = matches!(dialect, Dialect::Koster1996 | Dialect::Selfhtml);
        let mut prefixes: Vec<(Vec<u8>, Match)> = Vec::new();
        let mut wilds = Vec::new();
        for event in events.filter(Event::is_rule) {
            let (value, _) = event.rule();
            let allow = event.kind() == ALLOW;
            if value.is_empty() && dialect != Dialect::Google {
                continue;
            }
            let directory = Pattern::of_directory(value);
            let directory = directory.filter(|_| allow && dialect == Dialect::Google);
            for pattern in [Some(Pattern::new(value, dialect)), directory]
                .into_iter()
                .flatten()
            {
                let rule = Match {
                    octets: pattern.octets(),
                    allow,
                    offset: u32::try_from(event.offset).expect("the limit is below 4 GiB"),
                };
                match pattern.as_prefix() {
                    Some(prefix) => prefixes.push((prefix.to_vec(), rule)),
                    None => wilds.push(Wild { pattern, rule }),
                }
            }
        }
        wilds.sort_by_key(|wild| decides_before(takes_first, wild.rule));
        prefixes.sort_by(|(text, rule), (other_text, other)| {
            let order = |rule: &Match| decides_before(takes_first, *rule);
            text.cmp(other_text)
                .then_with(|| order(rule).cmp(&order(other)))
        });
        prefixes.dedup_by(|(text, _), (first, _)| text == first);
        Self::from_sorted(takes_first, &prefixes, wilds)
    }

    fn from_sorted(takes_first: bool, prefixes: &[(Vec<u8>, Match)], wilds: Vec<Wild>) -> Self {
        let mut literals: Vec<Literal> = Vec::with_capacity(prefixes.len());
        let mut texts = Vec::new();
        for (text, rule) in prefixes {
            // The literals this one starts with are the one before and what that starts with.
            let mut parent = literals.len().checked_sub(1).map(|last| last as u32);
            while let Some(index) = parent
                && !text.starts_with(&prefixes[index as usize].0)
            {
                parent = literals[index as usize].parent;
            }
            let inherited = parent.map(|index| literals[index as usize].best);
            let candidates = [Some(*rule), inherited].into_iter().flatten();
            let best = candidates.min_by_key(|rule| decides_before(takes_first, *rule));
            let best = best.unwrap_or(*rule);
            let (start, length) = (texts.len() as u32, text.len() as u32);
            literals.push(Literal {
                start,
                length,
                parent,
                best,
            });
            texts.extend_from_slice(text);
        }
        let needs = wilds.iter().map(|wild| {
            let mut needs = Octets::default();
            wild.pattern.parts().for_each(|part| needs.add(part));
            needs
        });
        Self {
            takes_first,
            heads: prefixes
                .iter()
                .map(|(text, _)| head(text).swap_bytes())
                .collect(),
            needs: needs.collect(),
            texts: texts.into(),
            literals: literals.into(),
            wilds: wilds.into(),
        }
    }

    /// The rule of this group that decides about a path.
    pub(crate) fn find(&self, path: &Path<'_>) -> Option<Match> {
        let literal = self.find_literal(path);
        if self.wilds.is_empty() {
            return literal;
        }
        let mut has = Octets::default();
        has.add(path.octets());
        let limit = literal.map(|rule| decides_before(self.takes_first, rule));
        for (index, needs) in self.needs.iter().enumerate() {
            if !has.holds(*needs) {
                continue;
            }
            let wild = &self.wilds[index];
            if limit.is_some_and(|limit| decides_before(self.takes_first, wild.rule) > limit) {
                break;
            }
            if wild.pattern.matches(path) {
                return Some(wild.rule);
            }
        }
        literal
    }

    fn find_literal(&self, path: &Path<'_>) -> Option<Match> {
        let text = path.octets();
        let path_head = path.head().swap_bytes();
        let after = self.heads.partition_point(|&head| head < path_head);
        let same = self.heads[after..].partition_point(|&head| head == path_head);
        let after = after
            + self.literals[after..after + same]
                .partition_point(|literal| self.text(literal) <= text);
        let mut literal = self.literals.get(after.checked_sub(1)?)?;
        // All that this literal starts with agrees with the path as far as it does itself.
        let common = self
            .text(literal)
            .iter()
            .zip(text)
            .take_while(|(a, b)| a == b)
            .count();
        while literal.length as usize > common {
            literal = &self.literals[literal.parent? as usize];
        }
        Some(literal.best)
    }

    fn text(&self, literal: &Literal) -> &[u8] {
        &self.texts[literal.start as usize..][..literal.length as usize]
    }

    fn heap_bytes(&self) -> usize {
        let patterns: usize = self
            .wilds
            .iter()
            .map(|wild| wild.pattern.heap_bytes())
            .sum();
        patterns
            + size_of_val(&*self.texts)
            + size_of_val(&*self.heads)
            + size_of_val(&*self.literals)
            + size_of_val(&*self.needs)
            + size_of_val(&*self.wilds)
    }
}

/// Sorts what decides first to the front.
fn decides_before(takes_first: bool, rule: Match) -> (Reverse<u32>, bool, u32) {
    if takes_first {
        (Reverse(0), false, rule.offset)
    } else {
        (Reverse(rule.octets), !rule.allow, rule.offset)
    }
}
