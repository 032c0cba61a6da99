//! The file: parsed once; a crawler's group in it; the rule that decides.

use memchr::memrchr2;

use super::groups::agent::Agent;
use super::groups::semantics::Semantics;
use super::matched_rule::Answer;
use super::parse;
use super::parse::line::{Field, Statement, google_statement, statement as exact_statement};
use super::path_form::PathForm;
use super::rules::Search;
use super::statements::event::{AGENT, ALLOW, Event, events};
use super::statements::line_numbers::numbered;
use super::statements::stored::{Statements, Stored};
use super::topic::Topic;
use crate::{Dialect, ProductToken};

/// What is read of a file at most: 500 KiB, the least that RFC 9309 §2.5 asks for and the most
/// that Google reads.
pub(crate) const DEFAULT_LIMIT_BYTES: usize = 500 * 1024;

/// No file is read further than this, whatever limit is given: offsets have four bytes, and a
/// statement takes at most a few bytes more than its line.
const MAX_LIMIT_BYTES: usize = 256 * 1024 * 1024;

/// A parsed robots.txt. Any [`Dialect`] can be asked of it; it never changes.
///
/// Stored are the statements, not the bytes: comments, prose and markup are gone. A clone is another
/// handle to the same file, and costs next to nothing.
#[derive(Clone, Debug)]
pub struct RobotsTxt(Stored);

impl RobotsTxt {
    /// Reads a file's first 500 KiB (RFC 9309 §2.5). Whatever the bytes are, this succeeds:
    /// what cannot be understood is passed over.
    #[must_use]
    pub fn parse(body: &[u8]) -> Self {
        Self::parse_with_limit(body, DEFAULT_LIMIT_BYTES)
    }

    /// Reads a file's first `limit_bytes`, at most 256 MiB. A line cut by the limit counts as in
    /// [`parse_beginning`](Self::parse_beginning).
    #[must_use]
    pub fn parse_with_limit(body: &[u8], limit_bytes: usize) -> Self {
        match body.split_at_checked(limit_bytes.min(MAX_LIMIT_BYTES)) {
            Some((whole, [] | [b'\n' | b'\r', ..])) => Self(parse::parse(whole)),
            Some((beginning, _)) => Self::parse_beginning(beginning),
            None => Self(parse::parse(body)),
        }
    }

    /// Reads the beginning of a file whose rest was not received. The last line, if no line end
    /// follows it, is taken for a part of one: it counts only if it disallows, since a part of a
    /// rule matches more than the rule. So that it does, what it ends in is left out if it is the
    /// beginning of an escape, or a `$`, which means the end only where no more follows.
    #[must_use]
    pub fn parse_beginning(beginning: &[u8]) -> Self {
        let last = memrchr2(b'\n', b'\r', beginning).map_or(0, |end| end + 1);
        let (lines, part) = beginning.split_at(last);
        let statements = [exact_statement(part), google_statement(part)];
        let disallows = |it: Statement<'_>| it.field == Field::Disallow;
        let counts = statements.into_iter().flatten().any(disallows);
        Self(parse::parse(if counts {
            without_cut_end(beginning)
        } else {
            lines
        }))
    }

    /// Whether two handles are to one file, not only to equal ones.
    #[cfg(test)]
    pub(crate) fn is_same_handle(&self, other: &Self) -> bool {
        self.0.is_same(&other.0)
    }

    /// The bytes this file occupies on the heap, all that goes with it and indexes built by decisions
    /// so far included.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }

    /// The numbers of the user-agent lines and rules of the groups chosen for a crawler.
    pub(crate) fn group_lines(&self, dialect: Dialect, tokens: &[ProductToken]) -> Vec<u32> {
        let semantics = Semantics::new(dialect);
        self.group_events(semantics, tokens)
            .filter(|(_, event)| event.kind() == AGENT || event.is_rule())
            .filter(|(_, event)| event.tag & semantics.sees != 0)
            .map(|(line, _)| line)
            .collect()
    }

    /// The events of the groups chosen for a crawler, with the numbers of their lines.
    pub(super) fn group_events<'a>(
        &'a self,
        semantics: Semantics,
        tokens: &'a [ProductToken],
    ) -> impl Iterator<Item = (u32, Event<'a>)> + 'a {
        let choice = self.statements().choice(semantics, tokens).into_iter();
        let events =
            choice.flat_map(move |choice| self.statements().chosen_events(semantics, choice));
        numbered(events, 0)
    }

    #[inline]
    pub(super) fn statements(&self) -> Statements<'_> {
        self.0.statements()
    }

    /// Whether any directive is about this.
    pub(super) fn speaks_of(&self, topic: Topic) -> bool {
        self.0.speaks_of(topic)
    }

    /// Whether a rule differs between the forms in which a path is judged strictly.
    pub(super) fn has_respelt_rules(&self) -> bool {
        self.0.has_respelt_rules()
    }

    /// The rule that decides about a path.
    #[inline]
    pub(super) fn find(
        &self,
        semantics: Semantics,
        tokens: &[ProductToken],
        path: &PathForm<'_>,
        search: &mut Search,
    ) -> Answer {
        let statements = self.statements();
        let answer = statements.find(semantics, tokens, path, search);
        if path.has_lone_percent() {
            return answer.max(statements.find_with_cut_escapes(semantics, tokens, path, search));
        }
        answer
    }

    /// The first rule by which some path could be disallowed.
    pub(super) fn find_disallow(
        &self,
        dialect: Dialect,
        tokens: &[ProductToken],
        search: &mut Search,
    ) -> Answer {
        let semantics = Semantics::new(dialect);
        self.statements()
            .find_disallow(semantics, tokens, &mut search.budget)
    }

    /// The values of all user-agent lines of the groups chosen for a crawler.
    pub(crate) fn group_names(&self, dialect: Dialect, tokens: &[ProductToken]) -> Vec<String> {
        let semantics = Semantics::new(dialect);
        let choice = self.statements().choice(semantics, tokens).into_iter();
        let chosen = choice.flat_map(|choice| self.statements().chosen_agents(semantics, choice));
        let mut chosen = chosen.map(Agent::offset).peekable();
        let mut names = Vec::new();
        // Where the group being read begins among the names, and whether it is chosen.
        let (mut start, mut is_chosen) = (0, false);
        for event in events(self.statements().stream, 0) {
            if semantics.ends_at(&event) {
                names.truncate(if is_chosen { names.len() } else { start });
                (start, is_chosen) = (names.len(), false);
            } else if event.kind() == AGENT && event.tag & semantics.sees != 0 {
                is_chosen |= chosen.next_if_eq(&event.offset).is_some();
                names.push(String::from_utf8_lossy(event.agent().1).into_owned());
            }
        }
        names.truncate(if is_chosen { names.len() } else { start });
        names
    }

    /// The number of the line whose event is at an offset.
    pub(crate) fn line(&self, offset: usize) -> u32 {
        self.statements().line(offset)
    }

    /// The rule whose event is at an offset, as `Disallow: /private`.
    pub(crate) fn rule_text(&self, offset: usize) -> Option<String> {
        let event = events(self.statements().stream, offset)
            .next()
            .filter(Event::is_rule)?;
        let name = match event.kind() {
            ALLOW => "Allow:",
            _ => "Disallow:",
        };
        let (value, _) = event.rule();
        let mut text = String::with_capacity(name.len() + 1 + value.len());
        text.push_str(name);
        if !value.is_empty() {
            text.push(' ');
            text.push_str(&String::from_utf8_lossy(value));
        }
        Some(text)
    }
}

/// What is left of a rule that was cut without an end by which it would match less than the whole.
fn without_cut_end(rule: &[u8]) -> &[u8] {
    match rule {
        [whole @ .., b'%', _] | [whole @ .., b'%' | b'$'] => whole,
        whole => whole,
    }
}
