//! Eviction: the choice of entries that leave memory when it is full, by S3-FIFO (Yang et al., SOSP 2023).
//!
//! New origins enter a small queue. Only those used again while they are in it reach the main queue, where each use
//! buys another round. One-time visitors, most of a crawl, therefore never push out entries in daily use. A hit touches
//! nothing but a counter in the entry itself, and the queues belong to the one task that publishes: caches that keep an
//! order on every read, or behind a lock, make readers wait for each other.

use std::collections::{HashSet, VecDeque};
use std::hash::BuildHasher;

use wayleave_lifecycle::{Resource, Snapshot};

use super::snapshots::SnapshotMap;

/// The small queue's share of the memory, in percent.
const SMALL_PERCENT: usize = 10;
/// The number of stale places in the queues beyond which they are removed.
const MAX_STALE_PLACES: usize = 1000;

/// The order in which entries are evicted.
pub(super) struct EvictionOrder {
    limit_bytes: usize,
    small: VecDeque<Resource>,
    main: VecDeque<Resource>,
    /// Hashes of origins that left the small queue unused. Those that return soon were evicted too early.
    ghosts: VecDeque<u32>,
    ghost_set: HashSet<u32>,
    hasher: foldhash::fast::RandomState,
}

impl EvictionOrder {
    pub(super) fn new(limit_bytes: usize) -> Self {
        Self {
            limit_bytes,
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghosts: VecDeque::new(),
            ghost_set: HashSet::new(),
            hasher: foldhash::fast::RandomState::default(),
        }
    }

    #[cfg(any(test, feature = "test-util"))]
    pub(super) fn limit(&self) -> usize {
        self.limit_bytes
    }

    /// Sets the memory limit; [`shrink`](Self::shrink) enforces it.
    pub(super) fn set_limit(&mut self, limit_bytes: usize) {
        self.limit_bytes = limit_bytes;
    }

    /// Adds an entry that was published for the first time.
    pub(super) fn insert(&mut self, published: &SnapshotMap, resource: &Resource) {
        let ghost = self.ghost_hash(resource);
        if self.ghost_set.remove(&ghost) {
            self.main.push_back(resource.clone());
        } else {
            self.small.push_back(resource.clone());
            published.set_small(resource, true);
        }
    }

    /// Evicts entries until the rest fits, and calls `withdrawn` for each.
    pub(super) fn shrink(
        &mut self,
        published: &SnapshotMap,
        mut withdrawn: impl FnMut(&Resource, &Snapshot),
    ) {
        // Stale places would grow without bound if the same entries were forgotten and fetched again and again.
        if self.small.len() + self.main.len() > 2 * published.len() + MAX_STALE_PLACES {
            self.drop_stale_places(published);
        }
        while published.bytes() > self.limit_bytes {
            let small_limit = self.limit_bytes / 100 * SMALL_PERCENT;
            let has_evicted = if published.small_bytes() > small_limit || self.main.is_empty() {
                self.shrink_small(published, &mut withdrawn)
            } else {
                self.shrink_main(published, &mut withdrawn)
            };
            if !has_evicted {
                return;
            }
        }
    }

    /// Leaves one place for each entry: a removed entry leaves a stale place, and gets a second one if it returns.
    fn drop_stale_places(&mut self, published: &SnapshotMap) {
        let mut placed = HashSet::new();
        let mut keeps = |resource: &Resource| {
            published.uses(resource).is_some() && placed.insert(self.hasher.hash_one(resource))
        };
        self.small.retain(&mut keeps);
        self.main.retain(&mut keeps);
    }

    /// Evicts the oldest entry of the small queue, or promotes it. Returns whether there was one.
    fn shrink_small(
        &mut self,
        published: &SnapshotMap,
        withdrawn: &mut impl FnMut(&Resource, &Snapshot),
    ) -> bool {
        let Some(resource) = self.small.pop_front() else {
            return !self.main.is_empty();
        };
        let Some(uses) = published.uses(&resource) else {
            return true;
        };
        // Not after a single use: entries of two-time visitors would fill the main queue.
        if uses > 1 {
            published.set_uses(&resource, 0);
            published.set_small(&resource, false);
            self.main.push_back(resource);
        } else {
            if let Some(snapshot) = published.remove(&resource) {
                withdrawn(&resource, &snapshot);
            }
            self.remember_ghost(&resource);
        }
        true
    }

    /// Evicts the oldest entry of the main queue, or sends it round again. Returns whether there was one.
    fn shrink_main(
        &mut self,
        published: &SnapshotMap,
        withdrawn: &mut impl FnMut(&Resource, &Snapshot),
    ) -> bool {
        let Some(resource) = self.main.pop_front() else {
            return false;
        };
        match published.uses(&resource) {
            Some(0) => {
                if let Some(snapshot) = published.remove(&resource) {
                    withdrawn(&resource, &snapshot);
                }
            }
            Some(uses) => {
                published.set_uses(&resource, uses - 1);
                self.main.push_back(resource);
            }
            None => {}
        }
        true
    }

    fn remember_ghost(&mut self, resource: &Resource) {
        let ghost = self.ghost_hash(resource);
        if self.ghost_set.insert(ghost) {
            self.ghosts.push_back(ghost);
        }
        let most = (self.main.len() + self.small.len()).max(64) / 2;
        while self.ghosts.len() > most {
            if let Some(oldest) = self.ghosts.pop_front() {
                self.ghost_set.remove(&oldest);
            }
        }
    }

    fn ghost_hash(&self, resource: &Resource) -> u32 {
        // Half of the hash takes half the memory; a collision only puts a new entry into the main queue.
        let [a, b, c, d, ..] = self.hasher.hash_one(resource).to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::SystemTime;

    use wayleave_lifecycle::{
        CacheEntry, FetchEnding, FetchErrorKind, FetchIdentity, FetchOutcome, FetchedBody,
        FetchedResponse, FinishedFetch, RefreshScheduler, ResponseFields,
    };
    use wayleave_robots_txt::{Dialect, ProductToken, decide};

    use super::*;

    const START: SystemTime = SystemTime::UNIX_EPOCH;

    fn resource(n: usize) -> Resource {
        Resource::parse(&format!("https://host{n:06}.example")).expect("an resource")
    }

    fn snapshot(resource: &Resource) -> Arc<Snapshot> {
        let outcome = FetchOutcome::failed(resource.uri(), FetchErrorKind::Connect, "");
        snapshot_after(resource, outcome)
    }

    /// Returns the snapshot of a file with this many rules in one group.
    fn snapshot_of_rules(resource: &Resource, rules: usize) -> Arc<Snapshot> {
        let lines = (0..rules).map(|n| format!("Disallow: /{n}\n"));
        let body = format!("User-agent: *\n{}", lines.collect::<String>());
        let response = FetchedResponse {
            status: 200,
            fields: ResponseFields::default(),
            body: FetchedBody { bytes: body.into_bytes().into(), is_cut: false, digest: None },
        };
        let outcome = FetchOutcome {
            redirects: Vec::new(),
            uri: resource.uri(),
            ending: FetchEnding::Response(response),
        };
        snapshot_after(resource, outcome)
    }

    fn snapshot_after(resource: &Resource, outcome: FetchOutcome) -> Arc<Snapshot> {
        let entry = CacheEntry::default().after_fetch(FinishedFetch::of_proxy(outcome, START));
        Arc::new(RefreshScheduler::default().restore(resource, &entry.into()))
    }

    struct World {
        published: SnapshotMap,
        memory: EvictionOrder,
    }

    impl World {
        /// Returns a world whose memory fits about this many entries.
        fn with_room_for(entries: usize) -> Self {
            let published = SnapshotMap::new();
            published.publish(&resource(0), &snapshot(&resource(0)));
            let one = published.bytes();
            published.remove(&resource(0));
            Self { published, memory: EvictionOrder::new(entries * one) }
        }

        /// Uses an origin, and publishes it first if it is missing. Returns whether it was there.
        fn visit(&mut self, n: usize) -> bool {
            let resource = resource(n);
            let is_there =
                self.published.find_usable(&resource, &FetchIdentity::default(), START).is_some();
            if !is_there {
                assert!(self.published.publish(&resource, &snapshot(&resource)));
                self.memory.insert(&self.published, &resource);
                self.memory.shrink(&self.published, |_, _| {});
            }
            is_there
        }
    }

    #[test]
    fn memory_stays_below_its_limit() {
        let mut world = World::with_room_for(100);
        for n in 0..10_000 {
            world.visit(n % 700);
            assert!(world.published.bytes() <= world.memory.limit_bytes);
        }
        assert!(world.published.len() > 90, "{}", world.published.len());
    }

    #[test]
    fn one_time_visitors_do_not_evict_entries_in_use() {
        let mut world = World::with_room_for(100);
        for round in 0..5 {
            for n in 0..50 {
                assert!(world.visit(n) || round == 0);
            }
        }
        let mut hits = 0;
        for n in 1000..5000 {
            world.visit(n);
            hits += usize::from(world.visit(n % 50));
        }
        assert!(hits > 3900, "{hits} of 4000");
    }

    #[test]
    fn two_time_visitors_do_not_evict_entries_in_use() {
        let mut world = World::with_room_for(100);
        for n in (0..50).cycle().take(250) {
            world.visit(n);
        }
        for n in 1000..2000 {
            world.visit(n);
            world.visit(n);
            assert!(world.visit(n % 50), "{n}");
        }
        let in_main = |n| world.memory.main.contains(&resource(n));
        assert!(!(1000..2000).any(in_main));
    }

    #[test]
    fn entries_that_return_soon_enter_the_main_queue() {
        let mut world = World::with_room_for(100);
        for n in 0..1000 {
            world.visit(n);
        }
        let is_in_main = |world: &World, n| world.memory.main.contains(&resource(n));
        // It left in the last round.
        assert!(!world.visit(890) && is_in_main(&world, 890));
        assert!(!world.visit(100) && !is_in_main(&world, 100));
        let EvictionOrder { ghosts, ghost_set, .. } = &world.memory;
        assert!(ghost_set.len() <= ghosts.len() && ghosts.len() <= 64);
    }

    #[test]
    fn repeatedly_forgotten_entries_do_not_pile_up_places() {
        let mut world = World::with_room_for(100);
        for _ in 0..10 * MAX_STALE_PLACES {
            assert!(!world.visit(1));
            world.visit(2);
            world.published.remove(&resource(1));
        }
        let EvictionOrder { small, main, .. } = &world.memory;
        assert!(small.len() + main.len() < 2 * MAX_STALE_PLACES);
        assert_eq!(world.published.small_bytes(), world.published.bytes());
        assert!(world.visit(2));
    }

    #[test]
    fn everything_is_evicted_when_nothing_fits() {
        let mut world = World::with_room_for(0);
        for n in 0..10 {
            assert!(!world.visit(n));
            assert!(!world.visit(n));
        }
        assert_eq!((world.published.len(), world.published.bytes()), (0, 0));
    }

    #[test]
    fn memory_added_by_decisions_is_counted() {
        let published = SnapshotMap::new();
        let resource = resource(0);
        let rules = snapshot_of_rules(&resource, 1_000);
        assert!(published.publish(&resource, &rules));
        published.set_small(&resource, true);
        assert!(!published.recount(&resource));
        let counted = published.bytes();

        let before = rules.heap_bytes();
        let tokens = [ProductToken::new("ExampleBot").expect("a name")];
        let _ = decide(
            rules.access(START),
            Dialect::Rfc9309,
            &tokens,
            &wayleave_robots_txt::UrlPath::ROOT,
        );
        let added = rules.heap_bytes() - before;
        assert!(added > 10_000, "{added}");
        let recount = || published.recount(&resource);
        assert_eq!([recount(), recount()], [true, false]);
        assert_eq!(published.bytes(), counted + added);
        assert_eq!(published.small_bytes(), counted + added);

        // The same file published again is counted as it is, and nothing stays when it goes.
        assert!(!published.publish(&resource, &rules));
        assert_eq!(published.small_bytes(), counted + added);
        published.set_small(&resource, false);
        assert_eq!((published.small_bytes(), published.bytes()), (0, counted + added));
        published.remove(&resource);
        assert_eq!(published.bytes(), 0);
    }
}
