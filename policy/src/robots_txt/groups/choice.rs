//! The groups for a crawler, as a dialect chooses them.

use super::super::statements::event::{Event, Events, events};
use super::super::statements::stored::Statements;
use super::agent::{self, Agent};
use super::semantics::Semantics;
use crate::{Dialect, ProductToken, name_tag};

/// Whose groups count.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Choice<'a> {
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

/// Whose groups may count, in order: the first choice for which there are groups decides.
pub(crate) fn choices(tokens: &[ProductToken]) -> impl Iterator<Item = Choice<'_>> {
    tokens.iter().map(Choice::Named).chain([Choice::Everyone])
}

impl<'a> Statements<'a> {
    /// The choice that finds a group: the first of the crawler's names that has any, else all.
    pub(crate) fn choice<'t>(
        self,
        semantics: Semantics,
        tokens: &'t [ProductToken],
    ) -> Option<Choice<'t>> {
        choices(tokens).find(|choice| self.chosen_agents(semantics, *choice).next().is_some())
    }

    /// The user-agent lines by which groups are chosen, in the order of the file: every one that
    /// names the crawler where groups merge, else the first of the best.
    pub(crate) fn chosen_agents(
        self,
        semantics: Semantics,
        choice: Choice<'a>,
    ) -> impl Iterator<Item = Agent> + 'a {
        let mut best = semantics
            .takes_first
            .then(|| self.best_agent(semantics, choice));
        let mut next = 0;
        std::iter::from_fn(move || match &mut best {
            Some(best) => best.take(),
            None => self.next_agent(semantics, choice, &mut next),
        })
    }

    /// The events of all groups chosen, each group once.
    pub(crate) fn chosen_events(
        self,
        semantics: Semantics,
        choice: Choice<'a>,
    ) -> impl Iterator<Item = Event<'a>> + 'a {
        let mut agents = self.chosen_agents(semantics, choice);
        let mut group: Option<Events<'a>> = None;
        let mut after = 0;
        std::iter::from_fn(move || {
            loop {
                match group.as_mut().map(Iterator::next) {
                    Some(Some(event)) if !semantics.ends_at(&event) => return Some(event),
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
    pub(crate) fn next_agent(
        self,
        semantics: Semantics,
        choice: Choice<'_>,
        next: &mut usize,
    ) -> Option<Agent> {
        loop {
            let index = *next + position(choice.tag(), self.tags.get(*next..)?)?;
            *next = index + 1;
            let agent = self.agents.at(index)?;
            if self.rank(semantics, choice, agent).is_some() {
                return Some(agent);
            }
        }
    }

    /// The first of the user-agent lines that name the crawler best.
    pub(crate) fn best_agent(self, semantics: Semantics, choice: Choice<'_>) -> Option<Agent> {
        let most = match choice {
            Choice::Named(token) if semantics.dialect == Dialect::Selfhtml => token.folded().len(),
            _ => 1,
        };
        let mut best = None;
        for agent in self.agents.iter() {
            let rank = self.rank(semantics, choice, agent);
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
    fn rank(self, semantics: Semantics, choice: Choice<'_>, agent: Agent) -> Option<usize> {
        let event = events(self.stream, agent.offset()).next()?;
        if event.tag & semantics.sees == 0 {
            return None;
        }
        let (_, value) = event.agent();
        match choice {
            Choice::Named(token) => agent::rank(value, token, semantics.dialect),
            Choice::Everyone => agent::is_everyone(value, semantics.dialect).then_some(1),
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
