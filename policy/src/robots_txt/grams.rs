//! Grams: where in a long path its short pieces are, to pass over patterns without searching it.

/// The tables have this many slots; pieces that share one are taken for each other.
const SLOTS: usize = 1 << 16;
/// A longer path has places that a table cannot hold.
const MAX_PATH_BYTES: usize = u16::MAX as usize - 1;
/// A shorter path is searched as fast.
const MIN_PATH_BYTES: usize = 512;
/// So many pieces of a part say enough.
const MAX_PIECES: usize = 16;
const WIDTH: usize = 3;

/// The first and the last place of each piece of one to three octets; zero where there is none.
#[derive(Debug)]
pub(super) struct Grams {
    first: Box<[u16]>,
    last: Box<[u16]>,
}

impl Grams {
    /// `None` for paths that are not worth it, or too long.
    pub(super) fn new(path: &[u8]) -> Option<Self> {
        if !(MIN_PATH_BYTES..=MAX_PATH_BYTES).contains(&path.len()) {
            return None;
        }
        let mut first = vec![0; SLOTS].into_boxed_slice();
        let mut last = first.clone();
        for width in 1..=WIDTH {
            for (place, piece) in (1..).zip(path.windows(width)) {
                let slot = slot(piece);
                if first[slot] == 0 {
                    first[slot] = place;
                }
                last[slot] = place;
            }
        }
        Some(Self { first, last })
    }

    /// Whether all parts might be in the path, one behind the other. Each starts no sooner and no
    /// later than its pieces let it.
    pub(super) fn may_hold<'a>(&self, parts: impl Iterator<Item = &'a [u8]>) -> bool {
        let mut sooner = 0;
        for part in parts.filter(|part| !part.is_empty()) {
            let mut later = usize::MAX;
            let pieces = part.windows(part.len().min(WIDTH)).take(MAX_PIECES);
            for (offset, piece) in pieces.enumerate() {
                let slot = slot(piece);
                // A piece that is nowhere has its last place, zero, before any start.
                let Some(last) = usize::from(self.last[slot]).checked_sub(1 + offset) else {
                    return false;
                };
                later = later.min(last);
                sooner = sooner.max((usize::from(self.first[slot]) - 1).saturating_sub(offset));
            }
            if sooner > later {
                return false;
            }
            sooner += part.len();
        }
        true
    }
}

fn slot(piece: &[u8]) -> usize {
    let number = piece.iter().fold(piece.len() as u32, |number, &byte| {
        number << 8 | u32::from(byte)
    });
    (number.wrapping_mul(0x9E37_79B1) >> 16) as usize
}
