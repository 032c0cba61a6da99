//! The groups for a crawler, as a dialect chooses them.

use super::agent::{self, Agent};
use super::compiled::Compiled;
use super::reader::Reader;
use super::stream::{Event, Events, events};
use crate::{Dialect, ProductToken, name_tag};

/// Whose groups count.
#[derive(Clone, Copy, Debug)]
pub(super) enum Choice<'a> {
    Named(&'a ProductToken),
    Everyone,
}

impl Choice<'_> {
    fn tag(self) -> u8 {
        match self {
            Self::Named(token) => token.tag(),
            Self::Everyone => name_tag::EVERYONE,
        }
    }
}

impl<'a> Compiled<'a> {
    /// The choice that finds a group: the first of the crawler's names that has any, else all.
    pub(super) fn choice<'t>(
        self,
        reader: Reader,
        tokens: &'t [ProductToken],
    ) -> Option<Choice<'t>> {
        let mut choices = tokens.iter().map(Choice::Named).chain([Choice::Everyone]);
        choices.find(|choice| self.chosen_agents(reader, *choice).next().is_some())
    }

    /// The user-agent lines by which groups are chosen, in the order of the file: every one that
    /// names the crawler where groups merge, else the first of the best.
    pub(super) fn chosen_agents(
        self,
        reader: Reader,
        choice: Choice<'a>,
    ) -> impl Iterator<Item = Agent> + 'a {
        let mut next = 0;
        std::iter::from_fn(move || {
            if reader.takes_first {
                let best = if next == 0 {
                    self.best_agent(reader, choice)
                } else {
                    None
                };
                next = 1;
                return best;
            }
            self.next_agent(reader, choice, &mut next)
        })
    }

    /// The events of all groups chosen, each group once.
    pub(super) fn chosen_events(
        self,
        reader: Reader,
        choice: Choice<'a>,
    ) -> impl Iterator<Item = Event<'a>> + 'a {
        let mut agents = self.chosen_agents(reader, choice);
        let mut group: Option<Events<'a>> = None;
        let mut after = 0;
        std::iter::from_fn(move || {
            loop {
                match group.as_mut().map(Iterator::next) {
                    Some(Some(event)) if !reader.ends_at(&event) => return Some(event),
                    Some(Some(event)) => after = event.offset,
                    Some(None) => after = usize::MAX,
                    None => {}
                }
                let agent = agents.find(|agent| agent.offset() >= after)?;
                group = Some(events(self.stream, agent.offset()));
            }
        })
    }

    /// The next user-agent line that names the crawler, where names are compared as a whole. Most of the decisions on small
    /// files, so it must not become a call for those who ask it rarely.
    #[inline(always)]
    pub(super) fn next_agent(
        self,
        reader: Reader,
        choice: Choice<'_>,
        next: &mut usize,
    ) -> Option<Agent> {
        loop {
            let index = *next + position(choice.tag(), self.tags.get(*next..)?)?;
            *next = index + 1;
            let agent = self.agents.at(index)?;
            if self.rank(reader, choice, agent).is_some() {
                return Some(agent);
            }
        }
    }

    /// The first of the user-agent lines that name the crawler best.
    pub(super) fn best_agent(self, reader: Reader, choice: Choice<'_>) -> Option<Agent> {
        let most = match choice {
            Choice::Named(token) if reader.dialect == Dialect::Selfhtml => token.folded().len(),
            _ => 1,
        };
        let mut best = None;
        for agent in self.agents.iter() {
            let rank = self.rank(reader, choice, agent);
            if rank > best.map(|(rank, _)| rank) {
                best = rank.map(|rank| (rank, agent));
                if rank >= Some(most) {
                    break;
                }
            }
        }
        best.map(|(_, agent)| agent)
    }

    #[inline]
    fn rank(self, reader: Reader, choice: Choice<'_>, agent: Agent) -> Option<usize> {
        let event = events(self.stream, agent.offset()).next()?;
        if event.tag & reader.sees == 0 {
            return None;
        }
        let (_, value) = event.agent();
        match choice {
            Choice::Named(token) => agent::rank(value, token, reader.dialect),
            Choice::Everyone => agent::is_everyone(value, reader.dialect).then_some(1),
        }
    }
}

#[inline]
fn position(tag: u8, tags: &[u8]) -> Option<usize> {
    const FEW: usize = 16;
    if tags.len() <= FEW {
        tags.iter().position(|&other| other == tag)
    } else {
        memchr::memchr(tag, tags)
    }
}
