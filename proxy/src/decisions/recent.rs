//! The last decisions, in memory.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::decision::{Decision, DecisionId};
use super::packed::{pack, unpack};

/// Decisions kept; 512 bytes for nearly each.
const KEPT: usize = 8192;
/// A place that a long URL made larger than this does not stay so.
const LARGE: usize = 2048;

/// A ring of the last decisions. Writers of different decisions do not meet: each has a place of its own.
pub(super) struct Recent {
    places: Box<[Mutex<Kept>]>,
    next: AtomicUsize,
}

/// A packed decision and its number, counted from the start; none yet if it has no bytes. The memory serves the next
/// decision that comes to this place.
#[derive(Default)]
struct Kept {
    number: usize,
    packed: Vec<u8>,
}

impl Kept {
    fn decision(&self) -> Option<Arc<Decision>> {
        (!self.packed.is_empty()).then(|| Arc::new(unpack(&self.packed)))
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

    /// Keeps `decision` in the place of the oldest.
    pub(super) fn push(&self, decision: &Decision) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut place = self.place(number);
        place.number = number;
        place.packed.clear();
        if place.packed.capacity() > LARGE {
            place.packed = Vec::new();
        }
        pack(decision, &mut place.packed);
    }

    fn place(&self, number: usize) -> MutexGuard<'_, Kept> {
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
            let kept = self.place(number);
            match kept.decision() {
                Some(decision) if kept.number == number => run.decisions.push(decision),
                // Overtaken by the writers: go on behind what is lost.
                Some(_) if kept.number > number => {
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
        (1..=self.places.len())
            .filter_map(move |back| self.place(next.wrapping_sub(back)).decision())
    }

    pub(super) fn find(&self, id: DecisionId) -> Option<Arc<Decision>> {
        self.iter().find(|decision| decision.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::decision;
    use super::*;

    fn ids(decisions: impl IntoIterator<Item = Arc<Decision>>) -> Vec<DecisionId> {
        decisions.into_iter().map(|decision| decision.id).collect()
    }

    #[test]
    fn the_oldest_make_room() {
        let recent = Recent::with_room_for(4);
        let pushed: Vec<_> = (0..6).map(|_| Arc::new(decision())).collect();
        for decision in &pushed {
            recent.push(decision);
        }
        let expected = ids(pushed[2..].iter().rev().cloned());
        assert_eq!(ids(recent.iter()), expected);
        assert!(recent.find(pushed[0].id).is_none());
        assert!(recent.find(pushed[3].id).is_some());
    }

    #[test]
    fn what_came_since_is_told_once_and_in_order() {
        let recent = Recent::with_room_for(4);
        let pushed: Vec<_> = (0..7).map(|_| Arc::new(decision())).collect();
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
        assert_eq!(ids(then.decisions), ids(pushed[3..].iter().cloned()));
    }

    #[test]
    fn a_decision_on_its_way_is_waited_for() {
        let recent = Recent::with_room_for(4);
        recent.push(&decision());
        recent.next.fetch_add(1, Ordering::Relaxed);
        recent.push(&decision());
        assert_eq!(recent.since(0).end(), 1);
    }
}
