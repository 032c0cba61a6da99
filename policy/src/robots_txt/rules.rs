//! The rule that decides: one pass over the rules of a crawler's groups.

use super::agent::Agent;
use super::build::build;
use super::choose::{Choice, Reader};
use super::compiled::Compiled;
use super::effort::Effort;
use super::found::{Found, Match};
use super::holds::Holds;
use super::index::Index;
use super::pattern::{self, Body, HEAD_OCTETS, Path, Patterns, wild_parts};
use super::stream::{ALLOW, DISALLOW, Event, Events, PLAIN, RUN, WILD, events};
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
        search_rules(
            reader,
            events(self.stream, agent.offset()),
            path,
            search,
            best,
        )
    }

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
    mut events: Events<'_>,
    path: &Path<'_>,
    search: &mut Search,
    mut best: Option<Match>,
) -> Searched {
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
        // To the draft of 1996 stars are octets like others.
        WILD if dialect == Dialect::Koster1996 => path.octets().starts_with(value),
        WILD => rule > best && match_wild(value, path, search),
        _ => return match_special(event, reader, path, search),
    };
    rule.filter(|_| matches)
}

fn match_wild(value: &[u8], path: &Path<'_>, search: &mut Search) -> bool {
    if search.holds.lacks_an_end_of(value) {
        return false;
    }
    let parts = wild_parts(value, path.octets());
    parts.is_some_and(|(parts, anchored)| search.holds.search(path, parts, anchored))
}

#[cold]
fn match_special(
    event: &Event<'_>,
    reader: Reader,
    path: &Path<'_>,
    search: &mut Search,
) -> Option<Match> {
    let (value, _) = event.rule();
    let (allow, dialect) = (event.kind() == ALLOW, reader.dialect);
    let body = Body::of(value, dialect);
    let body = if search.matches(body, dialect, path) {
        body
    } else if allow && dialect == Dialect::Google {
        Body::of_directory(value).filter(|body| search.matches(*body, dialect, path))?
    } else {
        return None;
    };
    let octets = if reader.takes_first {
        0
    } else {
        let form = &mut search.patterns.get_or_insert_default().literals;
        pattern::octets(body, dialect, form)
    };
    Some(Match::new(octets, allow, event.offset))
}

impl Search {
    fn matches(&mut self, body: Body<'_>, dialect: Dialect, path: &Path<'_>) -> bool {
        let patterns = self.patterns.get_or_insert_default();
        let pattern = patterns.take_apart(body, dialect);
        pattern.may_end(path.octets()) && self.holds.search(path, pattern.parts(), pattern.anchored)
    }
}
