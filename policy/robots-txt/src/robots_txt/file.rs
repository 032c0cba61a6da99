//! The parsed file, which finds a crawler's group and the rule that decides.

use std::sync::Arc;

use memchr::memrchr2;

use super::budget::MatchBudget;
use super::directive_topic::DirectiveTopic;
use super::escaped_wildcards::EscapedWildcards;
use super::groups::semantics::DialectSemantics;
use super::matched_rule::{MatchOutcome, MatchedRule};
use super::parse;
use super::parse::line::{LineField, exact_statement, google_statement};
use super::path_form::PathForm;
use super::pattern::{PatternBuffer, RuleValue};
use super::rules::RuleSearch;
use super::statements::stored::ParsedFile;
use super::statements::{FileStatement, StatementKind};
use crate::percent_encoding::plain::plain_prefix_len;
use crate::{Dialect, ProductToken, excerpt};

/// The number of bytes read of a file: 500 KiB, the minimum that RFC 9309 §2.5 requires and the maximum that Google
/// reads.
pub(crate) const DEFAULT_LIMIT_BYTES: usize = 500 * 1024;

/// The number of bytes read of a file whatever limit is given: offsets have four bytes, and a statement takes at most a
/// few bytes more than its line.
const MAX_LIMIT_BYTES: usize = 256 * 1024 * 1024;

/// A parsed robots.txt, immutable, for any crawler and in any [`Dialect`].
///
/// [`for_crawler`](Self::for_crawler) answers whether a crawler may fetch a URL.
///
/// It stores the statements, not the bytes: comments, prose and markup are gone. A clone is another handle to the same
/// file and costs next to nothing.
#[derive(Clone, Debug)]
pub struct RobotsTxt(Arc<ParsedFile>);

impl RobotsTxt {
    /// Parses a file's first 500 KiB (RFC 9309 §2.5). This succeeds for any bytes: text that cannot be understood is
    /// skipped.
    #[must_use]
    pub fn parse(body: &[u8]) -> Self {
        Self::parse_with_limit(body, DEFAULT_LIMIT_BYTES)
    }

    /// Parses a file's first `limit_bytes`, at most 256 MiB. A line cut by the limit counts as in
    /// [`parse_beginning`](Self::parse_beginning).
    #[must_use]
    pub fn parse_with_limit(body: &[u8], limit_bytes: usize) -> Self {
        match body.split_at_checked(limit_bytes.min(MAX_LIMIT_BYTES)) {
            Some((whole, [] | [b'\n' | b'\r', ..])) => Self::read(whole),
            Some((beginning, _)) => Self::parse_beginning(beginning),
            None => Self::read(body),
        }
    }

    /// Parses the beginning of a file whose rest was not received. A last line without a line end is taken for part of
    /// a line: it counts only if it disallows, since part of a rule matches more than the whole rule. For that reason
    /// the beginning of an escape at its end is dropped, and so is a `$`, which is an anchor only where nothing
    /// follows.
    #[must_use]
    pub fn parse_beginning(beginning: &[u8]) -> Self {
        // A line is complete only if its line end was received.
        let last = memrchr2(b'\n', b'\r', beginning).map_or(0, |end| end + 1);
        let (lines, part) = beginning.split_at(last);
        // A rule that only one kind of reader sees must not be lost.
        let disallows = [exact_statement(part), google_statement(part)]
            .iter()
            .flatten()
            .any(|line| line.field == LineField::Disallow);
        Self::read(if disallows { without_ambiguous_end(beginning) } else { lines })
    }

    fn read(body: &[u8]) -> Self {
        Self(Arc::new(parse::parse(body)))
    }

    /// Returns whether two handles refer to one file, not just to equal ones.
    #[doc(hidden)]
    #[must_use]
    pub fn is_same_handle(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the bytes that this file occupies on the heap, including all of its parts and the indexes built by
    /// decisions so far.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }

    /// Returns the value of the first user-agent line that chooses a group for a crawler.
    pub(crate) fn group_name(&self, dialect: Dialect, tokens: &[ProductToken]) -> Option<String> {
        let semantics = DialectSemantics::for_dialect(dialect);
        let choice = self.0.choose_group(semantics, tokens)?;
        let agent = self.0.chosen_agents(semantics, choice).next()?;
        let name = String::from_utf8_lossy(self.0.text(agent.statement as usize));
        Some(excerpt(&name).into_owned())
    }

    /// Returns the line numbers of the user-agent lines and rules of the groups chosen for a crawler.
    pub(crate) fn group_lines(&self, dialect: Dialect, tokens: &[ProductToken]) -> Vec<u32> {
        let semantics = DialectSemantics::for_dialect(dialect);
        self.group_statements(semantics, tokens)
            .filter(|(_, it)| !it.is_directive() && semantics.sees(it))
            .map(|(at, _)| self.0.line(at))
            .collect()
    }

    /// Returns the statements of the groups chosen for a crawler, with their indices in the file.
    pub(super) fn group_statements(
        &self,
        semantics: &DialectSemantics,
        tokens: &[ProductToken],
    ) -> impl Iterator<Item = (usize, &FileStatement)> {
        let choice = self.0.choose_group(semantics, tokens).into_iter();
        choice.flat_map(move |choice| self.0.chosen_statements(semantics, choice))
    }

    pub(super) fn parsed(&self) -> &ParsedFile {
        &self.0
    }

    /// Returns whether any directive is about a topic.
    pub(super) fn has_directives_on(&self, topic: DirectiveTopic) -> bool {
        self.0.topics.contains(topic)
    }

    /// Returns whether a rule differs between the forms in which all spellings are judged.
    pub(super) fn has_respelt_rules(&self) -> bool {
        self.0.has_respelt_rules
    }

    /// Returns the rule that decides about a path.
    #[inline]
    pub(super) fn find_rule(
        &self,
        semantics: &DialectSemantics,
        tokens: &[ProductToken],
        path: &PathForm<'_>,
        search: &mut RuleSearch,
    ) -> MatchOutcome {
        let mut outcome = self.0.find_rule(semantics, tokens, path, search);
        if let Some(path) = path.escaped_wildcards(semantics.form) {
            let budget = &mut search.budget;
            outcome =
                outcome.max(self.find_with_escaped_wildcards(semantics, tokens, &path, budget));
        }
        // A rule may end in the same cut escape, which the encoded path no longer shows.
        if path.has_lone_percent() {
            return outcome.max(self.0.find_with_cut_escapes(semantics, tokens, path, search));
        }
        outcome
    }

    /// Returns the deciding rule among those that may match a part of an escape.
    #[cold]
    fn find_with_escaped_wildcards(
        &self,
        semantics: &DialectSemantics,
        tokens: &[ProductToken],
        path: &EscapedWildcards,
        budget: &mut MatchBudget,
    ) -> MatchOutcome {
        let mut patterns = PatternBuffer::default();
        // The least of all outcomes, since the other search knows whether there is a group.
        let mut best = MatchOutcome::NoGroup;
        for (at, rule) in self.group_statements(semantics, tokens) {
            // A plain rule has no escape and no star, so it cannot end or begin within one.
            let is_plain = rule.kind() == StatementKind::PlainRule;
            let text = self.0.text(at);
            let start = &text[..plain_prefix_len(text)];
            if !budget.spend(1)
                || is_plain
                || text.is_empty()
                || !semantics.sees_rule(rule)
                || !path.path.starts_with(start)
            {
                continue;
            }
            for value in RuleValue::all_meanings(text, rule.is_allow(), semantics) {
                if path.is_matched_by(value, semantics, &mut patterns, budget) {
                    let length = value.specificity(semantics.dialect);
                    best = best.max(MatchOutcome::Rule(semantics.weigh(length, rule, at)));
                }
            }
        }
        if budget.is_spent() { MatchOutcome::TooCostly } else { best }
    }

    /// Returns the first rule that could disallow some path.
    pub(super) fn find_disallow(
        &self,
        dialect: Dialect,
        tokens: &[ProductToken],
        search: &mut RuleSearch,
    ) -> MatchOutcome {
        let semantics = DialectSemantics::for_dialect(dialect);
        self.0.find_disallow(semantics, tokens, &mut search.budget)
    }

    /// Returns excerpts of the values of all user-agent lines of the groups chosen for a crawler.
    pub(crate) fn group_names(&self, dialect: Dialect, tokens: &[ProductToken]) -> Vec<String> {
        let semantics = DialectSemantics::for_dialect(dialect);
        let choice = self.0.choose_group(semantics, tokens).into_iter();
        let mut chosen = choice
            .flat_map(|choice| self.0.chosen_agents(semantics, choice))
            .map(|agent| agent.statement as usize)
            .peekable();
        let mut names = Vec::new();
        // The index in `names` at which the current group begins, and whether that group is chosen.
        let mut start = 0;
        let mut is_chosen = false;
        for (at, statement) in self.0.statements.iter().enumerate() {
            // Only the whole group shows whether one of its lines chose it: until then its names are kept.
            if semantics.begins_group(statement) {
                names.truncate(if is_chosen { names.len() } else { start });
                (start, is_chosen) = (names.len(), false);
            }
            if statement.kind() == StatementKind::Agent && semantics.sees(statement) {
                is_chosen |= chosen.next_if_eq(&at).is_some();
                let name = String::from_utf8_lossy(self.0.text(at));
                names.push(excerpt(&name).into_owned());
            }
        }
        names.truncate(if is_chosen { names.len() } else { start });
        names
    }

    /// Returns the line number of a rule.
    pub(crate) fn line(&self, rule: MatchedRule) -> u32 {
        self.0.line(rule.statement())
    }

    /// Returns an excerpt of a rule, such as `Disallow: /private`.
    pub(crate) fn rule_text(&self, rule: MatchedRule) -> String {
        let at = rule.statement();
        let name = if rule.is_allow() { "Allow" } else { "Disallow" };
        let text = match &*String::from_utf8_lossy(self.0.text(at)) {
            "" => format!("{name}:"),
            value => format!("{name}: {value}"),
        };
        // The text goes into responses, logs and spans, and a file can have a rule of 500 KiB.
        excerpt(&text).into_owned()
    }
}

/// Returns a cut rule without an ending that would make it match less than the whole rule.
fn without_ambiguous_end(rule: &[u8]) -> &[u8] {
    match rule {
        [whole @ .., b'%', _] | [whole @ .., b'%' | b'$'] => whole,
        whole => whole,
    }
}
