//! Preference: the lines about use that concern a crawler, and how specific a path on them is.

use super::budget::Budget;
use super::directives::Directive;
use super::file::RobotsTxt;
use super::groups::choice::Choice;
use super::groups::semantics::Semantics;
use super::path_form::PathForm;
use super::pattern::{Patterns, Value};
use super::statements::Kind;
use super::topic::{CONTENT_USAGE, Topic};
use crate::{Dialect, ProductToken};

impl RobotsTxt {
    /// Whether any directive is about use.
    pub(crate) fn speaks_of_use(&self) -> bool {
        self.speaks_of(Topic::Use)
    }

    /// The directives before any user-agent line.
    pub(crate) fn directives_before_groups(&self) -> Vec<Directive> {
        let all = self.stored().statements.iter().enumerate();
        let before = all.take_while(|(_, it)| it.kind != Kind::Agent);
        let directives = before.filter(|(_, it)| it.is_directive());
        directives.map(|(at, _)| self.directive(at)).collect()
    }

    /// The preferences in the groups chosen for a crawler. To them `Content-Usage` ends a run of user-agent lines as a rule
    /// does (draft-ietf-aipref-attach-05 §3); to rules it does not, since no reader in use takes it so, and what one of
    /// them disallows must not be opened. The other preferences have no such text: like `Crawl-delay` they are for the
    /// agents named so far.
    pub(crate) fn group_preferences(
        &self,
        dialect: Dialect,
        tokens: &[ProductToken],
    ) -> Vec<Directive> {
        let (semantics, stored) = (Semantics::new(dialect), self.stored());
        let Some(choice) = stored.choice(semantics, tokens) else {
            return Vec::new();
        };
        let agents = stored.chosen_agents(semantics, choice);
        let chosen: Vec<usize> = agents.map(|agent| agent.at as usize).collect();
        let mut preferences = Vec::new();
        let (mut is_for_crawler, mut has_rules) = (false, false);
        for (at, statement) in stored.chosen_statements(semantics, choice) {
            if statement.kind == Kind::Agent {
                is_for_crawler &= !has_rules;
                is_for_crawler |= chosen.contains(&at);
                has_rules = false;
            } else if statement.is_rule() {
                has_rules |= semantics.sees(statement);
            } else if statement.is_directive() && semantics.has_in_group(statement) {
                let directive = self.directive(at);
                if Topic::named(directive.name.as_bytes()) == Some(Topic::Use) {
                    has_rules |= directive.is(&[CONTENT_USAGE]);
                    preferences.extend(is_for_crawler.then_some(directive));
                }
            }
        }
        preferences
    }

    /// Whether a group names a crawler, not only everyone.
    pub(crate) fn has_group_of(&self, dialect: Dialect, token: &ProductToken) -> bool {
        let (semantics, choice) = (Semantics::new(dialect), Choice::Named(token));
        let mut agents = self.stored().chosen_agents(semantics, choice);
        agents.next().is_some()
    }
}

/// How specific a pattern is if it matches a path: the bytes of its encoded form (RFC 9309 §2.2.2). The empty one matches
/// every path. One that it takes too long to compare is taken not to match.
pub(crate) fn specificity(pattern: &str, path: &str) -> Option<usize> {
    let semantics = Semantics::new(Dialect::Rfc9309);
    let value = Value::read(pattern.as_bytes(), semantics);
    let mut patterns = Patterns::default();
    let pattern = patterns.take_apart(value, semantics);
    let path = PathForm::new(path, semantics);
    let is_match = pattern.matches(path.bytes(), &mut Budget::default());
    is_match.then(|| value.specificity(semantics.dialect))
}
