//! The rule that decides: one pass over the rules of a crawler's groups.

use std::hint::black_box;

use super::budget::Budget;
use super::groups::agent::Agent;
use super::groups::choice::{Choice, choices};
use super::groups::semantics::Semantics;
use super::head::HEAD_BYTES;
use super::index::Index;
use super::index::build::build;
use super::matched_rule::{Answer, MatchedRule};
use super::path_form::PathForm;
use super::pattern::{Patterns, Value, matches};
use super::statements::event::{ALLOW, DISALLOW, Event, PLAIN, RUN, SPECIAL, WILD, events};
use super::statements::stored::Statements;
use crate::forms::{MAX_WRITTEN, has_lone_percent};
use crate::{Dialect, ProductToken};

/// What one decision has found out and spent so far, in all the dialects and spellings it asks for.
#[derive(Debug, Default)]
pub(crate) struct Search {
    pub(super) budget: Budget,
    /// The record chosen in each dialect that chooses one, or that there is none: whatever the path.
    agents: [Option<Option<Agent>>; Dialect::EACH.len()],
    /// Made when a rule is met that needs it, which few decisions do.
    patterns: Option<Box<Patterns>>,
}

impl<'a> Statements<'a> {
    /// The rule that decides about a path.
    #[inline]
    pub(super) fn find(
        self,
        semantics: Semantics,
        tokens: &[ProductToken],
        path: &PathForm<'_>,
        search: &mut Search,
    ) -> Answer {
        self.ask_for_memory();
        let answer = if semantics.takes_first {
            self.find_in_best(semantics, tokens, path, search)
        } else {
            let named = tokens.iter().map(Choice::Named);
            let mut found = named.map(|choice| self.find_in_all(semantics, choice, path, search));
            let found = found.find(|answer| *answer != Answer::NoGroup);
            found.unwrap_or_else(|| self.find_in_all(semantics, Choice::Everyone, path, search))
        };
        if search.budget.is_spent() {
            return Answer::TooCostly;
        }
        answer
    }

    /// The rule that decides about a path with its cut escapes as they are, if a rule could match those: its value has a
    /// `%` that escapes nothing.
    #[cold]
    pub(super) fn find_with_cut_escapes(
        self,
        semantics: Semantics,
        tokens: &[ProductToken],
        path: &PathForm<'_>,
        search: &mut Search,
    ) -> Answer {
        search.budget.spend_on_reading(self.stream.len());
        let is_such = |event: Event<'_>| {
            event.is_rule() && event.form() == SPECIAL && has_lone_percent(event.rule().0)
        };
        if !events(self.stream, 0).any(is_such) {
            return Answer::NoGroup;
        }
        let path = path.with_cut_escapes(semantics.form());
        self.find(semantics, tokens, &path, search)
    }

    /// Reads one byte of each of the first lines of memory. Of a file that nobody asked about lately they come all at
    /// once then, where the search would wait for each before it knows of the next.
    #[inline]
    fn ask_for_memory(self) {
        const LINE: usize = 64;
        const LINES: usize = 6;
        let bytes = self.stream.iter().step_by(LINE).take(LINES);
        black_box(bytes.fold(0, |all, byte| all ^ byte));
    }

    /// What decides in the one record chosen.
    fn find_in_best(
        self,
        semantics: Semantics,
        tokens: &[ProductToken],
        path: &PathForm<'_>,
        search: &mut Search,
    ) -> Answer {
        let choose = || choices(tokens).find_map(|choice| self.best_agent(semantics, choice));
        let agent = search.agents[semantics.number()].get_or_insert_with(choose);
        let Some(agent) = *agent else {
            return Answer::NoGroup;
        };
        let best = self.search_group(semantics, agent, path, search, None).best;
        best.map_or(Answer::NoRule, Answer::Rule)
    }

    /// What decides in all groups chosen. Inlined, since most of it falls away for either choice.
    #[inline(always)]
    fn find_in_all(
        self,
        semantics: Semantics,
        choice: Choice<'_>,
        path: &PathForm<'_>,
        search: &mut Search,
    ) -> Answer {
        let mut found = Answer::NoGroup;
        let mut best = None;
        let mut next = 0;
        while let Some(agent) = self.next_agent(semantics, choice, &mut next) {
            found = Answer::NoRule;
            let group = self.search_group(semantics, agent, path, search, best);
            best = group.best;
            // Other lines of this group say nothing new.
            while let Some(other) = self.agents.at(next)
                && other.offset() < group.end
            {
                next += 1;
            }
        }
        best.map_or(found, Answer::Rule)
    }

    /// What decides among `best` and the rules of the group of a user-agent line.
    #[inline(always)]
    fn search_group(
        self,
        semantics: Semantics,
        agent: Agent,
        path: &PathForm<'_>,
        search: &mut Search,
        best: Option<MatchedRule>,
    ) -> Searched {
        if agent.is_large()
            && let Some(index) = self.index(semantics, agent, &mut search.budget)
        {
            return Searched {
                best: best.max(index.find(path, &mut search.budget)),
                end: index.end,
            };
        }
        search_rules(semantics, (self.stream, agent.offset()), path, search, best)
    }

    /// Few groups are large. Apart, so that the compiler puts the search of the others into their decisions: the median
    /// takes 55 instead of 59 ns.
    #[inline(never)]
    fn index(self, semantics: Semantics, agent: Agent, budget: &mut Budget) -> Option<&'a Index> {
        self.indexes
            .find_or_build(self.agents, semantics, agent, |agent| {
                build(semantics, events(self.stream, agent.offset()), budget)
            })
    }
}

/// What decides after a group was searched, and where the group ends.
struct Searched {
    best: Option<MatchedRule>,
    end: usize,
}

fn search_rules(
    semantics: Semantics,
    (stream, start): (&[u8], usize),
    path: &PathForm<'_>,
    search: &mut Search,
    mut best: Option<MatchedRule>,
) -> Searched {
    let mut events = events(stream, start);
    let mut end = usize::MAX;
    loop {
        let is_alike = events.skip_unlike(path.head(), semantics.ends);
        let Some(event) = events.next() else { break };
        match event.kind() {
            ALLOW | DISALLOW if event.tag & semantics.sees != 0 => {
                if !is_alike && !events.may_match(&event, path.head()) {
                    continue;
                }
                let rule = match_rule(&event, semantics, path, search, best);
                best = best.max(rule);
                if semantics.takes_first && rule.is_some() {
                    break;
                }
            }
            RUN if event.tag & semantics.ends != 0 => {
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
    semantics: Semantics,
    path: &PathForm<'_>,
    search: &mut Search,
    best: Option<MatchedRule>,
) -> Option<MatchedRule> {
    let (value, _) = event.rule();
    let length = if semantics.takes_first {
        0
    } else {
        value.len()
    };
    let rule = Some(MatchedRule::new(
        length,
        event.kind() == ALLOW,
        event.offset,
    ));
    let dialect = semantics.dialect;
    let matches = match event.form() {
        // An empty value is no rule, but to Google's parser one that decides nothing.
        PLAIN if value.is_empty() && dialect != Dialect::Google => false,
        // Whoever asks has compared the head.
        PLAIN if value.len() <= HEAD_BYTES => rule > best && path.bytes().len() >= value.len(),
        PLAIN => rule > best && path.bytes().starts_with(value),
        WILD if !semantics.has_stars() => path.bytes().starts_with(value),
        WILD => rule > best && match_wild(event, semantics, path, search),
        _ => return match_special(event, semantics, path, search, best),
    };
    rule.filter(|_| matches)
}

#[inline(never)]
fn match_wild(
    event: &Event<'_>,
    semantics: Semantics,
    path: &PathForm<'_>,
    search: &mut Search,
) -> bool {
    let value = Value::read(event.rule().0, semantics);
    let parts = value.text.split(|&byte| byte == b'*');
    matches(parts, value.anchored, path.bytes(), &mut search.budget)
}

/// A rule that the dialects read differently, if it matches and decides before `best`.
#[cold]
fn match_special(
    event: &Event<'_>,
    semantics: Semantics,
    path: &PathForm<'_>,
    search: &mut Search,
    best: Option<MatchedRule>,
) -> Option<MatchedRule> {
    let (text, _) = event.rule();
    let (allow, dialect) = (event.kind() == ALLOW, semantics.dialect);
    let rule = |length: usize| {
        Some(MatchedRule::new(length, allow, event.offset)).filter(|rule| Some(*rule) > best)
    };
    if !semantics.takes_first {
        rule(MAX_WRITTEN * text.len())?;
    }
    let Search {
        budget, patterns, ..
    } = search;
    if !budget.spend_on_writing(text.len()) {
        return None;
    }
    let mut match_value = |value: Value<'_>| {
        let form = semantics.form();
        if !form.may_begin(path.bytes(), value.text, semantics.has_stars()) {
            return None;
        }
        let rule = rule(value.specificity(semantics))?;
        let pattern = patterns
            .get_or_insert_default()
            .take_apart(value, semantics);
        Some(rule).filter(|_| matches(pattern.parts(), pattern.anchored, path.bytes(), budget))
    };
    let rule = match_value(Value::read(text, semantics));
    if rule.is_some() || dialect != Dialect::Google || !allow {
        return rule;
    }
    // The directory is less specific than the file in it.
    match_value(Value::directory(text)?)
}
