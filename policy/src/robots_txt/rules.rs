//! The rule that decides: one pass over the rules of a crawler's groups.

use std::hint::black_box;

use super::agent::Agent;
use super::build::build;
use super::choose::Choice;
use super::compiled::Compiled;
use super::found::{Found, Match};
use super::index::Index;
use super::pattern::{self, Body, HEAD_OCTETS, Path, Patterns, has_stars, matches, wild_parts};
use super::reader::Reader;
use super::search::Budget;
use super::stream::{ALLOW, DISALLOW, Event, PLAIN, RUN, WILD, events};
use crate::forms::MAX_WRITTEN;
use crate::{Dialect, ProductToken};

/// What one decision has found out and spent so far, in all the dialects and spellings it asks for.
#[derive(Debug, Default)]
pub(crate) struct Search {
    pub(super) budget: Budget,
    /// The record chosen in each dialect that chooses one, or that there is none: whatever the path.
    agents: [Option<Option<Agent>>; Dialect::ALL.len()],
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
        let found = if reader.takes_first {
            self.find_in_best(reader, tokens, path, search)
        } else {
            let named = tokens.iter().map(Choice::Named);
            let mut found = named.map(|choice| self.find_in_all(reader, choice, path, search));
            let found = found.find(|found| *found != Found::NoGroup);
            found.unwrap_or_else(|| self.find_in_all(reader, Choice::Everyone, path, search))
        };
        if search.budget.is_spent() {
            return Found::TooCostly;
        }
        found
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
        tokens: &[ProductToken],
        path: &Path<'_>,
        search: &mut Search,
    ) -> Found {
        let choose = || {
            let mut choices = tokens.iter().map(Choice::Named).chain([Choice::Everyone]);
            choices.find_map(|choice| self.best_agent(reader, choice))
        };
        let agent = search.agents[reader.dialect as usize].get_or_insert_with(choose);
        let Some(agent) = *agent else {
            return Found::NoGroup;
        };
        let best = self.search_group(reader, agent, path, search, None).best;
        best.map_or(Found::NoRule, Found::Rule)
    }

    /// What decides in all groups chosen. Inlined, since most of it falls away for either choice.
    #[inline(always)]
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
    #[inline(always)]
    fn search_group(
        self,
        reader: Reader,
        agent: Agent,
        path: &Path<'_>,
        search: &mut Search,
        best: Option<Match>,
    ) -> Searched {
        if agent.is_large()
            && let Some(index) = self.index(reader, agent, &mut search.budget)
        {
            return Searched {
                best: best.max(index.find(path, &mut search.budget)),
                end: index.end(),
            };
        }
        search_rules(reader, (self.stream, agent.offset()), path, search, best)
    }

    /// Few groups are large. Apart, so that the compiler puts the search of the others into their decisions: the median
    /// takes 55 instead of 59 ns.
    #[inline(never)]
    fn index(self, reader: Reader, agent: Agent, budget: &mut Budget) -> Option<&'a Index> {
        self.indexes
            .find_or_build(self.agents, reader.dialect, agent, |agent| {
                build(reader, events(self.stream, agent.offset()), budget)
            })
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
                let rule = match_rule(&event, reader, path, search, best);
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
    let read = end.min(stream.len()) - start;
    search.budget.spend_on_reading(read);
    Searched { best, end }
}

/// The rule, if it matches and decides before `best`.
#[inline]
fn match_rule(
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
        WILD => rule > best && match_wild(event, path, search),
        _ => return match_special(event, reader, path, search, best),
    };
    rule.filter(|_| matches)
}

fn match_wild(event: &Event<'_>, path: &Path<'_>, search: &mut Search) -> bool {
    let body = Body::of(event.rule().0, Dialect::Rfc9309);
    let parts = wild_parts(body.text);
    matches(parts, body.anchored, path.octets(), &mut search.budget)
}

/// A rule that the dialects read differently, if it matches and decides before `best`.
#[cold]
fn match_special(
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
        budget, patterns, ..
    } = search;
    budget.spend_on_writing(value.len());
    let mut match_body = |body: Body<'_>| {
        if !pattern::form(dialect).may_begin(path.octets(), body.text, has_stars(dialect)) {
            return None;
        }
        let patterns = patterns.get_or_insert_default();
        let pattern = patterns.take_apart(body, dialect);
        let rule = rule(pattern.octets(body, dialect));
        rule.filter(|_| matches(pattern.parts(), pattern.anchored, path.octets(), budget))
    };
    let rule = match_body(Body::of(value, dialect));
    if rule.is_some() || dialect != Dialect::Google || !allow {
        return rule;
    }
    // The directory is less specific than the file in it.
    match_body(Body::of_directory(value)?)
}
