//! The cache of every origin's robots.txt, and of the documents next to it that express preferences on the use of
//! content.
//!
//! A [`RobotsCache`] is a handle. Both kinds of document are a [`Resource`] with the same lifecycle. The current
//! state of each
//! is a [`Snapshot`] behind an atomic pointer in one concurrent map (`snapshots`), so that reads neither lock nor
//! wait. Whatever
//! is missing or too old is requested from one task (`refresh`), which owns the lifecycle of all entries, starts at
//! most one
//! fetch per document however many requests wait for it, and publishes the result. Entries are also saved in the
//! store on
//! disk, and read from there when a document that was evicted (`eviction`), or known before a restart, is requested
//! again.

mod behalf;
mod body;
mod eviction;
mod fetch;
mod fields;
mod fleet_lookup;
mod known;
mod learning;
mod queue;
mod record;
mod redirect;
mod refetch_as;
mod refresh;
mod request;
mod room;
mod shared;
mod shares;
mod snapshots;
mod store;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
#[cfg(doc)]
use wayleave_robots_txt::lifecycle::Cache;
use wayleave_robots_txt::lifecycle::{Entry, Lifetimes, Resource, Snapshot, State};
use wayleave_robots_txt::{AccessResult, Document, Origin};

use crate::clock::Clock;
use crate::fleet::Fleet;
use crate::observe::metrics::{Lookup, Metrics};
use crate::parsing::Parser;
pub use behalf::Behalf;
pub use fetch::{Fetch, FetchAs, FetchOptions, Fetched, HttpFetch};
pub use known::Listing;
use known::{OnDisk, Places};
pub use queue::FetchBounds;
pub(crate) use redirect::{Asking, ChosenBy, Gate, Redirect};
use refresh::{Event, Refresh, Surroundings, Terms};
use shared::Shared;
pub(crate) use shares::Shares;
use snapshots::Published;
pub(crate) use store::is_caught;
pub use store::{Store, StoreError, StoreOptions, Version};

/// The number of messages to the refresh task that are queued before senders wait.
const EVENTS: usize = 4096;
/// The extra time that a request waits beyond the fetch timeout, so that it learns why the fetch failed.
const PATIENCE: Duration = Duration::from_secs(1);

/// The configuration of the cache; part of `[robots]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The time that answers may be used.
    pub lifetimes: Lifetimes,
    /// The limits on concurrent fetches.
    pub bounds: FetchBounds,
    /// The time that a request waits for robots.txt; also the timeout of a fetch. Default: 10 s.
    pub fetch_timeout: Duration,
    /// The memory limit of entries, in bytes. Default: 256 MiB; the proxy sets their share of `robots.memory`.
    pub memory: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            lifetimes: Lifetimes::default(),
            bounds: FetchBounds::default(),
            fetch_timeout: FetchOptions::default().timeout,
            memory: 256 << 20,
        }
    }
}

impl Options {
    fn terms(&self) -> Terms {
        Terms {
            lifetimes: self.lifetimes.clone(),
            fetch_timeout: self.fetch_timeout,
            memory_bytes: self.memory,
        }
    }
}

/// A handle to the cache. Cheap to clone; the task behind it ends when the last clone is dropped.
#[derive(Clone)]
pub struct Robots {
    published: Arc<Published>,
    store: Store,
    clock: Clock,
    metrics: Arc<Metrics>,
    shared: Shared,
    events: mpsc::Sender<Event>,
    /// In milliseconds.
    patience: Arc<AtomicU64>,
    on_disk: Arc<OnDisk>,
}

impl fmt::Debug for Robots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Robots")
            .field("entries", &self.published.len())
            .finish_non_exhaustive()
    }
}

/// A cached document, and the moment at which it was found usable.
#[derive(Clone, Debug)]
pub struct Known {
    /// The state of the document.
    pub snapshot: Arc<Snapshot>,
    /// The moment of the check.
    pub at: SystemTime,
}

impl Known {
    /// Returns the rules of robots.txt at that moment.
    pub fn access(&self) -> &AccessResult {
        self.snapshot.access(self.at)
    }

    /// Returns the document next to robots.txt at that moment, if there is one.
    pub fn document(&self) -> Option<&Arc<Document>> {
        self.snapshot.document(self.at)
    }
}

/// The error of a robots.txt that was not fetched in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The time until it may be there.
    pub retry_after: Duration,
}

impl fmt::Display for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("robots.txt has not been fetched in time")
    }
}

impl std::error::Error for Pending {}

/// Everything known of one document, for operators.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// The snapshot in memory, if there is one.
    pub snapshot: Option<Arc<Snapshot>>,
    /// The stored entry: the last answer with its body, and the failures since.
    pub entry: Entry,
    /// All versions, oldest first, the last answer included.
    pub history: Vec<Version>,
    /// Whether a fetch is in progress.
    pub is_fetching: bool,
}

impl Robots {
    /// Starts the task that keeps what `fetch` returns. It ends after the last handle is dropped, or by
    /// [`close`](Self::close).
    pub fn start<F: Fetch>(
        fetch: F,
        store: Store,
        options: &Options,
        clock: Clock,
        metrics: Arc<Metrics>,
    ) -> (Self, JoinHandle<()>) {
        let around = (clock, metrics, Fleet::default());
        Self::start_in(fetch, store, options, around)
    }

    /// As [`start`](Self::start), for a node of a fleet.
    pub fn start_in<F: Fetch>(
        fetch: F,
        store: Store,
        options: &Options,
        (clock, metrics, fleet): (Clock, Arc<Metrics>, Fleet),
    ) -> (Self, JoinHandle<()>) {
        store.count_by(options.lifetimes.clone());
        let shared = Shared {
            fleet,
            clock,
            parser: Parser::new(),
        };
        let published = Arc::new(Published::new());
        let (events, heard) = mpsc::channel(EVENTS);
        let around = Surroundings {
            published: published.clone(),
            store: store.clone(),
            clock,
            metrics: metrics.clone(),
            shared: shared.clone(),
        };
        let refresh = Refresh::new(fetch, around, heard, options.terms(), options.bounds);
        let robots = Self {
            published,
            store,
            clock,
            metrics,
            shared,
            events,
            patience: Arc::default(),
            on_disk: Arc::new(OnDisk::new(options.lifetimes.clone())),
        };
        robots.set_patience(options);
        (robots, tokio::spawn(refresh.run()))
    }

    /// Returns a document, such as an origin's robots.txt. Returns at once if the cached copy may be used; otherwise
    /// waits for a
    /// fetch, a little longer than one may take at most. While that fetch has to wait in the queue, a copy that was
    /// valid so far
    /// is returned. Dropping the future does not cancel a fetch that has begun.
    ///
    /// # Errors
    ///
    /// If the fetch has not ended in time, such as when too many are in progress.
    pub async fn find(&self, resource: impl Into<Resource>) -> Result<Known, Pending> {
        self.find_for(resource, Behalf::default()).await
    }

    /// As [`find`](Self::find), for a certain requester. The result of a fetch is shared by all.
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find).
    pub async fn find_for(
        &self,
        resource: impl Into<Resource>,
        behalf: Behalf<'_>,
    ) -> Result<Known, Pending> {
        let resource = resource.into();
        if let Some(known) = self.look_up(&resource, Some(behalf)) {
            return Ok(known);
        }
        let mut brought = self.ask_for(&resource, behalf).await?;
        if !behalf.may_go_by(&brought.snapshot) {
            // The answer came from an unsigned fetch that was in progress already.
            brought = self.ask_for(&resource, behalf).await?;
        }
        if behalf.may_go_by(&brought.snapshot) {
            Ok(brought)
        } else {
            Err(self.pending())
        }
    }

    async fn ask_for(&self, resource: &Resource, behalf: Behalf<'_>) -> Result<Known, Pending> {
        let wanted = |reply| Event::Wanted(resource.clone(), behalf.wish(), reply);
        let snapshot = behalf.told(self.ask_in_time(wanted).await?);
        let at = self.clock.now();
        Ok(Known { snapshot, at })
    }

    /// Returns the cached copy of a document if it may be used now. Never waits.
    pub fn at_hand(&self, resource: impl Into<Resource>) -> Option<Known> {
        self.look_up(&resource.into(), None)
    }

    /// As [`cached`](Self::cached), for a certain requester.
    pub fn at_hand_for(&self, resource: impl Into<Resource>, behalf: Behalf<'_>) -> Option<Known> {
        self.look_up(&resource.into(), Some(behalf))
    }

    fn look_up(&self, resource: &Resource, behalf: Option<Behalf<'_>>) -> Option<Known> {
        let at = self.clock.now();
        let signs = behalf.is_some_and(|behalf| behalf.signed_by.is_some());
        let found = self.published.at_hand(resource, signs, at)?;
        if found.is_overdue {
            let fetch_as = behalf.map(Behalf::fetch_as);
            let overdue = Event::Overdue(resource.clone(), fetch_as);
            // A full channel must not delay a request: the next reader reports it again.
            if self.events.try_send(overdue).is_err() {
                self.published.unreport(resource);
            }
        }
        if resource.is_robots_txt() {
            self.metrics.robots_lookup(Lookup::Hit);
        }
        let snapshot = found.snapshot;
        Some(Known { snapshot, at })
    }

    /// Runs `decide`, and counts the memory that it adds to the rules of `origin`, above all indexes.
    pub fn counting<T>(&self, origin: &Origin, known: &Known, decide: impl FnOnce() -> T) -> T {
        let before = known.snapshot.heap_bytes();
        let decided = decide();
        if known.snapshot.heap_bytes() > before && self.published.recount(&origin.into()) {
            // If the channel is full, one of the messages in it leads to the same check.
            let _ = self.events.try_send(Event::Grown);
        }
        decided
    }

    /// Fetches a document now, and returns the result.
    ///
    /// # Errors
    ///
    /// If the fetch has not ended in time. It continues.
    pub async fn refresh(&self, resource: impl Into<Resource>) -> Result<Arc<Snapshot>, Pending> {
        let resource = resource.into();
        let refresh = |reply| Event::Refresh(resource, reply);
        self.ask_in_time(refresh).await
    }

    /// Forgets a document, in memory and in the store. Returns whether there was anything. Its history is kept.
    pub async fn forget(&self, resource: impl Into<Resource>) -> bool {
        let resource = resource.into();
        let was_kept = self.store.load(&resource).await.is_some();
        // Before the local entry: a node that fetches it from now on shares the result with all.
        self.shared.forget(&resource).await;
        let forget = |reply| Event::Forget(resource, reply);
        let was_at_hand = self.ask(forget).await.unwrap_or(false);
        was_kept || was_at_hand
    }

    /// Returns the stored documents next to an origin's robots.txt, in the order of their URLs.
    pub async fn beside(&self, origin: &Origin) -> Vec<Resource> {
        self.store.beside(origin).await
    }

    /// Returns everything known of a document, in memory and in the store. Does not count as a use.
    pub async fn inspect(&self, resource: impl Into<Resource>) -> Option<Inspection> {
        let resource = resource.into();
        let snapshot = self.published.snapshot(&resource);
        let entry = self.store.load(&resource).await;
        if snapshot.is_none() && entry.is_none() {
            return None;
        }
        let history = self.store.history(&resource).await;
        let is_fetching = |reply| Event::IsFetching(resource, reply);
        Some(Inspection {
            snapshot,
            entry: entry.unwrap_or_default(),
            history,
            is_fetching: self.ask(is_fetching).await.unwrap_or(false),
        })
    }

    /// Returns the known origins that match `listing`, in the order of their text, with their snapshots; without the
    /// rules of
    /// those that are only on disk. May read all entries. Blocks.
    pub fn list(&self, listing: &Listing) -> Vec<(Origin, Arc<Snapshot>)> {
        self.places().list(listing, self.clock.now())
    }

    /// Counts the stored entries in each state, in the order of [`State::ALL`]; if the store has failed or has not
    /// counted
    /// them yet, the entries in memory. Takes the same time however many are stored. Blocks.
    pub fn count(&self) -> [(State, usize); 4] {
        self.places().count(self.clock.now())
    }

    fn places(&self) -> Places<'_> {
        Places {
            published: &self.published,
            store: &self.store,
            on_disk: &self.on_disk,
        }
    }

    /// Updates the metrics about entries, as [`count_by_state`](Self::count_by_state) does. Blocks.
    pub fn observe(&self) {
        for (state, count) in self.count() {
            self.metrics.robots_entries(state.as_str(), count);
        }
        self.metrics.robots_cache_bytes(self.memory_bytes());
    }

    /// Returns the size of all entries in memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.published.bytes()
    }

    /// Applies another configuration, except for its limits on fetches. Existing entries are used no longer than it
    /// says; see
    /// [`Cache::change_lifetimes`]. If crawlers have changed, identities recorded for refetches are dropped.
    pub async fn reconfigure(&self, options: &Options, are_crawlers_others: bool) {
        self.set_patience(options);
        if self.on_disk.lifetimes() != options.lifetimes {
            self.on_disk.change_lifetimes(options.lifetimes.clone());
            // Counting waits for the running transaction, and that for the disk.
            let (store, lifetimes) = (self.store.clone(), options.lifetimes.clone());
            // It is cancelled only when the process ends.
            let _ = tokio::task::spawn_blocking(move || store.count_by(lifetimes)).await;
        }
        let reconfigure = |reply| Event::Reconfigure(options.terms(), are_crawlers_others, reply);
        // If the task has ended, there are no entries left to apply it to.
        let _ = self.ask(reconfigure).await;
    }

    /// Returns the settings in effect, of this handle and of the task.
    #[cfg(test)]
    pub(crate) async fn in_use(&self) -> impl fmt::Debug + PartialEq + use<> {
        let terms = self.ask(Event::Terms).await;
        (
            terms,
            self.pending(),
            self.on_disk.lifetimes(),
            self.store.memory(),
        )
    }

    fn set_patience(&self, options: &Options) {
        let patience = (options.fetch_timeout + PATIENCE).as_millis();
        let patience = u64::try_from(patience).unwrap_or(u64::MAX);
        self.patience.store(patience, Ordering::Relaxed);
    }

    /// Returns the fleet that entries are shared with.
    pub fn fleet(&self) -> &Fleet {
        &self.shared.fleet
    }

    /// Returns the parser for documents from origins.
    pub(crate) fn parser(&self) -> &Parser {
        &self.shared.parser
    }

    /// Returns the store of entries.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the clock by which snapshots are judged.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Saves everything on disk and ends the task. Nothing new is learned afterwards.
    pub async fn close(&self) {
        // If the task has ended already, the store saves the rest when it is dropped.
        let _ = self.ask(Event::Close).await;
    }

    async fn ask_in_time(
        &self,
        event: impl FnOnce(oneshot::Sender<Arc<Snapshot>>) -> Event,
    ) -> Result<Arc<Snapshot>, Pending> {
        let pending = self.pending();
        let answer = tokio::time::timeout(pending.retry_after, self.ask(event)).await;
        answer.ok().flatten().ok_or(pending)
    }

    fn pending(&self) -> Pending {
        Pending {
            retry_after: Duration::from_millis(self.patience.load(Ordering::Relaxed)),
        }
    }

    /// Sends a message to the refresh task and returns its reply; `None` if the task has ended.
    fn ask<T>(
        &self,
        event: impl FnOnce(oneshot::Sender<T>) -> Event,
    ) -> impl Future<Output = Option<T>> {
        let (reply, answer) = oneshot::channel();
        let event = event(reply);
        async move {
            self.events.send(event).await.ok()?;
            answer.await.ok()
        }
    }
}
