//! Semantics: how a dialect goes through the events of a file, and in which form it compares.

use super::super::statements::event::{EXACT, Event, GOOGLE, RECORD, RUN};
use crate::Dialect;
use crate::forms::{self, Form};

/// How a dialect goes through a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Semantics {
    pub(crate) dialect: Dialect,
    /// The form in which rules and paths are compared. How specific a rule is, its form in the dialect itself says.
    pub(crate) form: &'static Form,
    /// A number of its own, below [`Semantics::COUNT`].
    pub(crate) number: usize,
    /// The flag of the events it sees.
    pub(crate) sees: u8,
    /// The flag of the runs at which a new group begins for it.
    pub(crate) ends: u8,
    /// Whether the first rule that matches decides, in the one record that is for the crawler.
    pub(crate) takes_first: bool,
}

/// The forms beside its own in which a dialect is asked strictly. The texts of 1996 compare what is decoded anyway.
static STRICTLY: [(Dialect, &Form); 3] = [
    (Dialect::Rfc9309, &forms::SERVED),
    (Dialect::Google, &forms::LITERAL),
    (Dialect::Google, &forms::SERVED),
];

impl Semantics {
    /// Those of the dialects, and those that are only asked strictly.
    pub(crate) const COUNT: usize = Dialect::EACH.len() + STRICTLY.len();

    /// As the dialect says.
    pub(crate) fn new(dialect: Dialect) -> Self {
        let (form, sees, ends, takes_first) = match dialect {
            Dialect::Rfc9309 | Dialect::Strictest => (&forms::LITERAL, EXACT, EXACT, false),
            Dialect::Google => (&forms::GOOGLE, GOOGLE, GOOGLE, false),
            Dialect::Koster1996 => (&forms::DECODED, EXACT, RECORD, true),
            Dialect::Selfhtml => (&forms::DECODED, EXACT, RECORD, true),
        };
        let number = match dialect {
            Dialect::Rfc9309 | Dialect::Strictest => 0,
            Dialect::Google => 1,
            Dialect::Koster1996 => 2,
            Dialect::Selfhtml => 3,
        };
        Self {
            dialect,
            form,
            number,
            sees,
            ends,
            takes_first,
        }
    }

    /// As one of the four dialects says, but compared in the other forms in which it is asked strictly: a server takes a path for
    /// the same whether the rule that disallows it spells a byte as the path does or otherwise.
    pub(crate) fn strictly(dialect: Dialect) -> impl Iterator<Item = Self> {
        let forms = STRICTLY.iter().zip(Dialect::EACH.len()..);
        let in_form = move |((_, form), number): (&(Dialect, &'static Form), usize)| Self {
            form,
            number,
            ..Self::new(dialect)
        };
        forms
            .filter(move |((of, _), _)| *of == dialect)
            .map(in_form)
    }

    /// Whether rules and paths are compared as the dialect itself has it.
    pub(crate) fn is_own_form(self) -> bool {
        self.number < Dialect::EACH.len()
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
