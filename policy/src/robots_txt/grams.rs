//! Grams: where in a path its short pieces are, to pass over patterns without searching it.

use super::widths::Widths;

const MAX_SLOTS: usize = 1 << 16;
/// A longer path has places that a table cannot hold, so nothing is known of it.
const MAX_PATH_BYTES: usize = u16::MAX as usize - 1;
/// So many pieces of a part say enough.
const MAX_PIECES: usize = 16;
const WIDTH: usize = 3;
/// So many parts are searched that need not be there before whole parts are looked up.
const FEW_SEARCHES: u32 = 8;

#[derive(Debug)]
pub(super) struct Grams {
    path: Box<[u8]>,
    /// The last place of each piece of one to three octets, and above it the first; zero where
    /// there is none. Pieces that share a slot are taken for each other.
    places: Box<[u32]>,
    shift: u32,
    searches: u32,
    widths: Widths,
}

impl Grams {
    pub(super) fn new(path: &[u8]) -> Self {
        let slots = (path.len() * 8).next_power_of_two().clamp(256, MAX_SLOTS);
        let mut grams = Self {
            path: path.into(),
            places: vec![0; slots].into(),
            shift: 32 - slots.ilog2(),
            searches: 0,
            widths: Widths::default(),
        };
        if path.len() <= MAX_PATH_BYTES {
            for width in 1..=WIDTH {
                for (place, piece) in (1..).zip(path.windows(width)) {
                    grams.insert(piece, place);
                }
            }
        }
        grams
    }

    #[inline]
    fn insert(&mut self, piece: &[u8], place: u32) {
        let slot = &mut self.places[(number(piece) >> self.shift) as usize];
        let first = if *slot == 0 {
            place << 16
        } else {
            *slot & !0xFFFF
        };
        *slot = first | place;
    }

    pub(super) fn are_of(&self, path: &[u8]) -> bool {
        *self.path == *path
    }

    /// Whether all parts might be in the path, one behind the other. Each starts no sooner and no
    /// later than its pieces let it.
    pub(super) fn may_hold<'a>(&mut self, parts: impl Iterator<Item = &'a [u8]>) -> bool {
        if self.path.len() > MAX_PATH_BYTES {
            return true;
        }
        let mut sooner = 0;
        for part in parts.filter(|part| !part.is_empty()) {
            let mut later = u32::MAX;
            let pieces = part.windows(part.len().min(WIDTH)).take(MAX_PIECES);
            for (offset, piece) in (0..).zip(pieces) {
                let places = self.places[(number(piece) >> self.shift) as usize];
                // A piece that is nowhere has its last place, zero, before any start.
                let Some(last) = (places & 0xFFFF).checked_sub(1 + offset) else {
                    return false;
                };
                later = later.min(last);
                sooner = sooner.max(((places >> 16) - 1).saturating_sub(offset));
            }
            if sooner > later {
                return false;
            }
            if part.len() > WIDTH
                && self.searches > FEW_SEARCHES
                && !self.widths.may_hold(&self.path, part)
            {
                return false;
            }
            sooner += part.len() as u32;
        }
        self.searches += 1;
        true
    }
}

/// Spreads a piece over the upper bits.
#[inline]
fn number(piece: &[u8]) -> u32 {
    let number = piece.iter().fold(piece.len() as u32, |number, &byte| {
        number << 8 | u32::from(byte)
    });
    number.wrapping_mul(0x9E37_79B1)
}
