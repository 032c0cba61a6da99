//! The rule that decides: one pass over the rules of a crawler's groups.

use std::num::NonZeroU64;

use super::index::Index;
use super::pattern::{Path, Pattern, matches_wild};
use super::stream::{ALLOW, DISALLOW, EXACT, Event, GOOGLE, PLAIN, RECORD, RUN, WILD, events};
use super::{Agent, RobotsTxt, agent};
use crate::{Dialect, ProductToken};

/// What a file says about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    NoGroup,
    NoRule,
    Rule(Match),
}

/// A rule that matches, as a number that is the greater the sooner the rule decides: the octets
/// of its pattern, whether it allows, and that it stands early in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Match(NonZeroU64);

impl Match {
    const ALLOW: u64 = 1 << 32;
    const EARLY: u64 = Self::ALLOW - 1;

    /// Takes the octets of the pattern, zero where order decides, and the offset of the event.
    pub(crate) fn new(octets: u32, allow: bool, offset: usize) -> Self {
        let allow = if allow { Self::ALLOW } else { 0 };
        let early = Self::EARLY - offset as u64;
        let number = u64::from(octets) << 33 | allow | early;
        Self(NonZeroU64::new(number).expect("offsets are far below 4 GiB"))
    }

    pub(crate) fn octets(self) -> u32 {
        (self.0.get() >> 33) as u32
    }

    pub(crate) fn is_allow(self) -> bool {
        self.0.get() & Self::ALLOW != 0
    }

    pub(crate) fn offset(self) -> usize {
        (Self::EARLY - self.early()) as usize
    }

    /// Where this rule stands among those of which the first decides: the greater the earlier.
    pub(crate) fn early(self) -> u64 {
        self.0.get() & Self::EARLY
    }
}

/// How a dialect goes through a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader {
    pub(crate) dialect: Dialect,
    /// The flag of the events it sees.
    pub(crate) sees: u8,
    /// The flag of the runs at which a new group begins for it.
    pub(crate) ends: u8,
    /// Whether the first rule that matches decides, in the first record that is for the crawler.
    pub(crate) takes_first: bool,
}

impl Reader {
    pub(crate) fn new(dialect: Dialect) -> Self {
        let (sees, ends, takes_first) = match dialect {
            Dialect::Rfc9309 | Dialect::Strictest => (EXACT, EXACT, false),
            Dialect::Google => (GOOGLE, GOOGLE, false),
            Dialect::Koster1996 | Dialect::Selfhtml => (EXACT, RECORD, true),
        };
        Self {
            dialect,
            sees,
            ends,
            takes_first,
        }
    }

    /// The events from a user-agent line to the end of its group.
    pub(crate) fn group<'a>(
        self,
        stream: &'a [u8],
        agent: Agent,
    ) -> impl Iterator<Item = Event<'a>> {
        events(stream, agent.offset())
            .take_while(move |event| event.kind() != RUN || event.tag & self.ends == 0)
            .filter(move |event| event.tag & self.sees != 0)
    }
}

/// Whose groups count.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Choice<'a> {
    Named(&'a ProductToken),
    Everyone,
}

impl RobotsTxt {
    /// The rule that decides about a path.
    pub(crate) fn find(&self, reader: Reader, tokens: &[ProductToken], path: &Path<'_>) -> Found {
        for token in tokens {
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
                Some(agent) => self
                    .find_in(reader, agent, path)
                    .map_or(Found::NoRule, Found::Rule),
                None => Found::NoGroup,
            };
        }
        let mut found = Found::NoGroup;
        let mut best: Option<Match> = None;
        let mut next = 0;
        while let Some(agent) = self.next_agent(reader, choice, &mut next) {
            found = Found::NoRule;
            best = best.max(self.find_in(reader, agent, path));
        }
        best.map_or(found, Found::Rule)
    }

    fn find_in(&self, reader: Reader, agent: Agent, path: &Path<'_>) -> Option<Match> {
        if agent.is_large() {
            self.index(reader, agent).find(path)
        } else {
            find_in_group(&self.stream, reader, agent, path)
        }
    }

    /// The user-agent lines by which groups are chosen: every one that names the crawler where
    /// groups merge, the first of the best where they do not.
    pub(crate) fn chosen_agents(&self, reader: Reader, choice: Choice<'_>) -> Vec<Agent> {
        if reader.takes_first {
            return self.best_agent(reader, choice).into_iter().collect();
        }
        let mut next = 0;
        std::iter::from_fn(|| self.next_agent(reader, choice, &mut next)).collect()
    }

    /// The next user-agent line that names the crawler, where names are compared as a whole.
    fn next_agent(&self, reader: Reader, choice: Choice<'_>, next: &mut usize) -> Option<Agent> {
        let tag = match choice {
            Choice::Named(token) => token.tag(),
            Choice::Everyone => agent::EVERYONE,
        };
        loop {
            let index = *next + position(tag, self.tags.get(*next..)?)?;
            *next = index + 1;
            let agent = self.agents[index];
            if self.agent_rank(reader, choice, agent).is_some() {
                return Some(agent);
            }
        }
    }

    fn best_agent(&self, reader: Reader, choice: Choice<'_>) -> Option<Agent> {
        let ranks = self.agents.iter().filter_map(|&agent| {
            Some((
                self.agent_rank(reader, choice, agent)?,
                std::cmp::Reverse(agent.offset()),
                agent,
            ))
        });
        let best = ranks.max_by_key(|&(rank, first, _)| (rank, first))?;
        Some(best.2)
    }

    fn agent_rank(&self, reader: Reader, choice: Choice<'_>, agent: Agent) -> Option<usize> {
        let event = events(&self.stream, agent.offset()).next()?;
        if event.tag & reader.sees == 0 {
            return None;
        }
        let (_, value) = event.agent();
        match choice {
            Choice::Named(token) => agent::rank(value, token, reader.dialect),
            Choice::Everyone => agent::is_everyone(value, reader.dialect).then_some(1),
        }
    }

    fn index(&self, reader: Reader, agent: Agent) -> &Index {
        self.indexes
            .get_or_insert_with((agent.offset(), reader.dialect), || {
                Index::new(reader.dialect, reader.group(&self.stream, agent))
            })
    }
}

fn position(tag: u8, tags: &[u8]) -> Option<usize> {
    const FEW: usize = 16;
    if tags.len() <= FEW {
        tags.iter().position(|&other| other == tag)
    } else {
        memchr::memchr(tag, tags)
    }
}

fn find_in_group(stream: &[u8], reader: Reader, agent: Agent, path: &Path<'_>) -> Option<Match> {
    let mut best = None;
    for event in events(stream, agent.offset()) {
        match event.kind() {
            ALLOW | DISALLOW if event.tag & reader.sees != 0 => {
                if !event.may_match(stream, path.head()) {
                    continue;
                }
                let rule = match_rule(&event, reader.dialect, path);
                if rule.is_some() && reader.takes_first {
                    return rule;
                }
                best = best.max(rule);
            }
            RUN if event.tag & reader.ends != 0 => break,
            _ => {}
        }
    }
    best
}

fn match_rule(event: &Event<'_>, dialect: Dialect, path: &Path<'_>) -> Option<Match> {
    let (value, _) = event.rule();
    let allow = event.kind() == ALLOW;
    let takes_first = matches!(dialect, Dialect::Koster1996 | Dialect::Selfhtml);
    let octets = match event.form() {
        // An empty value is no rule, but to Google's parser one that decides nothing.
        PLAIN if value.is_empty() && dialect != Dialect::Google => None,
        PLAIN => path.octets().starts_with(value).then_some(value.len()),
        WILD if dialect != Dialect::Koster1996 => {
            matches_wild(value, path.octets()).then_some(value.len())
        }
        _ => match_special(allow, value, dialect, path),
    };
    let octets = octets?;
    let octets = if takes_first {
        0
    } else {
        u32::try_from(octets).expect("far below 4 GiB")
    };
    Some(Match::new(octets, allow, event.offset))
}

#[cold]
fn match_special(allow: bool, value: &[u8], dialect: Dialect, path: &Path<'_>) -> Option<usize> {
    let pattern = Pattern::new(value, dialect);
    if pattern.matches(path) {
        return Some(pattern.octets() as usize);
    }
    let directory = Pattern::of_directory(value).filter(|_| allow && dialect == Dialect::Google)?;
    directory.matches(path).then(|| directory.octets() as usize)
}
