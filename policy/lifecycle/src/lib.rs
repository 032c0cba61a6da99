//! The lifecycle of robots.txt and of the documents besides it: how long an answer is usable, and when to fetch it
//! again.
//!
//! Everything here is a value: a finished fetch is a [`FetchOutcome`], time is an argument, and the
//! [`RefreshScheduler`] returns what should happen next. Facts and their interpretation are separate: a [`CacheEntry`]
//! holds the answer, a [`Snapshot`] its consequences, and the crawler's dialect is applied last, by
//! [`decide`](wayleave_robots_txt::decide).
//!
//! `fetch_outcome` classifies an answer, and `snapshot` says what it means for requests: when an origin is unreachable, say.
//!
//! Neither is stored here: with millions of origins, the entries are on disk and the snapshots where requests read
//! them. They are passed as arguments, and the scheduler only holds the fetches in flight and those that are due.
//!
//! | entry | event | becomes | effect |
//! | --- | --- | --- | --- |
//! | absent | requested | fetching | requests wait |
//! | fetching | an answer: rules, unavailable (4xx), too many redirects | fresh | until its lifetime ends |
//! | fetching | no answer: 206, 429, 5xx, network failure | unreachable | complete disallow; retried after a back-off |
//! | any | no answer, through a fault on this side | as before, or unreachable | nothing is learned; retried after 2 s |
//! | fresh, in use | most of its lifetime has passed | fresh | revalidated while it still decides |
//! | fresh | its lifetime ends | stale | requests wait for a fetch |
//! | stale | an answer, or 304 | fresh | |
//! | stale | no answer | stale | rules decide, up to `max_stale`; retried in the background after a back-off |
//! | stale | no answer, and there were no rules | unreachable | complete disallow after `max_age`: the absence of a robots.txt is not a copy of one |
//! | stale | `max_stale` passes | unreachable | complete disallow, but `google` keeps using the last copy |
//! | unreachable | the back-off passes | unreachable | requests wait for a fetch |
//! | unreachable | no answer for `max_stale` | unreachable | the last copy decides again; without one it counts as unavailable (RFC 9309 §2.3.1.4) |
//! | unreachable | no attempt for half of `max_stale` | unreachable | the next failure counts as the first |
//! | any | unused until it is no longer usable | absent | |
//!
//! A stale entry is not used while it is being refreshed: RFC 9309 §2.4 allows use past the lifetime only "if the
//! robots.txt is unreachable", which is unknown until a fetch has failed.

#![warn(missing_docs)]

mod entry;
mod fetch_identity;
mod fetch_outcome;
mod lifetime;
mod parsed_answer;
mod parsed_entry;
mod resource;
mod snapshot;
#[cfg(test)]
mod tests;
mod unix_millis;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub use entry::{CacheEntry, FailureRun};
pub use fetch_identity::{Audience, ChosenBy, FetchIdentity};
pub use fetch_outcome::{
    CacheValidators, FetchEnding, FetchError, FetchErrorKind, FetchOutcome, FetchRequest,
    FetchResult, FetchedBody, FetchedResponse, FinishedFetch, RedirectHop, ResponseFields,
};
pub use lifetime::LifetimeSettings;
pub use parsed_entry::ParsedEntry;
pub use resource::Resource;
pub use snapshot::{Snapshot, SnapshotState, Usability};
pub use unix_millis::{from_unix_millis, to_unix_millis};

/// The schedule of refreshes of all resources. It starts no fetch itself, but returns those to start, at most one per
/// resource at a time.
#[derive(Debug, Default)]
pub struct RefreshScheduler {
    lifetimes: LifetimeSettings,
    in_flight: HashSet<Resource>,
    /// The reminders by whole seconds since the epoch; each known resource has one.
    due: BTreeMap<u64, Vec<Resource>>,
}

/// The work that is due now, see [`RefreshScheduler::take_due`].
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DueRefreshes {
    /// The resources to fetch now.
    pub refetch: Vec<Resource>,
    /// The resources of no further use.
    pub forgotten: Vec<Resource>,
}

impl RefreshScheduler {
    /// Creates a scheduler without any resource.
    #[must_use]
    pub fn new(lifetimes: LifetimeSettings) -> Self {
        Self { lifetimes, ..Self::default() }
    }

    /// Reports that a resource is needed, about which `known` is known. Returns whether to start a fetch: `known` is
    /// not usable at `now` or another attempt is due, and none is in flight.
    pub fn request_fetch(
        &mut self,
        resource: &Resource,
        known: Option<&Snapshot>,
        now: SystemTime,
    ) -> bool {
        match known.map(|known| known.usability(now)) {
            Some(Usability::Immediate) => false,
            _ => self.start_fetch(resource),
        }
    }

    /// Marks a fetch as in flight, whatever is known. Returns whether to start it, because none was in flight.
    pub fn start_fetch(&mut self, resource: &Resource) -> bool {
        self.in_flight.insert(resource.clone())
    }

    /// Reports that a fetch in flight is not needed after all.
    pub fn cancel_fetch(&mut self, resource: &Resource) {
        self.in_flight.remove(resource);
    }

    /// Returns the lifetimes in effect.
    #[must_use]
    pub fn lifetimes(&self) -> &LifetimeSettings {
        &self.lifetimes
    }

    /// Reports that a fetch in flight did not take place; `known` remains in use.
    pub fn fetch_abandoned(&mut self, resource: &Resource, known: Option<&Snapshot>) {
        self.cancel_fetch(resource);
        if let Some(known) = known {
            self.evict(resource, known);
            self.schedule(resource, known);
        }
    }

    /// Reports that a fetch ended with `learned`; `known` was in use so far. Returns the snapshot to use from now on.
    pub fn fetch_finished(
        &mut self,
        resource: &Resource,
        learned: &ParsedEntry,
        known: Option<&Snapshot>,
    ) -> Snapshot {
        self.cancel_fetch(resource);
        // An answer that could not be stored is not lost while its snapshot is in use.
        let newer = known.filter(|_| learned.has_failed());
        let snapshot = Snapshot::from_entry(resource, learned.parts(), newer, &self.lifetimes);
        if let Some(known) = known {
            self.evict(resource, known);
        }
        self.schedule(resource, &snapshot);
        snapshot
    }

    /// Returns the snapshot of an entry that was stored, and schedules its refresh.
    pub fn restore(&mut self, resource: &Resource, learned: &ParsedEntry) -> Snapshot {
        let snapshot = Snapshot::from_entry(resource, learned.parts(), None, &self.lifetimes);
        self.schedule(resource, &snapshot);
        snapshot
    }

    /// Replaces the lifetimes. Takes every known resource with the snapshot in use, and returns the snapshots to use
    /// instead.
    ///
    /// A shorter lifetime takes effect at once. A longer one takes effect for an answer at the next fetch, and so does
    /// the time of the next attempt for an unreachable origin, because the lifetime that the origin asked for is not
    /// known here.
    pub fn change_lifetimes(
        &mut self,
        lifetimes: LifetimeSettings,
        known: impl Iterator<Item = (Resource, Arc<Snapshot>)>,
    ) -> Vec<(Resource, Snapshot)> {
        self.lifetimes = lifetimes;
        self.due.clear();
        let renewed = known.map(|(resource, known)| {
            let snapshot = known.with_lifetimes(&self.lifetimes);
            self.schedule(&resource, &snapshot);
            (resource, snapshot)
        });
        renewed.collect()
    }

    /// Removes the reminders of a resource whose snapshot `known` leaves memory; its entry is stored elsewhere.
    pub fn evict(&mut self, resource: &Resource, known: &Snapshot) {
        let refresh_at = known.refresh_at(resource, &self.lifetimes);
        let last_use = known.discard_at(&self.lifetimes);
        // The reminder is at one of these two times, depending on whether the resource was in use.
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
        let last_use = snapshot.discard_at(&self.lifetimes);
        let refresh_at = snapshot.refresh_at(resource, &self.lifetimes);
        self.add_reminder(resource, refresh_at.unwrap_or(last_use));
    }

    fn add_reminder(&mut self, resource: &Resource, at: SystemTime) {
        let due = self.due.entry(whole_second(at)).or_default();
        if due.len() == due.capacity() {
            // With millions of resources, doubling would leave half of the memory unused: grow by less than a vector
            // does by itself.
            due.reserve_exact(due.len() / 8 + 1);
        }
        due.push(resource.clone());
    }

    /// Returns the work that is due at `now`. Entries in use are refreshed before they turn stale; others may turn
    /// stale, and are dropped when they are no longer usable. `look` returns the snapshot of a resource and whether it
    /// was used since that was published; `None` if nothing is known of it any more.
    pub fn take_due(
        &mut self,
        now: SystemTime,
        mut look: impl FnMut(&Resource) -> Option<(Arc<Snapshot>, bool)>,
    ) -> DueRefreshes {
        let mut due = DueRefreshes::default();
        while self.next_due().is_some_and(|at| at <= now) {
            let Some((_, resources)) = self.due.pop_first() else {
                break;
            };
            for resource in resources {
                if let Some((known, is_in_use)) = look(&resource) {
                    self.handle_due(resource, &known, is_in_use, now, &mut due);
                }
            }
        }
        due
    }

    fn handle_due(
        &mut self,
        resource: Resource,
        known: &Snapshot,
        is_in_use: bool,
        now: SystemTime,
        due: &mut DueRefreshes,
    ) {
        let last_use = known.discard_at(&self.lifetimes);
        let refresh_at = known.refresh_at(&resource, &self.lifetimes);
        if self.is_in_flight(&resource) || refresh_at.unwrap_or(last_use) > now {
            // Nothing to do: it is scheduled when the fetch ends, or was when it was published.
        } else if is_in_use {
            self.start_fetch(&resource);
            due.refetch.push(resource);
        // Unused entries are not refreshed: most origins are visited once.
        } else if last_use <= now {
            due.forgotten.push(resource);
        } else {
            self.add_reminder(&resource, last_use);
        }
    }

    /// Returns the number of reminders: one for each known resource.
    #[must_use]
    pub fn reminders(&self) -> usize {
        self.due.values().map(Vec::len).sum()
    }

    /// Returns the time at which to call [`take_due`](Self::take_due) again.
    #[must_use]
    pub fn next_due(&self) -> Option<SystemTime> {
        let (second, _) = self.due.first_key_value()?;
        Some(SystemTime::UNIX_EPOCH + Duration::from_secs(*second))
    }

    /// Returns whether a fetch is in flight.
    #[must_use]
    pub fn is_in_flight(&self, resource: &Resource) -> bool {
        self.in_flight.contains(resource)
    }
}

/// Rounds up to whole seconds, so that nothing is due before `at`.
fn whole_second(at: SystemTime) -> u64 {
    let since_epoch = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since_epoch.as_secs() + u64::from(since_epoch.subsec_nanos() > 0)
}
