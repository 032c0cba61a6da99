//! Reads of the store that are under way, and what they are to bring.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::task::JoinSet;
use wayleave_robots_txt::lifecycle::{Learned, Resource};

use crate::parsing::Parser;
use crate::robots::learning;
use crate::robots::snapshots::Published;
use crate::robots::store::Store;

/// How many reads are under way at a time, and how many entries each brings: few threads, so that what they free can be used
/// again.
const READS: usize = 4;
const ENTRIES: usize = 64;

/// What a read brought of each resource it was for.
pub(super) type Recalled = Vec<(Resource, Option<Learned>)>;

/// What is to be read of the store.
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

    /// Starts as many reads as may be under way.
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

    /// What the next read to end brings; `None` if none is under way. Giving the wait up loses nothing.
    pub(super) async fn next(&mut self) -> Option<Recalled> {
        let ended = self.reading.join_next().await?;
        // A read that fails or panics is the store's to report; it brings nothing.
        Some(ended.unwrap_or_default())
    }
}
