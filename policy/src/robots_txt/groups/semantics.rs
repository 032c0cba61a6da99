//! Semantics: how a dialect goes through the statements of a file, and in which form it compares.

use super::super::matched_rule::MatchedRule;
use super::super::statements::{
    EXACT, EXACT_GROUP, GOOGLE, GOOGLE_GROUP, IN_RECORD, RECORD, Statement,
};
use crate::Dialect;
use crate::percent_encoding::{self, Form};

/// How a dialect goes through a file, and a form in which it compares.
#[derive(Debug)]
pub(crate) struct Semantics {
    pub(crate) dialect: Dialect,
    /// Where [`ALL`] has it.
    number: usize,
    /// The form in which rules and paths are compared. How specific a rule is, its form in the dialect itself says.
    pub(crate) form: &'static Form,
    /// The mark of the statements it sees.
    sees: u8,
    /// The mark of those at which a new group begins for it.
    ends: u8,
    /// Whether the first rule that matches decides, in the one record that is for the crawler.
    pub(crate) takes_first: bool,
}

/// First each dialect as it says, then in the other forms in which it is asked strictly: a server takes a path for the same
/// whether the rule that disallows it spells a byte as the path does or otherwise. The texts of 1996 compare what is decoded
/// anyway.
static ALL: [Semantics; Semantics::COUNT] = [
    Semantics::of(0, Dialect::Rfc9309, &percent_encoding::LITERAL),
    Semantics::of(1, Dialect::Google, &percent_encoding::GOOGLE),
    Semantics::of(2, Dialect::Koster1996, &percent_encoding::DECODED),
    Semantics::of(3, Dialect::Selfhtml, &percent_encoding::DECODED),
    Semantics::of(4, Dialect::Rfc9309, &percent_encoding::SERVED),
    Semantics::of(5, Dialect::Google, &percent_encoding::LITERAL),
    Semantics::of(6, Dialect::Google, &percent_encoding::SERVED),
];

impl Semantics {
    pub(crate) const COUNT: usize = 7;

    const fn of(number: usize, dialect: Dialect, form: &'static Form) -> Self {
        let (sees, ends, takes_first) = match dialect {
            Dialect::Rfc9309 | Dialect::Strictest => (EXACT, EXACT_GROUP, false),
            Dialect::Google => (GOOGLE, GOOGLE_GROUP, false),
            Dialect::Koster1996 | Dialect::Selfhtml => (EXACT, RECORD, true),
        };
        Self {
            dialect,
            number,
            form,
            sees,
            ends,
            takes_first,
        }
    }

    /// As the dialect says. `strictest` chooses as `rfc9309` does.
    pub(crate) fn new(dialect: Dialect) -> &'static Self {
        match dialect {
            Dialect::Rfc9309 | Dialect::Strictest => &ALL[0],
            Dialect::Google => &ALL[1],
            Dialect::Koster1996 => &ALL[2],
            Dialect::Selfhtml => &ALL[3],
        }
    }

    /// As one of the four dialects says, but in other forms.
    pub(crate) fn strictly(dialect: Dialect) -> impl Iterator<Item = &'static Self> {
        let others = ALL.iter().filter(|it| !it.is_own_form());
        others.filter(move |it| it.dialect == dialect)
    }

    /// A number of its own, below [`Semantics::COUNT`].
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Whether rules and paths are compared as the dialect itself has it.
    pub(crate) fn is_own_form(&self) -> bool {
        self.number() < Dialect::EACH.len()
    }

    /// Whether a new group begins with a statement.
    #[inline]
    pub(crate) fn ends_at(&self, statement: &Statement) -> bool {
        statement.has(self.ends)
    }

    #[inline]
    pub(crate) fn sees(&self, statement: &Statement) -> bool {
        statement.has(self.sees)
    }

    pub(crate) fn sees_rule(&self, statement: &Statement) -> bool {
        statement.is_rule() && self.sees(statement)
    }

    /// Whether a directive in the midst of a group belongs to it: a record that a blank line ended has no more.
    pub(crate) fn has_in_group(&self, directive: &Statement) -> bool {
        !self.takes_first || directive.has(IN_RECORD)
    }

    /// A rule that matches, weighed against others; takes the length of its pattern.
    #[inline]
    pub(crate) fn matched(&self, length: usize, rule: &Statement, at: usize) -> MatchedRule {
        if self.takes_first {
            MatchedRule::in_order(rule.is_allow(), at)
        } else {
            MatchedRule::new(length, rule.is_allow(), at)
        }
    }

    /// Whether `*`, and `$` at the end, mean something; to the draft of 1996 they are bytes like others.
    pub(crate) fn has_stars(&self) -> bool {
        self.dialect != Dialect::Koster1996
    }
}
