//! The snapshots that requests read: a concurrent map with an atomic pointer for each document.
//!
//! The map is papaya's: its readers never lock, and never wait for writers or for its growth, which is spread over
//! later writes. dashmap and scc lock a shard or bucket for a read, which the writer of another origin may hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::SystemTime;

use arc_swap::{ArcSwap, ArcSwapOption, Guard};
use wayleave_lifecycle::{FetchIdentity, Resource, Snapshot, SnapshotState, Usability};

use super::pinned::PinnedFiles;

/// The cost of an entry besides a long host name and its rules: its place in the map, its snapshot, its timer and its
/// place in the eviction order. The bench `robots` measured 240 bytes; since then each of the four gained a pointer.
const OVERHEAD_BYTES: usize = 280;
/// The highest use count: enough to distinguish popular entries from the rest.
const MAX_USES: u8 = 3;

/// The map of all snapshots in memory.
pub(super) struct SnapshotMap {
    entries: papaya::HashMap<Resource, MapEntry, foldhash::fast::RandomState>,
    bytes: AtomicUsize,
    /// The part of `bytes` that belongs to entries in the small queue of `eviction`.
    small_bytes: AtomicUsize,
    /// The files that count instead of any entry.
    pinned: ArcSwap<PinnedFiles>,
}

/// The entry of one document.
struct MapEntry {
    /// The snapshot; `None` once removed. papaya frees in batches, so a removed entry may live on for long.
    snapshot: ArcSwapOption<Snapshot>,
    /// The fleet's newest version that this node has used; 0 for none.
    version: AtomicU64,
    /// The size that `bytes` includes, as an [`EntrySize`].
    size: AtomicU32,
    /// The number of recent uses, for `eviction`.
    uses: AtomicU8,
    /// Whether it was used since it was published.
    is_used: AtomicBool,
    /// Whether a reader has reported since that another fetch is due.
    is_overdue_reported: AtomicBool,
}

/// A snapshot that may be used.
pub(super) struct UsableSnapshot {
    pub(super) snapshot: Arc<Snapshot>,
    /// Whether another attempt to reach the origin is due and this reader is the first to notice.
    pub(super) is_overdue: bool,
}

/// The size that an entry is counted with, and in the top bit whether it is in the small queue. Both share one word so
/// that a change of one knows the other's value at that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EntrySize(u32);

impl EntrySize {
    const SMALL: u32 = 1 << 31;
    /// The value of a removed entry. No entry in the map is this small.
    const REMOVED: Self = Self(0);

    fn bytes(self) -> usize {
        (self.0 & !Self::SMALL) as usize
    }

    fn small_bytes(self) -> usize {
        match self.0 & Self::SMALL {
            0 => 0,
            _ => self.bytes(),
        }
    }

    /// Returns the same with another size, as far as it fits.
    fn with_bytes(self, bytes: usize) -> Self {
        let most = Self::SMALL - 1;
        let bytes = u32::try_from(bytes).map_or(most, |bytes| bytes.min(most));
        Self(self.0 & Self::SMALL | bytes)
    }
}

impl SnapshotMap {
    pub(super) fn new() -> Self {
        Self {
            entries: papaya::HashMap::with_hasher(foldhash::fast::RandomState::default()),
            bytes: AtomicUsize::new(0),
            small_bytes: AtomicUsize::new(0),
            pinned: ArcSwap::default(),
        }
    }

    /// Returns the pinned files in effect.
    pub(super) fn pinned(&self) -> Guard<Arc<PinnedFiles>> {
        self.pinned.load()
    }

    /// Replaces the pinned files.
    pub(super) fn set_pinned(&self, files: Arc<PinnedFiles>) {
        self.pinned.store(files);
    }

    /// Returns the snapshot of `resource` if it may be used at `now` for requests of `identity`. Never blocks.
    pub(super) fn find_usable(
        &self,
        resource: &Resource,
        identity: &FetchIdentity,
        now: SystemTime,
    ) -> Option<UsableSnapshot> {
        let entries = self.entries.pin();
        let entry = entries.get(resource)?;
        let snapshot =
            entry.snapshot.load_full().filter(|snapshot| snapshot.counts_for(identity))?;
        let usable = snapshot.usability(now);
        if usable == Usability::AfterRefetch {
            return None;
        }
        entry.note_use();
        // Swapped only if a fetch is due: hits on fresh entries then write nothing but the counters.
        let is_overdue = usable == Usability::ImmediateAndRefetch
            && !entry.is_overdue_reported.swap(true, Ordering::Relaxed);
        Some(UsableSnapshot { snapshot, is_overdue })
    }

    /// Makes the next reader report again that a fetch is due.
    pub(super) fn clear_overdue_report(&self, resource: &Resource) {
        if let Some(entry) = self.entries.pin().get(resource) {
            entry.is_overdue_reported.store(false, Ordering::Relaxed);
        }
    }

    /// Publishes a snapshot; readers that hold the earlier one keep it. Returns whether the document is new.
    pub(super) fn publish(&self, resource: &Resource, snapshot: &Arc<Snapshot>) -> bool {
        let bytes = entry_bytes(resource, snapshot);
        let entries = self.entries.pin();
        let Some(entry) = entries.get(resource) else {
            let counted = EntrySize::REMOVED.with_bytes(bytes);
            entries.insert(resource.clone(), MapEntry::new(snapshot, counted));
            self.adjust_totals(EntrySize::REMOVED, counted);
            return true;
        };
        entry.snapshot.store(Some(snapshot.clone()));
        entry.is_used.store(false, Ordering::Relaxed);
        entry.is_overdue_reported.store(false, Ordering::Relaxed);
        self.resize(entry, |counted| counted.with_bytes(bytes));
        false
    }

    /// Replaces a snapshot by one with the same content: use and report flags remain.
    pub(super) fn replace(&self, resource: &Resource, snapshot: &Arc<Snapshot>) {
        if let Some(entry) = self.entries.pin().get(resource) {
            entry.snapshot.store(Some(snapshot.clone()));
        }
    }

    /// Removes an entry and returns its snapshot.
    pub(super) fn remove(&self, resource: &Resource) -> Option<Arc<Snapshot>> {
        let entries = self.entries.pin();
        let entry = entries.remove(resource)?;
        self.resize(entry, |_| EntrySize::REMOVED);
        // Not left to papaya, which frees removed entries in batches, perhaps much later.
        entry.snapshot.swap(None)
    }

    /// Updates the size of an entry after decisions added to it: the indexes of large groups, which may take more
    /// memory than the rules themselves. Returns whether it grew.
    pub(super) fn recount(&self, resource: &Resource) -> bool {
        let entries = self.entries.pin();
        let Some(entry) = entries.get(resource) else {
            return false;
        };
        let Some(snapshot) = entry.snapshot.load_full() else {
            return false;
        };
        let order = Ordering::Relaxed;
        let before = EntrySize(entry.size.load(order));
        let after = before.with_bytes(entry_bytes(resource, &snapshot));
        if before == EntrySize::REMOVED || after.bytes() <= before.bytes() {
            return false;
        }
        // Added before the entry says so: a concurrent removal subtracts whatever the entry says.
        self.adjust_totals(before, after);
        let is_counted = entry.size.compare_exchange(before.0, after.0, order, order).is_ok();
        if !is_counted {
            // It was published again or removed meanwhile, or another reader was first.
            self.adjust_totals(after, before);
        }
        is_counted
    }

    fn resize(&self, entry: &MapEntry, change: impl Fn(EntrySize) -> EntrySize) {
        let order = Ordering::Relaxed;
        // Atomically, because readers recount concurrently.
        let before = entry.size.update(order, order, |word| change(EntrySize(word)).0);
        self.adjust_totals(EntrySize(before), change(EntrySize(before)));
    }

    fn adjust_totals(&self, before: EntrySize, after: EntrySize) {
        for (sum, before, after) in [
            (&self.bytes, before.bytes(), after.bytes()),
            (&self.small_bytes, before.small_bytes(), after.small_bytes()),
        ] {
            // Added first: if another thread subtracts the same entry meanwhile, the sum does not fall below zero.
            sum.fetch_add(after, Ordering::Relaxed);
            sum.fetch_sub(before, Ordering::Relaxed);
        }
    }

    /// Returns the size of all entries in the small queue.
    pub(super) fn small_bytes(&self) -> usize {
        self.small_bytes.load(Ordering::Relaxed)
    }

    /// Returns the size of all entries.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the snapshot of a document, usable or not. Does not count as a use.
    pub(super) fn snapshot(&self, resource: &Resource) -> Option<Arc<Snapshot>> {
        self.entries.pin().get(resource)?.snapshot.load_full()
    }

    /// Returns the fleet's newest version that this node has used; 0 for none.
    pub(super) fn version(&self, resource: &Resource) -> u64 {
        self.entries.pin().get(resource).map_or(0, |entry| entry.version.load(Ordering::Relaxed))
    }

    /// Records which of the fleet's versions was published.
    pub(super) fn set_version(&self, resource: &Resource, version: u64) {
        if let Some(entry) = self.entries.pin().get(resource) {
            // Never lowered: an older entry of an engine that was restored from a backup would be taken for a new one.
            entry.version.fetch_max(version, Ordering::Relaxed);
        }
    }

    /// Returns the snapshot, and whether it was used since it was published.
    pub(super) fn snapshot_and_use(&self, resource: &Resource) -> Option<(Arc<Snapshot>, bool)> {
        let entries = self.entries.pin();
        let entry = entries.get(resource)?;
        Some((entry.snapshot.load_full()?, entry.is_used.load(Ordering::Relaxed)))
    }

    /// Returns the number of recent uses.
    pub(super) fn uses(&self, resource: &Resource) -> Option<u8> {
        Some(self.entries.pin().get(resource)?.uses.load(Ordering::Relaxed))
    }

    /// Sets the number of recent uses.
    pub(super) fn set_uses(&self, resource: &Resource, uses: u8) {
        if let Some(entry) = self.entries.pin().get(resource) {
            entry.uses.store(uses, Ordering::Relaxed);
        }
    }

    /// Records whether an entry is in the small queue.
    pub(super) fn set_small(&self, resource: &Resource, is_small: bool) {
        if let Some(entry) = self.entries.pin().get(resource) {
            self.resize(entry, |EntrySize(word)| {
                if is_small {
                    EntrySize(word | EntrySize::SMALL)
                } else {
                    EntrySize(word & !EntrySize::SMALL)
                }
            });
        }
    }

    /// Returns all entries that match, in no particular order.
    pub(super) fn select(
        &self,
        is_selected: impl Fn(&Resource, &Snapshot) -> bool,
    ) -> Vec<(Resource, Arc<Snapshot>)> {
        let entries = self.entries.pin();
        entries
            .iter()
            .filter_map(|(resource, entry)| Some((resource, entry.snapshot.load_full()?)))
            .filter(|(resource, snapshot)| is_selected(resource, snapshot))
            .map(|(resource, snapshot)| (resource.clone(), snapshot))
            .collect()
    }

    /// Counts the robots.txt files in each state at `now`.
    pub(super) fn count_by_state(&self, now: SystemTime) -> [(SnapshotState, usize); 4] {
        let mut counts = SnapshotState::ALL.map(|state| (state, 0));
        let entries = self.entries.pin();
        for (_, entry) in entries.iter().filter(|(it, _)| it.is_shared_robots_txt()) {
            let found = entry.snapshot.load().as_ref().map(|snapshot| snapshot.state(now));
            for (state, count) in &mut counts {
                *count += usize::from(Some(*state) == found);
            }
        }
        counts
    }
}

/// Returns the size of an entry.
#[inline]
fn entry_bytes(resource: &Resource, snapshot: &Snapshot) -> usize {
    OVERHEAD_BYTES + resource.heap_bytes() + snapshot.heap_bytes()
}

impl MapEntry {
    fn new(snapshot: &Arc<Snapshot>, counted: EntrySize) -> Self {
        Self {
            snapshot: ArcSwapOption::new(Some(snapshot.clone())),
            version: AtomicU64::new(0),
            size: AtomicU32::new(counted.0),
            uses: AtomicU8::new(0),
            is_used: AtomicBool::new(false),
            is_overdue_reported: AtomicBool::new(false),
        }
    }

    /// Counts a use. Reads before it writes, so that readers of a popular origin share its cache line; a count lost
    /// between two threads does no harm.
    fn note_use(&self) {
        let uses = self.uses.load(Ordering::Relaxed);
        if uses < MAX_USES {
            self.uses.store(uses + 1, Ordering::Relaxed);
        }
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use wayleave_lifecycle::{CacheEntry, ParsedEntry, RefreshScheduler};

    use super::*;

    fn resource(uri: &str) -> Resource {
        Resource::parse(uri).expect("a resource")
    }

    fn snapshot(resource: &Resource) -> Arc<Snapshot> {
        let learned = ParsedEntry::from(CacheEntry::default());
        Arc::new(RefreshScheduler::default().restore(resource, &learned))
    }

    #[test]
    fn removed_snapshots_are_freed_at_once() {
        let published = SnapshotMap::new();
        for n in 0..100 {
            let resource = resource(&format!("https://host{n}.test"));
            let snapshot = snapshot(&resource);
            let seen = Arc::downgrade(&snapshot);
            published.publish(&resource, &snapshot);
            drop(snapshot);
            assert!(seen.upgrade().is_some() && published.remove(&resource).is_some());
            assert!(seen.upgrade().is_none(), "the map still holds the {n}th");
        }
    }

    #[test]
    fn fleet_versions_never_decrease() {
        let published = SnapshotMap::new();
        let resource = resource("https://shop.test");
        published.publish(&resource, &snapshot(&resource));
        for (version, expected) in [(5, 5), (3, 5), (0, 5), (6, 6)] {
            published.set_version(&resource, version);
            assert_eq!(published.version(&resource), expected);
        }
    }
}
