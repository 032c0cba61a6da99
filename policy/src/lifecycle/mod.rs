//! The lifecycle of robots.txt: what an origin last said, how long it counts, when to ask again.
//!
//! Values only: a fetch that ended is a [`FetchOutcome`], time is an argument, and the [`Cache`] answers what should
//! happen next. Facts and their interpretation are apart: an [`Entry`] keeps what came over the wire, a [`Snapshot`]
//! what follows from it, and the dialect of the crawler that asks is applied last, by [`decide`](crate::decide).
//!
//! | an entry is | then | it becomes | and |
//! | --- | --- | --- | --- |
//! | absent | wanted | fetching | whoever wants it waits |
//! | fetching | an answer: rules, unavailable (4xx), redirects without end | fresh | until the lifetime ends |
//! | fetching | no answer: 429, 5xx, network | unreachable | complete disallow; tried again after a back-off |
//! | fresh, in use | most of its lifetime has passed | fresh | fetched again, conditionally, while it decides |
//! | fresh | its lifetime passes | stale | whoever wants it waits for a fetch |
//! | stale | an answer, or 304 | fresh | |
//! | stale | no answer | stale | decides, up to `max_stale`; tried again beside after a back-off |
//! | stale | `max_stale` passes | unreachable | complete disallow |
//! | unreachable | the back-off passes | unreachable | whoever wants it waits for a fetch |
//! | unreachable | without any answer for `max_stale` | unreachable | counts as unavailable (RFC 9309 §2.3.1.4) |
//! | any | unused until it could not be used any more | absent | |
//!
//! A stale entry does not answer while it is asked about again: RFC 9309 §2.4 lets a copy be used past its lifetime
//! only "if the robots.txt is unreachable", and before a fetch has failed nobody knows that.

mod entry;
mod lifetime;
mod outcome;
mod snapshot;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::SystemTime;

use crate::Origin;
pub use entry::{Entry, Failing};
pub use lifetime::Lifetimes;
pub use outcome::{
    Body, Ending, Facts, FetchError, FetchErrorKind, FetchOutcome, FetchRequest, FetchResult,
    Fields, Hop, Response, Validators,
};
pub use snapshot::{Snapshot, State, Use};

/// All entries, and what should happen to them next. Starts no fetch itself: it says which to start, at most one per
/// origin at a time.
#[derive(Debug, Default)]
pub struct Cache {
    lifetimes: Lifetimes,
    slots: HashMap<Origin, Slot>,
    due: BTreeSet<(SystemTime, Origin)>,
}

#[derive(Debug, Default)]
struct Slot {
    known: Option<Known>,
    is_fetching: bool,
    due_at: Option<SystemTime>,
}

#[derive(Clone, Debug)]
struct Known {
    entry: Arc<Entry>,
    snapshot: Arc<Snapshot>,
}

/// What is to be done now, see [`Cache::due`].
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// Start these fetches.
    pub refetch: Vec<FetchRequest>,
    /// These were of no more use, and are gone.
    pub forgotten: Vec<Origin>,
}

impl Cache {
    /// An empty cache.
    #[must_use]
    pub fn new(lifetimes: Lifetimes) -> Self {
        Self {
            lifetimes,
            ..Self::default()
        }
    }

    /// Someone needs the origin's robots.txt: starts a fetch if what is known may not be gone by at `now`, or if another
    /// attempt is due, unless one is under way.
    pub fn wanted(&mut self, origin: &Origin, now: SystemTime) -> Option<FetchRequest> {
        let slot = self.slots.get(origin);
        let known = slot.and_then(|slot| slot.known.as_ref());
        match known.map(|known| known.snapshot.usable(now)) {
            Some(Use::AtOnce) => None,
            _ => self.refetch(origin),
        }
    }

    /// Starts a fetch whatever is known, unless one is under way.
    pub fn refetch(&mut self, origin: &Origin) -> Option<FetchRequest> {
        let slot = self.slots.entry(origin.clone()).or_default();
        if std::mem::replace(&mut slot.is_fetching, true) {
            return None;
        }
        let known = slot.known.as_ref();
        Some(FetchRequest {
            origin: origin.clone(),
            validators: known.and_then(|known| known.entry.validators()),
        })
    }

    /// A fetch ended at `now`. Returns what is known from now on.
    pub fn fetched(
        &mut self,
        origin: &Origin,
        outcome: FetchOutcome,
        now: SystemTime,
    ) -> Arc<Snapshot> {
        let slot = self.slots.entry(origin.clone()).or_default();
        slot.is_fetching = false;
        let before = slot.known.take();
        let entry = match &before {
            Some(before) => before.entry.after(outcome, now),
            None => Entry::default().after(outcome, now),
        };
        let parsed = before.filter(|before| before.entry.has_body_of(&entry));
        self.know(origin, entry, parsed.map(|known| known.snapshot).as_deref())
    }

    /// What was known before a restart is known again. An entry that is known already stays.
    pub fn restored(&mut self, origin: &Origin, entry: Entry) -> Arc<Snapshot> {
        match self.snapshot(origin) {
            Some(known) => known,
            None => self.know(origin, entry, None),
        }
    }

    /// Takes `entry` for what is known; `parsed` has its answer compiled already.
    fn know(&mut self, origin: &Origin, entry: Entry, parsed: Option<&Snapshot>) -> Arc<Snapshot> {
        let snapshot = Arc::new(Snapshot::of(origin, &entry, parsed, &self.lifetimes));
        let fetched_at = entry.answer.as_ref().map(|answer| answer.fetched_at);
        let due_at = match (fetched_at, snapshot.fresh_until()) {
            (Some(fetched_at), Some(fresh_until)) if entry.failing.is_none() => {
                let lifetime = fresh_until.duration_since(fetched_at).unwrap_or_default();
                fetched_at + self.lifetimes.refresh_after(origin, lifetime)
            }
            _ => snapshot.last_use(&self.lifetimes),
        };
        self.schedule(origin, due_at);
        let slot = self.slots.entry(origin.clone()).or_default();
        slot.known = Some(Known {
            entry: Arc::new(entry),
            snapshot: snapshot.clone(),
        });
        snapshot
    }

    fn schedule(&mut self, origin: &Origin, due_at: SystemTime) {
        let slot = self.slots.entry(origin.clone()).or_default();
        if let Some(before) = slot.due_at.replace(due_at) {
            self.due.remove(&(before, origin.clone()));
        }
        self.due.insert((due_at, origin.clone()));
    }

    /// What is to be done at `now`. Entries that are in use are fetched before they turn stale; entries that are not
    /// are left to turn stale, and forgotten when they could not be used any more. `in_use` is asked once per entry that
    /// comes up: whether it was used since it was last published.
    pub fn due(&mut self, now: SystemTime, mut in_use: impl FnMut(&Origin) -> bool) -> Due {
        let mut due = Due::default();
        while self.next_due().is_some_and(|at| at <= now) {
            let Some((_, origin)) = self.due.pop_first() else {
                break;
            };
            let Some(slot) = self.slots.get_mut(&origin) else {
                continue;
            };
            slot.due_at = None;
            let Some(known) = slot.known.as_ref() else {
                continue;
            };
            let last_use = known.snapshot.last_use(&self.lifetimes);
            if slot.is_fetching {
                continue;
            } else if in_use(&origin) {
                due.refetch.extend(self.refetch(&origin));
            } else if now >= last_use {
                self.slots.remove(&origin);
                due.forgotten.push(origin);
            } else {
                self.schedule(&origin, last_use);
            }
        }
        due
    }

    /// When to ask [`due`](Self::due) again.
    #[must_use]
    pub fn next_due(&self) -> Option<SystemTime> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Forgets what is known of an origin; whether there was anything. A fetch under way goes on.
    pub fn forget(&mut self, origin: &Origin) -> bool {
        let Some(slot) = self.slots.get_mut(origin) else {
            return false;
        };
        if let Some(due_at) = slot.due_at.take() {
            self.due.remove(&(due_at, origin.clone()));
        }
        let was_known = slot.known.take().is_some();
        if !slot.is_fetching {
            self.slots.remove(origin);
        }
        was_known
    }

    /// What is known of an origin, compiled.
    #[must_use]
    pub fn snapshot(&self, origin: &Origin) -> Option<Arc<Snapshot>> {
        let known = self.slots.get(origin)?.known.as_ref()?;
        Some(known.snapshot.clone())
    }

    /// What is known of an origin, as facts.
    #[must_use]
    pub fn entry(&self, origin: &Origin) -> Option<Arc<Entry>> {
        let known = self.slots.get(origin)?.known.as_ref()?;
        Some(known.entry.clone())
    }

    /// Whether a fetch is under way.
    #[must_use]
    pub fn is_fetching(&self, origin: &Origin) -> bool {
        self.slots.get(origin).is_some_and(|slot| slot.is_fetching)
    }

    /// Every origin of which something is known, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&Origin, &Arc<Snapshot>)> {
        self.slots
            .iter()
            .filter_map(|(origin, slot)| Some((origin, &slot.known.as_ref()?.snapshot)))
    }
}
