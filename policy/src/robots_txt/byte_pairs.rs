//! Which bytes and pairs of bytes a text holds: most patterns are passed over because a path lacks some.

/// A small set of single bytes and pairs, with false positives.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BytePairs {
    singles: u64,
    pairs: u64,
}

impl BytePairs {
    pub(super) const ALL: Self = Self {
        singles: u64::MAX,
        pairs: u64::MAX,
    };

    pub(super) fn of(text: &[u8]) -> Self {
        let mut held = Self::default();
        held.add(text);
        held
    }

    pub(super) fn add(&mut self, text: &[u8]) {
        for &byte in text {
            self.singles |= 1 << (byte & 63);
        }
        for pair in text.windows(2) {
            // Different pairs of letters mostly differ in this number, too.
            self.pairs |= 1 << ((u32::from(pair[0]) * 5 + u32::from(pair[1])) & 63);
        }
    }

    #[inline]
    pub(super) fn holds(self, other: Self) -> bool {
        (other.singles & !self.singles) | (other.pairs & !self.pairs) == 0
    }
}
