//! The lines of one write: first the events of the log itself, then decisions, all linked to the chain.

use std::time::{Duration, SystemTime};

use crate::clock::calendar;
use crate::observe::chain::Chain;
use crate::observe::chain::event::{Event, START, What};

/// The most by which clocks are set back when they are corrected. Only larger steps are events.
const SET_BACK: Duration = Duration::from_secs(2);

/// Changes to the log since the last line.
#[derive(Clone, Copy)]
pub(super) struct News<'a> {
    pub(super) events: &'a [What],
    /// The number of lost decisions.
    pub(super) lost: u64,
    /// The time of the latest line.
    pub(super) latest: SystemTime,
}

/// Lines to be written.
pub(super) struct Batch {
    pub(super) bytes: Vec<u8>,
    /// The time of its events.
    pub(super) at: SystemTime,
    /// The size of the events at its beginning, in bytes.
    pub(super) news_bytes: usize,
    /// The chain after all lines.
    chain: Chain,
}

impl Batch {
    /// Links `objects`, each of which ends in a line feed, to `chain`.
    pub(super) fn new(chain: &Chain, news: News<'_>, objects: &[u8]) -> Self {
        let mut batch = Self {
            bytes: Vec::with_capacity(objects.len() + objects.len() / 4 + 1024),
            at: calendar(),
            news_bytes: 0,
            chain: chain.clone(),
        };
        if chain.tree.lines() == 0 {
            let first = chain.first_line(batch.at);
            batch.add(&first.object());
        }
        // Events come first: those about unsigned or foreign lines must directly follow them.
        for event in news.events {
            batch.tell(event.clone());
        }
        let from = news.latest;
        if batch.at + SET_BACK < from {
            batch.tell(What::ClockSetBack { from });
        }
        if news.lost > 0 {
            let decisions = news.lost;
            batch.tell(What::Lost { decisions });
        }
        batch.news_bytes = batch.bytes.len();
        for object in lines(objects) {
            batch.add(object);
        }
        batch
    }

    /// Returns whether all bytes were written (`whole` of them), and the last line begins with `start`.
    pub(super) fn ends_in(&self, start: &[u8], whole: usize) -> bool {
        let lines = self.bytes.strip_suffix(b"\n").unwrap_or(&self.bytes);
        let last = memchr::memrchr(b'\n', lines).map_or(0, |at| at + 1);
        whole == self.bytes.len() && lines[last..].starts_with(start)
    }

    fn tell(&mut self, what: What) {
        self.add(&Event::new(what, self.at).object());
    }

    fn add(&mut self, object: &[u8]) {
        self.bytes.extend_from_slice(&self.chain.add(object));
        self.bytes.push(b'\n');
    }

    /// Returns the chain if only the first `whole` bytes, which are complete lines, follow `before` in the file.
    pub(super) fn chain_until(&self, whole: usize, before: &Chain) -> Chain {
        if whole == self.bytes.len() {
            return self.chain.clone();
        }
        // Rare, because it takes a full disk: hashing the lines once more is cheaper than keeping the chain after each.
        let mut chain = before.clone();
        for line in lines(&self.bytes[..whole]) {
            chain.take(line);
        }
        chain
    }
}

/// Returns how many of these lines are decisions.
pub(super) fn decisions(bytes: &[u8]) -> u64 {
    let decisions = lines(bytes).filter(|line| !line.starts_with(START));
    decisions.count() as u64
}

/// Iterates over complete lines, without their line feeds.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut begin = 0;
    memchr::memchr_iter(b'\n', bytes).map(move |end| {
        let line = &bytes[begin..end];
        begin = end + 1;
        line
    })
}
