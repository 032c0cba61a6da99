//! The rule that decides: one pass over the rules of a crawler's groups.

use std::hint::black_box;

use super::agent::Agent;
use super::build::build;
use super::choose::{Choice, Reader};
use super::compiled::Compiled;
use super::effort::Effort;
use super::found::{Found, Match};
use super::holds::Holds;
use super::index::Index;
use super::pattern::{self, Body, HEAD_OCTETS, Path, Patterns, has_stars, wild_parts};
use super::stream::{ALLOW, DISALLOW, Event, PLAIN, RUN, WILD, events};
use crate::forms::MAX_WRITTEN;
use crate::{Dialect, ProductToken};

/// What one decision has found out and spent so far, in all the dialects and spellings it asks for.
#[derive(Debug, Default)]
pub(crate) struct Search {
    holds: Holds,
    effort: Effort,
    /// Made when a rule is met that needs it, which few decisions do.
    patterns: Option<Box<Patterns>>,
}

impl<'a> Compiled<'a> {
    /// The rule that decides about a path.
    #[inline]
    pub(super) fn find(
        self,
        reader: Reader,
        tokens: &[ProductToken],
        path: &Path<'_>,
        search: &mut Search,
    ) -> Found {
        self.ask_for_memory();
        search.holds.turn_to(path);
        for token in tokens {
            let choice = Choice::Named(token);
            let found = if reader.takes_first {
                self.find_in_best(reader, choice, path, search)
            } else {
                self.find_in_all(reader, choice, path, search)
            };
            if found != Found::NoGroup {
                return found;
            }
        }
        if reader.takes_first {
            self.find_in_best(reader, Choice::Everyone, path, search)
        } else {
            self.find_in_all(reader, Choice::Everyone, path, search)
        }
    }

    /// Reads one octet of each of the first lines of memory. Of a file that nobody asked about lately they come all at
    /// once then, where the search would wait for each before it knows of the next.
    #[inline]
    fn ask_for_memory(self) {
        const LINE: usize = 64;
        const LINES: usize = 6;
        let octets = self.stream.iter().step_by(LINE).take(LINES);
        black_box(octets.fold(0, |all, octet| all ^ octet));
    }

    /// What decides in the one record chosen.
    fn find_in_best(
        self,
        reader: Reader,
        choice: Choice<'_>,
        path: &Path<'_>,
        search: &mut Search,
    ) -> Found {
        let Some(agent) = self.best_agent(reader, choice) else {
            return Found::NoGroup;
        };
        let group = self.search_group(reader, agent, path, search, None);
        group.best.map_or(Found::NoRule, Found::Rule)
    }

    /// What decides in all groups chosen. Inlined, since most of it falls away for either choice.
    #[inline]
    fn find_in_all(
        self,
        reader: Reader,
        choice: Choice<'_>,
        path: &Path<'_>,
        search: &mut Search,
    ) -> Found {
        let mut found = Found::NoGroup;
        let mut best = None;
        let mut next = 0;
        while let Some(agent) = self.next_agent(reader, choice, &mut next) {
            found = Found::NoRule;
            let group = self.search_group(reader, agent, path, search, best);
            best = group.best;
            // Other lines of this group say nothing new.
            while let Some(other) = self.agents.at(next)
                && other.offset() < group.end
            {
                next += 1;
            }
        }
        best.map_or(found, Found::Rule)
    }

    /// What decides among `best` and the rules of the group of a user-agent line.
    #[inline]
    fn search_group(
        self,
        reader: Reader,
        agent: Agent,
        path: &Path<'_>,
        search: &mut Search,
        best: Option<Match>,
    ) -> Searched {
        if agent.is_large()
            && let Some(index) = self.index(reader, agent, &mut search.effort)
        {
            return Searched {
                best: best.max(index.find(path, &mut search.holds)),
                end: index.end(),
            };
        }
        search_rules(reader, (self.stream, agent.offset()), path, search, best)
    }

    /// Few groups are large. Apart, so that the compiler puts the search of the others into their decisions: the median
    /// takes 55 instead of 59 ns.
    #[inline(never)]
    fn index(self, reader: Reader, agent: Agent, effort: &mut Effort) -> Option<&'a Index> {
        self.indexes.find_or_build(
            self.agents,
            reader.dialect,
            agent,
            effort,
            |agent, effort| build(reader, events(self.stream, agent.offset()), effort),
        )
    }
}

/// What decides after a group was searched, and where the group ends.
struct Searched {
    best: Option<Match>,
    end: usize,
}

fn search_rules(
    reader: Reader,
    (stream, start): (&[u8], usize),
    path: &Path<'_>,
    search: &mut Search,
    mut best: Option<Match>,
) -> Searched {
    let mut events = events(stream, start);
    let mut end = usize::MAX;
    loop {
        let is_alike = events.skip_unlike(path.head(), reader.ends);
        let Some(event) = events.next() else { break };
        match event.kind() {
            ALLOW | DISALLOW if event.tag & reader.sees != 0 => {
                if !is_alike && !events.may_match(&event, path.head()) {
                    continue;
                }
                let rule = match_rule(stream, &event, reader, path, search, best);
                best = best.max(rule);
                if reader.takes_first && rule.is_some() {
                    break;
                }
            }
            RUN if event.tag & reader.ends != 0 => {
                end = event.offset;
                break;
            }
            _ => {}
        }
    }
    Searched { best, end }
}

/// The rule, if it matches and decides before `best`.
#[inline]
fn match_rule(
    stream: &[u8],
    event: &Event<'_>,
    reader: Reader,
    path: &Path<'_>,
    search: &mut Search,
    best: Option<Match>,
) -> Option<Match> {
    let (value, _) = event.rule();
    let octets = if reader.takes_first { 0 } else { value.len() };
    let rule = Some(Match::new(octets, event.kind() == ALLOW, event.offset));
    let dialect = reader.dialect;
    let matches = match event.form() {
        // An empty value is no rule, but to Google's parser one that decides nothing.
        PLAIN if value.is_empty() && dialect != Dialect::Google => false,
        // Whoever asks has compared the head.
        PLAIN if value.len() <= HEAD_OCTETS => rule > best && path.octets().len() >= value.len(),
        PLAIN => rule > best && path.octets().starts_with(value),
        WILD if !has_stars(dialect) => path.octets().starts_with(value),
        WILD => rule > best && match_wild(stream, event, path, search),
        _ => return match_special(stream, event, reader, path, search, best),
    };
    rule.filter(|_| matches)
}

fn match_wild(stream: &[u8], event: &Event<'_>, path: &Path<'_>, search: &mut Search) -> bool {
    let body = Body::of(event.rule().0, Dialect::Rfc9309);
    let holds = &mut search.holds;
    !holds.lacks_an_end_of(body, path)
        && body.may_end(path.octets())
        && !holds.is_again(stream, event)
        && holds.search(path, wild_parts(body.text), body.anchored)
}

/// A rule that the dialects read differently, if it matches and decides before `best`.
#[cold]
fn match_special(
    stream: &[u8],
    event: &Event<'_>,
    reader: Reader,
    path: &Path<'_>,
    search: &mut Search,
    best: Option<Match>,
) -> Option<Match> {
    let (value, _) = event.rule();
    let (allow, dialect) = (event.kind() == ALLOW, reader.dialect);
    let rule = |octets: usize| {
        let octets = if reader.takes_first { 0 } else { octets };
        Some(Match::new(octets, allow, event.offset)).filter(|rule| Some(*rule) > best)
    };
    rule(MAX_WRITTEN * value.len())?;
    let Search {
        holds, patterns, ..
    } = search;
    if holds.is_again(stream, event) {
        return None;
    }
    let mut match_body = |body: Body<'_>| {
        if !pattern::form(dialect).may_begin(path.octets(), body.text, has_stars(dialect)) {
            return None;
        }
        holds.spend(path);
        if holds.lacks_an_end_of(body, path) {
            return None;
        }
        // Each part is written when those before it may be held, since most rules fail early.
        let mut from = None;
        let may_hold = |part: &[u8]| match &mut from {
            Some(from) => holds.may_hold(from, part),
            None => {
                from = Some(part.len());
                path.octets().starts_with(part)
            }
        };
        let patterns = patterns.get_or_insert_default();
        let pattern = patterns.take_apart(body, dialect, may_hold)?;
        let rule = rule(pattern.octets(body, dialect))?;
        let matches = pattern.may_end(path.octets())
            && holds.matches(path, pattern.parts(), pattern.anchored);
        matches.then_some(rule)
    };
    let rule = match_body(Body::of(value, dialect));
    if rule.is_some() || dialect != Dialect::Google || !allow {
        return rule;
    }
    // The directory is less specific than the file in it.
    match_body(Body::of_directory(value)?)
}
