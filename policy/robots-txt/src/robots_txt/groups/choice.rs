//! The choice of groups for a crawler in a dialect.

use memchr::memchr;

use super::super::statements::FileStatement;
use super::super::statements::stored::ParsedFile;
use super::agent::{self, UserAgentLine};
use super::semantics::DialectSemantics;
use crate::{ProductToken, name_tag};

/// The groups that count: those that name a token, or those for everyone.
#[derive(Clone, Copy, Debug)]
pub(crate) enum GroupChoice<'a> {
    Named(&'a ProductToken),
    Everyone,
}

impl GroupChoice<'_> {
    fn tag(self) -> u8 {
        match self {
            Self::Named(token) => token.tag(),
            Self::Everyone => name_tag::WILDCARD,
        }
    }
}

/// Returns the choices in order: the first that has groups decides.
pub(crate) fn group_choices(tokens: &[ProductToken]) -> impl Iterator<Item = GroupChoice<'_>> {
    tokens.iter().map(GroupChoice::Named).chain([GroupChoice::Everyone])
}

impl ParsedFile {
    /// Returns the choice that finds a group: the first of the crawler's names that has one, else everyone.
    pub(crate) fn choose_group<'t>(
        &self,
        semantics: &DialectSemantics,
        tokens: &'t [ProductToken],
    ) -> Option<GroupChoice<'t>> {
        group_choices(tokens).find(|choice| self.chosen_agents(semantics, *choice).next().is_some())
    }

    /// Returns the user-agent lines that choose groups, in the file's order: every line that names the crawler where
    /// groups merge, else the first of the best.
    pub(crate) fn chosen_agents(
        &self,
        semantics: &DialectSemantics,
        choice: GroupChoice<'_>,
    ) -> impl Iterator<Item = UserAgentLine> {
        // Groups of one name merge (RFC 9309 §2.2.1); in the texts before it only one record applies (§3.2.1).
        let mut best = semantics.first_match_wins.then(|| self.best_agent(semantics, choice));
        let mut next = 0;
        std::iter::from_fn(move || match &mut best {
            Some(best) => best.take(),
            None => self.next_agent(semantics, choice, &mut next),
        })
    }

    /// Returns the statements of all chosen groups, each group once, with their indices in the file.
    pub(crate) fn chosen_statements(
        &self,
        semantics: &DialectSemantics,
        choice: GroupChoice<'_>,
    ) -> impl Iterator<Item = (usize, &FileStatement)> {
        let mut after = 0;
        let groups = self.chosen_agents(semantics, choice).map(move |agent| {
            let start = agent.statement as usize;
            // A line inside a group that was already returned chooses nothing new.
            if start < after {
                return 0..0;
            }
            let rest = &self.statements[start + 1..];
            let length =
                rest.iter().take_while(|statement| !semantics.begins_group(statement)).count();
            after = start + 1 + length;
            start..after
        });
        groups.flatten().map(|at| (at, &self.statements[at]))
    }

    /// Returns the next user-agent line that names the crawler, for dialects that compare whole names. Scanning a few
    /// tags is most of the cost of a decision about a small file, hence the inlining.
    #[inline(always)]
    pub(crate) fn next_agent(
        &self,
        semantics: &DialectSemantics,
        choice: GroupChoice<'_>,
        next: &mut usize,
    ) -> Option<UserAgentLine> {
        loop {
            let found = *next + position_of_tag(choice.tag(), self.tags.get(*next..)?)?;
            *next = found + 1;
            let agent = self.agents[found];
            // Different names may share a tag.
            if self.agent_rank(semantics, choice, agent).is_some() {
                return Some(agent);
            }
        }
    }

    /// Returns the first of the user-agent lines that name the crawler best.
    pub(crate) fn best_agent(
        &self,
        semantics: &DialectSemantics,
        choice: GroupChoice<'_>,
    ) -> Option<UserAgentLine> {
        // `max_by_key` returns the last of equal elements, which in reverse is the first line.
        let ranked = self.agents.iter().rev().filter_map(|agent| {
            let rank = self.agent_rank(semantics, choice, *agent)?;
            Some((rank, *agent))
        });
        ranked.max_by_key(|(rank, _)| *rank).map(|(_, agent)| agent)
    }

    fn agent_rank(
        &self,
        semantics: &DialectSemantics,
        choice: GroupChoice<'_>,
        agent: UserAgentLine,
    ) -> Option<usize> {
        let at = agent.statement as usize;
        if !semantics.sees(&self.statements[at]) {
            return None;
        }
        let value = self.text(at);
        match choice {
            GroupChoice::Named(token) => agent::match_rank(value, token, semantics.dialect),
            GroupChoice::Everyone => agent::is_wildcard(value, semantics.dialect).then_some(1),
        }
    }
}

/// Returns the first position of a tag. Most files have few tags, which are scanned sooner than a function is called.
#[inline]
fn position_of_tag(tag: u8, tags: &[u8]) -> Option<usize> {
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
                expected.iter().for_each(|at| lines[*at] = "User-agent: foobot\nDisallow: /\n");
                let stored = parse(lines.concat().as_bytes());
                for dialect in [Dialect::Rfc9309, Dialect::Google] {
                    let choice = GroupChoice::Named(&token);
                    let found =
                        stored.chosen_agents(DialectSemantics::for_dialect(dialect), choice);
                    let found: Vec<_> = found.map(|agent| agent.statement as usize / 2).collect();
                    assert_eq!(found, expected, "{count} in {dialect}");
                }
            }
        }
    }
}
