//! The rule that decides: one pass over the rules of a crawler's groups.

use super::index::Index;
use super::pattern::{Path, Pattern, head_mask, matches_wild};
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

/// A rule that matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Match {
    /// How specific it is; zero where order decides.
    pub(crate) octets: u32,
    pub(crate) allow: bool,
    /// Where its event is; rules compare by it as they stand in the file.
    pub(crate) offset: u32,
}

impl Match {
    /// Most octets first; allow before disallow; the earlier line before the later.
    pub(crate) fn beats(&self, other: Option<&Self>) -> bool {
        let rank = |rule: &Self| (rule.octets, rule.allow, u32::MAX - rule.offset);
        other.is_none_or(|other| rank(self) > rank(other))
    }

    fn or(self, other: Option<Self>) -> Self {
        other
            .filter(|other| other.beats(Some(&self)))
            .unwrap_or(self)
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
            if let Some(rule) = self.find_in(reader, agent, path)
                && rule.beats(best.as_ref())
            {
                best = Some(rule);
            }
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
    let mut best: Option<Match> = None;
    for event in events(stream, agent.offset()) {
        match event.kind() {
            ALLOW | DISALLOW if event.tag & reader.sees != 0 => {
                let (value, plain) = event.rule();
                if (super::pattern::head(value) ^ path.head()) & head_mask(plain) != 0 {
                    continue;
                }
                let Some(rule) = match_rule(&event, value, reader.dialect, path) else {
                    continue;
                };
                if reader.takes_first {
                    return Some(rule);
                }
                if rule.beats(best.as_ref()) {
                    best = Some(rule);
                }
            }
            RUN if event.tag & reader.ends != 0 => break,
            _ => {}
        }
    }
    best
}

fn match_rule(event: &Event<'_>, value: &[u8], dialect: Dialect, path: &Path<'_>) -> Option<Match> {
    let octets = u32::try_from(value.len()).expect("the limit is below 4 GiB");
    let octets = match event.form() {
        // An empty value is no rule, but to Google's parser one that decides nothing.
        PLAIN if octets == 0 && dialect != Dialect::Google => None,
        PLAIN => path.octets().starts_with(value).then_some(octets),
        WILD if dialect != Dialect::Koster1996 => {
            matches_wild(value, path.octets()).then_some(octets)
        }
        _ => match_special(event.kind() == ALLOW, value, dialect, path),
    };
    let takes_first = matches!(dialect, Dialect::Koster1996 | Dialect::Selfhtml);
    octets.map(|octets| Match {
        octets: if takes_first { 0 } else { octets },
        allow: event.kind() == ALLOW,
        offset: u32::try_from(event.offset).expect("the limit is below 4 GiB"),
    })
}

#[cold]
fn match_special(allow: bool, value: &[u8], dialect: Dialect, path: &Path<'_>) -> Option<u32> {
    let pattern = Pattern::new(value, dialect);
    if pattern.matches(path) {
        return Some(pattern.octets());
    }
    let directory = Pattern::of_directory(value).filter(|_| allow && dialect == Dialect::Google)?;
    directory.matches(path).then(|| directory.octets())
}
