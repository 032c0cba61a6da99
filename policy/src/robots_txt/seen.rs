//! Seen: where the rules of a file are, to know those that say again what an earlier one did.
//!
//! Whether that matched or not, the later one decides nothing. Files made to be slow are full of such rules, for only so
//! many short ones can be made.

use super::spread::{SPREAD, spread};
use super::stream::{Event, events};

/// So many rules are remembered, each where its hash says.
const SLOTS: usize = 1 << 15;

/// Where the last rule of each hash is in the stream, counted from 1; zero for none.
#[derive(Debug)]
pub(super) struct Seen(Vec<u32>);

impl Seen {
    pub(super) fn new() -> Self {
        Self(vec![0; SLOTS])
    }

    /// Where the last rule is that says what an event does, as far as is remembered; remembers the event.
    pub(super) fn before(&mut self, stream: &[u8], event: &Event<'_>) -> Option<usize> {
        let slot = &mut self.0[hash(event) % SLOTS];
        let last = slot.checked_sub(1).map(|offset| offset as usize);
        *slot = event.offset as u32 + 1;
        let says_the_same = |offset: &usize| {
            let other = events(stream, *offset).next();
            other.is_some_and(|other| (other.tag, other.payload) == (event.tag, event.payload))
        };
        last.filter(says_the_same)
    }
}

fn hash(event: &Event<'_>) -> usize {
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
    (spread(hash ^ u64::from(event.tag) << 56) >> 16) as usize
}
