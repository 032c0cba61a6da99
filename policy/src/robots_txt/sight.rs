//! Sight: all that is known of a path by which many patterns are searched for, to tell of most without searching.

use super::effort::search_cost;
use super::grams::Grams;
use super::rows::Rows;
use super::widths::Widths;

/// What is spent on searches beyond what is near before short pieces of parts are looked up, and before whole parts are.
const LITTLE: usize = 64 * 1024;
const MUCH: usize = 256 * 1024;

/// More parts of a pattern are not looked up before they are searched.
const MANY_PARTS: usize = 32;

#[derive(Debug)]
pub(super) struct Sight {
    path: Box<[u8]>,
    rows: Rows,
    grams: Option<Grams>,
    widths: Widths,
    spent: usize,
}

impl Sight {
    pub(super) fn new(path: &[u8]) -> Self {
        Self {
            path: path.into(),
            rows: Rows::of(path),
            grams: None,
            widths: Widths::default(),
            spent: 0,
        }
    }

    /// Whether all this is known of a path.
    pub(super) fn is_of(&self, path: &[u8]) -> bool {
        *self.path == *path
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

    /// Where in the path a part first is, from a place on.
    pub(super) fn find(&mut self, from: usize, part: &[u8]) -> Option<usize> {
        if let [octet] = part
            && self.path.get(from) == Some(octet)
        {
            return Some(from);
        }
        if self.spent > MUCH && part.len() >= Widths::NARROWEST {
            return self.widths.find(&self.path, from, part);
        }
        let near = self.rows.find_near(&self.path, from, part);
        let mut end = from;
        if near.is_some() || !self.may_hold(&mut end, part) {
            return near;
        }
        self.spent += search_cost(&self.path);
        // Its pieces are nowhere before this.
        let from = end - part.len();
        self.rows.find(&self.path, from, part)
    }

    /// Whether the parts behind the first might be in the path, each behind the one before.
    pub(super) fn may_hold_all<'a>(&mut self, mut parts: impl Iterator<Item = &'a [u8]>) -> bool {
        let mut from = parts.next().unwrap_or_default().len();
        self.spent > MUCH
            || parts
                .take(MANY_PARTS)
                .all(|part| self.may_hold(&mut from, part))
    }

    /// Whether a part might be in the path, at a place or behind it, as far as is known of its pieces. Goes on to where it
    /// ends at the soonest.
    #[inline]
    fn may_hold(&mut self, from: &mut usize, part: &[u8]) -> bool {
        let start = *from as u32;
        if self.spent <= LITTLE {
            *from += part.len();
            return true;
        }
        let grams = self.grams.get_or_insert_with(|| Grams::new(&self.path));
        let Some(places) = grams.places_of(part) else {
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
                sight.spent += LITTLE / 4;
            }
        }
    }
}
