//! Sight: all that is known of a path by which many patterns are searched for, to tell of most without searching.

use super::effort::search_cost;
use super::grams::Grams;
use super::rows::Rows;
use super::seen::Seen;
use super::widths::Widths;

/// What is spent on searches in vain before whole parts are looked up.
const FEW_MISSES: usize = 32 * 1024;

/// More parts of a pattern are not looked up before they are searched.
const MANY_PARTS: usize = 32;

#[derive(Debug)]
pub(super) struct Sight {
    path: Box<[u8]>,
    rows: Rows,
    grams: Grams,
    widths: Widths,
    pub(super) seen: Seen,
    spent: usize,
}

impl Sight {
    pub(super) fn new(path: &[u8]) -> Self {
        Self {
            path: path.into(),
            rows: Rows::of(path),
            grams: Grams::new(path),
            widths: Widths::default(),
            seen: Seen::default(),
            spent: 0,
        }
    }

    /// Turns to a path, perhaps for another dialect, and says whether it is the one that all this is known of.
    pub(super) fn turn_to(&mut self, path: &[u8]) -> bool {
        self.seen.clear();
        *self.path == *path
    }

    /// Whether an octet is nowhere in the path.
    #[inline]
    pub(super) fn lacks(&self, octet: u8) -> bool {
        self.rows.lacks(octet)
    }

    /// Whether the parts match the path, the first one at its start.
    pub(super) fn matches<'a>(
        &mut self,
        mut parts: impl Iterator<Item = &'a [u8]>,
        anchored: bool,
    ) -> bool {
        let first = parts.next().unwrap_or_default();
        if !self.path.starts_with(first) {
            return false;
        }
        let mut from = first.len();
        let Some(mut part) = parts.next() else {
            return !anchored || from == self.path.len();
        };
        for next in parts {
            let Some(at) = self.find(from, part) else {
                return false;
            };
            from = at + part.len();
            part = next;
        }
        if anchored {
            self.path[from..].ends_with(part)
        } else {
            self.find(from, part).is_some()
        }
    }

    fn find(&mut self, from: usize, part: &[u8]) -> Option<usize> {
        if let [octet] = part
            && self.path.get(from) == Some(octet)
        {
            return Some(from);
        }
        let found = self.rows.find(&self.path, from, part);
        if found.is_none() {
            self.spent += search_cost(&self.path);
            if self.spent > FEW_MISSES {
                self.widths.note_miss(from as u32, part);
            }
        }
        found
    }

    /// Whether the parts behind the first might be in the path, each behind the one before.
    pub(super) fn may_hold_all<'a>(&mut self, mut parts: impl Iterator<Item = &'a [u8]>) -> bool {
        let mut from = parts.next().unwrap_or_default().len();
        parts
            .take(MANY_PARTS)
            .all(|part| self.may_hold(&mut from, part))
    }

    /// Whether a part might be in the path, at a place or behind it, as far as is known of its pieces. Goes on to where it
    /// ends at the soonest.
    #[inline]
    pub(super) fn may_hold(&mut self, from: &mut usize, part: &[u8]) -> bool {
        let start = *from as u32;
        if self.spent > FEW_MISSES && !self.widths.may_hold(&self.path, start, part) {
            return false;
        }
        let Some(places) = self.grams.places_of(part) else {
            return false;
        };
        *from = start.max(places.first) as usize + part.len();
        start <= places.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Octets of a small alphabet, the same for the same seed.
    fn octets(seed: u32, length: usize) -> Vec<u8> {
        let mut state = seed.wrapping_mul(0x9E37_79B9) | 1;
        let next = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            b"0123456789abcdef"[state as usize % 16]
        };
        std::iter::repeat_with(next).take(length).collect()
    }

    #[test]
    fn parts_that_a_path_is_made_of_are_found() {
        for seed in 0..2_000 {
            let path = octets(seed, 64 + seed as usize % 200);
            let mut sight = Sight::new(&path);
            let third = path.len() / 3;
            for width in [1, 2, 3, 5, third] {
                let parts = [
                    &path[..0],
                    &path[third - width..third],
                    &path[third..third + width],
                    &path[path.len() - width..],
                ];
                assert!(sight.may_hold_all(parts.into_iter()), "{width} of {seed}");
                assert!(sight.matches(parts.into_iter(), true), "{width} of {seed}");
                assert!(sight.matches(parts.into_iter(), false), "{width} of {seed}");
                let missing = [&path[..1], &[&path[1..=width], &b"~"[..]].concat()];
                assert!(!sight.matches(missing.into_iter(), false));
                sight.spent += FEW_MISSES / 4;
            }
        }
    }
}
