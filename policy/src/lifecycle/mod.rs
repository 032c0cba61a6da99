//! The lifecycle of robots.txt: what an origin last said, how long it counts, when to ask again.
//!
//! Values only: a fetch that ended is a [`FetchOutcome`], time is an argument, and the [`Cache`] answers what should
//! happen next. Facts and their interpretation are apart: an [`Entry`] keeps what came over the wire, a [`Snapshot`]
//! what follows from it, and the dialect of the crawler that asks is applied last, by [`decide`](crate::decide).
//!
//! Neither lives here: of millions of origins the entries are on disk and the snapshots where requests read them. They
//! go in as arguments, and the cache keeps only what is under way and what is due.
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
//! | stale | `max_stale` passes | unreachable | complete disallow, but `google` goes on by the last copy |
//! | unreachable | the back-off passes | unreachable | whoever wants it waits for a fetch |
//! | unreachable | without any answer for `max_stale` | unreachable | the last copy decides again; if there never was one, it counts as unavailable (RFC 9309 §2.3.1.4) |
//! | unreachable | nobody tries for half of `max_stale` | unreachable | the next failure counts as the first |
//! | any | unused until it could not be used any more | absent | |
//!
//! A stale entry does not answer while it is asked about again: RFC 9309 §2.4 lets a copy be used past its lifetime
//! only "if the robots.txt is unreachable", and before a fetch has failed nobody knows that.

mod entry;
mod learned;
mod lifetime;
mod outcome;
mod snapshot;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::Origin;
pub use entry::{Entry, Failing};
pub use learned::Learned;
pub use lifetime::Lifetimes;
pub use outcome::{
    Body, Ending, Facts, FetchError, FetchErrorKind, FetchOutcome, FetchRequest, FetchResult,
    Fields, Hop, Response, Validators,
};
pub use snapshot::{Snapshot, State, Use};

/// What happens next to every origin's entry. Starts no fetch itself: it says which to start, at most one per origin at
/// a time.
#[derive(Debug, Default)]
pub struct Cache {
    lifetimes: Lifetimes,
    under_way: HashSet<Origin>,
    /// By whole seconds since the epoch; each origin that is known stands here once.
    due: BTreeMap<u64, Vec<Origin>>,
}

/// What is to be done now, see [`Cache::due`].
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// Start to fetch these.
    pub refetch: Vec<Origin>,
    /// These are of no more use.
    pub forgotten: Vec<Origin>,
}

impl Cache {
    /// A cache in which nothing is known.
    #[must_use]
    pub fn new(lifetimes: Lifetimes) -> Self {
        Self {
            lifetimes,
            ..Self::default()
        }
    }

    /// Someone needs the origin's robots.txt, of which `known` is known: whether to start a fetch, because that may not
    /// be gone by at `now` or another attempt is due, and none is under way.
    pub fn wanted(&mut self, origin: &Origin, known: Option<&Snapshot>, now: SystemTime) -> bool {
        match known.map(|known| known.usable(now)) {
            Some(Use::AtOnce) => false,
            _ => self.start(origin),
        }
    }

    /// Whether to start a fetch, whatever is known: there is none under way. From now on there is.
    pub fn start(&mut self, origin: &Origin) -> bool {
        self.under_way.insert(origin.clone())
    }

    /// The fetch that was under way turned out not to be needed.
    pub fn stop(&mut self, origin: &Origin) {
        self.under_way.remove(origin);
    }

    /// The lifetimes that hold.
    #[must_use]
    pub fn lifetimes(&self) -> &Lifetimes {
        &self.lifetimes
    }

    /// A fetch that was under way did not take place; `known` is gone by further on.
    pub fn abandoned(&mut self, origin: &Origin, known: Option<&Snapshot>) {
        self.stop(origin);
        if let Some(known) = known {
            self.evict(origin, known);
            self.schedule(origin, known);
        }
    }

    /// A fetch ended and brought `learned`; `known` is what is gone by so far. Returns the snapshot to go by from now on.
    pub fn fetched(
        &mut self,
        origin: &Origin,
        learned: &Learned,
        known: Option<&Snapshot>,
    ) -> Snapshot {
        self.stop(origin);
        // An entry that could not be kept is not lost while someone still goes by it.
        let newer = known.filter(|_| learned.entry().failing.is_some());
        let snapshot = Snapshot::of(origin, learned.parts(), newer, &self.lifetimes);
        if let Some(known) = known {
            self.evict(origin, known);
        }
        self.schedule(origin, &snapshot);
        snapshot
    }

    /// What follows from an entry that was kept.
    pub fn restored(&mut self, origin: &Origin, learned: &Learned) -> Snapshot {
        let snapshot = Snapshot::of(origin, learned.parts(), None, &self.lifetimes);
        self.schedule(origin, &snapshot);
        snapshot
    }

    /// From now on other lifetimes hold. Takes every origin that is known and what is gone by, and returns what to go by
    /// instead.
    ///
    /// A shorter lifetime holds at once. A longer one holds for an answer from the next fetch on, and so does, for an
    /// origin that cannot be reached, when to try again: how long the origin itself wants is not known here.
    pub fn change_lifetimes(
        &mut self,
        lifetimes: Lifetimes,
        known: impl Iterator<Item = (Origin, Arc<Snapshot>)>,
    ) -> Vec<(Origin, Snapshot)> {
        self.lifetimes = lifetimes;
        self.due.clear();
        let renewed = known.map(|(origin, known)| {
            let snapshot = known.within(&self.lifetimes);
            self.schedule(&origin, &snapshot);
            (origin, snapshot)
        });
        renewed.collect()
    }

    /// Of `origin` no more is known than an entry that is kept elsewhere; `known` was gone by so far.
    pub fn evict(&mut self, origin: &Origin, known: &Snapshot) {
        let refresh_at = known.refresh_at(origin, &self.lifetimes);
        let last_use = known.last_use(&self.lifetimes);
        for at in refresh_at.into_iter().chain([last_use]) {
            let second = whole_second(at);
            if let Some(origins) = self.due.get_mut(&second) {
                origins.retain(|other| other != origin);
                if origins.is_empty() {
                    self.due.remove(&second);
                }
            }
        }
    }

    fn schedule(&mut self, origin: &Origin, snapshot: &Snapshot) {
        let last_use = snapshot.last_use(&self.lifetimes);
        let refresh_at = snapshot.refresh_at(origin, &self.lifetimes);
        self.remind(origin, refresh_at.unwrap_or(last_use));
    }

    fn remind(&mut self, origin: &Origin, at: SystemTime) {
        let due = self.due.entry(whole_second(at)).or_default();
        if due.len() == due.capacity() {
            // Of millions of origins half would stand beside room for as many: grow by less than a vector does by itself.
            due.reserve_exact(due.len() / 8 + 1);
        }
        due.push(origin.clone());
    }

    /// What is to be done at `now`. Entries in use are fetched before they turn stale; entries not in use are left to
    /// turn stale, and are of no more use when they cannot be gone by any more. `look` tells what is known of an origin
    /// and whether it was used since that was published; `None` if nothing is known of it any more.
    pub fn due(
        &mut self,
        now: SystemTime,
        mut look: impl FnMut(&Origin) -> Option<(Arc<Snapshot>, bool)>,
    ) -> Due {
        let mut due = Due::default();
        while self.next_due().is_some_and(|at| at <= now) {
            let Some((_, origins)) = self.due.pop_first() else {
                break;
            };
            for origin in origins {
                if let Some((known, is_in_use)) = look(&origin) {
                    self.consider(origin, &known, is_in_use, now, &mut due);
                }
            }
        }
        due
    }

    fn consider(
        &mut self,
        origin: Origin,
        known: &Snapshot,
        is_in_use: bool,
        now: SystemTime,
        due: &mut Due,
    ) {
        let last_use = known.last_use(&self.lifetimes);
        let refresh_at = known.refresh_at(&origin, &self.lifetimes);
        if self.is_under_way(&origin) || refresh_at.unwrap_or(last_use) > now {
            // It is scheduled when the fetch ends, or was when it was published.
        } else if is_in_use {
            self.start(&origin);
            due.refetch.push(origin);
        } else if last_use <= now {
            due.forgotten.push(origin);
        } else {
            self.remind(&origin, last_use);
        }
    }

    /// How many reminders there are: one for each origin that is known.
    #[must_use]
    pub fn reminders(&self) -> usize {
        self.due.values().map(Vec::len).sum()
    }

    /// When to ask [`due`](Self::due) again.
    #[must_use]
    pub fn next_due(&self) -> Option<SystemTime> {
        let (second, _) = self.due.first_key_value()?;
        Some(SystemTime::UNIX_EPOCH + Duration::from_secs(*second))
    }

    /// Whether a fetch is in progress.
    #[must_use]
    pub fn is_under_way(&self, origin: &Origin) -> bool {
        self.under_way.contains(origin)
    }
}

/// Never before `at`.
fn whole_second(at: SystemTime) -> u64 {
    let since_epoch = at
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    since_epoch.as_secs() + u64::from(since_epoch.subsec_nanos() > 0)
}
