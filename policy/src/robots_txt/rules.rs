//! The search for the rule that decides: one pass over the rules of a crawler's groups.

use super::budget::Budget;
use super::groups::agent::Agent;
use super::groups::choice::choices;
use super::groups::semantics::Semantics;
use super::head::agree;
use super::index::build::build;
use super::matched_rule::{Answer, MatchedRule};
use super::path_form::PathForm;
use super::pattern::{Patterns, Value, matches};
use super::statements::stored::Stored;
use super::statements::{Form, Statement};
use crate::percent_encoding::{MAX_WRITTEN, has_lone_percent};
use crate::{Dialect, ProductToken};

/// The state of one decision, shared by all of its dialects and spellings.
#[derive(Debug, Default)]
pub(crate) struct Search {
    pub(super) budget: Budget,
    /// The record chosen in each dialect that chooses one, or its absence: the same for every path.
    agents: [Option<Option<Agent>>; Dialect::EACH.len()],
    /// A buffer to compile rules in, which few decisions need.
    patterns: Patterns,
}

impl Search {
    /// Creates a search on a budget.
    pub(super) fn within(budget: Budget) -> Self {
        Self {
            budget,
            ..Self::default()
        }
    }
}

impl Stored {
    /// Returns the rule that decides about a path.
    #[inline]
    pub(super) fn find(
        &self,
        semantics: &Semantics,
        tokens: &[ProductToken],
        path: &PathForm<'_>,
        search: &mut Search,
    ) -> Answer {
        self.ask_for_memory();
        let answer = if semantics.takes_first {
            self.find_in_best(semantics, tokens, path, search)
        } else {
            self.find_in_all(semantics, tokens, path, search)
        };
        if search.budget.is_spent() {
            return Answer::TooCostly;
        }
        answer
    }

    /// Returns the rule that decides about a path with its cut escapes as they are, if a rule could match those: one
    /// whose value has a `%` that does not begin an escape.
    #[cold]
    pub(super) fn find_with_cut_escapes(
        &self,
        semantics: &Semantics,
        tokens: &[ProductToken],
        path: &PathForm<'_>,
        search: &mut Search,
    ) -> Answer {
        search.budget.spend(self.statements.len());
        let all = self.statements.iter().enumerate();
        let mut special = all.filter(|(_, it)| it.form == Form::Special);
        if !special.any(|(at, _)| has_lone_percent(self.text(at))) {
            return Answer::NoGroup;
        }
        let path = path.with_cut_escapes(semantics.form);
        let answer = self.find(semantics, tokens, &path, search);
        answer.max(self.find_alike(semantics, tokens, &path, search))
    }

    /// Returns the deciding rule among those that match the path when both keep their cut escapes.
    fn find_alike(
        &self,
        semantics: &Semantics,
        tokens: &[ProductToken],
        path: &PathForm<'_>,
        search: &mut Search,
    ) -> Answer {
        let Some(choice) = self.choice(semantics, tokens) else {
            return Answer::NoGroup;
        };
        let Search {
            budget, patterns, ..
        } = search;
        let mut best = Answer::NoRule;
        for (at, rule) in self.chosen_statements(semantics, choice) {
            let value = self.text(at);
            let may_match = rule.form == Form::Special && semantics.sees_rule(rule);
            if !may_match || !has_lone_percent(value) {
                continue;
            }
            if !budget.spend_on_writing(value.len()) {
                return Answer::TooCostly;
            }
            let value = Value::read(value, semantics);
            let pattern = patterns.take_apart_with_cut_escapes(value, semantics);
            if pattern.matches(path.bytes(), budget) {
                let length = value.specificity(semantics.dialect);
                best = best.max(Answer::Rule(semantics.matched(length, rule, at)));
            }
        }
        if budget.is_spent() {
            return Answer::TooCostly;
        }
        best
    }

    /// Returns the deciding rule of the one chosen record.
    fn find_in_best(
        &self,
        semantics: &Semantics,
        tokens: &[ProductToken],
        path: &PathForm<'_>,
        search: &mut Search,
    ) -> Answer {
        let choose = || choices(tokens).find_map(|choice| self.best_agent(semantics, choice));
        // The record does not depend on the path, so all spellings share the choice.
        let agent = search.agents[semantics.number()].get_or_insert_with(choose);
        let Some(agent) = *agent else {
            return Answer::NoGroup;
        };
        let (best, _) = self.search_group(semantics, agent, path, search, None);
        best.map_or(Answer::NoRule, Answer::Rule)
    }

    /// Returns the deciding rule of all chosen groups.
    fn find_in_all(
        &self,
        semantics: &Semantics,
        tokens: &[ProductToken],
        path: &PathForm<'_>,
        search: &mut Search,
    ) -> Answer {
        let (mut next, mut agent) = (0, None);
        let choice = choices(tokens).find(|choice| {
            // Scanning tags is cheap but linear, and a file may have tens of thousands of user-agent lines.
            search.budget.spend(self.agents.len());
            next = 0;
            agent = self.next_agent(semantics, *choice, &mut next);
            agent.is_some()
        });
        let Some(choice) = choice else {
            return Answer::NoGroup;
        };
        let mut best = None;
        while let Some(chosen) = agent {
            let end;
            (best, end) = self.search_group(semantics, chosen, path, search, best);
            // Other user-agent lines of this group lead to the same rules.
            let others = self.agents[next..].iter();
            next += others.take_while(|it| (it.at as usize) < end).count();
            agent = self.next_agent(semantics, choice, &mut next);
        }
        best.map_or(Answer::NoRule, Answer::Rule)
    }

    /// Returns the deciding rule of `best` and the group of a user-agent line, and the index at which the group ends.
    #[inline]
    fn search_group(
        &self,
        semantics: &Semantics,
        agent: Agent,
        path: &PathForm<'_>,
        search: &mut Search,
        best: Option<MatchedRule>,
    ) -> (Option<MatchedRule>, usize) {
        let start = agent.at as usize + 1;
        let budget = &mut search.budget;
        if agent.large.is_some()
            && let Some(index) = self.index(semantics, agent, || {
                build(self, semantics, start, &mut *budget)
            })
        {
            return (best.max(index.find(path, &mut search.budget)), index.end);
        }
        self.search_rules(semantics, start, path, search, best)
    }

    fn search_rules(
        &self,
        semantics: &Semantics,
        start: usize,
        path: &PathForm<'_>,
        search: &mut Search,
        mut best: Option<MatchedRule>,
    ) -> (Option<MatchedRule>, usize) {
        let mut end = self.statements.len();
        for (at, statement) in (start..).zip(&self.statements[start..]) {
            if semantics.ends_at(statement) {
                end = at;
                break;
            }
            // Comparing heads rules out most rules without touching their texts.
            if semantics.sees_rule(statement)
                && agree(self.head(statement), path.head(), statement.unsure)
            {
                let asked = Asked {
                    rule: statement,
                    value: self.text(at),
                    at,
                    semantics,
                    path,
                };
                let rule = asked.match_rule(search, best);
                best = best.max(rule);
                // Where order decides, nothing after the first match matters.
                if semantics.takes_first && rule.is_some() {
                    end = at;
                    break;
                }
            }
        }
        search.budget.spend(end - start);
        (best, end)
    }
}

/// A rule whose head matches the path's.
#[derive(Clone, Copy)]
struct Asked<'a> {
    rule: &'a Statement,
    value: &'a [u8],
    at: usize,
    semantics: &'a Semantics,
    path: &'a PathForm<'a>,
}

impl Asked<'_> {
    /// Returns the rule if it matches and decides before `best`. Few rules get this far, so it is kept out of the loop
    /// over all rules.
    #[inline(never)]
    fn match_rule(self, search: &mut Search, best: Option<MatchedRule>) -> Option<MatchedRule> {
        let (value, path) = (self.value, self.path.bytes());
        // An empty value is no rule, except in Google's parser, where it is one that decides nothing.
        if value.is_empty() && self.semantics.dialect != Dialect::Google {
            return None;
        }
        let rule = self.weighed(value.len());
        let matches = match self.rule.form {
            Form::Special => return self.match_special(search, best),
            // It would not decide even if it matched.
            _ if Some(rule) <= best => false,
            Form::Wild if self.semantics.has_stars() => self.match_wild(&mut search.budget),
            Form::Plain | Form::Wild => path.starts_with(value),
        };
        matches.then_some(rule)
    }

    fn weighed(self, length: usize) -> MatchedRule {
        self.semantics.matched(length, self.rule, self.at)
    }

    #[inline(never)]
    fn match_wild(self, budget: &mut Budget) -> bool {
        let value = Value::read(self.value, self.semantics);
        let parts = value.text.split(|&byte| byte == b'*');
        matches(parts, value.anchored, self.path.bytes(), budget)
    }

    /// Matches a rule that the dialects read differently.
    #[cold]
    fn match_special(self, search: &mut Search, best: Option<MatchedRule>) -> Option<MatchedRule> {
        let Self {
            semantics, value, ..
        } = self;
        // An upper bound of its weight; if even that loses, it need not be encoded.
        let most = self.weighed(MAX_WRITTEN * value.len());
        if Some(most) <= best || !search.budget.spend_on_writing(value.len()) {
            return None;
        }
        let path = self.path.bytes();
        let (form, has_stars) = (semantics.form, semantics.has_stars());
        Value::all(value, self.rule.is_allow(), semantics).find_map(|value| {
            if !form.may_begin(path, value.text, has_stars) {
                return None;
            }
            let rule = self.weighed(value.specificity(semantics.dialect));
            if Some(rule) <= best {
                return None;
            }
            let pattern = search.patterns.take_apart(value, semantics);
            let budget = &mut search.budget;
            pattern.matches(path, budget).then_some(rule)
        })
    }
}
