//! Lines about use that apply to a crawler.

use super::budget::MatchBudget;
use super::directive_topic::{CONTENT_USAGE, DirectiveTopic};
use super::file::RobotsTxt;
use super::groups::choice::GroupChoice;
use super::groups::semantics::DialectSemantics;
use super::statements::StatementKind;
use crate::{Dialect, ProductToken};

/// A line about use.
#[derive(Clone, Copy, Debug)]
pub struct UsageLine<'a> {
    /// The line's number, from 1.
    pub line: u32,
    /// The field name as written.
    pub name: &'a [u8],
    /// The value without surrounding white space and without a comment.
    pub value: &'a [u8],
}

impl UsageLine<'_> {
    /// Returns whether its field is one of those named, in any case.
    #[must_use]
    pub fn is_named(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.name.eq_ignore_ascii_case(name.as_bytes()))
    }
}

impl RobotsTxt {
    /// Returns whether any directive is about use.
    #[doc(hidden)]
    #[must_use]
    pub fn has_usage_lines(&self) -> bool {
        self.has_directives_on(DirectiveTopic::Usage)
    }

    /// Returns the lines about use before any user-agent line.
    #[doc(hidden)]
    #[must_use]
    pub fn usage_lines_before_groups(&self, budget: &mut MatchBudget) -> Vec<UsageLine<'_>> {
        let statements = &self.parsed().statements;
        let count = statements
            .iter()
            .take_while(|statement| statement.kind() != StatementKind::Agent)
            .count();
        budget.spend(count);
        (0..count)
            .filter(|at| statements[*at].is_directive())
            .filter_map(|at| self.usage_line(at))
            .collect()
    }

    /// Returns the lines about use in the groups chosen for a crawler. For them `Content-Usage` ends a run of
    /// user-agent lines like a rule (draft-ietf-aipref-attach-05 §3); for rules it does not, since no reader in use
    /// does that, and a path that one of them disallows must not be opened. The other preferences have no such text:
    /// like `Crawl-delay` they apply to the agents named so far.
    #[doc(hidden)]
    #[must_use]
    pub fn usage_lines_of_group(
        &self,
        dialect: Dialect,
        tokens: &[ProductToken],
        budget: &mut MatchBudget,
    ) -> Vec<UsageLine<'_>> {
        let semantics = DialectSemantics::for_dialect(dialect);
        let file = self.parsed();
        budget.spend(file.agents.len());
        let Some(choice) = file.choose_group(semantics, tokens) else {
            return Vec::new();
        };
        let mut chosen =
            file.chosen_agents(semantics, choice).map(|agent| agent.statement as usize).peekable();
        let mut lines = Vec::new();
        let mut is_for_crawler = false;
        let mut has_rules = false;
        for (at, statement) in file.chosen_statements(semantics, choice) {
            // The caller sees that the budget is spent, and restricts the paths whose lines it has not read.
            if !budget.spend(1) {
                break;
            }
            if statement.kind() == StatementKind::Agent {
                // After a rule a user-agent line begins a new run, which has to name the crawler itself.
                is_for_crawler &= !has_rules;
                // Both iterate in the file's order.
                while chosen.next_if(|next| *next < at).is_some() {}
                is_for_crawler |= chosen.next_if_eq(&at).is_some();
                has_rules = false;
            } else if statement.is_rule() {
                has_rules |= semantics.sees(statement);
            } else if statement.is_directive()
                && semantics.is_in_group(statement)
                && let Some(line) = self.usage_line(at)
            {
                has_rules |= line.is_named(&[CONTENT_USAGE]);
                lines.extend(is_for_crawler.then_some(line));
            }
        }
        lines
    }

    /// Returns the statement at an index if it is about use.
    fn usage_line(&self, at: usize) -> Option<UsageLine<'_>> {
        let (name, value) = self.parsed().name_and_value(at);
        (DirectiveTopic::of_name(name) == Some(DirectiveTopic::Usage)).then(|| UsageLine {
            line: self.parsed().line(at),
            name,
            value,
        })
    }

    /// Returns whether a group names a crawler, rather than everyone.
    #[doc(hidden)]
    #[must_use]
    pub fn has_group_for(&self, dialect: Dialect, token: &ProductToken) -> bool {
        let semantics = DialectSemantics::for_dialect(dialect);
        self.parsed().chosen_agents(semantics, GroupChoice::Named(token)).next().is_some()
    }
}
