//! Preference: the lines about use that concern a crawler, and how specific a path on them is.

use super::budget::Budget;
use super::directives::{Directive, directive};
use super::file::RobotsTxt;
use super::groups::agent::Agent;
use super::groups::choice::Choice;
use super::groups::semantics::Semantics;
use super::path_form::PathForm;
use super::pattern::{Patterns, Value, matches};
use super::statements::event::{AGENT, EXACT, Event, OTHER, RECORD, events};
use super::statements::line_numbers::numbered;
use super::topic::{CONTENT_USAGE, Topic};
use crate::{Dialect, ProductToken};

impl RobotsTxt {
    /// Whether any directive is about use.
    pub(crate) fn speaks_of_use(&self) -> bool {
        self.speaks_of(Topic::Use)
    }

    /// The directives before any user-agent line.
    pub(crate) fn directives_before_groups(&self) -> Vec<Directive> {
        let all = numbered(events(self.statements().stream, 0), 0);
        all.take_while(|(_, event)| event.kind() != AGENT)
            .filter(|(_, event)| is_directive(event))
            .map(|(line, event)| directive(line, &event))
            .collect()
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
        let (semantics, statements) = (Semantics::new(dialect), self.statements());
        let Some(choice) = statements.choice(semantics, tokens) else {
            return Vec::new();
        };
        let agents = statements.chosen_agents(semantics, choice);
        let chosen: Vec<usize> = agents.map(Agent::offset).collect();
        let mut preferences = Vec::new();
        let (mut is_for_crawler, mut has_rules) = (false, false);
        for (line, event) in numbered(statements.chosen_events(semantics, choice), 0) {
            if event.kind() == AGENT {
                is_for_crawler &= !has_rules;
                is_for_crawler |= chosen.contains(&event.offset);
                has_rules = false;
            } else if event.is_rule() {
                has_rules |= event.tag & semantics.sees != 0;
            } else if is_directive(&event) && (!semantics.takes_first || event.tag & RECORD != 0) {
                let directive = directive(line, &event);
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
        let mut agents = self.statements().chosen_agents(semantics, choice);
        agents.next().is_some()
    }
}

fn is_directive(event: &Event<'_>) -> bool {
    event.kind() == OTHER && event.tag & EXACT != 0
}

/// How specific a pattern is if it matches a path: the bytes of its encoded form (RFC 9309 §2.2.2). The empty one matches
/// every path. One that it takes too long to compare is taken not to match.
pub(crate) fn specificity(pattern: &str, path: &str) -> Option<usize> {
    let semantics = Semantics::new(Dialect::Rfc9309);
    let value = Value::read(pattern.as_bytes(), semantics);
    let mut patterns = Patterns::default();
    let pattern = patterns.take_apart(value, semantics);
    let path = PathForm::new(path, semantics);
    let is_match = matches(
        pattern.parts(),
        pattern.anchored,
        path.bytes(),
        &mut Budget::default(),
    );
    is_match.then(|| value.specificity(semantics))
}
