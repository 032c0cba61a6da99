//! Reads from the store that are in progress, and the queue of those that follow.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::task::JoinSet;
use wayleave_robots_txt::lifecycle::{Learned, Resource};

use crate::parsing::Parser;
use crate::robots::learning;
use crate::robots::snapshots::Published;
use crate::robots::store::Store;

/// The number of concurrent reads, and of entries per read: with few threads, the allocator reuses what they free.
const READS: usize = 4;
const ENTRIES: usize = 64;

/// The entries brought by one read, by document.
pub(super) type Recalled = Vec<(Resource, Option<Learned>)>;

/// The reads from the store.
pub(super) struct Recalls {
    store: Store,
    published: Arc<Published>,
    parser: Parser,
    waiting: VecDeque<Resource>,
    reading: JoinSet<Recalled>,
}

impl Recalls {
    pub(super) fn new(store: Store, published: Arc<Published>, parser: Parser) -> Self {
        Self {
            store,
            published,
            parser,
            waiting: VecDeque::new(),
            reading: JoinSet::new(),
        }
    }

    pub(super) fn add(&mut self, resource: Resource) {
        self.waiting.push_back(resource);
    }

    /// Starts as many reads as are allowed.
    pub(super) fn start(&mut self) {
        while self.reading.len() < READS && !self.waiting.is_empty() {
            let some = self.waiting.len().min(ENTRIES);
            let resources = self.waiting.drain(..some).collect();
            let (store, published) = (self.store.clone(), self.published.clone());
            let parser = self.parser.clone();
            self.reading.spawn(async move {
                let loaded = store.load_all(resources).await;
                learning::all(&parser, loaded, published).await
            });
        }
    }

    /// Waits for the next read to end; `None` if none is running. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Recalled> {
        let ended = self.reading.join_next().await?;
        // The store reports a read that fails or panics; it brings nothing.
        Some(ended.unwrap_or_default())
    }
}
