//! Grams: where in a path its short pieces are, to pass over patterns without searching it.

use super::widths::Widths;

const MAX_SLOTS: usize = 1 << 16;
/// A longer path has places that a table cannot hold, so nothing is known of it.
const MAX_PATH_BYTES: usize = u16::MAX as usize - 1;
/// So many pieces of a part say enough.
const MAX_PIECES: usize = 16;
/// After so many searches for nothing, whole parts are looked up.
const FEW_MISSES: u32 = 8;

#[derive(Debug)]
pub(super) struct Grams {
    path: Box<[u8]>,
    /// The last place of each piece of one to three octets, counted from 1, and above it the first; zero
    /// where there is none. Pieces that share a slot are taken for each other.
    places: Box<[u32]>,
    shift: u32,
    misses: u32,
    widths: Widths,
}

/// Where something may start.
#[derive(Clone, Copy)]
struct Places {
    first: u32,
    last: u32,
}

impl Grams {
    pub(super) fn new(path: &[u8]) -> Self {
        let slots = (path.len() * 8).next_power_of_two().clamp(256, MAX_SLOTS);
        let mut grams = Self {
            path: path.into(),
            places: vec![0; slots].into(),
            shift: 32 - slots.ilog2(),
            misses: 0,
            widths: Widths::default(),
        };
        if path.len() <= MAX_PATH_BYTES {
            grams.insert::<1>(path);
            grams.insert::<2>(path);
            grams.insert::<3>(path);
        }
        grams
    }

    fn insert<const WIDTH: usize>(&mut self, path: &[u8]) {
        for (place, piece) in (1..).zip(path.windows(WIDTH)) {
            let piece: &[u8; WIDTH] = piece.first_chunk().expect("of this width");
            let slot = &mut self.places[(number(piece) >> self.shift) as usize];
            // Another piece may have had the slot before, and stand anywhere.
            let (first, last) = match *slot {
                0 => (place, place),
                places => (place.min(places >> 16), place.max(places & 0xFFFF)),
            };
            *slot = first << 16 | last;
        }
    }

    pub(super) fn are_of(&self, path: &[u8]) -> bool {
        *self.path == *path
    }

    /// Whether an octet is nowhere in the path.
    #[inline]
    pub(super) fn lacks(&self, octet: u8) -> bool {
        self.path.len() <= MAX_PATH_BYTES && self.places(&[octet]).is_none()
    }

    /// Notes that a pattern was searched for nothing.
    pub(super) fn note_miss(&mut self) {
        self.misses += 1;
    }

    /// Whether all parts might be in the path, the first at its start and each behind the one
    /// before, as far as the places of their pieces tell.
    pub(super) fn may_hold<'a>(&mut self, mut parts: impl Iterator<Item = &'a [u8]>) -> bool {
        if self.path.len() > MAX_PATH_BYTES {
            return true;
        }
        let mut from = parts.next().map_or(0, <[u8]>::len) as u32;
        for part in parts {
            let places = match *part {
                [] => continue,
                [one] => self.places(&[one]),
                [one, two] => self.places(&[one, two]),
                _ => self.long_places(part),
            };
            let Some(Places { first, last }) = places else {
                return false;
            };
            from = from.max(first);
            if from > last {
                return false;
            }
            from += part.len() as u32;
        }
        true
    }

    #[inline]
    fn places<const WIDTH: usize>(&self, piece: &[u8; WIDTH]) -> Option<Places> {
        let places = self.places[(number(piece) >> self.shift) as usize];
        (places != 0).then(|| Places {
            first: (places >> 16) - 1,
            last: (places & 0xFFFF) - 1,
        })
    }

    /// Where a part of three octets or more may start: where all its pieces let it.
    fn long_places(&mut self, part: &[u8]) -> Option<Places> {
        let mut all = Places {
            first: 0,
            last: u32::MAX,
        };
        for (offset, piece) in (0..).zip(part.windows(3).take(MAX_PIECES)) {
            let piece = self.places::<3>(piece.first_chunk()?)?;
            all.first = all.first.max(piece.first.saturating_sub(offset));
            all.last = all.last.min(piece.last.checked_sub(offset)?);
        }
        let looks_up = self.misses > FEW_MISSES && part.len() > 3;
        (!looks_up || self.widths.may_hold(&self.path, part)).then_some(all)
    }
}

/// Spreads a piece over the upper bits.
#[inline]
fn number<const WIDTH: usize>(piece: &[u8; WIDTH]) -> u32 {
    let number = piece
        .iter()
        .fold(WIDTH as u32, |number, &byte| number << 8 | u32::from(byte));
    number.wrapping_mul(0x9E37_79B1)
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
    fn parts_that_a_path_is_made_of_are_never_denied() {
        for seed in 0..2_000 {
            let path = octets(seed, 64 + seed as usize % 200);
            let mut grams = Grams::new(&path);
            let third = path.len() / 3;
            for width in [1, 2, 3, 5, third] {
                let parts = [
                    &path[..0],
                    &path[third - width..third],
                    &path[third..third + width],
                    &path[path.len() - width..],
                ];
                assert!(grams.may_hold(parts.into_iter()), "{width} of {seed}");
                grams.note_miss();
                grams.note_miss();
            }
        }
    }
}
