//! The settlements that wait for the engine to come back.

use std::collections::VecDeque;

use tokio::time::Instant;

use super::engine::Settlement;

/// The most bytes that wait for the engine. Beyond it the oldest settlements are dropped, and their origins fetched again.
const MAX_UNSETTLED_BYTES: usize = 16 << 20;

/// A queue of settlements, each with the time at which its record was fetched.
#[derive(Default)]
pub(super) struct UnsettledQueue {
    queue: VecDeque<(Settlement, Instant)>,
    bytes: usize,
}

impl UnsettledQueue {
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn push(&mut self, settlement: Settlement, fetched_at: Instant) {
        self.bytes += settlement.record.bytes.len();
        // The oldest go first: they are the most likely to be stale already.
        self.queue.push_back((settlement, fetched_at));
        while self.bytes > MAX_UNSETTLED_BYTES && self.pop().is_some() {}
    }

    pub(super) fn pop(&mut self) -> Option<(Settlement, Instant)> {
        let first = self.queue.pop_front()?;
        self.bytes -= first.0.record.bytes.len();
        Some(first)
    }
}
