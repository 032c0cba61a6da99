//! The lifecycle of robots.txt, and of documents beside it: what an origin last said, how long it counts, when to ask again.
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
//! | fetching | no answer: 206, 429, 5xx, network | unreachable | complete disallow; tried again after a back-off |
//! | fresh, in use | most of its lifetime has passed | fresh | fetched again, conditionally, while it decides |
//! | fresh | its lifetime passes | stale | whoever wants it waits for a fetch |
//! | stale | an answer, or 304 | fresh | |
//! | stale | no answer | stale | rules decide, up to `max_stale`; tried again beside after a back-off |
//! | stale | no answer, and there were no rules | unreachable | after `max_age` complete disallow: that there is no robots.txt is no copy of one |
//! | stale | `max_stale` passes | unreachable | complete disallow, but `google` goes on by the last copy |
//! | unreachable | the back-off passes | unreachable | whoever wants it waits for a fetch |
//! | unreachable | without any answer for `max_stale` | unreachable | the last copy decides again; if there never was one, it counts as unavailable (RFC 9309 §2.3.1.4) |
//! | unreachable | nobody tries for half of `max_stale` | unreachable | the next failure counts as the first |
//! | any | unused until it could not be used any more | absent | |
//!
//! A stale entry does not answer while it is asked about again: RFC 9309 §2.4 lets a copy be used past its lifetime
//! only "if the robots.txt is unreachable", and before a fetch has failed nobody knows that.

mod contents;
mod entry;
mod learned;
mod lifetime;
mod outcome;
mod resource;
mod snapshot;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub use entry::{Entry, Failing};
pub use learned::Learned;
pub use lifetime::Lifetimes;
pub use outcome::{
    Body, Ending, Facts, FetchError, FetchErrorKind, FetchOutcome, FetchRequest, FetchResult,
    Fields, Hop, Response, Validators,
};
pub use resource::Resource;
pub use snapshot::{Snapshot, State, Use};

/// What happens next to every resource's entry. Starts no fetch itself: it says which to start, at most one for each at
/// a time.
#[derive(Debug, Default)]
pub struct Cache {
    lifetimes: Lifetimes,
    under_way: HashSet<Resource>,
    /// By whole seconds since the epoch; each resource that is known stands here once.
    due: BTreeMap<u64, Vec<Resource>>,
}

/// What is to be done now, see [`Cache::due`].
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// Start to fetch these.
    pub refetch: Vec<Resource>,
    /// These are of no more use.
    pub forgotten: Vec<Resource>,
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

    /// Someone needs the resource, of which `known` is known: whether to start a fetch, because that may not
    /// be gone by at `now` or another attempt is due, and none is under way.
    pub fn wanted(
        &mut self,
        resource: &Resource,
        known: Option<&Snapshot>,
        now: SystemTime,
    ) -> bool {
        match known.map(|known| known.usable(now)) {
            Some(Use::AtOnce) => false,
            _ => self.start(resource),
        }
    }

    /// Whether to start a fetch, whatever is known: there is none under way. From now on there is.
    pub fn start(&mut self, resource: &Resource) -> bool {
        self.under_way.insert(resource.clone())
    }

    /// The fetch that was under way turned out not to be needed.
    pub fn stop(&mut self, resource: &Resource) {
        self.under_way.remove(resource);
    }

    /// The lifetimes that hold.
    #[must_use]
    pub fn lifetimes(&self) -> &Lifetimes {
        &self.lifetimes
    }

    /// A fetch that was under way did not take place; `known` is gone by further on.
    pub fn abandoned(&mut self, resource: &Resource, known: Option<&Snapshot>) {
        self.stop(resource);
        if let Some(known) = known {
            self.evict(resource, known);
            self.schedule(resource, known);
        }
    }

    /// A fetch ended and brought `learned`; `known` is what is gone by so far. Returns the snapshot to go by from now on.
    pub fn fetched(
        &mut self,
        resource: &Resource,
        learned: &Learned,
        known: Option<&Snapshot>,
    ) -> Snapshot {
        self.stop(resource);
        // An entry that could not be kept is not lost while someone still goes by it.
        let newer = known.filter(|_| learned.entry().failing.is_some());
        let snapshot = Snapshot::of(resource, learned.parts(), newer, &self.lifetimes);
        if let Some(known) = known {
            self.evict(resource, known);
        }
        self.schedule(resource, &snapshot);
        snapshot
    }

    /// What follows from an entry that was kept.
    pub fn restored(&mut self, resource: &Resource, learned: &Learned) -> Snapshot {
        let snapshot = Snapshot::of(resource, learned.parts(), None, &self.lifetimes);
        self.schedule(resource, &snapshot);
        snapshot
    }

    /// From now on other lifetimes hold. Takes every resource that is known and what is gone by, and returns what to go by
    /// instead.
    ///
    /// A shorter lifetime holds at once. A longer one holds for an answer from the next fetch on, and so does, for an
    /// origin that cannot be reached, when to try again: how long the origin itself wants is not known here.
    pub fn change_lifetimes(
        &mut self,
        lifetimes: Lifetimes,
        known: impl Iterator<Item = (Resource, Arc<Snapshot>)>,
    ) -> Vec<(Resource, Snapshot)> {
        self.lifetimes = lifetimes;
        self.due.clear();
        let renewed = known.map(|(resource, known)| {
            let snapshot = known.within(&self.lifetimes);
            self.schedule(&resource, &snapshot);
            (resource, snapshot)
        });
        renewed.collect()
    }

    /// Of `resource` no more is known than an entry that is kept elsewhere; `known` was gone by so far.
    pub fn evict(&mut self, resource: &Resource, known: &Snapshot) {
        let refresh_at = known.refresh_at(resource, &self.lifetimes);
        let last_use = known.last_use(&self.lifetimes);
        for at in refresh_at.into_iter().chain([last_use]) {
            let second = whole_second(at);
            if let Some(resources) = self.due.get_mut(&second) {
                resources.retain(|other| other != resource);
                if resources.is_empty() {
                    self.due.remove(&second);
                }
            }
        }
    }

    fn schedule(&mut self, resource: &Resource, snapshot: &Snapshot) {
        let last_use = snapshot.last_use(&self.lifetimes);
        let refresh_at = snapshot.refresh_at(resource, &self.lifetimes);
        self.remind(resource, refresh_at.unwrap_or(last_use));
    }

    fn remind(&mut self, resource: &Resource, at: SystemTime) {
        let due = self.due.entry(whole_second(at)).or_default();
        if due.len() == due.capacity() {
            // Of millions of resources half would stand beside room for as many: grow by less than a vector does by itself.
            due.reserve_exact(due.len() / 8 + 1);
        }
        due.push(resource.clone());
    }

    /// What is to be done at `now`. Entries in use are fetched before they turn stale; entries not in use are left to
    /// turn stale, and are of no more use when they cannot be gone by any more. `look` tells what is known of a resource
    /// and whether it was used since that was published; `None` if nothing is known of it any more.
    pub fn due(
        &mut self,
        now: SystemTime,
        mut look: impl FnMut(&Resource) -> Option<(Arc<Snapshot>, bool)>,
    ) -> Due {
        let mut due = Due::default();
        while self.next_due().is_some_and(|at| at <= now) {
            let Some((_, resources)) = self.due.pop_first() else {
                break;
            };
            for resource in resources {
                if let Some((known, is_in_use)) = look(&resource) {
                    self.consider(resource, &known, is_in_use, now, &mut due);
                }
            }
        }
        due
    }

    fn consider(
        &mut self,
        resource: Resource,
        known: &Snapshot,
        is_in_use: bool,
        now: SystemTime,
        due: &mut Due,
    ) {
        let last_use = known.last_use(&self.lifetimes);
        let refresh_at = known.refresh_at(&resource, &self.lifetimes);
        if self.is_under_way(&resource) || refresh_at.unwrap_or(last_use) > now {
            // It is scheduled when the fetch ends, or was when it was published.
        } else if is_in_use {
            self.start(&resource);
            due.refetch.push(resource);
        } else if last_use <= now {
            due.forgotten.push(resource);
        } else {
            self.remind(&resource, last_use);
        }
    }

    /// How many reminders there are: one for each resource that is known.
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
    pub fn is_under_way(&self, resource: &Resource) -> bool {
        self.under_way.contains(resource)
    }
}

/// Never before `at`.
fn whole_second(at: SystemTime) -> u64 {
    let since_epoch = at
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    since_epoch.as_secs() + u64::from(since_epoch.subsec_nanos() > 0)
}
