//! Rows: where each octet stands in a path, as bits, to find parts at 64 places at once.
//!
//! Searchers made for long texts take longer to set out than most parts of patterns need to be found, above all where the
//! path is made of few octets, and those parts of them.

use std::array;

use memchr::memmem;

const WORD: usize = u64::BITS as usize;
/// So many words are looked through at once where a part is not near.
const BLOCK: usize = 4;
/// Of longer parts so many octets are looked up.
const MAX_PART: usize = 64;
/// Of parts longer than this the last octet is asked for first, and then some that stand apart: neighbours often say the
/// same, of escapes and of what is repeated.
const LONG_PART: usize = 12;
const STRIDE: usize = 5;
/// A searcher takes over when a longer part began at so many places and was not there.
const FEW_PLACES: usize = 8;

#[derive(Debug)]
pub(super) struct Rows {
    /// Where the row of each octet begins; those that are nowhere share an empty one.
    starts: Box<[u32; 256]>,
    words: Vec<u64>,
}

impl Rows {
    pub(super) fn of(path: &[u8]) -> Self {
        // Bits are asked for up to a part and a block behind the last place.
        let width = (path.len() + MAX_PART) / WORD + BLOCK + 3;
        let mut starts = Box::new([0; 256]);
        let mut words = vec![0; width];
        for (place, &byte) in path.iter().enumerate() {
            let start = &mut starts[usize::from(byte)];
            if *start == 0 {
                *start = u32::try_from(words.len()).expect("256 rows of a path");
                words.resize(words.len() + width, 0);
            }
            words[*start as usize + place / WORD] |= 1 << (place % WORD);
        }
        Self { starts, words }
    }

    /// Where in the path a part first is, from a place on.
    #[inline]
    pub(super) fn find(&self, path: &[u8], from: usize, part: &[u8]) -> Option<usize> {
        let Some((start, _)) = part.split_at_checked(MAX_PART) else {
            return self.find_short(path, from, part);
        };
        let mut from = from;
        for _ in 0..FEW_PLACES {
            let at = self.find_short(path, from, start)?;
            if path[at..].starts_with(part) {
                return Some(at);
            }
            from = at + 1;
        }
        memmem::find(&path[from..], part).map(|at| from + at)
    }

    /// The same at the next few places only.
    #[inline]
    pub(super) fn find_near(&self, path: &[u8], from: usize, part: &[u8]) -> Option<usize> {
        let last = path.len().checked_sub(part.len())?;
        if from > last || part.len() > MAX_PART {
            return None;
        }
        self.find_within::<1>(from, part)
    }

    /// The same for a part that is not too long.
    #[inline]
    fn find_short(&self, path: &[u8], from: usize, part: &[u8]) -> Option<usize> {
        let last = path.len().checked_sub(part.len())?;
        if from > last {
            return None;
        }
        let mut far = (from + WORD..=last).step_by(BLOCK * WORD);
        self.find_within::<1>(from, part)
            .or_else(|| far.find_map(|base| self.find_within::<BLOCK>(base, part)))
    }

    /// Where a part first is within some words of places from one on.
    #[inline]
    fn find_within<const N: usize>(&self, base: usize, part: &[u8]) -> Option<usize> {
        let mut places = [u64::MAX; N];
        let mut are_any = |index: usize| {
            let words = self.words::<N>(part[index], base + index);
            let mut any = 0;
            for (places, word) in places.iter_mut().zip(words) {
                *places &= word;
                any |= *places;
            }
            any != 0
        };
        let is_long = part.len() > LONG_PART;
        if is_long
            && !(are_any(part.len() - 1) && (0..part.len()).step_by(STRIDE).all(&mut are_any))
            || !(0..part.len()).all(are_any)
        {
            return None;
        }
        let word = places.iter().position(|&places| places != 0)?;
        Some(base + WORD * word + places[word].trailing_zeros() as usize)
    }

    /// At which of the places from one on an octet stands.
    #[inline]
    fn words<const N: usize>(&self, octet: u8, place: usize) -> [u64; N] {
        let row = self.starts[usize::from(octet)] as usize + place / WORD;
        let shift = place % WORD;
        let words = &self.words[row..=row + N];
        array::from_fn(|index| words[index] >> shift | words[index + 1] << 1 << (WORD - 1 - shift))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_where_they_first_are() {
        let path: Vec<u8> = (0..700_u32)
            .map(|n| b"/ab"[(n * n % 251 % 3) as usize])
            .collect();
        let rows = Rows::of(&path);
        for from in (0..710).step_by(3) {
            for width in [0, 1, 2, 5, 11, 32, 33, 60, 64, 65, 90] {
                for at in [0, 64, 65, 300, 600] {
                    let mut part = path[at..at + width].to_vec();
                    for last in [None, Some(b'a'), Some(b'z')] {
                        if let (Some(last), Some(octet)) = (last, part.last_mut()) {
                            *octet = last;
                        }
                        let rest = path.get(from..);
                        let expected = rest.and_then(|rest| memmem::find(rest, &part));
                        let expected = expected.map(|at| from + at);
                        assert_eq!(rows.find(&path, from, &part), expected, "{part:?} {from}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_long_part_is_found_that_begins_at_many_places() {
        let path = [&[b'a'; 300][..], b"b", &[b'a'; 80], b"c"].concat();
        let rows = Rows::of(&path);
        for (last, expected) in [(b'b', Some(230)), (b'c', Some(311)), (b'd', None)] {
            let part = [&[b'a'; 70][..], &[last]].concat();
            assert_eq!(rows.find(&path, 0, &part), expected);
        }
    }
}
