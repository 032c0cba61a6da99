//! The most recent decisions, in memory.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use wayleave_record::{DecisionId, DecisionRecord};

use super::encoded_decision::EncodedDecision;

/// The number of decisions kept. Nearly all take some 700 bytes.
const CAPACITY: usize = 8192;
/// The memory for their lines: 2 KiB for each. A single URL may be as long as a request's head, 64 KiB.
const MAX_BYTES: usize = CAPACITY * LARGE_LINE_BYTES;
/// The capacity above which an entry's memory is not reused, so that one long URL does not enlarge it for good.
const LARGE_LINE_BYTES: usize = 2048;

/// A ring of the last decisions. Each entry has a lock of its own, so writers of different decisions do not contend.
pub(super) struct RecentDecisions {
    entries: Box<[Mutex<Option<RingEntry>>]>,
    next: AtomicUsize,
    max_bytes: usize,
    bytes: AtomicUsize,
    /// The number of the oldest decision that was not dropped to make room within `max_bytes`.
    oldest: AtomicUsize,
}

/// A decision as its line of the log, with its number since the start.
///
/// As a struct it would be a dozen allocations, which are no longer in any cache when they are freed, so that each request
/// would wait for memory. The memory of a line is reused by the next decision in its entry.
struct RingEntry {
    number: usize,
    id: DecisionId,
    line: Vec<u8>,
}

impl RingEntry {
    fn decision(&self) -> Arc<DecisionRecord> {
        Arc::new(serde_json::from_slice(&self.line).expect("a decision reads back"))
    }
}

/// Consecutive decisions.
pub(super) struct DecisionRun {
    /// The number of the first decision.
    pub(super) first: usize,
    pub(super) decisions: Vec<Arc<DecisionRecord>>,
}

impl DecisionRun {
    /// Returns the number after that of the last decision.
    pub(super) fn end(&self) -> usize {
        self.first + self.decisions.len()
    }
}

impl RecentDecisions {
    pub(super) fn new() -> Self {
        Self::with_capacity(CAPACITY, MAX_BYTES)
    }

    fn with_capacity(capacity: usize, max_bytes: usize) -> Self {
        Self {
            entries: (0..capacity).map(|_| Mutex::default()).collect(),
            next: AtomicUsize::new(0),
            max_bytes,
            bytes: AtomicUsize::new(0),
            oldest: AtomicUsize::new(0),
        }
    }

    /// Adds a decision, which replaces the oldest; a long one may replace several.
    pub(super) fn push(&self, recorded: &EncodedDecision) {
        // Taking a number decides which entry is written, so writers never wait for each other unless the ring wraps around.
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.store(number, recorded);
        self.oldest.fetch_max((number + 1).saturating_sub(self.entries.len()), Ordering::Relaxed);
        while self.bytes.load(Ordering::Relaxed) > self.max_bytes && self.drop_oldest(number) {}
    }

    fn store(&self, number: usize, recorded: &EncodedDecision) {
        let mut entry = self.entry(number);
        let mut line = entry.take().map(|oldest| oldest.line).unwrap_or_default();
        self.bytes.fetch_sub(line.capacity(), Ordering::Relaxed);
        if line.capacity() > LARGE_LINE_BYTES {
            line = Vec::new();
        }
        line.clear();
        line.extend_from_slice(&recorded.line);
        self.bytes.fetch_add(line.capacity(), Ordering::Relaxed);
        *entry = Some(RingEntry { number, id: recorded.id, line });
    }

    /// Drops the oldest decision to make room; returns `false` if there is none older than `newest`.
    fn drop_oldest(&self, newest: usize) -> bool {
        let next = |oldest| (oldest < newest).then_some(oldest + 1);
        let Ok(number) = self.oldest.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
        else {
            return false;
        };
        // A later decision may have taken the entry meanwhile.
        if let Some(oldest) = self.entry(number).take_if(|kept| kept.number == number) {
            self.bytes.fetch_sub(oldest.line.capacity(), Ordering::Relaxed);
        }
        true
    }

    fn entry(&self, number: usize) -> MutexGuard<'_, Option<RingEntry>> {
        self.entries[number % self.entries.len()].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of the next decision.
    pub(super) fn next_number(&self) -> usize {
        self.next.load(Ordering::Relaxed)
    }

    /// Returns the decisions from number `from` on that are still kept and already stored.
    pub(super) fn since(&self, from: usize) -> DecisionRun {
        let next = self.next_number();
        let oldest = self.oldest.load(Ordering::Relaxed);
        let mut run = DecisionRun {
            first: from.max(next.saturating_sub(self.entries.len())).max(oldest),
            decisions: Vec::new(),
        };
        for number in run.first..next {
            match &*self.entry(number) {
                Some(kept) if kept.number == number => {
                    run.decisions.push(kept.decision());
                }
                // Overwritten meanwhile: continue after the lost ones.
                Some(kept) if kept.number > number => {
                    run.first = number + 1;
                    run.decisions.clear();
                }
                // Dropped meanwhile to make room: likewise.
                _ if number < self.oldest.load(Ordering::Relaxed) => {
                    run.first = number + 1;
                    run.decisions.clear();
                }
                // Its writer has taken the number and has not stored the decision yet.
                _ => break,
            }
        }
        run
    }

    /// Iterates over the kept decisions, the newest first, without those added meanwhile.
    pub(super) fn iter(&self) -> impl Iterator<Item = Arc<DecisionRecord>> {
        let next = self.next_number();
        let first = next.saturating_sub(self.entries.len());
        (first..next).rev().filter_map(|number| {
            let entry = self.entry(number);
            entry.as_ref().filter(|kept| kept.number == number).map(RingEntry::decision)
        })
    }

    /// Passes the lines of the kept decisions to `take`, the oldest first, without those added meanwhile.
    pub(super) fn each_line(&self, take: &mut dyn FnMut(&[u8])) {
        let next = self.next_number();
        for number in self.oldest.load(Ordering::Relaxed)..next {
            if let Some(kept) = self.entry(number).as_ref().filter(|kept| kept.number == number) {
                take(&kept.line);
            }
        }
    }

    /// Returns whether all decisions of this process that began at `since` or later are kept.
    pub(super) fn reaches_back_to(&self, since: SystemTime) -> bool {
        let oldest = self.oldest.load(Ordering::Relaxed);
        if oldest == 0 {
            return true;
        }
        let kept = self.entry(oldest).as_ref().map(RingEntry::decision);
        // Decisions are in the order in which they ended: one that is gone ended, and so began, before that one ended.
        kept.is_some_and(|kept| kept.at + Duration::from_micros(kept.took_us) <= since)
    }

    pub(super) fn find(&self, id: DecisionId) -> Option<Arc<DecisionRecord>> {
        (0..self.entries.len()).find_map(|number| {
            let entry = self.entry(number);
            entry.as_ref().filter(|kept| kept.id == id).map(RingEntry::decision)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::decision;
    use super::*;

    fn ids(decisions: impl IntoIterator<Item = Arc<DecisionRecord>>) -> Vec<DecisionId> {
        decisions.into_iter().map(|decision| decision.id).collect()
    }

    fn pushed_ids<'a>(pushed: impl IntoIterator<Item = &'a EncodedDecision>) -> Vec<DecisionId> {
        let pushed = pushed.into_iter();
        pushed.map(|recorded| recorded.id).collect()
    }

    #[test]
    fn a_full_ring_reaches_back_to_the_end_of_its_oldest() {
        let recent = RecentDecisions::with_capacity(4, MAX_BYTES);
        let began_at = |seconds| decision().at + Duration::from_secs(seconds);
        let push = |seconds| {
            let took_us = 500_000;
            let ended = DecisionRecord { at: began_at(seconds), took_us, ..decision() };
            recent.push(&EncodedDecision::new(&ended));
        };
        (0..4).for_each(push);
        assert!(recent.reaches_back_to(SystemTime::UNIX_EPOCH), "nothing is gone");
        (4..6).for_each(push);
        assert!(!recent.reaches_back_to(began_at(2)));
        assert!(recent.reaches_back_to(began_at(3)));
        let mut lines = 0;
        recent.each_line(&mut |line| lines += usize::from(line.ends_with(b"\n")));
        assert_eq!(lines, 4);
    }

    #[test]
    fn oldest_decision_is_replaced() {
        let recent = RecentDecisions::with_capacity(4, MAX_BYTES);
        let pushed: Vec<_> = (0..6).map(|_| EncodedDecision::new(&decision())).collect();
        for decision in &pushed {
            recent.push(decision);
        }
        let expected = pushed_ids(pushed[2..].iter().rev());
        assert_eq!(ids(recent.iter()), expected);
        assert!(recent.find(pushed[0].id).is_none());
        assert!(recent.find(pushed[3].id).is_some());
    }

    #[test]
    fn since_returns_each_decision_once_in_order() {
        let recent = RecentDecisions::with_capacity(4, MAX_BYTES);
        let pushed: Vec<_> = (0..7).map(|_| EncodedDecision::new(&decision())).collect();
        for decision in &pushed[..2] {
            recent.push(decision);
        }
        let first = recent.since(1);
        assert_eq!((first.first, first.end()), (1, 2));
        assert_eq!(recent.since(first.end()).decisions.len(), 0);
        for decision in &pushed[2..] {
            recent.push(decision);
        }
        let then = recent.since(first.end());
        assert_eq!((then.first, then.end()), (3, 7), "one is lost");
        assert_eq!(ids(then.decisions), pushed_ids(&pushed[3..]));
    }

    #[test]
    fn long_decision_replaces_several() {
        let recent = RecentDecisions::with_capacity(4, 8000);
        let long = |length: usize| {
            let mut decision = decision();
            decision.url = format!("http://shop.test/{}", "a".repeat(length));
            EncodedDecision::new(&decision)
        };
        let pushed: Vec<_> = (0..9).map(|_| long(3000)).collect();
        for decision in &pushed {
            recent.push(decision);
            assert!(recent.bytes.load(Ordering::Relaxed) <= 8000);
        }
        assert_eq!(ids(recent.iter()), pushed_ids(pushed[7..].iter().rev()));
        let run = recent.since(3);
        assert_eq!((run.first, run.end()), (7, 9), "the dropped ones are lost, not waited for");
        let huge = long(9000);
        recent.push(&huge);
        assert_eq!(
            ids(recent.iter()),
            pushed_ids([&huge]),
            "the newest is kept whatever its length"
        );
        let short: Vec<_> = (0..4).map(|_| long(1)).collect();
        for decision in &short {
            recent.push(decision);
        }
        assert_eq!(ids(recent.iter()), pushed_ids(short.iter().rev()));
        let held = short.iter().map(|decision| decision.line.len()).sum();
        let counted = recent.bytes.load(Ordering::Relaxed);
        assert!((held..2 * held).contains(&counted), "{counted} for {held}");
    }

    #[test]
    fn iteration_leaves_out_decisions_added_meanwhile() {
        let recent = RecentDecisions::with_capacity(4, MAX_BYTES);
        let pushed: Vec<_> = (0..4).map(|_| EncodedDecision::new(&decision())).collect();
        for decision in &pushed {
            recent.push(decision);
        }
        let mut listed = recent.iter();
        let first = listed.next().unwrap();
        recent.push(&EncodedDecision::new(&decision()));
        let all = std::iter::once(first).chain(listed);
        assert_eq!(ids(all), pushed_ids(pushed[1..].iter().rev()));
    }

    #[test]
    fn run_ends_before_decision_not_stored_yet() {
        let recent = RecentDecisions::with_capacity(4, MAX_BYTES);
        recent.push(&EncodedDecision::new(&decision()));
        recent.next.fetch_add(1, Ordering::Relaxed);
        recent.push(&EncodedDecision::new(&decision()));
        assert_eq!(recent.since(0).end(), 1);
    }
}
