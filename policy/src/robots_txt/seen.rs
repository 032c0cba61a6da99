//! Seen: rules that say again what was judged before in the same decision.
//!
//! Whether an earlier rule of the same words and kind matched or not, this one decides nothing. Files made to be slow are
//! full of such rules, for only so many short ones can be made.

use super::stream::{Event, events};

/// So many rules are remembered, each where its hash says.
const SLOTS: usize = 1 << 10;
/// After so many rules it is known whether it pays to look.
const MANY: u32 = 512;

#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Where the last rule of each hash is in the stream, counted from 1; zero for none.
    offsets: Vec<u32>,
    asked: u32,
    again: u32,
}

impl Seen {
    /// Forgets all rules: for another path, or another dialect.
    #[inline]
    pub(super) fn clear(&mut self) {
        if !self.offsets.is_empty() {
            *self = Self::default();
        }
    }

    /// Whether an event says what one remembered does, and remembers it.
    pub(super) fn is_again(&mut self, stream: &[u8], event: &Event<'_>) -> bool {
        if self.asked >= MANY && self.again < self.asked / 4 {
            return false;
        }
        self.asked += 1;
        self.offsets.resize(SLOTS, 0);
        let slot = &mut self.offsets[slot(event)];
        let before = events(stream, slot.wrapping_sub(1) as usize).next();
        let says_the_same =
            |other: &Event<'_>| other.tag == event.tag && other.payload == event.payload;
        let again = *slot != 0 && before.is_some_and(|other| says_the_same(&other));
        self.again += u32::from(again);
        *slot = event.offset as u32 + 1;
        again
    }
}

fn slot(event: &Event<'_>) -> usize {
    const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
    let payload = event.payload;
    let hash = match (payload.first_chunk(), payload.last_chunk()) {
        (Some(&first), Some(&last)) => {
            let first = u64::from_le_bytes(first).wrapping_mul(SPREAD);
            first.rotate_left(32) ^ u64::from_le_bytes(last) ^ payload.len() as u64
        }
        _ => payload
            .iter()
            .fold(0, |hash, &octet| hash << 8 | u64::from(octet)),
    };
    // Only the upper bits of a product depend on all bits.
    let hash = (hash ^ u64::from(event.tag) << 56).wrapping_mul(SPREAD);
    (hash >> 48) as usize % SLOTS
}
