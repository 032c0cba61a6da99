//! Widths: whether a path holds a part somewhere, told from all its stretches of a few widths, and from the parts that
//! were searched for in vain.
//!
//! Paths can be made in which all short pieces of a part are everywhere, but not the part; to search each of
//! thousands of such parts takes longer than to note the path's stretches of as many octets once.

/// Parts are looked up by the widest stretches of these that they begin and end with.
const WIDTHS: [usize; 8] = [4, 8, 12, 16, 24, 32, 48, 64];
/// So many parts that were searched for in vain are remembered.
const MISSES: usize = 1 << 10;
/// Of a set of stretches, in words of 64 bits.
const WORDS: usize = 1 << 13;
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

#[derive(Debug, Default)]
pub(super) struct Widths {
    stretches: [Option<Stretches>; WIDTHS.len()],
    /// Each where its ends say, the last that came there.
    misses: Vec<Miss>,
}

#[derive(Clone, Debug, Default)]
struct Miss {
    part: Box<[u8]>,
    from: u32,
}

impl Widths {
    /// Whether a part might be in the path, at a place or behind it.
    pub(super) fn may_hold(&mut self, path: &[u8], from: u32, part: &[u8]) -> bool {
        let Some(index) = widest(part) else {
            return true;
        };
        let stretches = self.stretches[index].get_or_insert_with(|| Stretches::of(path, index));
        let ends = hashes(part, index);
        ends.iter().all(|&hash| stretches.may_hold(hash))
            && !self
                .misses
                .get(slot(part, ends))
                .is_some_and(|miss| from >= miss.from && *miss.part == *part)
    }

    /// Notes that a part is neither at a place nor behind it.
    pub(super) fn note_miss(&mut self, from: u32, part: &[u8]) {
        if let Some(index) = widest(part) {
            self.misses.resize(MISSES, Miss::default());
            let slot = slot(part, hashes(part, index));
            self.misses[slot] = Miss {
                part: part.into(),
                from,
            };
        }
    }
}

/// Which of the widths the widest stretches in a part have.
fn widest(part: &[u8]) -> Option<usize> {
    WIDTHS.iter().rposition(|&width| width <= part.len())
}

/// Numbers for the stretches of a width that a part begins and ends with.
fn hashes(part: &[u8], index: usize) -> [u64; 2] {
    let width = WIDTHS[index];
    [&part[..width], &part[part.len() - width..]].map(hash)
}

/// Where a part is remembered.
fn slot(part: &[u8], [first, last]: [u64; 2]) -> usize {
    let hash = first.rotate_left(23) ^ last ^ part.len() as u64;
    (hash.wrapping_mul(SPREAD) >> 32) as usize % MISSES
}

/// The stretches of one width, as a set with false positives.
#[derive(Debug)]
struct Stretches(Box<[u64]>);

impl Stretches {
    fn of(path: &[u8], index: usize) -> Self {
        let note = [
            Self::note::<{ WIDTHS[0] }>,
            Self::note::<{ WIDTHS[1] }>,
            Self::note::<{ WIDTHS[2] }>,
            Self::note::<{ WIDTHS[3] }>,
            Self::note::<{ WIDTHS[4] }>,
            Self::note::<{ WIDTHS[5] }>,
            Self::note::<{ WIDTHS[6] }>,
            Self::note::<{ WIDTHS[7] }>,
        ];
        let mut stretches = Self(vec![0; WORDS].into());
        note[index](&mut stretches, path);
        stretches
    }

    fn note<const WIDTH: usize>(&mut self, path: &[u8]) {
        for stretch in path.windows(WIDTH) {
            let stretch: &[u8; WIDTH] = stretch.first_chunk().expect("of this width");
            let (word, bits) = place(hash(stretch));
            self.0[word] |= bits;
        }
    }

    /// Whether there might be a stretch with such a number.
    fn may_hold(&self, hash: u64) -> bool {
        let (word, bits) = place(hash);
        self.0[word] & bits == bits
    }
}

/// The word for a stretch, and its bits there.
#[inline]
fn place(hash: u64) -> (usize, u64) {
    // A product's upper bits depend on all bits of its factors, its lower ones do not.
    let hash = (hash ^ hash >> 32).wrapping_mul(SPREAD);
    let bit = |shift: u32| 1 << (hash >> shift & 63);
    let word = (hash >> 32) as usize % WORDS;
    (
        word,
        bit(58) | bit(52) | bit(46) | bit(26) | bit(20) | bit(14),
    )
}

/// A number for a stretch of one of the widths.
#[inline]
fn hash(stretch: &[u8]) -> u64 {
    let (words, rest) = stretch.as_chunks();
    let rest = rest
        .first_chunk()
        .map_or(0, |rest| u32::from_le_bytes(*rest));
    let start = u64::from(rest).wrapping_mul(SPREAD);
    words.iter().fold(start, |hash: u64, word| {
        (hash.rotate_left(29) ^ u64::from_le_bytes(*word)).wrapping_mul(SPREAD)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stretch_of_a_path_is_held_and_few_others() {
        let path: Vec<u8> = (0..4_000_u32)
            .map(|n| b'a' + (n * n % 251 % 7) as u8)
            .collect();
        let mut widths = Widths::default();
        let (mut wrong, mut all) = (0, 0);
        for width in (4..40).chain([100, 1_000]) {
            for start in (0..path.len() - width).step_by(17) {
                let mut part = path[start..start + width].to_vec();
                let may_hold = widths.may_hold(&path, start as u32, &part);
                assert!(may_hold, "{width} octets at {start}");
                part[width - 1] = b'z';
                all += 1;
                wrong += usize::from(widths.may_hold(&path, 0, &part));
            }
        }
        assert!(wrong * 100 < all, "{wrong} of {all}");
    }

    #[test]
    fn a_part_searched_for_in_vain_is_not_held_from_there_on() {
        let (path, mut widths) = (b"/part/part/", Widths::default());
        widths.note_miss(7, b"part/");
        let may_hold = [0, 6, 7, 9].map(|from| widths.may_hold(path, from, b"part/"));
        assert_eq!(may_hold, [true, true, false, false]);
        assert!(widths.may_hold(path, 7, b"part"));
    }
}
