//! The last decisions, in memory.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::decision::{Decision, DecisionId, Recorded};

/// Decisions kept; some 700 bytes for nearly each.
const KEPT: usize = 8192;
/// A place that a long URL made larger than this does not stay so.
const LARGE: usize = 2048;

/// A ring of the last decisions. Writers of different decisions do not meet: each has a place of its own.
pub(super) struct Recent {
    places: Box<[Mutex<Option<Kept>>]>,
    next: AtomicUsize,
}

/// A decision as its line of the log, and its number, counted from the start.
///
/// As values it would be a dozen allocations, in no cache any more when they are freed: each request would wait for the
/// memory it is given in their place. The line's memory serves the next decision that comes here.
struct Kept {
    number: usize,
    id: DecisionId,
    line: Vec<u8>,
}

impl Kept {
    fn decision(&self) -> Arc<Decision> {
        Arc::new(serde_json::from_slice(&self.line).expect("a decision reads back"))
    }
}

/// Decisions in the order of their numbers, without gaps.
pub(super) struct Run {
    /// The number of the first.
    pub(super) first: usize,
    pub(super) decisions: Vec<Arc<Decision>>,
}

impl Run {
    /// The number after the last.
    pub(super) fn end(&self) -> usize {
        self.first + self.decisions.len()
    }
}

impl Recent {
    pub(super) fn new() -> Self {
        Self::with_room_for(KEPT)
    }

    fn with_room_for(kept: usize) -> Self {
        Self {
            places: (0..kept).map(|_| Mutex::default()).collect(),
            next: AtomicUsize::new(0),
        }
    }

    /// Keeps a decision in the place of the oldest.
    pub(super) fn push(&self, recorded: &Recorded) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut place = self.place(number);
        let oldest = place.take().map(|oldest| oldest.line);
        let reused = oldest.filter(|line| line.capacity() <= LARGE);
        let mut line = reused.unwrap_or_default();
        line.clear();
        line.extend_from_slice(&recorded.line);
        *place = Some(Kept {
            number,
            id: recorded.decision.id,
            line,
        });
    }

    fn place(&self, number: usize) -> MutexGuard<'_, Option<Kept>> {
        let place = &self.places[number % self.places.len()];
        place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number that the next decision gets.
    pub(super) fn next(&self) -> usize {
        self.next.load(Ordering::Relaxed)
    }

    /// The decisions from the one numbered `from` on, as far as they are kept still and there already.
    pub(super) fn since(&self, from: usize) -> Run {
        let next = self.next();
        let mut run = Run {
            first: from.max(next.saturating_sub(self.places.len())),
            decisions: Vec::new(),
        };
        for number in run.first..next {
            match &*self.place(number) {
                Some(kept) if kept.number == number => {
                    run.decisions.push(kept.decision());
                }
                // Overtaken by the writers: go on behind what is lost.
                Some(kept) if kept.number > number => {
                    run.first = number + 1;
                    run.decisions.clear();
                }
                // Its writer has the number and is about to come.
                _ => break,
            }
        }
        run
    }

    /// The kept decisions, the newest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = Arc<Decision>> {
        let next = self.next();
        (1..=self.places.len()).filter_map(move |back| {
            let kept = self.place(next.wrapping_sub(back));
            kept.as_ref().map(Kept::decision)
        })
    }

    pub(super) fn find(&self, id: DecisionId) -> Option<Arc<Decision>> {
        (0..self.places.len()).find_map(|number| {
            let kept = self.place(number);
            let found = kept.as_ref().filter(|kept| kept.id == id);
            found.map(Kept::decision)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::decision;
    use super::*;

    fn ids(decisions: impl IntoIterator<Item = Arc<Decision>>) -> Vec<DecisionId> {
        decisions.into_iter().map(|decision| decision.id).collect()
    }

    fn pushed_ids<'a>(pushed: impl IntoIterator<Item = &'a Recorded>) -> Vec<DecisionId> {
        let pushed = pushed.into_iter();
        pushed.map(|recorded| recorded.decision.id).collect()
    }

    #[test]
    fn the_oldest_make_room() {
        let recent = Recent::with_room_for(4);
        let pushed: Vec<_> = (0..6).map(|_| Recorded::new(decision())).collect();
        for decision in &pushed {
            recent.push(decision);
        }
        let expected = pushed_ids(pushed[2..].iter().rev());
        assert_eq!(ids(recent.iter()), expected);
        assert!(recent.find(pushed[0].decision.id).is_none());
        assert!(recent.find(pushed[3].decision.id).is_some());
    }

    #[test]
    fn what_came_since_is_told_once_and_in_order() {
        let recent = Recent::with_room_for(4);
        let pushed: Vec<_> = (0..7).map(|_| Recorded::new(decision())).collect();
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
    fn a_decision_on_its_way_is_waited_for() {
        let recent = Recent::with_room_for(4);
        recent.push(&Recorded::new(decision()));
        recent.next.fetch_add(1, Ordering::Relaxed);
        recent.push(&Recorded::new(decision()));
        assert_eq!(recent.since(0).end(), 1);
    }
}
