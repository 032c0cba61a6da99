//! Preference: the lines about use that concern a crawler, and how specific a path on them is.

use super::agent::Agent;
use super::beside::Directive;
use super::choose::Choice;
use super::compiled::Compiled;
use super::numbers::numbered;
use super::pattern::{Body, Path, Patterns, matches};
use super::reader::Reader;
use super::search::Budget;
use super::stream::{AGENT, EXACT, Event, OTHER, RECORD, events};
use crate::{Dialect, ProductToken};

impl Compiled<'_> {
    /// The directives before any user-agent line.
    pub(super) fn directives_before_groups(self) -> Vec<Directive> {
        let all = numbered(events(self.stream, 0), 0);
        all.take_while(|(_, event)| event.kind() != AGENT)
            .filter(|(_, event)| is_directive(event))
            .map(|(line, event)| directive(line, &event))
            .collect()
    }

    /// The preferences in the groups chosen for a crawler. To them a preference ends a run of user-agent lines as a rule
    /// does (draft-ietf-aipref-attach-05 §3); to rules it does not, since no reader in use takes it so, and what one of
    /// them disallows must not be opened.
    pub(super) fn group_preferences(
        self,
        reader: Reader,
        tokens: &[ProductToken],
        is_preference: fn(&str) -> bool,
    ) -> Vec<Directive> {
        let Some(choice) = self.choice(reader, tokens) else {
            return Vec::new();
        };
        let agents = self.chosen_agents(reader, choice);
        let chosen: Vec<usize> = agents.map(Agent::offset).collect();
        let mut preferences = Vec::new();
        let (mut is_for_crawler, mut has_rules) = (false, false);
        for (line, event) in numbered(self.chosen_events(reader, choice), 0) {
            if event.kind() == AGENT {
                is_for_crawler &= !has_rules;
                is_for_crawler |= chosen.contains(&event.offset);
                has_rules = false;
            } else if event.is_rule() {
                has_rules |= event.tag & reader.sees != 0;
            } else if is_directive(&event) && (!reader.takes_first || event.tag & RECORD != 0) {
                let directive = directive(line, &event);
                if is_preference(&directive.name) {
                    has_rules = true;
                    preferences.extend(is_for_crawler.then_some(directive));
                }
            }
        }
        preferences
    }

    /// Whether a group names a crawler, not only everyone.
    pub(super) fn has_group_of(self, reader: Reader, token: &ProductToken) -> bool {
        let mut agents = self.chosen_agents(reader, Choice::Named(token));
        agents.next().is_some()
    }
}

fn is_directive(event: &Event<'_>) -> bool {
    event.kind() == OTHER && event.tag & EXACT != 0
}

fn directive(line: u32, event: &Event<'_>) -> Directive {
    let (name, value) = event.other();
    Directive::new(line, name, value)
}

/// How specific a pattern is if it matches a path: the bytes of its encoded form (RFC 9309 §2.2.2). The empty one matches
/// every path. One that it takes too long to compare is taken not to match.
pub(crate) fn specificity(pattern: &str, path: &str) -> Option<usize> {
    const READ: Dialect = Dialect::Rfc9309;
    let body = Body::of(pattern.as_bytes(), READ);
    let mut patterns = Patterns::default();
    let pattern = patterns.take_apart(body, READ);
    let path = Path::new(path, READ);
    let is_match = matches(
        pattern.parts(),
        pattern.anchored,
        path.octets(),
        &mut Budget::default(),
    );
    is_match.then(|| pattern.octets(body, READ))
}
