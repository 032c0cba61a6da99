//! The rule that decides: one pass over the rules of a crawler's groups.

use super::agent::Agent;
use super::choose::{Choice, Reader};
use super::compiled::Compiled;
use super::found::{Found, Match};
use super::index::Index;
use super::pattern::{Path, Pattern, matches_wild};
use super::stream::{ALLOW, DISALLOW, Event, PLAIN, RUN, WILD, events};
use crate::{Dialect, ProductToken};

impl Compiled {
    /// The rule that decides about a path.
    pub(super) fn find(&self, reader: Reader, tokens: &[ProductToken], path: &Path<'_>) -> Found {
        for token in tokens {
            if !reader.takes_first && !self.has_tag(token) {
                continue;
            }
            let found = self.find_for(reader, Choice::Named(token), path);
            if found != Found::NoGroup {
                return found;
            }
        }
        self.find_for(reader, Choice::Everyone, path)
    }

    fn find_for(&self, reader: Reader, choice: Choice<'_>, path: &Path<'_>) -> Found {
        if reader.takes_first {
            return match self.best_agent(reader, choice) {
                Some(agent) => self.find_first(reader, choice, agent, path),
                None => Found::NoGroup,
            };
        }
        let mut found = Found::NoGroup;
        let mut best = None;
        let (mut next, mut after) = (0, 0);
        while let Some(agent) = self.next_agent(reader, choice, &mut next) {
            // Another line of a group that was searched already.
            if agent.offset() < after {
                continue;
            }
            if agent.is_large()
                && let Some(index) = self.index(reader, choice)
            {
                return index.find(path).map_or(Found::NoRule, Found::Rule);
            }
            found = Found::NoRule;
            let group = find_in_group(&self.stream, reader, agent, path);
            best = best.max(group.best);
            after = group.end;
        }
        best.map_or(found, Found::Rule)
    }

    fn find_first(
        &self,
        reader: Reader,
        choice: Choice<'_>,
        agent: Agent,
        path: &Path<'_>,
    ) -> Found {
        let index = if agent.is_large() {
            self.index(reader, choice)
        } else {
            None
        };
        let best = match index {
            Some(index) => index.find(path),
            None => find_in_group(&self.stream, reader, agent, path).best,
        };
        best.map_or(Found::NoRule, Found::Rule)
    }

    /// The index of all groups chosen, built now if it is the first time.
    fn index(&self, reader: Reader, choice: Choice<'_>) -> Option<&Index> {
        self.indexes
            .find_or_build(reader.dialect, choice.name(), || {
                let events = self.chosen_events(reader, choice);
                Index::new(
                    reader.dialect,
                    events.filter(|event| event.tag & reader.sees != 0),
                )
            })
    }
}

/// What one group says about a path, and where it ends.
struct Searched {
    best: Option<Match>,
    end: usize,
}

fn find_in_group(stream: &[u8], reader: Reader, agent: Agent, path: &Path<'_>) -> Searched {
    let mut best = None;
    let mut events = events(stream, agent.offset());
    loop {
        events.skip_rules_unlike(path.head());
        let Some(event) = events.next() else { break };
        match event.kind() {
            ALLOW | DISALLOW if event.tag & reader.sees != 0 => {
                if !event.may_match(stream, path.head()) {
                    continue;
                }
                let rule = match_rule(&event, reader, path);
                best = best.max(rule);
                if reader.takes_first && rule.is_some() {
                    break;
                }
            }
            RUN if event.tag & reader.ends != 0 => {
                return Searched {
                    best,
                    end: event.offset,
                };
            }
            _ => {}
        }
    }
    Searched {
        best,
        end: usize::MAX,
    }
}

fn match_rule(event: &Event<'_>, reader: Reader, path: &Path<'_>) -> Option<Match> {
    let (value, _) = event.rule();
    let allow = event.kind() == ALLOW;
    let dialect = reader.dialect;
    let octets = match event.form() {
        // An empty value is no rule, but to Google's parser one that decides nothing.
        PLAIN if value.is_empty() && dialect != Dialect::Google => None,
        PLAIN => path.octets().starts_with(value).then_some(value.len()),
        WILD if dialect != Dialect::Koster1996 => {
            matches_wild(value, path.octets()).then_some(value.len())
        }
        _ => match_special(allow, value, dialect, path),
    };
    let octets = if reader.takes_first {
        octets.map(|_| 0)
    } else {
        octets
    };
    Some(Match::new(octets?, allow, event.offset))
}

#[cold]
fn match_special(allow: bool, value: &[u8], dialect: Dialect, path: &Path<'_>) -> Option<usize> {
    let pattern = Pattern::new(value, dialect);
    if pattern.matches(path) {
        return Some(pattern.octets());
    }
    let directory = Pattern::of_directory(value).filter(|_| allow && dialect == Dialect::Google)?;
    directory.matches(path).then(|| directory.octets())
}
