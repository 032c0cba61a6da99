//! Sets of byte pairs. Most patterns with stars are skipped because the path lacks one of their pairs.

/// A small set of pairs of adjacent bytes, with false positives.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BytePairs(u64);

impl BytePairs {
    pub(super) const ALL: Self = Self(u64::MAX);

    pub(super) fn of(text: &[u8]) -> Self {
        // One machine word: testing a rule takes one comparison.
        Self(text.windows(2).fold(0, |all, pair| {
            // Different pairs of letters mostly have different numbers.
            let number = (u32::from(pair[0]) * 5 + u32::from(pair[1])) & 63;
            all | 1 << number
        }))
    }

    /// Returns the pairs in any of some texts.
    pub(super) fn of_all<'a>(texts: impl Iterator<Item = &'a [u8]>) -> Self {
        Self(texts.fold(0, |all, text| all | Self::of(text).0))
    }

    #[inline]
    pub(super) fn contains_all(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }
}
