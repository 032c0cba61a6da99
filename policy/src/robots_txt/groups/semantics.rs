//! Semantics: how a dialect goes through the events of a file, and in which form it compares.

use super::super::statements::event::{EXACT, Event, GOOGLE, RECORD, RUN};
use crate::Dialect;
use crate::forms::{self, Form};

/// How a dialect goes through a file. Small, since it goes with every look at a rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Semantics {
    pub(crate) dialect: Dialect,
    /// Where [`COMPARED`] has it.
    number: u8,
    /// The flag of the events it sees.
    pub(crate) sees: u8,
    /// The flag of the runs at which a new group begins for it.
    pub(crate) ends: u8,
    /// Whether the first rule that matches decides, in the one record that is for the crawler.
    pub(crate) takes_first: bool,
}

/// The forms in which dialects compare: first each in its own, then those in which one is asked strictly besides. The texts of
/// 1996 compare what is decoded anyway.
static COMPARED: [(Dialect, &Form); Semantics::COUNT] = [
    (Dialect::Rfc9309, &forms::LITERAL),
    (Dialect::Google, &forms::GOOGLE),
    (Dialect::Koster1996, &forms::DECODED),
    (Dialect::Selfhtml, &forms::DECODED),
    (Dialect::Rfc9309, &forms::SERVED),
    (Dialect::Google, &forms::LITERAL),
    (Dialect::Google, &forms::SERVED),
];

impl Semantics {
    pub(crate) const COUNT: usize = 7;

    /// As the dialect says.
    pub(crate) fn new(dialect: Dialect) -> Self {
        let (number, sees, ends, takes_first) = match dialect {
            Dialect::Rfc9309 | Dialect::Strictest => (0, EXACT, EXACT, false),
            Dialect::Google => (1, GOOGLE, GOOGLE, false),
            Dialect::Koster1996 => (2, EXACT, RECORD, true),
            Dialect::Selfhtml => (3, EXACT, RECORD, true),
        };
        Self {
            dialect,
            number,
            sees,
            ends,
            takes_first,
        }
    }

    /// As one of the four dialects says, but compared in the other forms in which it is asked strictly: a server takes a path for
    /// the same whether the rule that disallows it spells a byte as the path does or otherwise.
    pub(crate) fn strictly(dialect: Dialect) -> impl Iterator<Item = Self> {
        let forms = COMPARED.iter().zip(0..).skip(Dialect::EACH.len());
        forms.filter_map(move |((of, _), number)| {
            let own = Self::new(dialect);
            (*of == dialect).then_some(Self { number, ..own })
        })
    }

    /// A number of its own, below [`Semantics::COUNT`].
    pub(crate) fn number(self) -> usize {
        usize::from(self.number)
    }

    /// The form in which rules and paths are compared. How specific a rule is, its form in the dialect itself says.
    pub(crate) fn form(self) -> &'static Form {
        COMPARED[self.number()].1
    }

    /// Whether rules and paths are compared as the dialect itself has it.
    pub(crate) fn is_own_form(self) -> bool {
        self.number() < Dialect::EACH.len()
    }

    /// Whether an event begins a new group.
    pub(crate) fn ends_at(self, event: &Event<'_>) -> bool {
        event.kind() == RUN && event.tag & self.ends != 0
    }

    /// Whether `*`, and `$` at the end, mean something; to the draft of 1996 they are bytes like others.
    pub(crate) fn has_stars(self) -> bool {
        self.dialect != Dialect::Koster1996
    }
}
