//! Widths: whether a path holds a part somewhere, told from all its stretches of that width.
//!
//! Paths can be made in which all short pieces of a part are everywhere, but not the part; to search each of
//! thousands of such parts takes longer than to note the path's stretches of as many octets once.

/// So many widths are noted; parts of others are looked up by the stretches they hold.
const MAX_WIDTHS: usize = 64;
/// Of a set of stretches, in words of 64 bits.
const WORDS: usize = 1 << 13;
/// So much of a stretch is looked at: whole words, from its first octet to its last.
const MAX_SAMPLES: usize = 5;
const WORD_BYTES: usize = 8;
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

#[derive(Debug, Default)]
pub(super) struct Widths(Vec<Stretches>);

impl Widths {
    /// Whether a part of at least four octets might be in the path.
    pub(super) fn may_hold(&mut self, path: &[u8], part: &[u8]) -> bool {
        if part.len() > path.len() {
            return false;
        }
        if let Some(same) = self.0.iter().find(|it| it.width == part.len()) {
            return same.may_hold(part);
        }
        if self.0.len() < MAX_WIDTHS {
            let stretches = Stretches::of(path, part.len());
            let may_hold = stretches.may_hold(part);
            self.0.push(stretches);
            return may_hold;
        }
        let narrower = self.0.iter().filter(|it| it.width < part.len());
        narrower.max_by_key(|it| it.width).is_none_or(|it| {
            it.may_hold(&part[..it.width]) && it.may_hold(&part[part.len() - it.width..])
        })
    }
}

/// The stretches of one width, as a set with false positives.
#[derive(Debug)]
struct Stretches {
    width: usize,
    samples: Samples,
    words: Box<[u64]>,
}

impl Stretches {
    fn of(path: &[u8], width: usize) -> Self {
        let mut words = vec![0; WORDS].into_boxed_slice();
        let samples = Samples::of(width);
        for stretch in path.windows(width) {
            let (word, bits) = place(samples.hash(stretch));
            words[word] |= bits;
        }
        Self {
            width,
            samples,
            words,
        }
    }

    fn may_hold(&self, part: &[u8]) -> bool {
        let (word, bits) = place(self.samples.hash(part));
        self.words[word] & bits == bits
    }
}

/// The word for a stretch, and its bits there.
#[inline]
fn place(hash: u64) -> (usize, u64) {
    // A product's upper bits depend on all bits of its factors, its lower ones do not.
    let hash = (hash ^ hash >> 32).wrapping_mul(SPREAD);
    let bit = |shift: u32| 1 << (hash >> shift & 63);
    let word = (hash >> 32) as usize % WORDS;
    (word, bit(58) | bit(52) | bit(46) | bit(26))
}

/// Where the words are that are looked at in a stretch.
#[derive(Debug)]
struct Samples {
    places: [usize; MAX_SAMPLES],
    count: usize,
}

impl Samples {
    fn of(width: usize) -> Self {
        let count = width.div_ceil(WORD_BYTES).min(MAX_SAMPLES);
        let last = width.saturating_sub(WORD_BYTES);
        let mut places = [0; MAX_SAMPLES];
        for (step, place) in places[..count].iter_mut().enumerate().skip(1) {
            *place = last * step / (count - 1);
        }
        Self { places, count }
    }

    #[inline]
    fn hash(&self, stretch: &[u8]) -> u64 {
        if stretch.len() < WORD_BYTES {
            return narrow(stretch).wrapping_mul(SPREAD);
        }
        let places = self.places[..self.count].iter();
        places.fold(0, |hash: u64, &at| {
            let word = stretch[at..]
                .first_chunk()
                .expect("no place is behind the last word");
            (hash.rotate_left(29) ^ u64::from_le_bytes(*word)).wrapping_mul(SPREAD)
        })
    }
}

/// All of four to seven octets.
#[inline]
fn narrow(stretch: &[u8]) -> u64 {
    let half = |chunk: Option<&[u8; 4]>| chunk.map_or(0, |chunk| u32::from_le_bytes(*chunk));
    u64::from(half(stretch.first_chunk())) << 32 | u64::from(half(stretch.last_chunk()))
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
                assert!(widths.may_hold(&path, &part), "{width} octets at {start}");
                part[width - 1] = b'z';
                all += 1;
                wrong += usize::from(widths.may_hold(&path, &part));
            }
        }
        assert!(wrong * 100 < all, "{wrong} of {all}");
    }

    #[test]
    fn only_so_many_widths_are_noted() {
        let path = [b'a'; 2_000];
        let mut widths = Widths::default();
        for width in 4..1_000 {
            assert!(widths.may_hold(&path, &path[..width]));
        }
        assert_eq!(widths.0.len(), MAX_WIDTHS);
    }
}
