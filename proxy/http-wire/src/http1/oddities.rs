//! Malformed responses that are repaired on the way to the client: proxy/http-wire/README.md has a row for each kind, with the
//! clause that lets a proxy repair it.

pub use wayleave_notation::Oddity;

/// The set of oddities of one response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Oddities(u16);

impl Oddities {
    pub fn insert(&mut self, oddity: Oddity) {
        self.0 |= 1 << oddity as u8;
    }

    /// Returns the union of both sets.
    pub fn union(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns whether no oddity concerns the end of the message: only then may its connection be reused.
    pub fn is_framing_certain(self) -> bool {
        self.0 & !(1 << Oddity::StatusOutOfRange as u8) == 0
    }

    pub fn iter(self) -> impl Iterator<Item = Oddity> {
        Oddity::ALL.into_iter().filter(move |oddity| self.0 & 1 << *oddity as u8 != 0)
    }
}
