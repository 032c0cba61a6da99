//! The choice of groups for a crawler in a dialect.

use memchr::memchr;

use super::super::statements::Statement;
use super::super::statements::stored::Stored;
use super::agent::{self, Agent};
use super::semantics::Semantics;
use crate::{ProductToken, name_hash};

/// The groups that count: those that name a token, or those for everyone.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Choice<'a> {
    Named(&'a ProductToken),
    Everyone,
}

impl Choice<'_> {
    fn tag(self) -> u8 {
        match self {
            Self::Named(token) => token.tag(),
            Self::Everyone => name_hash::EVERYONE,
        }
    }
}

/// Returns the choices in order: the first that has groups decides.
pub(crate) fn choices(tokens: &[ProductToken]) -> impl Iterator<Item = Choice<'_>> {
    tokens.iter().map(Choice::Named).chain([Choice::Everyone])
}

impl Stored {
    /// Returns the choice that finds a group: the first of the crawler's names that has one, else everyone.
    pub(crate) fn choice<'t>(
        &self,
        semantics: &Semantics,
        tokens: &'t [ProductToken],
    ) -> Option<Choice<'t>> {
        choices(tokens).find(|choice| self.chosen_agents(semantics, *choice).next().is_some())
    }

    /// Returns the user-agent lines that choose groups, in the file's order: every line that names the crawler where
    /// groups merge, else the first of the best.
    pub(crate) fn chosen_agents(
        &self,
        semantics: &Semantics,
        choice: Choice<'_>,
    ) -> impl Iterator<Item = Agent> {
        let mut best = semantics
            .takes_first
            .then(|| self.best_agent(semantics, choice));
        let mut next = 0;
        std::iter::from_fn(move || match &mut best {
            Some(best) => best.take(),
            None => self.next_agent(semantics, choice, &mut next),
        })
    }

    /// Returns the statements of all chosen groups, each group once, with their indices in the file.
    pub(crate) fn chosen_statements(
        &self,
        semantics: &Semantics,
        choice: Choice<'_>,
    ) -> impl Iterator<Item = (usize, &Statement)> {
        let mut after = 0;
        let groups = self.chosen_agents(semantics, choice).map(move |agent| {
            let start = agent.at as usize;
            // A line inside a group that was already returned chooses nothing new.
            if start >= after {
                let others = self.statements[start + 1..].iter();
                let length = others.take_while(|it| !semantics.ends_at(it)).count();
                after = start + 1 + length;
                return start..after;
            }
            0..0
        });
        groups.flatten().map(|at| (at, &self.statements[at]))
    }

    /// Returns the next user-agent line that names the crawler, for dialects that compare whole names. Scanning a few
    /// tags is most of the cost of a decision about a small file, hence the inlining.
    #[inline(always)]
    pub(crate) fn next_agent(
        &self,
        semantics: &Semantics,
        choice: Choice<'_>,
        next: &mut usize,
    ) -> Option<Agent> {
        loop {
            let found = *next + position(choice.tag(), self.tags.get(*next..)?)?;
            *next = found + 1;
            let agent = self.agents[found];
            if self.rank(semantics, choice, agent).is_some() {
                return Some(agent);
            }
        }
    }

    /// Returns the first of the user-agent lines that name the crawler best.
    pub(crate) fn best_agent(&self, semantics: &Semantics, choice: Choice<'_>) -> Option<Agent> {
        // `max_by_key` returns the last of equal elements, which in reverse is the first line.
        let ranked = self.agents.iter().rev().filter_map(|agent| {
            let rank = self.rank(semantics, choice, *agent)?;
            Some((rank, *agent))
        });
        let best = ranked.max_by_key(|(rank, _)| *rank);
        best.map(|(_, agent)| agent)
    }

    fn rank(&self, semantics: &Semantics, choice: Choice<'_>, agent: Agent) -> Option<usize> {
        let at = agent.at as usize;
        if !semantics.sees(&self.statements[at]) {
            return None;
        }
        let value = self.text(at);
        match choice {
            Choice::Named(token) => agent::rank(value, token, semantics.dialect),
            Choice::Everyone => agent::is_everyone(value, semantics.dialect).then_some(1),
        }
    }
}

/// Returns the first position of a tag. Most files have few tags, which are scanned sooner than a function is called.
#[inline]
fn position(tag: u8, tags: &[u8]) -> Option<usize> {
    const FEW: usize = 16;
    match tags.len() {
        ..=FEW => tags.iter().position(|&it| it == tag),
        _ => memchr(tag, tags),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::parse::parse;
    use super::*;
    use crate::Dialect;

    #[test]
    fn every_line_is_looked_at_once_however_many_there_are() {
        let token = ProductToken::new("foobot").unwrap();
        for count in [1, 2, 15, 16, 17, 18, 40] {
            for first in [count / 2, count - 1] {
                let mut expected = vec![first, count - 1];
                expected.dedup();
                let mut lines = vec!["User-agent: other\nDisallow: /\n"; count];
                expected
                    .iter()
                    .for_each(|at| lines[*at] = "User-agent: foobot\nDisallow: /\n");
                let stored = parse(lines.concat().as_bytes());
                for dialect in [Dialect::Rfc9309, Dialect::Google] {
                    let choice = Choice::Named(&token);
                    let found = stored.chosen_agents(Semantics::new(dialect), choice);
                    let found: Vec<_> = found.map(|agent| agent.at as usize / 2).collect();
                    assert_eq!(found, expected, "{count} in {dialect}");
                }
            }
        }
    }
}
