//! The search for the rule that decides: one pass over the rules of a crawler's groups.

use super::budget::MatchBudget;
use super::groups::agent::UserAgentLine;
use super::groups::choice::group_choices;
use super::groups::semantics::DialectSemantics;
use super::head::heads_match;
use super::index::build::build_index;
use super::matched_rule::{MatchOutcome, MatchedRule};
use super::path_form::PathForm;
use super::pattern::{PatternBuffer, RuleValue, parts_match};
use super::statements::stored::ParsedFile;
use super::statements::{FileStatement, LARGE_GROUP, StatementKind};
use crate::percent_encoding::{MAX_ENCODED_BYTES, has_lone_percent};
use crate::{Dialect, ProductToken};

/// The state of one decision, shared by all of its dialects and spellings.
#[derive(Debug, Default)]
pub(crate) struct RuleSearch {
    pub(super) budget: MatchBudget,
    /// The record chosen in each dialect that chooses one, or its absence: the same for every path.
    agents: [Option<Option<UserAgentLine>>; Dialect::SINGLE.len()],
    /// A buffer to compile rules in, which few decisions need.
    patterns: PatternBuffer,
}

impl RuleSearch {
    /// Creates a search on a budget.
    pub(super) fn with_budget(budget: MatchBudget) -> Self {
        Self { budget, ..Self::default() }
    }
}

impl ParsedFile {
    /// Returns the rule that decides about a path.
    #[inline]
    pub(super) fn find_rule(
        &self,
        semantics: &DialectSemantics,
        tokens: &[ProductToken],
        path: &PathForm<'_>,
        search: &mut RuleSearch,
    ) -> MatchOutcome {
        self.prefetch();
        let outcome = if semantics.first_match_wins {
            self.find_in_best_group(semantics, tokens, path, search)
        } else {
            self.find_in_all_groups(semantics, tokens, path, search)
        };
        // Matching that ran out of budget found nothing, which must not count as a rule that does not match.
        if search.budget.is_spent() {
            return MatchOutcome::TooCostly;
        }
        outcome
    }

    /// Returns the rule that decides about a path with its cut escapes as they are, if a rule could match those: one
    /// whose value has a `%` that does not begin an escape.
    #[cold]
    pub(super) fn find_with_cut_escapes(
        &self,
        semantics: &DialectSemantics,
        tokens: &[ProductToken],
        path: &PathForm<'_>,
        search: &mut RuleSearch,
    ) -> MatchOutcome {
        search.budget.spend(self.statements.len());
        let has_cut_escapes = self.statements.iter().enumerate().any(|(at, statement)| {
            statement.kind() == StatementKind::SpecialRule && has_lone_percent(self.text(at))
        });
        if !has_cut_escapes {
            // The least of all outcomes, so the other one decides.
            return MatchOutcome::NoGroup;
        }
        let as_received = path.with_cut_escapes(semantics.form);
        let outcome = self.find_rule(semantics, tokens, &as_received, search);
        outcome.max(self.find_encoded_alike(semantics, tokens, &as_received, search))
    }

    /// Returns the deciding rule among those that match the path when both keep their cut escapes.
    fn find_encoded_alike(
        &self,
        semantics: &DialectSemantics,
        tokens: &[ProductToken],
        path: &PathForm<'_>,
        search: &mut RuleSearch,
    ) -> MatchOutcome {
        let Some(choice) = self.choose_group(semantics, tokens) else {
            return MatchOutcome::NoGroup;
        };
        let RuleSearch { budget, patterns, .. } = search;
        let mut best = MatchOutcome::NoRule;
        for (at, rule) in self.chosen_statements(semantics, choice) {
            let value = self.text(at);
            let may_match = rule.kind() == StatementKind::SpecialRule && semantics.sees_rule(rule);
            if !may_match || !has_lone_percent(value) {
                continue;
            }
            if !budget.spend_on_encoding(value.len()) {
                return MatchOutcome::TooCostly;
            }
            let value = RuleValue::read(value, semantics);
            let pattern = patterns.compile_with_cut_escapes(value, semantics);
            if pattern.matches(path.bytes(), budget) {
                let length = value.specificity(semantics.dialect);
                best = best.max(MatchOutcome::Rule(semantics.weigh(length, rule, at)));
            }
        }
        if budget.is_spent() {
            return MatchOutcome::TooCostly;
        }
        best
    }

    /// Returns the deciding rule of the one chosen record.
    fn find_in_best_group(
        &self,
        semantics: &DialectSemantics,
        tokens: &[ProductToken],
        path: &PathForm<'_>,
        search: &mut RuleSearch,
    ) -> MatchOutcome {
        let choose = || group_choices(tokens).find_map(|choice| self.best_agent(semantics, choice));
        // The record does not depend on the path, so all spellings share the choice.
        let agent = search.agents[semantics.number()].get_or_insert_with(choose);
        let Some(agent) = *agent else {
            return MatchOutcome::NoGroup;
        };
        let (best, _) = self.search_group(semantics, agent, path, search, None);
        best.map_or(MatchOutcome::NoRule, MatchOutcome::Rule)
    }

    /// Returns the deciding rule of all chosen groups.
    fn find_in_all_groups(
        &self,
        semantics: &DialectSemantics,
        tokens: &[ProductToken],
        path: &PathForm<'_>,
        search: &mut RuleSearch,
    ) -> MatchOutcome {
        let mut next = 0;
        let mut agent = None;
        let choice = group_choices(tokens).find(|choice| {
            // Scanning tags is cheap but linear, and a file may have tens of thousands of user-agent lines.
            search.budget.spend(self.agents.len());
            next = 0;
            agent = self.next_agent(semantics, *choice, &mut next);
            agent.is_some()
        });
        let Some(choice) = choice else {
            return MatchOutcome::NoGroup;
        };
        let mut best = None;
        while let Some(chosen) = agent {
            let end;
            (best, end) = self.search_group(semantics, chosen, path, search, best);
            // Other user-agent lines of this group lead to the same rules.
            let others = self.agents[next..].iter();
            next += others.take_while(|other| (other.statement as usize) < end).count();
            agent = self.next_agent(semantics, choice, &mut next);
        }
        best.map_or(MatchOutcome::NoRule, MatchOutcome::Rule)
    }

    /// Returns the deciding rule of `best` and the group of a user-agent line, and the index at which the group ends.
    #[inline]
    fn search_group(
        &self,
        semantics: &DialectSemantics,
        agent: UserAgentLine,
        path: &PathForm<'_>,
        search: &mut RuleSearch,
        best: Option<MatchedRule>,
    ) -> (Option<MatchedRule>, usize) {
        let start = agent.statement as usize + 1;
        if self.statements[agent.statement as usize].has_mark(LARGE_GROUP)
            && let Some(index) = self
                .large_groups
                .index(semantics, agent, |group| build_index(self, semantics, group))
        {
            return (best.max(index.find(path, &mut search.budget)), index.end);
        }
        self.search_rules(semantics, start, path, search, best)
    }

    fn search_rules(
        &self,
        semantics: &DialectSemantics,
        start: usize,
        path: &PathForm<'_>,
        search: &mut RuleSearch,
        mut best: Option<MatchedRule>,
    ) -> (Option<MatchedRule>, usize) {
        let mut end = self.statements.len();
        for (at, statement) in (start..).zip(&self.statements[start..]) {
            if semantics.begins_group(statement) {
                end = at;
                break;
            }
            // Comparing heads rules out most rules without touching their texts.
            if semantics.sees_rule(statement)
                && heads_match(self.head(statement), path.head(), statement.uncertain_bits())
            {
                let candidate =
                    RuleCandidate { rule: statement, value: self.text(at), at, semantics, path };
                let rule = candidate.match_rule(search, best);
                best = best.max(rule);
                // Where order decides, nothing after the first match matters.
                if semantics.first_match_wins && rule.is_some() {
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
struct RuleCandidate<'a> {
    rule: &'a FileStatement,
    value: &'a [u8],
    at: usize,
    semantics: &'a DialectSemantics,
    path: &'a PathForm<'a>,
}

impl RuleCandidate<'_> {
    /// Returns the rule if it matches and decides before `best`. Few rules get this far, so it is kept out of the loop
    /// over all rules.
    #[inline(never)]
    fn match_rule(self, search: &mut RuleSearch, best: Option<MatchedRule>) -> Option<MatchedRule> {
        let value = self.value;
        let path = self.path.bytes();
        // An empty value is no rule, except in Google's parser, where it is one that decides nothing.
        if value.is_empty() && self.semantics.dialect != Dialect::Google {
            return None;
        }
        let rule = self.weight(value.len());
        let matches = match self.rule.kind() {
            StatementKind::SpecialRule => return self.match_special(search, best),
            // It would not decide even if it matched.
            _ if Some(rule) <= best => false,
            StatementKind::WildRule if self.semantics.has_wildcards() => {
                self.match_wild(&mut search.budget)
            }
            _ => path.starts_with(value),
        };
        matches.then_some(rule)
    }

    fn weight(self, length: usize) -> MatchedRule {
        self.semantics.weigh(length, self.rule, self.at)
    }

    #[inline(never)]
    fn match_wild(self, budget: &mut MatchBudget) -> bool {
        let value = RuleValue::read(self.value, self.semantics);
        let parts = value.text.split(|&byte| byte == b'*');
        parts_match(parts, value.anchored, self.path.bytes(), budget)
    }

    /// Matches a rule that the dialects read differently.
    #[cold]
    fn match_special(
        self,
        search: &mut RuleSearch,
        best: Option<MatchedRule>,
    ) -> Option<MatchedRule> {
        let Self { semantics, value, .. } = self;
        // An upper bound of its weight; if even that loses, it need not be encoded.
        let most = self.weight(MAX_ENCODED_BYTES * value.len());
        if Some(most) <= best || !search.budget.spend_on_encoding(value.len()) {
            return None;
        }
        let path = self.path.bytes();
        let form = semantics.form;
        let has_stars = semantics.has_wildcards();
        RuleValue::all_meanings(value, self.rule.is_allow(), semantics).find_map(|value| {
            if !form.may_match_start(path, value.text, has_stars) {
                return None;
            }
            let rule = self.weight(value.specificity(semantics.dialect));
            if Some(rule) <= best {
                return None;
            }
            let pattern = search.patterns.compile(value, semantics);
            let budget = &mut search.budget;
            pattern.matches(path, budget).then_some(rule)
        })
    }
}
