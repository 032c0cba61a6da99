//! Lists the origins whose robots.txt is known, in memory or only on disk, for operators.
//!
//! This reads no bodies from disk: the state of an entry follows from its times and its status.

use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use wayleave_lifecycle::{
    CacheEntry, LifetimeSettings, RefreshScheduler, Resource, Snapshot, SnapshotState,
};
use wayleave_robots_txt::Origin;

use super::snapshots::SnapshotMap;
use super::store::RobotsStore;

/// A query for entries.
#[derive(Clone, Debug, Default)]
pub struct EntryQuery {
    /// Include only entries in this state.
    pub state: Option<SnapshotState>,
    /// Include only origins that contain this text.
    pub query: String,
    /// Continue after this origin, in the order of their text.
    pub after: Option<Origin>,
    /// The maximum number of origins.
    pub limit: usize,
}

/// A view of the entries on disk.
pub(super) struct DiskEntries {
    lifetimes: ArcSwap<LifetimeSettings>,
}

impl DiskEntries {
    pub(super) fn new(lifetimes: LifetimeSettings) -> Self {
        Self { lifetimes: ArcSwap::from_pointee(lifetimes) }
    }

    pub(super) fn set_lifetimes(&self, lifetimes: LifetimeSettings) {
        self.lifetimes.store(Arc::new(lifetimes));
    }

    pub(super) fn lifetimes(&self) -> LifetimeSettings {
        LifetimeSettings::clone(&self.lifetimes.load())
    }

    /// Returns the snapshot of an entry, or `None` for one that only exists for its history.
    fn snapshot(
        &self,
        resource: &Resource,
        entry: &CacheEntry,
        now: SystemTime,
    ) -> Option<Arc<Snapshot>> {
        let mut cache = RefreshScheduler::new(LifetimeSettings::clone(&self.lifetimes.load()));
        let snapshot = Arc::new(cache.restore(resource, &entry.clone().into()));
        let due = cache.take_due(now, |_| Some((snapshot.clone(), false)));
        due.forgotten.is_empty().then_some(snapshot)
    }
}

/// The memory and disk that are searched.
pub(super) struct EntryLister<'a> {
    pub(super) published: &'a SnapshotMap,
    pub(super) store: &'a RobotsStore,
    pub(super) disk_entries: &'a DiskEntries,
}

impl EntryLister<'_> {
    /// Lists the known origins that match `listing`; see [`RobotsCache::list`](super::RobotsCache::list).
    pub(super) fn list(
        &self,
        listing: &EntryQuery,
        now: SystemTime,
    ) -> Vec<(Origin, Arc<Snapshot>)> {
        let after = listing.after.as_ref().map(Origin::to_string);
        let is_asked_for = |text: &str| {
            after.as_deref().is_none_or(|after| text > after) && text.contains(&listing.query)
        };
        let is_in_state = |snapshot: &Snapshot| {
            let state = listing.state;
            state.is_none_or(|state| snapshot.state(now) == state)
        };
        let found = self.published.select(|resource, snapshot| {
            let is_listed = resource.is_robots_txt() && is_in_state(snapshot);
            is_listed && is_asked_for(&resource.to_string())
        });
        let found = found.into_iter();
        let mut found: Vec<_> =
            found.map(|(resource, snapshot)| (resource.origin().clone(), snapshot)).collect();
        // Memory may hold any number of matches, but no more than `limit` of those on disk can be among the first.
        let mut missing = listing.limit;
        self.store.walk(after.as_deref(), |text, entry| {
            if is_asked_for(text)
                && let Some((origin, snapshot)) = self.on_disk_only(entry, now)
                && is_in_state(&snapshot)
            {
                found.push((origin, snapshot));
                missing = missing.saturating_sub(1);
            }
            missing > 0
        });
        found.sort_by_cached_key(|(origin, _)| origin.to_string());
        found.truncate(listing.limit);
        found
    }

    /// Counts the entries in each state; see [`RobotsCache::count_by_state`](super::RobotsCache::count_by_state).
    pub(super) fn count_by_state(&self, now: SystemTime) -> [(SnapshotState, usize); 4] {
        let Some(kept) = self.store.count_by_state() else {
            return self.published.count_by_state(now);
        };
        let mut kept = kept.into_iter();
        SnapshotState::ALL.map(|state| (state, kept.next().unwrap_or_default()))
    }

    fn on_disk_only(
        &self,
        entry: &dyn Fn() -> Option<(Resource, CacheEntry)>,
        now: SystemTime,
    ) -> Option<(Origin, Arc<Snapshot>)> {
        let (resource, entry) = entry()?;
        if !resource.is_robots_txt() || self.published.snapshot(&resource).is_some() {
            return None;
        }
        let snapshot = self.disk_entries.snapshot(&resource, &entry, now)?;
        Some((resource.origin().clone(), snapshot))
    }
}
