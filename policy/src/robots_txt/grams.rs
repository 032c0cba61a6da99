//! Grams: where in a path its short pieces are, to pass over patterns without searching it.

const MAX_SLOTS: usize = 1 << 16;
/// A longer path has places that a table cannot hold, so nothing is known of it.
const MAX_PATH_BYTES: usize = u16::MAX as usize - 1;
/// So many pieces of a part say enough.
const MAX_PIECES: usize = 6;

#[derive(Debug)]
pub(super) struct Grams {
    /// The last place of each piece of one to three octets, counted from 1, and above it the first; zero
    /// where there is none. Pieces that share a slot are taken for each other.
    places: Box<[u32]>,
    shift: u32,
    knows: bool,
}

/// Where something may start.
#[derive(Clone, Copy)]
pub(super) struct Places {
    pub(super) first: u32,
    pub(super) last: u32,
}

impl Grams {
    pub(super) fn new(path: &[u8]) -> Self {
        let slots = (path.len() * 8).next_power_of_two().clamp(256, MAX_SLOTS);
        let mut grams = Self {
            places: vec![0; slots].into(),
            shift: 32 - slots.ilog2(),
            knows: path.len() <= MAX_PATH_BYTES,
        };
        if grams.knows {
            let mut rest = path;
            for place in 1.. {
                grams.insert::<1>(place, rest);
                grams.insert::<2>(place, rest);
                grams.insert::<3>(place, rest);
                let [_, after @ ..] = rest else { break };
                rest = after;
            }
        }
        grams
    }

    /// Notes the piece that what is left of the path begins with.
    #[inline]
    fn insert<const WIDTH: usize>(&mut self, place: u32, rest: &[u8]) {
        if let Some(piece) = rest.first_chunk::<WIDTH>() {
            let slot = &mut self.places[(number(piece) >> self.shift) as usize];
            // Places only grow, so the first stays.
            let first = if *slot == 0 {
                place << 16
            } else {
                *slot & 0xFFFF_0000
            };
            *slot = first | place;
        }
    }

    /// Where a part may start, if anywhere: where all its pieces let it.
    #[inline]
    pub(super) fn places_of(&self, part: &[u8]) -> Option<Places> {
        match *part {
            _ if !self.knows => Some(Places::ANY),
            [] => Some(Places::ANY),
            [one] => self.places(&[one]),
            [one, two] => self.places(&[one, two]),
            _ => self.long_places(part),
        }
    }

    #[inline]
    fn places<const WIDTH: usize>(&self, piece: &[u8; WIDTH]) -> Option<Places> {
        let places = self.places[(number(piece) >> self.shift) as usize];
        (places != 0).then(|| Places {
            first: (places >> 16) - 1,
            last: (places & 0xFFFF) - 1,
        })
    }

    fn long_places(&self, part: &[u8]) -> Option<Places> {
        let mut pieces = part.windows(3).take(MAX_PIECES);
        let mut all = self.places::<3>(pieces.next()?.first_chunk()?)?;
        for (offset, piece) in (1..).zip(pieces) {
            let piece = self.places::<3>(piece.first_chunk()?)?;
            all.first = all.first.max(piece.first.saturating_sub(offset));
            all.last = all.last.min(piece.last.checked_sub(offset)?);
        }
        Some(all)
    }
}

impl Places {
    const ANY: Self = Self {
        first: 0,
        last: u32::MAX,
    };
}

/// Spreads a piece over the upper bits.
#[inline]
fn number<const WIDTH: usize>(piece: &[u8; WIDTH]) -> u32 {
    let number = piece
        .iter()
        .fold(WIDTH as u32, |number, &byte| number << 8 | u32::from(byte));
    number.wrapping_mul(0x9E37_79B1)
}
