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
pub(super) struct Sieves(Box<[Sieve; Dialect::EACH.len()]>);

impl Sieves {
    pub(super) fn of(stream: &[u8]) -> Self {
        let mut builders = Dialect::EACH.map(Builder::new);
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
        let index = Dialect::EACH.iter().position(is_by).unwrap_or_default();
        &self.0[index]
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let of_one = |sieve: &Sieve| {
            size_of_val(&*sieve.groups) + size_of_val(&*sieve.entries) + size_of_val(&*sieve.runs)
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
    /// The entries that are alike specific and of one kind.
    runs: Box<[Run]>,
    widths: Widths,
}

/// A rule, or one of the two patterns of one that means a directory too.
#[derive(Clone, Copy, Debug)]
struct Entry {
    needs: Needs,
    offset: u32,
}

/// Entries that are told apart only by where they are.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The octets of their patterns, zero where order decides.
    octets: u32,
    allow: bool,
    /// Where they end.
    end: u32,
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
        for run in &self.runs {
            let end = run.end as usize;
            for entry in &self.entries[start..end] {
                let offset = entry.offset as usize;
                // What is left decides no sooner.
                if best >= Some(Match::new(run.octets as usize, run.allow, offset)) {
                    return best;
                }
                if has.meets(&entry.needs) {
                    best = best.max(judge(offset, best));
                }
            }
            start = end;
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
    entries: Vec<(Match, Entry)>,
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
        let octets = if self.reader.takes_first { 0 } else { octets };
        let rule = Match::new(octets, event.kind() == ALLOW, event.offset);
        let offset = small(event.offset);
        self.entries.push((rule, Entry { needs, offset }));
    }

    fn finish(mut self) -> Sieve {
        if !self.reader.takes_first {
            self.entries.sort_by_key(|(rule, _)| Reverse(*rule));
        }
        let kind = |rule: Match| (rule.octets(), rule.is_allow());
        let alike = self
            .entries
            .chunk_by(|(one, _), (other, _)| kind(*one) == kind(*other));
        let runs = alike.scan(0, |end, alike| {
            let (octets, allow) = kind(alike[0].0);
            *end += alike.len();
            Some(Run {
                octets: small(octets as usize),
                allow,
                end: small(*end),
            })
        });
        Sieve {
            groups: self.groups.into(),
            runs: runs.collect(),
            entries: self.entries.into_iter().map(|(_, entry)| entry).collect(),
            widths: self.widths,
        }
    }
}

fn small(number: usize) -> u32 {
    u32::try_from(number).expect("the limit of a file is below 4 GiB")
}
