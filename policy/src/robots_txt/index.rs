//! An index of the rules of large groups for one dialect, built when first asked.
//!
//! What stands before the first `*` of a rule, or all of it, is its prefix. The prefixes are
//! sorted, each knowing the longest other one it starts with, so one binary search finds all
//! that a path starts with, and the most specific literal rule among them. Rules with `*` hang on
//! their prefix in the order in which they would decide, so the search ends at the first that
//! matches; most are passed over because the path lacks a pair of octets they need.

use std::cmp::Reverse;
use std::sync::OnceLock;

use super::found::Match;
use super::grams::Grams;
use super::pattern::{Path, Pattern, head};
use super::stream::{ALLOW, Event};
use crate::Dialect;

/// More indexes are not kept for one file. Each stands for a name under which a large group is
/// asked for, and those are few unless somebody makes them up.
const MAX_INDEXES: usize = 32;

/// All indexes built so far, on one chain.
#[derive(Clone, Debug, Default)]
pub(super) struct Indexes(OnceLock<Box<Link>>);

#[derive(Clone, Debug)]
struct Link {
    dialect: Dialect,
    name: Box<[u8]>,
    index: Index,
    next: Indexes,
}

impl Indexes {
    /// The index for the groups that a dialect chooses for a name, in lower case; `None` if there
    /// is no room for it.
    pub(super) fn find_or_build(
        &self,
        dialect: Dialect,
        name: &[u8],
        build: impl Fn() -> Index,
    ) -> Option<&Index> {
        let mut links = self;
        for _ in 0..MAX_INDEXES {
            let link = links.0.get_or_init(|| {
                Box::new(Link {
                    dialect,
                    name: name.into(),
                    index: build(),
                    next: Self::default(),
                })
            });
            if link.dialect == dialect && *link.name == *name {
                return Some(&link.index);
            }
            links = &link.next;
        }
        None
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let mut sum = 0;
        let mut links = self;
        while let Some(link) = links.0.get() {
            sum += size_of::<Link>() + link.name.len() + link.index.heap_bytes();
            links = &link.next;
        }
        sum
    }
}

/// The rules of some groups as one dialect reads them.
#[derive(Clone, Debug)]
pub(super) struct Index {
    takes_first: bool,
    /// The texts of all prefixes.
    texts: Box<[u8]>,
    /// The first octets of each prefix, to sort by; parallel to `prefixes`.
    heads: Box<[u64]>,
    prefixes: Box<[Prefix]>,
    /// What each rule with `*` needs; parallel to `wilds`.
    needs: Box<[Octets]>,
    wilds: Box<[Wild]>,
}

#[derive(Clone, Copy, Debug)]
struct Prefix {
    start: u32,
    length: u32,
    /// The longest prefix that this one starts with.
    parent: Option<u32>,
    /// What decides among the literal rules of this prefix and those it starts with.
    literal: Option<Match>,
    /// The rules with `*` that go on from here, the one that would decide before the others first.
    wilds: (u32, u32),
    /// The longest prefix with such rules that this one starts with, perhaps itself.
    wild_prefix: Option<u32>,
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
    const ALL: Self = Self {
        singles: u64::MAX,
        pairs: u64::MAX,
    };

    fn of(text: &[u8]) -> Self {
        let mut octets = Self::default();
        octets.add(text);
        octets
    }

    fn add(&mut self, text: &[u8]) {
        for &byte in text {
            self.singles |= 1 << (byte & 63);
        }
        for pair in text.windows(2) {
            let number = u32::from(pair[0]) << 8 | u32::from(pair[1]);
            self.pairs |= 1 << (number.wrapping_mul(0x9E37_79B1) >> 26);
        }
    }

    fn holds(self, other: Self) -> bool {
        (other.singles & !self.singles) | (other.pairs & !self.pairs) == 0
    }
}

/// What a path holds, found out when it is first asked; no grams where they do not pay.
#[derive(Debug, Default)]
struct Holds {
    octets: Option<Octets>,
    grams: Option<Option<Grams>>,
}

/// A rule on its way into an index: its prefix, its pattern if that is more, itself.
struct Entry {
    prefix: Vec<u8>,
    wild: Option<Pattern>,
    rule: Match,
}

impl Entry {
    fn all<'a>(dialect: Dialect, events: impl Iterator<Item = Event<'a>>) -> Vec<Self> {
        let mut entries = Vec::new();
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
                let rule = Match::new(pattern.octets(), allow, event.offset);
                let prefix = pattern.parts().next().unwrap_or_default().to_vec();
                let wild = (!pattern.is_prefix()).then_some(pattern);
                entries.push(Self { prefix, wild, rule });
            }
        }
        entries
    }
}

impl Index {
    pub(super) fn new<'a>(dialect: Dialect, events: impl Iterator<Item = Event<'a>>) -> Self {
        let takes_first = matches!(dialect, Dialect::Koster1996 | Dialect::Selfhtml);
        let mut entries = Entry::all(dialect, events);
        entries.sort_by(|one, other| {
            let order = |entry: &Entry| (entry.wild.is_some(), decides(takes_first, entry.rule));
            one.prefix
                .cmp(&other.prefix)
                .then_with(|| order(one).cmp(&order(other)))
        });
        let mut builder = Builder {
            takes_first,
            ..Builder::default()
        };
        let mut rest = entries.into_iter().peekable();
        while let Some(first) = rest.next() {
            builder.push_prefix(&first.prefix);
            let text = first.prefix.clone();
            builder.push_rule(first);
            while let Some(entry) = rest.next_if(|entry| entry.prefix == text) {
                builder.push_rule(entry);
            }
        }
        builder.finish()
    }

    /// The rule of this group that decides about a path.
    pub(super) fn find(&self, path: &Path<'_>) -> Option<Match> {
        let longest = self.longest_prefix(path)?;
        let mut best = longest.literal;
        let mut holds = Holds::default();
        let mut next = longest.wild_prefix;
        while let Some(index) = next {
            let prefix = &self.prefixes[index as usize];
            best = self.find_wild(prefix, path, &mut holds, best);
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
        holds: &mut Holds,
        best: Option<Match>,
    ) -> Option<Match> {
        const FEW: usize = 3;
        const MANY: usize = 64;
        let range = prefix.wilds.0 as usize..prefix.wilds.1 as usize;
        let wilds = &self.wilds[range.clone()];
        let octets = if wilds.len() <= FEW {
            Octets::ALL
        } else {
            *holds
                .octets
                .get_or_insert_with(|| Octets::of(path.octets()))
        };
        let grams = if wilds.len() <= MANY {
            None
        } else {
            holds
                .grams
                .get_or_insert_with(|| Grams::new(path.octets()))
                .as_ref()
        };
        for (wild, needs) in wilds.iter().zip(&self.needs[range]) {
            if !octets.holds(*needs) {
                continue;
            }
            if best.is_some_and(|best| !self.decides_before(wild.rule, best)) {
                break;
            }
            let may_match = || grams.is_none_or(|grams| grams.may_hold(wild.pattern.parts()));
            if wild.pattern.may_end(path) && may_match() && wild.pattern.matches(path) {
                return Some(wild.rule);
            }
        }
        best
    }

    /// The longest prefix that the path starts with.
    fn longest_prefix(&self, path: &Path<'_>) -> Option<&Prefix> {
        let text = path.octets();
        let path_head = path.head().swap_bytes();
        let after = self.heads.partition_point(|&head| head < path_head);
        let same = self.heads[after..].partition_point(|&head| head == path_head);
        let after = after
            + self.prefixes[after..after + same]
                .partition_point(|prefix| self.text(prefix) <= text);
        let mut prefix = self.prefixes.get(after.checked_sub(1)?)?;
        // All that this prefix starts with agrees with the path as far as this one does.
        let common = self
            .text(prefix)
            .iter()
            .zip(text)
            .take_while(|(a, b)| a == b)
            .count();
        while prefix.length as usize > common {
            prefix = &self.prefixes[prefix.parent? as usize];
        }
        Some(prefix)
    }

    fn text(&self, prefix: &Prefix) -> &[u8] {
        &self.texts[prefix.start as usize..][..prefix.length as usize]
    }

    fn decides_before(&self, rule: Match, other: Match) -> bool {
        decides(self.takes_first, rule) < decides(self.takes_first, other)
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
            + size_of_val(&*self.prefixes)
            + size_of_val(&*self.needs)
            + size_of_val(&*self.wilds)
    }
}

/// Takes entries sorted by prefix, then by what decides first.
#[derive(Default)]
struct Builder {
    takes_first: bool,
    texts: Vec<u8>,
    heads: Vec<u64>,
    prefixes: Vec<Prefix>,
    needs: Vec<Octets>,
    wilds: Vec<Wild>,
}

impl Builder {
    fn push_prefix(&mut self, text: &[u8]) {
        // The prefixes this one starts with are the one before and what that starts with.
        let mut parent = self.prefixes.len().checked_sub(1);
        while let Some(index) = parent
            && !text.starts_with(self.text(index))
        {
            parent = self.prefixes[index].parent.map(|parent| parent as usize);
        }
        let above = parent.map(|index| self.prefixes[index]);
        let wilds = small(self.wilds.len());
        self.prefixes.push(Prefix {
            start: small(self.texts.len()),
            length: small(text.len()),
            parent: parent.map(small),
            literal: above.and_then(|above| above.literal),
            wilds: (wilds, wilds),
            wild_prefix: above.and_then(|above| above.wild_prefix),
        });
        self.heads.push(head(text).swap_bytes());
        self.texts.extend_from_slice(text);
    }

    fn push_rule(&mut self, entry: Entry) {
        let index = small(self.prefixes.len() - 1);
        let prefix = self
            .prefixes
            .last_mut()
            .expect("its prefix was pushed before");
        let Some(pattern) = entry.wild else {
            let candidates = [Some(entry.rule), prefix.literal].into_iter().flatten();
            prefix.literal = candidates.min_by_key(|rule| decides(self.takes_first, *rule));
            return;
        };
        let mut needs = Octets::default();
        pattern.parts().for_each(|part| needs.add(part));
        self.needs.push(needs);
        self.wilds.push(Wild {
            pattern,
            rule: entry.rule,
        });
        prefix.wilds.1 = small(self.wilds.len());
        prefix.wild_prefix = Some(index);
    }

    fn text(&self, index: usize) -> &[u8] {
        let prefix = &self.prefixes[index];
        &self.texts[prefix.start as usize..][..prefix.length as usize]
    }

    fn finish(self) -> Index {
        Index {
            takes_first: self.takes_first,
            texts: self.texts.into(),
            heads: self.heads.into(),
            prefixes: self.prefixes.into(),
            needs: self.needs.into(),
            wilds: self.wilds.into(),
        }
    }
}

fn small(number: usize) -> u32 {
    u32::try_from(number).expect("the limit of a file is below 4 GiB")
}

/// Sorts what decides first to the front.
fn decides(takes_first: bool, rule: Match) -> Reverse<(u64, Match)> {
    Reverse((if takes_first { rule.early() } else { 0 }, rule))
}
