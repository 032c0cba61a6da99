//! The last decisions, in memory.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::decision::{Decision, DecisionId};

/// Decisions kept; about half a kilobyte each.
const KEPT: usize = 8192;

/// A ring of the last decisions. Writers of different decisions do not meet: each has a place of its own.
pub(super) struct Recent {
    places: Box<[Mutex<Option<Arc<Decision>>>]>,
    next: AtomicUsize,
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
    pub(super) fn push(&self, decision: Arc<Decision>) {
        let place = self.next.fetch_add(1, Ordering::Relaxed) % self.places.len();
        let mut place = self.places[place]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let oldest = place.replace(decision);
        drop(place);
        drop(oldest);
    }

    /// The kept decisions, the newest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = Arc<Decision>> {
        let next = self.next.load(Ordering::Relaxed);
        (1..=self.places.len()).filter_map(move |back| {
            let place = next.wrapping_sub(back) % self.places.len();
            let place = self.places[place]
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            place.clone()
        })
    }

    pub(super) fn find(&self, id: DecisionId) -> Option<Arc<Decision>> {
        self.iter().find(|decision| decision.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::decision;
    use super::*;

    #[test]
    fn the_oldest_make_room() {
        let recent = Recent::with_room_for(4);
        let pushed: Vec<_> = (0..6).map(|_| Arc::new(decision())).collect();
        for decision in &pushed {
            recent.push(Arc::clone(decision));
        }
        let kept: Vec<_> = recent.iter().map(|decision| decision.id).collect();
        let expected: Vec<_> = pushed[2..]
            .iter()
            .rev()
            .map(|decision| decision.id)
            .collect();
        assert_eq!(kept, expected);
        assert!(recent.find(pushed[0].id).is_none());
        assert!(recent.find(pushed[3].id).is_some());
    }
}
