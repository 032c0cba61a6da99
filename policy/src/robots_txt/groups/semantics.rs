//! Reader: how a dialect goes through the events of a file.

use super::super::statements::event::{EXACT, Event, GOOGLE, RECORD, RUN};
use crate::Dialect;

/// How a dialect goes through a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Semantics {
    pub(crate) dialect: Dialect,
    /// The flag of the events it sees.
    pub(crate) sees: u8,
    /// The flag of the runs at which a new group begins for it.
    pub(crate) ends: u8,
    /// Whether the first rule that matches decides, in the one record that is for the crawler.
    pub(crate) takes_first: bool,
}

impl Semantics {
    pub(crate) fn new(dialect: Dialect) -> Self {
        let (sees, ends, takes_first) = match dialect {
            Dialect::Rfc9309 | Dialect::Strictest => (EXACT, EXACT, false),
            Dialect::Google => (GOOGLE, GOOGLE, false),
            Dialect::Koster1996 | Dialect::Selfhtml => (EXACT, RECORD, true),
        };
        Self {
            dialect,
            sees,
            ends,
            takes_first,
        }
    }

    /// Whether an event begins a new group.
    pub(crate) fn ends_at(self, event: &Event<'_>) -> bool {
        event.kind() == RUN && event.tag & self.ends != 0
    }
}
