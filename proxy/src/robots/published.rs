//! What requests read: every origin's snapshot in one concurrent map, behind an atomic pointer each.
//!
//! The map is papaya's: its readers never lock and never wait for writers, nor for its growth, which it spreads over
//! later writes. dashmap and scc lock a shard or a bucket for a read, which the writer of another origin may hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::time::SystemTime;

use arc_swap::ArcSwap;
use wayleave_policy::Origin;
use wayleave_policy::lifecycle::{Snapshot, State, Use};

/// What an origin costs beside a long host name and its rules: its place in the map, its snapshot, its reminder and its
/// place in the order of eviction. Measured by the bench `robots`.
const OVERHEAD_BYTES: usize = 240;
/// The bytes of a slot that was taken off the map; none in it has so few.
const GONE: u32 = 0;
/// Uses are counted so far and no further: enough to tell the popular from the rest.
const MOST_USES: u8 = 3;

/// The map.
pub(super) struct Published {
    slots: papaya::HashMap<Origin, Slot, foldhash::fast::RandomState>,
    bytes: AtomicUsize,
}

/// One origin's place in the map.
struct Slot {
    snapshot: ArcSwap<Snapshot>,
    bytes: AtomicU32,
    /// How often it was gone by lately, see `memory`.
    uses: AtomicU8,
    /// Whether it was gone by since it was published.
    is_used: AtomicBool,
    /// Whether someone was told since that another attempt is due.
    is_reported: AtomicBool,
}

/// A snapshot that may be gone by.
pub(super) struct AtHand {
    pub(super) snapshot: Arc<Snapshot>,
    /// Another attempt to reach the origin is due, and this reader is the first to see it.
    pub(super) is_overdue: bool,
}

/// How the bytes of an origin changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Resized {
    /// `None`: it was not there.
    pub(super) from: Option<u32>,
    pub(super) to: u32,
}

impl Published {
    pub(super) fn new() -> Self {
        Self {
            slots: papaya::HashMap::with_hasher(foldhash::fast::RandomState::default()),
            bytes: AtomicUsize::new(0),
        }
    }

    /// What is known of `origin`, if that may be gone by at `now`. Waits for nobody.
    pub(super) fn at_hand(&self, origin: &Origin, now: SystemTime) -> Option<AtHand> {
        let slots = self.slots.pin();
        let slot = slots.get(origin)?;
        let snapshot = slot.snapshot.load_full();
        let usable = snapshot.usable(now);
        if usable == Use::AfterRefetch {
            return None;
        }
        slot.note_use();
        let is_overdue =
            usable == Use::AtOnceAndRefetch && !slot.is_reported.swap(true, Ordering::Relaxed);
        Some(AtHand {
            snapshot,
            is_overdue,
        })
    }

    /// Has the next reader report again that an attempt is due.
    pub(super) fn unreport(&self, origin: &Origin) {
        if let Some(slot) = self.slots.pin().get(origin) {
            slot.is_reported.store(false, Ordering::Relaxed);
        }
    }

    /// Makes `snapshot` what readers find; whoever holds the one before keeps it.
    pub(super) fn publish(&self, origin: &Origin, snapshot: &Arc<Snapshot>) -> Resized {
        let to = size(origin, snapshot);
        let slots = self.slots.pin();
        let from = match slots.get(origin) {
            Some(slot) => {
                slot.snapshot.store(snapshot.clone());
                slot.is_used.store(false, Ordering::Relaxed);
                slot.is_reported.store(false, Ordering::Relaxed);
                Some(slot.bytes.swap(to, Ordering::Relaxed))
            }
            None => {
                slots.insert(origin.clone(), Slot::new(snapshot, to));
                None
            }
        };
        self.resize(from.unwrap_or(0), to);
        Resized { from, to }
    }

    /// The same for what says nothing new: whether it was used and reported stays.
    pub(super) fn replace(&self, origin: &Origin, snapshot: &Arc<Snapshot>) {
        if let Some(slot) = self.slots.pin().get(origin) {
            slot.snapshot.store(snapshot.clone());
        }
    }

    /// Takes an origin off the map; what was known of it, if it was there.
    pub(super) fn withdraw(&self, origin: &Origin) -> Option<Arc<Snapshot>> {
        let slots = self.slots.pin();
        let slot = slots.remove(origin)?;
        self.resize(slot.bytes.swap(GONE, Ordering::Relaxed), 0);
        Some(slot.snapshot.load_full())
    }

    /// Counts what decisions added to an entry since it was counted: the indexes of large groups, which may take more than
    /// the rules they are of. Whether there was any.
    pub(super) fn recount(&self, origin: &Origin) -> bool {
        let slots = self.slots.pin();
        let Some(slot) = slots.get(origin) else {
            return false;
        };
        let order = Ordering::Relaxed;
        let from = slot.bytes.load(order);
        let to = size(origin, &slot.snapshot.load());
        if from == GONE || to <= from {
            return false;
        }
        // Added first: whoever withdraws the entry once it says so takes as much off.
        self.resize(from, to);
        let is_counted = slot.bytes.compare_exchange(from, to, order, order).is_ok();
        if !is_counted {
            // It was published anew since, or withdrawn, or another reader was first.
            self.resize(to, from);
        }
        is_counted
    }

    fn resize(&self, from: u32, to: u32) {
        self.bytes.fetch_add(to as usize, Ordering::Relaxed);
        self.bytes.fetch_sub(from as usize, Ordering::Relaxed);
    }

    /// What all entries cost.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// What is known of `origin`, whether or not it may be gone by. Does not count as a use.
    pub(super) fn snapshot(&self, origin: &Origin) -> Option<Arc<Snapshot>> {
        Some(self.slots.pin().get(origin)?.snapshot.load_full())
    }

    /// The same, and whether it was gone by since it was published.
    pub(super) fn look(&self, origin: &Origin) -> Option<(Arc<Snapshot>, bool)> {
        let slots = self.slots.pin();
        let slot = slots.get(origin)?;
        let is_used = slot.is_used.load(Ordering::Relaxed);
        Some((slot.snapshot.load_full(), is_used))
    }

    /// How often `origin` was used lately.
    pub(super) fn uses(&self, origin: &Origin) -> Option<u8> {
        let slots = self.slots.pin();
        Some(slots.get(origin)?.uses.load(Ordering::Relaxed))
    }

    /// Sets how often `origin` counts as used lately.
    pub(super) fn set_uses(&self, origin: &Origin, uses: u8) {
        if let Some(slot) = self.slots.pin().get(origin) {
            slot.uses.store(uses, Ordering::Relaxed);
        }
    }

    /// The origins, with what is known of them, that `is_asked_for`; in no order.
    pub(super) fn select(
        &self,
        is_asked_for: impl Fn(&Origin, &Snapshot) -> bool,
    ) -> Vec<(Origin, Arc<Snapshot>)> {
        let slots = self.slots.pin();
        let all = slots.iter();
        all.map(|(origin, slot)| (origin, slot.snapshot.load_full()))
            .filter(|(origin, snapshot)| is_asked_for(origin, snapshot))
            .map(|(origin, snapshot)| (origin.clone(), snapshot))
            .collect()
    }

    /// How many entries are in each state at `now`.
    pub(super) fn count(&self, now: SystemTime) -> [(State, usize); 4] {
        let mut counts = State::ALL.map(|state| (state, 0));
        for (_, slot) in &self.slots.pin() {
            let found = slot.snapshot.load().state(now);
            for (state, count) in &mut counts {
                *count += usize::from(*state == found);
            }
        }
        counts
    }
}

/// What an entry costs.
#[inline]
fn size(origin: &Origin, snapshot: &Snapshot) -> u32 {
    let bytes = OVERHEAD_BYTES + origin.heap_bytes() + snapshot.heap_bytes();
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

impl Slot {
    fn new(snapshot: &Arc<Snapshot>, bytes: u32) -> Self {
        Self {
            snapshot: ArcSwap::new(snapshot.clone()),
            bytes: AtomicU32::new(bytes),
            uses: AtomicU8::new(0),
            is_used: AtomicBool::new(false),
            is_reported: AtomicBool::new(false),
        }
    }

    /// Reads before it writes, so that readers of one popular origin share its cache line. A count lost between two
    /// threads is no loss.
    fn note_use(&self) {
        let uses = self.uses.load(Ordering::Relaxed);
        if uses < MOST_USES {
            self.uses.store(uses + 1, Ordering::Relaxed);
        }
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
    }
}
