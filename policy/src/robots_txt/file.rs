//! The file: parsed once; a crawler's group in it; the rule that decides.

use std::sync::Arc;

use memchr::memrchr2;

use super::groups::semantics::Semantics;
use super::matched_rule::{Answer, MatchedRule};
use super::parse;
use super::parse::line::{Field, Read, google_statement, statement as exact_statement};
use super::path_form::PathForm;
use super::rules::Search;
use super::statements::stored::Stored;
use super::statements::{Kind, Statement};
use super::topic::Topic;
use crate::{Dialect, ProductToken, excerpt};

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
pub struct RobotsTxt(Arc<Stored>);

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
            Some((whole, [] | [b'\n' | b'\r', ..])) => Self::read(whole),
            Some((beginning, _)) => Self::parse_beginning(beginning),
            None => Self::read(body),
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
        let disallows = |it: Read<'_>| it.field == Field::Disallow;
        let counts = statements.into_iter().flatten().any(disallows);
        Self::read(if counts {
            without_cut_end(beginning)
        } else {
            lines
        })
    }

    fn read(body: &[u8]) -> Self {
        Self(Arc::new(parse::parse(body)))
    }

    /// Whether two handles are to one file, not only to equal ones.
    #[cfg(test)]
    pub(crate) fn is_same_handle(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
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
        self.group_statements(semantics, tokens)
            .filter(|(_, it)| it.kind != Kind::Other && semantics.sees(it))
            .map(|(_, it)| it.line)
            .collect()
    }

    /// The statements of the groups chosen for a crawler, with their places in the file.
    pub(super) fn group_statements(
        &self,
        semantics: &Semantics,
        tokens: &[ProductToken],
    ) -> impl Iterator<Item = (usize, &Statement)> {
        let choice = self.0.choice(semantics, tokens).into_iter();
        choice.flat_map(move |choice| self.0.chosen_statements(semantics, choice))
    }

    pub(super) fn stored(&self) -> &Stored {
        &self.0
    }

    /// Whether any directive is about this.
    pub(super) fn speaks_of(&self, topic: Topic) -> bool {
        self.0.topics.has(topic)
    }

    /// Whether a rule differs between the forms in which a path is judged strictly.
    pub(super) fn has_respelt_rules(&self) -> bool {
        self.0.has_respelt_rules
    }

    /// The rule that decides about a path.
    #[inline]
    pub(super) fn find(
        &self,
        semantics: &Semantics,
        tokens: &[ProductToken],
        path: &PathForm<'_>,
        search: &mut Search,
    ) -> Answer {
        let answer = self.0.find(semantics, tokens, path, search);
        if path.has_lone_percent() {
            return answer.max(
                self.0
                    .find_with_cut_escapes(semantics, tokens, path, search),
            );
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
        self.0.find_disallow(semantics, tokens, &mut search.budget)
    }

    /// The values of all user-agent lines of the groups chosen for a crawler, long ones cut.
    pub(crate) fn group_names(&self, dialect: Dialect, tokens: &[ProductToken]) -> Vec<String> {
        let semantics = Semantics::new(dialect);
        let choice = self.0.choice(semantics, tokens).into_iter();
        let chosen = choice.flat_map(|choice| self.0.chosen_agents(semantics, choice));
        let mut chosen = chosen.map(|agent| agent.at as usize).peekable();
        let mut names = Vec::new();
        // Where the group being read begins among the names, and whether it is chosen.
        let (mut start, mut is_chosen) = (0, false);
        for (at, statement) in self.0.statements.iter().enumerate() {
            if semantics.ends_at(statement) {
                names.truncate(if is_chosen { names.len() } else { start });
                (start, is_chosen) = (names.len(), false);
            }
            if statement.kind == Kind::Agent && semantics.sees(statement) {
                is_chosen |= chosen.next_if_eq(&at).is_some();
                let name = String::from_utf8_lossy(self.0.text(at));
                names.push(excerpt(&name).into_owned());
            }
        }
        names.truncate(if is_chosen { names.len() } else { start });
        names
    }

    /// The number of a rule's line.
    pub(crate) fn line(&self, rule: MatchedRule) -> u32 {
        self.0.statements[rule.statement()].line
    }

    /// A rule, as `Disallow: /private`, or the beginning of a long one.
    pub(crate) fn rule_text(&self, rule: MatchedRule) -> String {
        let at = rule.statement();
        let name = if rule.is_allow() { "Allow" } else { "Disallow" };
        let text = String::from_utf8_lossy(self.0.text(at));
        // What is said of a rule goes into answers, logs and spans.
        let text = match &*text {
            "" => [name, ":"].concat(),
            value => [name, ": ", value].concat(),
        };
        excerpt(&text).into_owned()
    }
}

/// What is left of a rule that was cut without an end by which it would match less than the whole.
fn without_cut_end(rule: &[u8]) -> &[u8] {
    match rule {
        [whole @ .., b'%', _] | [whole @ .., b'%' | b'$'] => whole,
        whole => whole,
    }
}
