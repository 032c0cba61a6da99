//! What a path holds, found out when it is first asked: to pass over patterns without searching.

use super::grams::Grams;
use super::pattern::{Path, matches};

/// So many patterns are searched before it pays to know the path's pieces.
const FEW_SEARCHES: u32 = 24;
/// A shorter path is searched as fast.
const MIN_PATH_BYTES: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Holds {
    octets: Option<Octets>,
    searches: u32,
    grams: Option<Box<Grams>>,
}

impl Holds {
    /// Turns to a path. What is known stays known if it reads as the one before.
    #[inline]
    pub(crate) fn turn_to(&mut self, path: &Path<'_>) {
        self.octets = None;
        if self
            .grams
            .as_ref()
            .is_some_and(|grams| !grams.are_of(path.octets()))
        {
            self.grams = None;
        }
    }

    pub(super) fn octets(&mut self, path: &Path<'_>) -> Octets {
        *self.octets.get_or_insert_with(|| Octets::of(path.octets()))
    }

    /// Whether it is known that the last octet of a value with stars, or the one behind its first star, is nowhere in
    /// the path turned to: enough to pass over most rules. To look costs less than to take the value apart.
    #[inline]
    pub(super) fn lacks_an_end_of(&self, value: &[u8]) -> bool {
        let Some(grams) = &self.grams else {
            return false;
        };
        let literal = |octet: Option<&u8>| octet.copied().filter(|octet| !b"*$".contains(octet));
        let behind_star = memchr::memchr(b'*', value).and_then(|star| value.get(star + 1));
        let ends = [literal(value.last()), literal(behind_star)];
        ends.into_iter().flatten().any(|octet| grams.lacks(octet))
    }

    /// Whether the parts match the path, the first one at its start. Once many were searched, what the path holds
    /// tells of most without searching.
    #[inline]
    pub(super) fn search<'a>(
        &mut self,
        path: &Path<'_>,
        parts: impl Iterator<Item = &'a [u8]> + Clone,
        anchored: bool,
    ) -> bool {
        let octets = path.octets();
        if self.searches < FEW_SEARCHES || octets.len() < MIN_PATH_BYTES {
            self.searches += 1;
            return matches(parts, anchored, octets);
        }
        let starts = |first: &[u8]| octets.starts_with(first);
        if !parts.clone().next().is_none_or(starts) {
            return false;
        }
        let grams = self
            .grams
            .get_or_insert_with(|| Box::new(Grams::new(octets)));
        if !grams.may_hold(parts.clone()) {
            return false;
        }
        let matches = matches(parts, anchored, octets);
        if !matches {
            grams.note_miss();
        }
        matches
    }
}

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
