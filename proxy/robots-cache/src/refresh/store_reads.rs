//! Reads from the store that are in progress, and the queue of those that follow.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::task::JoinSet;
use wayleave_fairness::WorkPool;
use wayleave_lifecycle::{ParsedEntry, Resource};

use crate::parsing;
use crate::snapshots::SnapshotMap;
use crate::store::RobotsStore;

/// The number of concurrent reads, and of entries per read: with few threads, the allocator reuses their memory.
const MAX_READS: usize = 4;
const ENTRIES_PER_READ: usize = 64;

/// The entries brought by one read, by document.
pub(super) type ReadEntries = Vec<(Resource, Option<ParsedEntry>)>;

/// The reads from the store.
pub(super) struct StoreReads {
    store: RobotsStore,
    published: Arc<SnapshotMap>,
    parser: WorkPool,
    waiting: VecDeque<Resource>,
    reading: JoinSet<ReadEntries>,
}

impl StoreReads {
    pub(super) fn new(store: RobotsStore, published: Arc<SnapshotMap>, parser: WorkPool) -> Self {
        Self { store, published, parser, waiting: VecDeque::new(), reading: JoinSet::new() }
    }

    pub(super) fn add(&mut self, resource: Resource) {
        self.waiting.push_back(resource);
    }

    /// Starts as many reads as are allowed.
    pub(super) fn start(&mut self) {
        while self.reading.len() < MAX_READS && !self.waiting.is_empty() {
            let count = self.waiting.len().min(ENTRIES_PER_READ);
            let resources = self.waiting.drain(..count).collect();
            let store = self.store.clone();
            let published = self.published.clone();
            let parser = self.parser.clone();
            self.reading.spawn(async move {
                let loaded = store.load_all(resources).await;
                parsing::parse_entries(&parser, loaded, published).await
            });
        }
    }

    /// Waits for the next read to end; `None` if none is running. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<ReadEntries> {
        // The store reports a read that fails or panics; it brings nothing.
        Some(self.reading.join_next().await?.unwrap_or_default())
    }
}
