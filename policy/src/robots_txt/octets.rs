//! Which bytes and pairs of bytes a text holds: most patterns are passed over because a path lacks some.

/// A small set of single octets and pairs, with false positives.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Octets {
    singles: u64,
    pairs: u64,
}

impl Octets {
    pub(super) const ALL: Self = Self {
        singles: u64::MAX,
        pairs: u64::MAX,
    };

    pub(super) fn of(text: &[u8]) -> Self {
        let mut octets = Self::default();
        octets.add(text);
        octets
    }

    pub(super) fn add(&mut self, text: &[u8]) {
        let Some((&first, rest)) = text.split_first() else {
            return;
        };
        self.singles |= 1 << (first & 63);
        let mut before = u32::from(first);
        for &byte in rest {
            let byte = u32::from(byte);
            self.singles |= 1 << (byte & 63);
            self.pairs |= 1 << ((before * 5 + byte) & 63);
            before = byte;
        }
    }

    #[inline]
    pub(super) fn holds(self, other: Self) -> bool {
        (other.singles & !self.singles) | (other.pairs & !self.pairs) == 0
    }
}
