//! The semantics of a dialect: which statements it sees, where groups begin for it, and in which form it compares.

use super::super::matched_rule::MatchedRule;
use super::super::statements::{
    EXACT, EXACT_GROUP, FileStatement, GOOGLE, GOOGLE_GROUP, IN_RECORD, RECORD,
};
use crate::Dialect;
use crate::percent_encoding::{self, EncodingForm};

/// The semantics of a dialect with one of the forms in which it compares.
#[derive(Debug)]
pub(crate) struct DialectSemantics {
    pub(crate) dialect: Dialect,
    /// The index in [`ALL`].
    number: usize,
    /// The form in which rules and paths are compared. The specificity of a rule is always measured in the dialect's
    /// own form.
    pub(crate) form: &'static EncodingForm,
    /// The mark of the statements that the dialect sees.
    visible_mark: u8,
    /// The mark of the statements at which a new group begins for it.
    pub(crate) group_mark: u8,
    /// Whether the first matching rule decides, within the one record that applies to the crawler.
    pub(crate) first_match_wins: bool,
}

/// The dialects, first each in its own form, then in the other forms that are used to judge all spellings: a server treats a path
/// as the same whether the rule that disallows it spells a byte like the path or not. The dialects of 1996 compare
/// decoded text anyway.
static ALL: [DialectSemantics; DialectSemantics::COUNT] = [
    DialectSemantics::with_form(0, Dialect::Rfc9309, &percent_encoding::LITERAL),
    DialectSemantics::with_form(1, Dialect::Google, &percent_encoding::GOOGLE),
    DialectSemantics::with_form(2, Dialect::Koster1996, &percent_encoding::DECODED),
    DialectSemantics::with_form(3, Dialect::Selfhtml, &percent_encoding::DECODED),
    DialectSemantics::with_form(4, Dialect::Rfc9309, &percent_encoding::SERVED),
    DialectSemantics::with_form(5, Dialect::Google, &percent_encoding::LITERAL),
    DialectSemantics::with_form(6, Dialect::Google, &percent_encoding::SERVED),
];

impl DialectSemantics {
    pub(crate) const COUNT: usize = 7;

    const fn with_form(number: usize, dialect: Dialect, form: &'static EncodingForm) -> Self {
        let (visible_mark, group_mark, first_match_wins) = match dialect {
            // `strictest` never judges by itself, but chooses groups for directives like the standard.
            Dialect::Rfc9309 | Dialect::Strictest => (EXACT, EXACT_GROUP, false),
            Dialect::Google => (GOOGLE, GOOGLE_GROUP, false),
            Dialect::Koster1996 | Dialect::Selfhtml => (EXACT, RECORD, true),
        };
        Self { dialect, number, form, visible_mark, group_mark, first_match_wins }
    }

    /// Returns the semantics of a dialect in its own form. `strictest` chooses groups like `rfc9309`.
    pub(crate) fn for_dialect(dialect: Dialect) -> &'static Self {
        match dialect {
            Dialect::Rfc9309 | Dialect::Strictest => &ALL[0],
            Dialect::Google => &ALL[1],
            Dialect::Koster1996 => &ALL[2],
            Dialect::Selfhtml => &ALL[3],
        }
    }

    /// Returns the semantics of one of the four dialects in its other forms.
    pub(crate) fn other_forms(dialect: Dialect) -> impl Iterator<Item = &'static Self> {
        ALL.iter().filter(move |semantics| semantics.dialect == dialect && !semantics.is_own_form())
    }

    /// Returns a unique number below [`DialectSemantics::COUNT`].
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Returns whether this is the dialect's own form.
    pub(crate) fn is_own_form(&self) -> bool {
        // They come first in `ALL`.
        self.number() < Dialect::SINGLE.len()
    }

    /// Returns whether a new group begins with a statement.
    #[inline]
    pub(crate) fn begins_group(&self, statement: &FileStatement) -> bool {
        statement.has_mark(self.group_mark)
    }

    #[inline]
    pub(crate) fn sees(&self, statement: &FileStatement) -> bool {
        statement.has_mark(self.visible_mark)
    }

    pub(crate) fn sees_rule(&self, statement: &FileStatement) -> bool {
        statement.is_rule() && self.sees(statement)
    }

    /// Returns whether a directive within a group belongs to it: not after a blank line that ended the record.
    pub(crate) fn is_in_group(&self, directive: &FileStatement) -> bool {
        // Rules need no such mark: one after a blank line begins a group of its own, which applies to nobody.
        !self.first_match_wins || directive.has_mark(IN_RECORD)
    }

    /// Weighs a matching rule against others, by the length of its pattern or by its position.
    #[inline]
    pub(crate) fn weigh(&self, length: usize, rule: &FileStatement, at: usize) -> MatchedRule {
        if self.first_match_wins {
            MatchedRule::by_position(rule.is_allow(), at)
        } else {
            MatchedRule::new(length, rule.is_allow(), at)
        }
    }

    /// Returns whether `*`, and `$` at the end, are special; in the draft of 1996 they are ordinary bytes.
    pub(crate) fn has_wildcards(&self) -> bool {
        self.dialect != Dialect::Koster1996
    }
}
