//! The lines of one write: first the events of the log itself, then decisions, all linked to the chain.

use std::time::{Duration, SystemTime};

use wayleave_evidence::chain::HashChain;
use wayleave_evidence::chain::event::{EVENT_PREFIX, EventKind, LogEvent};

/// The most by which clocks are set back when they are corrected. Only larger steps are events.
const MAX_UNRECORDED_SETBACK: Duration = Duration::from_secs(2);

/// Changes to the log since the last line.
#[derive(Clone, Copy)]
pub(super) struct LogChanges<'a> {
    pub(super) events: &'a [EventKind],
    /// The number of lost decisions.
    pub(super) lost: u64,
    /// The time of the latest line.
    pub(super) latest_at: SystemTime,
    /// The time of the events.
    pub(super) at: SystemTime,
}

/// Lines to be written.
pub(super) struct LineBatch {
    pub(super) bytes: Vec<u8>,
    /// The time of its events.
    pub(super) at: SystemTime,
    /// The size of the events at its beginning, in bytes.
    pub(super) event_bytes: usize,
    /// The chain after all lines.
    chain: HashChain,
}

impl LineBatch {
    /// Links `objects`, each of which ends in a line feed, to `chain`.
    pub(super) fn new(chain: &HashChain, changes: LogChanges<'_>, objects: &[u8]) -> Self {
        let mut batch = Self {
            bytes: Vec::with_capacity(objects.len() + objects.len() / 4 + 1024),
            at: changes.at,
            event_bytes: 0,
            chain: chain.clone(),
        };
        if chain.tree.lines() == 0 {
            batch.append_object(&chain.file_event(batch.at).to_json());
        }
        // Events come first: those about unsigned or foreign lines must directly follow them.
        for event in changes.events {
            batch.append_event(event.clone());
        }
        let from = changes.latest_at;
        if batch.at + MAX_UNRECORDED_SETBACK < from {
            batch.append_event(EventKind::ClockSetBack { from });
        }
        if changes.lost > 0 {
            batch.append_event(EventKind::Lost { decisions: changes.lost });
        }
        batch.event_bytes = batch.bytes.len();
        for object in whole_lines(objects) {
            batch.append_object(object);
        }
        batch
    }

    /// Returns whether `written_bytes` are all bytes, and the last line begins with `start`.
    pub(super) fn ends_in_line(&self, start: &[u8], written_bytes: usize) -> bool {
        let lines = self.bytes.strip_suffix(b"\n").unwrap_or(&self.bytes);
        let last = memchr::memrchr(b'\n', lines).map_or(0, |at| at + 1);
        written_bytes == self.bytes.len() && lines[last..].starts_with(start)
    }

    fn append_event(&mut self, event: EventKind) {
        self.append_object(&LogEvent::new(event, self.at).to_json());
    }

    fn append_object(&mut self, object: &[u8]) {
        self.chain.append_to(&mut self.bytes, object);
        self.bytes.push(b'\n');
    }

    /// Returns the chain if only the first `written_bytes`, which are complete lines, follow `before` in the file.
    pub(super) fn chain_until(&self, written_bytes: usize, before: &HashChain) -> HashChain {
        if written_bytes == self.bytes.len() {
            return self.chain.clone();
        }
        // Rare, because it takes a full disk: hashing the lines once more is cheaper than keeping the chain after each.
        let mut chain = before.clone();
        for line in whole_lines(&self.bytes[..written_bytes]) {
            chain.push_line(line);
        }
        chain
    }
}

/// Returns how many of these lines are decisions.
pub(super) fn count_decisions(bytes: &[u8]) -> u64 {
    whole_lines(bytes).filter(|line| !line.starts_with(EVENT_PREFIX)).count() as u64
}

/// Iterates over complete lines, without their line feeds.
fn whole_lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut begin = 0;
    memchr::memchr_iter(b'\n', bytes).map(move |end| {
        let line = &bytes[begin..end];
        begin = end + 1;
        line
    })
}
