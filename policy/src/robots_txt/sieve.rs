//! A sieve: what is asked of a path before any rule is read, for files with more rules than a decision could read.
//!
//! Of each rule two stretches of octets are remembered that a path has if the rule matches. All stretches of a path are
//! noted once, and two looks into that set pass over nearly every rule that does not match. The rules stand in the order in
//! which they would decide, most of those that are there twice only once, so the first that matches ends the search.

use std::cmp::Reverse;

use super::found::Match;
use super::needs::{Has, Needs, Widths};
use super::pattern::{Body, Patterns, has_stars, wild_parts};
use super::reader::Reader;
use super::seen::Seen;
use super::stream::{ALLOW, Event, PLAIN, WILD, events};
use crate::Dialect;

/// The sieves of a file, one for each way of reading it.
#[derive(Debug)]
pub(super) struct Sieves(Box<[Sieve; 4]>);

impl Sieves {
    const DIALECTS: [Dialect; 4] = [
        Dialect::Rfc9309,
        Dialect::Google,
        Dialect::Koster1996,
        Dialect::Selfhtml,
    ];

    pub(super) fn of(stream: &[u8]) -> Self {
        let mut builders = Self::DIALECTS.map(Builder::new);
        let mut seen = Seen::new();
        for event in events(stream, 0) {
            let before = event.is_rule().then(|| seen.before(stream, &event));
            let before = before.flatten();
            let mut usual = None;
            for builder in &mut builders {
                builder.push(&event, before, &mut usual);
            }
        }
        Self(Box::new(builders.map(Builder::finish)))
    }

    pub(super) fn by(&self, reader: Reader) -> &Sieve {
        let is_by = |dialect: &Dialect| *dialect == reader.dialect;
        // `strictest` by itself reads as the first.
        let index = Self::DIALECTS.iter().position(is_by).unwrap_or_default();
        &self.0[index]
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let of_one = |sieve: &Sieve| {
            size_of_val(&*sieve.groups)
                + size_of_val(&*sieve.entries)
                + size_of_val(&*sieve.weights)
        };
        size_of_val(&*self.0) + self.0.iter().map(of_one).sum::<usize>()
    }
}

#[derive(Debug)]
pub(super) struct Sieve {
    /// Where the groups begin, but for the first.
    groups: Box<[u32]>,
    /// In the order in which they would decide.
    entries: Box<[Entry]>,
    /// How much the entries weigh, and where those end that weigh the same.
    weights: Box<[(Weight, u32)]>,
    widths: Widths,
}

/// A rule, or one of the two patterns of one that means a directory too.
#[derive(Clone, Copy, Debug)]
struct Entry {
    needs: Needs,
    offset: u32,
}

/// The octets of a pattern, and whether it allows; zero where order decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Weight(u32);

impl Weight {
    fn new(octets: usize, allow: bool) -> Self {
        Self(small(octets) << 1 | u32::from(allow))
    }

    fn of(rule: Match) -> Self {
        Self::new(rule.octets() as usize, rule.is_allow())
    }
}

impl Sieve {
    /// Which group an offset is in, and where that begins and ends.
    pub(super) fn group(&self, offset: usize) -> Group {
        let number = self
            .groups
            .partition_point(|&start| start as usize <= offset);
        let start = number
            .checked_sub(1)
            .map_or(0, |before| self.groups[before] as usize);
        let end = self
            .groups
            .get(number)
            .map_or(usize::MAX, |&end| end as usize);
        Group { number, start, end }
    }

    /// How many groups there are.
    pub(super) fn groups(&self) -> usize {
        self.groups.len() + 1
    }

    /// The rule that decides, as `judge` says of each that may match: whether it does, and before the best so far.
    pub(super) fn find(
        &self,
        path: &[u8],
        mut judge: impl FnMut(usize, Option<Match>) -> Option<Match>,
    ) -> Option<Match> {
        let has = Has::of(path, self.widths);
        let (mut best, mut start) = (None, 0);
        for &(weight, end) in &self.weights {
            for entry in &self.entries[start..end as usize] {
                let offset = entry.offset as usize;
                // What is left decides after it.
                if best.is_some_and(|best| is_before(best, weight, offset)) {
                    return best;
                }
                if has.meets(&entry.needs) {
                    best = best.max(judge(offset, best));
                }
            }
            start = end as usize;
        }
        best
    }

    /// The rule of one group that matches first.
    pub(super) fn find_first(
        &self,
        path: &[u8],
        group: Group,
        mut judge: impl FnMut(usize) -> Option<Match>,
    ) -> Option<Match> {
        let has = Has::of(path, self.widths);
        let from = self
            .entries
            .partition_point(|entry| (entry.offset as usize) < group.start);
        let entries = self.entries[from..].iter();
        let mut entries = entries.take_while(|entry| (entry.offset as usize) < group.end);
        entries.find_map(|entry| {
            let meets = has.meets(&entry.needs);
            meets.then(|| judge(entry.offset as usize)).flatten()
        })
    }
}

/// Whether a match decides before every rule that weighs so much and stands at an offset or behind.
fn is_before(rule: Match, weight: Weight, offset: usize) -> bool {
    (Weight::of(rule), Reverse(rule.offset())) >= (weight, Reverse(offset))
}

/// A stretch of the stream that is one group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub(super) number: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// What is known of a sieve in the midst of a file.
struct Builder {
    reader: Reader,
    groups: Vec<u32>,
    entries: Vec<(Weight, Entry)>,
    widths: Widths,
    patterns: Patterns,
}

impl Builder {
    fn new(dialect: Dialect) -> Self {
        Self {
            reader: Reader::new(dialect),
            groups: Vec::new(),
            entries: Vec::new(),
            widths: Widths::default(),
            patterns: Patterns::default(),
        }
    }

    /// Takes the next event, and where the last one is that says the same. What most dialects say alike of a rule, the
    /// first asked notes for the others.
    fn push(
        &mut self,
        event: &Event<'_>,
        before: Option<usize>,
        usual: &mut Option<(Needs, Widths)>,
    ) {
        if self.reader.ends_at(event) {
            self.groups.push(small(event.offset));
        } else if event.is_rule() && event.tag & self.reader.sees != 0 {
            let group = self.groups.last().map_or(0, |&start| start as usize);
            if before.is_none_or(|before| before < group) {
                self.push_rule(event, usual);
            }
        }
    }

    fn push_rule(&mut self, event: &Event<'_>, usual: &mut Option<(Needs, Widths)>) {
        let (value, _) = event.rule();
        let dialect = self.reader.dialect;
        if value.is_empty() && dialect != Dialect::Google {
            return;
        }
        match event.form() {
            WILD if has_stars(dialect) => {
                let body = Body::of(value, dialect);
                let needs = || Needs::of(wild_parts(body.text), body.anchored);
                self.push_entry(event, *usual.get_or_insert_with(needs), value.len());
            }
            PLAIN => {
                let needs = || Needs::of([value].into_iter(), false);
                self.push_entry(event, *usual.get_or_insert_with(needs), value.len());
            }
            // Stars are octets like others.
            WILD => self.push_entry(event, Needs::of([value].into_iter(), false), value.len()),
            _ => {
                self.push_special(event, Body::of(value, dialect));
                if event.kind() == ALLOW
                    && dialect == Dialect::Google
                    && let Some(directory) = Body::of_directory(value)
                {
                    self.push_special(event, directory);
                }
            }
        }
    }

    fn push_special(&mut self, event: &Event<'_>, body: Body<'_>) {
        let dialect = self.reader.dialect;
        let pattern = self.patterns.take_apart(body, dialect, |_, _| true);
        let pattern = pattern.expect("nothing stops it");
        let needs = Needs::of(pattern.parts(), pattern.anchored);
        let octets = pattern.octets(body, dialect);
        self.push_entry(event, needs, octets);
    }

    fn push_entry(&mut self, event: &Event<'_>, (needs, widths): (Needs, Widths), octets: usize) {
        self.widths.add(widths);
        let weight = match self.reader.takes_first {
            true => Weight(0),
            false => Weight::new(octets, event.kind() == ALLOW),
        };
        let offset = small(event.offset);
        self.entries.push((weight, Entry { needs, offset }));
    }

    fn finish(mut self) -> Sieve {
        if !self.reader.takes_first {
            self.entries.sort_by_key(|(weight, _)| Reverse(*weight));
        }
        let alike = self.entries.chunk_by(|(one, _), (other, _)| one == other);
        let weights = alike.scan(0, |end, alike| {
            *end += alike.len();
            Some((alike[0].0, small(*end)))
        });
        let weights = weights.collect();
        let entries = self.entries.into_iter().map(|(_, entry)| entry).collect();
        Sieve {
            groups: self.groups.into(),
            widths: self.widths,
            entries,
            weights,
        }
    }
}

fn small(number: usize) -> u32 {
    u32::try_from(number).expect("the limit of a file is below 4 GiB")
}
