//! What was learned while the engine was away.

use std::collections::VecDeque;

use tokio::time::Instant;

use super::engine::Settlement;

/// What is learned while the engine is away is told to it later, so many bytes at most. What is lost of it is claimed again.
const UNSETTLED_BYTES: usize = 16 << 20;

/// What the engine is to be told, and when it was learned.
#[derive(Default)]
pub(super) struct Unsettled {
    queue: VecDeque<(Settlement, Instant)>,
    bytes: usize,
}

impl Unsettled {
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn push(&mut self, settlement: Settlement, learned_at: Instant) {
        self.bytes += settlement.record.bytes.len();
        self.queue.push_back((settlement, learned_at));
        while self.bytes > UNSETTLED_BYTES && self.pop().is_some() {}
    }

    pub(super) fn pop(&mut self) -> Option<(Settlement, Instant)> {
        let first = self.queue.pop_front()?;
        self.bytes -= first.0.record.bytes.len();
        Some(first)
    }
}
