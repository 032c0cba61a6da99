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
    pub contains: String,
    /// Continue after this origin, in the order of their text.
    pub after: Option<Origin>,
    /// The maximum number of origins.
    pub limit: usize,
}

/// The memory and the disk that are searched.
pub(super) struct EntryLister {
    published: Arc<SnapshotMap>,
    store: RobotsStore,
    lifetimes: ArcSwap<LifetimeSettings>,
}

impl EntryLister {
    pub(super) fn new(
        published: Arc<SnapshotMap>,
        store: RobotsStore,
        lifetimes: LifetimeSettings,
    ) -> Self {
        Self { published, store, lifetimes: ArcSwap::from_pointee(lifetimes) }
    }

    pub(super) fn set_lifetimes(&self, lifetimes: LifetimeSettings) {
        self.lifetimes.store(Arc::new(lifetimes));
    }

    pub(super) fn lifetimes(&self) -> LifetimeSettings {
        LifetimeSettings::clone(&self.lifetimes.load())
    }

    /// Lists the known origins that match `query`; see [`RobotsCache::list`](super::RobotsCache::list).
    pub(super) fn list(&self, query: &EntryQuery, now: SystemTime) -> Vec<(Origin, Arc<Snapshot>)> {
        let after = query.after.as_ref().map(Origin::to_string);
        let matches = |text: &str| {
            after.as_deref().is_none_or(|after| text > after) && text.contains(&query.contains)
        };
        let is_in_state =
            |snapshot: &Snapshot| query.state.is_none_or(|state| snapshot.state(now) == state);
        let pinned = self.published.pinned();
        let mut found: Vec<_> = self
            .published
            .select(|resource, snapshot| {
                // The text comes last, because it has to be made for each entry.
                resource.is_shared_robots_txt()
                    && is_in_state(snapshot)
                    && matches(&resource.to_string())
            })
            .into_iter()
            .map(|(resource, snapshot)| (resource.origin().clone(), snapshot))
            .filter(|(origin, _)| !pinned.contains(origin))
            .collect();
        // Memory may hold any number of matches, but no more than `limit` of those on disk can be among the first.
        let mut missing = query.limit;
        self.store.walk(after.as_deref(), |text, entry| {
            if matches(text)
                && let Some((origin, snapshot)) = self.on_disk_only(entry, now)
                && is_in_state(&snapshot)
                && !pinned.contains(&origin)
            {
                found.push((origin, snapshot));
                missing = missing.saturating_sub(1);
            }
            missing > 0
        });
        if query.state.is_none() {
            let all = pinned.all().filter(|(origin, _)| matches(&origin.to_string()));
            found.extend(all.map(|(origin, snapshot)| (origin.clone(), Arc::clone(snapshot))));
        }
        found.sort_by_cached_key(|(origin, _)| origin.to_string());
        found.truncate(query.limit);
        found
    }

    /// Counts the entries in each state; see [`RobotsCache::count_by_state`](super::RobotsCache::count_by_state).
    pub(super) fn count_by_state(&self, now: SystemTime) -> [(SnapshotState, usize); 4] {
        match self.store.count_by_state() {
            Some(counts) => std::array::from_fn(|n| (SnapshotState::ALL[n], counts[n])),
            None => self.published.count_by_state(now),
        }
    }

    /// Returns the origin and the snapshot of a robots.txt that is on disk but not in memory.
    fn on_disk_only(
        &self,
        entry: &dyn Fn() -> Option<(Resource, CacheEntry)>,
        now: SystemTime,
    ) -> Option<(Origin, Arc<Snapshot>)> {
        let (resource, entry) = entry()?;
        if !resource.is_shared_robots_txt() || self.published.snapshot(&resource).is_some() {
            return None;
        }
        let mut scheduler = RefreshScheduler::new(self.lifetimes());
        let snapshot = Arc::new(scheduler.restore(&resource, &entry.into()));
        // The rule for copies in memory: an entry that would be forgotten is only stored for its history.
        let due = scheduler.take_due(now, |_| Some((snapshot.clone(), false)));
        due.forgotten.is_empty().then(|| (resource.origin().clone(), snapshot))
    }
}
