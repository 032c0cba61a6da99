//! Lines about use that apply to a crawler.

use super::budget::Budget;
use super::file::RobotsTxt;
use super::groups::choice::Choice;
use super::groups::semantics::Semantics;
use super::statements::Kind;
use super::topic::{CONTENT_USAGE, Topic};
use crate::{Dialect, ProductToken};

/// A line about use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UseLine<'a> {
    /// The line's number, from 1.
    pub(crate) line: u32,
    /// The field name as written.
    pub(crate) name: &'a [u8],
    /// The value without surrounding white space and without a comment.
    pub(crate) value: &'a [u8],
}

impl UseLine<'_> {
    pub(crate) fn is(&self, names: &[&str]) -> bool {
        let is_name = |name: &&str| self.name.eq_ignore_ascii_case(name.as_bytes());
        names.iter().any(is_name)
    }
}

impl RobotsTxt {
    /// Returns whether any directive is about use.
    pub(crate) fn speaks_of_use(&self) -> bool {
        self.speaks_of(Topic::Use)
    }

    /// Returns the lines about use before any user-agent line.
    pub(crate) fn use_lines_before_groups(&self, budget: &mut Budget) -> Vec<UseLine<'_>> {
        let all = self.stored().statements.iter().enumerate();
        let before = all.take_while(|(_, it)| it.kind != Kind::Agent);
        let before = before.inspect(|_| {
            budget.spend(1);
        });
        let directives = before.filter(|(_, it)| it.is_directive());
        directives.filter_map(|(at, _)| self.use_line(at)).collect()
    }

    /// Returns the lines about use in the groups chosen for a crawler. For them `Content-Usage` ends a run of
    /// user-agent lines like a rule (draft-ietf-aipref-attach-05 §3); for rules it does not, since no reader in use
    /// does that, and a path that one of them disallows must not be opened. The other preferences have no such text:
    /// like `Crawl-delay` they apply to the agents named so far.
    pub(crate) fn use_lines_of_group(
        &self,
        dialect: Dialect,
        tokens: &[ProductToken],
        budget: &mut Budget,
    ) -> Vec<UseLine<'_>> {
        let (semantics, stored) = (Semantics::new(dialect), self.stored());
        budget.spend(stored.agents.len());
        let Some(choice) = stored.choice(semantics, tokens) else {
            return Vec::new();
        };
        let agents = stored.chosen_agents(semantics, choice);
        let mut chosen = agents.map(|agent| agent.at as usize).peekable();
        let mut lines = Vec::new();
        let (mut is_for_crawler, mut has_rules) = (false, false);
        for (at, statement) in stored.chosen_statements(semantics, choice) {
            if !budget.spend(1) {
                break;
            }
            if statement.kind == Kind::Agent {
                // After a rule a user-agent line begins a new run, which has to name the crawler itself.
                is_for_crawler &= !has_rules;
                // Both iterate in the file's order.
                while chosen.next_if(|it| *it < at).is_some() {}
                is_for_crawler |= chosen.next_if_eq(&at).is_some();
                has_rules = false;
            } else if statement.is_rule() {
                has_rules |= semantics.sees(statement);
            } else if statement.is_directive()
                && semantics.has_in_group(statement)
                && let Some(line) = self.use_line(at)
            {
                has_rules |= line.is(&[CONTENT_USAGE]);
                lines.extend(is_for_crawler.then_some(line));
            }
        }
        lines
    }

    /// Returns the statement at an index if it is about use.
    fn use_line(&self, at: usize) -> Option<UseLine<'_>> {
        let (name, value) = self.stored().name_and_value(at);
        (Topic::named(name) == Some(Topic::Use)).then(|| UseLine {
            line: self.stored().statements[at].line,
            name,
            value,
        })
    }

    /// Returns whether a group names a crawler, rather than everyone.
    pub(crate) fn has_group_of(&self, dialect: Dialect, token: &ProductToken) -> bool {
        let (semantics, choice) = (Semantics::new(dialect), Choice::Named(token));
        let mut agents = self.stored().chosen_agents(semantics, choice);
        agents.next().is_some()
    }
}
