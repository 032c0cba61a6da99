//! The cache of every origin's robots.txt, and of the documents next to it that express preferences on the use of
//! content.
//!
//! A [`RobotsCache`] is a handle. Both kinds of document are a [`Resource`] with the same lifecycle. The current state
//! of each is a [`Snapshot`] behind an atomic pointer in one concurrent map (`snapshots`), so that reads neither lock
//! nor wait. Whatever is missing or too old is requested from one task (`refresh`), which owns all entries, starts at
//! most one fetch per document however many requests wait for it, and publishes the result. The crate `wayleave-lifecycle`
//! decides what becomes of an entry: when it is fresh, stale or unreachable, and when it is fetched again. Entries
//! are also saved in the store on disk, and read from there when a document that was evicted (`eviction`), or known
//! before a restart, is requested again.
//!
//! This crate knows nothing of the requests that need a document, and decides nothing: `wayleave-decision` reads a
//! snapshot. Begin reading at [`RobotsCache`].

mod body;
mod changes;
mod client_copies;
mod dialled_hosts;
mod document_sender;
mod eviction;
mod fetch;
mod fetch_memory;
mod fields;
mod fleet_entries;
mod fleet_lookups;
mod identities;
mod kept_fetches;
mod listing;
mod memory_shares;
mod own_request;
mod parsing;
mod pinned;
mod pinned_archive;
mod queue;
mod record;
mod redirect_targets;
mod refresh;
mod request;
mod requester;
mod snapshots;
mod store;
mod stored_copies;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::task::JoinHandle;
use wayleave_clock::Clock;
use wayleave_decision::CheckedSnapshot;
use wayleave_fairness::WorkPool;
use wayleave_fleet::Fleet;
#[cfg(doc)]
use wayleave_lifecycle::RefreshScheduler;
use wayleave_lifecycle::{
    CacheEntry, FetchIdentity, FinishedFetch, LifetimeSettings, Resource, Snapshot, SnapshotState,
};
use wayleave_robots_txt::Origin;
use wayleave_telemetry::metrics::{Metrics, RobotsLookup};

use changes::CHANGES_CAPACITY;
pub use changes::RobotsChange;
pub use fetch::{DocumentFetcher, FetchConfig, FetchedDocument, HttpFetcher};
use fleet_entries::FleetEntries;
pub use identities::{FetchIdentities, fetch_user_agent};
pub use kept_fetches::KeptFetches;
use listing::EntryLister;
pub use listing::EntryQuery;
pub use memory_shares::MemoryShares;
pub use own_request::{
    Admission, AdmittedOwnRequest, OwnRequest, OwnRequestAnswer, OwnRequestPolicy,
};
pub use pinned::{PinnedFiles, PinnedText};
pub use pinned_archive::archive_pinned;
pub use queue::FetchLimits;
use refresh::{CacheEvent, RefreshServices, RefreshSettings, RefreshTask};
pub use requester::Requester;
use snapshots::SnapshotMap;
pub use store::is_panic_caught;
pub use store::{DocumentVersion, RobotsStore, RobotsStoreConfig, StoreError, VersionChange};
pub use stored_copies::CopyHead;
use stored_copies::StoredCopies;

/// The number of messages to the refresh task that are queued before senders wait.
const EVENT_CAPACITY: usize = 4096;
/// The extra time that a request waits beyond the fetch timeout, so that it learns why the fetch failed.
const WAIT_MARGIN: Duration = Duration::from_secs(1);

/// The configuration of the cache; part of `[robots]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RobotsCacheConfig {
    /// The time that answers may be used.
    pub lifetimes: LifetimeSettings,
    /// The limits on concurrent fetches.
    pub fetch_limits: FetchLimits,
    /// The time that a request waits for robots.txt; also the timeout of a fetch. Default: 10 s.
    pub fetch_timeout: Duration,
    /// The memory limit of entries, in bytes. Default: 256 MiB; the proxy sets their share of `robots.memory`.
    pub memory_bytes: usize,
}

impl Default for RobotsCacheConfig {
    fn default() -> Self {
        Self {
            lifetimes: LifetimeSettings::default(),
            fetch_limits: FetchLimits::default(),
            fetch_timeout: FetchConfig::default().timeout,
            memory_bytes: 256 << 20,
        }
    }
}

impl RobotsCacheConfig {
    fn refresh_settings(&self) -> RefreshSettings {
        RefreshSettings {
            lifetimes: self.lifetimes.clone(),
            fetch_timeout: self.fetch_timeout,
            memory_bytes: self.memory_bytes,
        }
    }
}

/// A document that may be used.
struct UsableDocument {
    document: CheckedSnapshot,
    /// The copy whose fetch is due, if this reader is the first to notice.
    overdue: Option<Resource>,
}

/// A read-only view of the cached documents. Created first, because the policy for own requests needs it.
#[derive(Clone)]
pub struct CachedDocuments {
    published: Arc<SnapshotMap>,
    clock: Clock,
    metrics: Arc<Metrics>,
    /// The pool that parses documents from origins.
    pub parser: WorkPool,
}

impl CachedDocuments {
    /// Returns the memory of a cache that is not started yet.
    pub fn new(clock: Clock, metrics: Arc<Metrics>) -> Self {
        Self { published: Arc::new(SnapshotMap::new()), clock, metrics, parser: WorkPool::new() }
    }

    /// Returns a document if it may be used now for requests of `identity`. Unlike [`RobotsCache::cached`], never causes a
    /// fetch.
    pub fn cached(
        &self,
        resource: impl Into<Resource>,
        identity: &FetchIdentity,
    ) -> Option<CheckedSnapshot> {
        let resource = resource.into();
        let found = self.find_usable(&resource, identity)?;
        if let Some(overdue) = found.overdue {
            // This reader cannot report it to the refresh task, so the next one has to.
            self.published.clear_overdue_report(&overdue);
        }
        Some(found.document)
    }

    /// Returns a document if it may be used now: the pinned text if there is one, else the shared copy if it counts for
    /// `identity`, or else its own.
    fn find_usable(&self, resource: &Resource, identity: &FetchIdentity) -> Option<UsableDocument> {
        if let Some(document) = self.published.pinned().find(resource).cloned() {
            self.metrics.robots_lookup(RobotsLookup::Hit);
            return Some(UsableDocument { document, overdue: None });
        }
        let checked_at = self.clock.now();
        let find = |copy: &Resource| {
            let found = self.published.find_usable(copy, identity, checked_at)?;
            let document =
                CheckedSnapshot { snapshot: found.snapshot, checked_at, is_pinned: false };
            Some(UsableDocument { document, overdue: found.is_overdue.then(|| copy.clone()) })
        };
        // One look nearly always suffices: most requests use the shared copy.
        let found = find(&shared_copy(resource, identity))
            .or_else(|| find(&self.copy_for(resource, identity)))?;
        if resource.is_robots_txt() {
            self.metrics.robots_lookup(RobotsLookup::Hit);
        }
        Some(found)
    }

    /// Returns the copy of a document that requests of `identity` use: its own if the shared one in memory does not count for
    /// it.
    fn copy_for(&self, resource: &Resource, identity: &FetchIdentity) -> Resource {
        let shared = shared_copy(resource, identity);
        match self.published.snapshot(&shared) {
            Some(known) if !known.counts_for(identity) => resource.held_by(&identity.holder()),
            _ => shared.into_owned(),
        }
    }
}

/// Returns the shared copy of a document for requests of `identity`. Where another party chose the host, it is not that of crawlers
/// that ask for the host themselves.
fn shared_copy<'a>(resource: &'a Resource, identity: &FetchIdentity) -> Cow<'a, Resource> {
    match identity.shared_holder() {
        Some(holder) => Cow::Owned(resource.held_by(holder)),
        None => Cow::Borrowed(resource),
    }
}

impl fmt::Debug for CachedDocuments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedDocuments")
            .field("entries", &self.published.len())
            .finish_non_exhaustive()
    }
}

/// A handle to the cache. Cheap to clone; the task behind it ends when the last clone is dropped.
#[derive(Clone)]
pub struct RobotsCache {
    documents: CachedDocuments,
    store: RobotsStore,
    fleet_entries: FleetEntries,
    events: mpsc::Sender<CacheEvent>,
    /// The time that a request waits, in milliseconds.
    wait_timeout_ms: Arc<AtomicU64>,
    lister: Arc<EntryLister>,
    copies: Arc<StoredCopies>,
    changes: broadcast::Sender<RobotsChange>,
}

impl fmt::Debug for RobotsCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RobotsCache").field("documents", &self.documents).finish_non_exhaustive()
    }
}

/// The error of a robots.txt that was not fetched in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("robots.txt has not been fetched in time")]
pub struct FetchPending {
    /// The time until it may be there.
    pub retry_after: Duration,
}

/// Everything known of one document, for operators.
#[derive(Clone, Debug)]
pub struct CacheInspection {
    /// The snapshot in memory, if there is one.
    pub snapshot: Option<Arc<Snapshot>>,
    /// The stored entry: the last answer with its body, and the failures since.
    pub entry: CacheEntry,
    /// All versions, oldest first, the last answer included.
    pub history: Vec<DocumentVersion>,
    /// Whether a fetch is in progress.
    pub is_fetching: bool,
    /// Whether snapshot and entry are of a pinned text; the history is always the origin's.
    pub is_pinned: bool,
}

impl RobotsCache {
    /// Starts the task that keeps the results of `fetch`. It ends after the last handle is dropped, or by
    /// [`close`](Self::close).
    pub fn start<F: DocumentFetcher>(
        fetch: F,
        store: RobotsStore,
        options: &RobotsCacheConfig,
        clock: Clock,
        metrics: Arc<Metrics>,
    ) -> (Self, JoinHandle<()>) {
        let cached = CachedDocuments::new(clock, metrics);
        let (cache, refresh) =
            Self::start_in_fleet(fetch, store, options, cached, Fleet::default());
        (cache, tokio::spawn(refresh))
    }

    /// Does the same as [`start`](Self::start) for a node of `fleet`, and fills `cached`. The caller spawns the task, on
    /// the runtime where fetches are to run.
    pub fn start_in_fleet<F: DocumentFetcher>(
        fetch: F,
        store: RobotsStore,
        options: &RobotsCacheConfig,
        cached: CachedDocuments,
        fleet: Fleet,
    ) -> (Self, impl Future<Output = ()> + Send + use<F>) {
        let CachedDocuments { published, clock, metrics, parser } = cached.clone();
        // The store counts nothing before it knows the lifetimes.
        store.set_lifetimes(options.lifetimes.clone());
        let fleet_entries = FleetEntries { fleet, clock, parser };
        let (events, received) = mpsc::channel(EVENT_CAPACITY);
        let (changes, _) = broadcast::channel(CHANGES_CAPACITY);
        let services = RefreshServices {
            published: published.clone(),
            store: store.clone(),
            clock,
            metrics,
            fleet_entries: fleet_entries.clone(),
            changes: changes.clone(),
        };
        let refresh = RefreshTask::new(
            fetch,
            services,
            received,
            options.refresh_settings(),
            options.fetch_limits,
        );
        let lister = EntryLister::new(published, store.clone(), options.lifetimes.clone());
        let robots = Self {
            documents: cached,
            store,
            fleet_entries,
            events,
            wait_timeout_ms: Arc::default(),
            lister: Arc::new(lister),
            copies: Arc::default(),
            changes,
        };
        robots.set_wait_timeout(options);
        (robots, refresh.run())
    }

    /// Returns a document, such as an origin's robots.txt. Returns at once if the cached copy may be used; otherwise
    /// waits for a fetch, a little longer than one may take at most. While that fetch has to wait in the queue, a copy
    /// that was valid so far is returned. Dropping the future does not cancel a fetch that has begun.
    ///
    /// # Errors
    ///
    /// If the fetch has not ended in time, such as when too many are in progress.
    pub async fn find(
        &self,
        resource: impl Into<Resource>,
    ) -> Result<CheckedSnapshot, FetchPending> {
        self.find_for(resource, Requester::default()).await
    }

    /// Does the same as [`find`](Self::find) for a certain requester. The result of a fetch is shared by all that it counts
    /// for; otherwise the requester gets a copy of its own.
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find).
    pub async fn find_for(
        &self,
        resource: impl Into<Resource>,
        requester: Requester<'_>,
    ) -> Result<CheckedSnapshot, FetchPending> {
        let resource = resource.into();
        if let Some(known) = self.look_up(&resource, &requester.identity) {
            return Ok(known);
        }
        let identity = &requester.identity;
        let mut copy = self.documents.copy_for(&resource, identity);
        let mut fetched = self.request_fetch(&copy, &requester).await?;
        if copy.is_shared() && !fetched.snapshot.counts_for(identity) {
            copy = resource.held_by(&identity.holder());
            fetched = self.request_fetch(&copy, &requester).await?;
        }
        // A fetch in progress that it joined may be for the same crawler with another identity, such as before a reload.
        fetched.snapshot.counts_for(identity).then_some(fetched).ok_or(self.pending())
    }

    async fn request_fetch(
        &self,
        resource: &Resource,
        requester: &Requester<'_>,
    ) -> Result<CheckedSnapshot, FetchPending> {
        let demand = requester.demand(resource);
        let demand = |reply| CacheEvent::Demand(resource.clone(), demand, reply);
        let snapshot = self.call_with_timeout(demand).await?;
        // The time after the wait: at that of the request, the answer would lie in the future and not count as fresh.
        Ok(CheckedSnapshot { snapshot, checked_at: self.clock().now(), is_pinned: false })
    }

    /// Returns the cached copy of a document if it may be used now. Never waits.
    pub fn cached(&self, resource: impl Into<Resource>) -> Option<CheckedSnapshot> {
        self.look_up(&resource.into(), &FetchIdentity::proxy())
    }

    /// Does the same as [`cached`](Self::cached) for requests of `identity`.
    pub fn cached_for(
        &self,
        resource: impl Into<Resource>,
        identity: &FetchIdentity,
    ) -> Option<CheckedSnapshot> {
        self.look_up(&resource.into(), identity)
    }

    fn look_up(&self, resource: &Resource, identity: &FetchIdentity) -> Option<CheckedSnapshot> {
        let found = self.documents.find_usable(resource, identity)?;
        if let Some(overdue) = found.overdue {
            // A full channel must not delay a request: the next reader reports it again.
            if self.events.try_send(CacheEvent::Overdue(overdue.clone())).is_err() {
                self.documents.published.clear_overdue_report(&overdue);
            }
        }
        Some(found.document)
    }

    /// Runs `decide` for a request of `identity`, and counts the memory that it adds to the rules of `origin`, mostly indexes.
    pub fn with_recount<T>(
        &self,
        origin: &Origin,
        identity: &FetchIdentity,
        known: &CheckedSnapshot,
        decide: impl FnOnce() -> T,
    ) -> T {
        let before = known.snapshot.heap_bytes();
        let decided = decide();
        let has_grown = known.snapshot.heap_bytes() > before;
        let copy = || self.documents.copy_for(&origin.into(), identity);
        if has_grown && self.documents.published.recount(&copy()) {
            // If the channel is full, one of the messages in it leads to the same check.
            let _ = self.events.try_send(CacheEvent::MemoryGrew);
        }
        decided
    }

    /// Returns whether these robots.txt files count instead of those that origins serve. Every decision asks.
    pub fn serves(&self, files: &Arc<PinnedFiles>) -> bool {
        Arc::ptr_eq(files, &self.documents.published.pinned())
    }

    /// Returns the robots.txt files that count instead of those that origins serve.
    pub fn pinned(&self) -> Arc<PinnedFiles> {
        Arc::clone(&self.documents.published.pinned())
    }

    /// Replaces these files. Requests that are decided from now on read the new ones.
    pub fn set_pinned(&self, files: Arc<PinnedFiles>) {
        self.documents.published.set_pinned(files);
    }

    /// Returns the pinned robots.txt of an origin as clients get it, if it has this SHA-256.
    pub fn pinned_copy(
        &self,
        origin: &Origin,
        sha256: &[u8; 32],
    ) -> Option<(Arc<CopyHead>, Arc<FinishedFetch>)> {
        self.documents.published.pinned().copy(origin, sha256)
    }

    /// Fetches a document now, and returns the result. A pinned robots.txt is not fetched.
    ///
    /// # Errors
    ///
    /// If the fetch has not ended in time. It continues.
    pub async fn refresh(
        &self,
        resource: impl Into<Resource>,
    ) -> Result<Arc<Snapshot>, FetchPending> {
        let resource = resource.into();
        if let Some(known) = self.documents.published.pinned().find(&resource) {
            return Ok(Arc::clone(&known.snapshot));
        }
        self.call_with_timeout(|reply| CacheEvent::Refresh(resource, reply)).await
    }

    /// Forgets a document, in memory and in the store. Returns whether there was anything. Its history is kept.
    pub async fn forget(&self, resource: impl Into<Resource>) -> bool {
        let resource = resource.into();
        let was_stored = self.store.load(&resource).await.is_some();
        // Before the local entry: a node that fetches it from now on shares the result with all.
        self.fleet_entries.forget(&resource).await;
        let forget = |reply| CacheEvent::Forget(resource, reply);
        let was_in_memory = self.call(forget).await.unwrap_or(false);
        was_stored || was_in_memory
    }

    /// Returns the other stored documents of an origin, own copies of its robots.txt included, in the order of their text.
    pub async fn related_documents(&self, origin: &Origin) -> Vec<Resource> {
        self.store.related_documents(origin).await
    }

    /// Returns everything known of a document, in memory and in the store. Does not count as a use.
    pub async fn inspect(&self, resource: impl Into<Resource>) -> Option<CacheInspection> {
        let resource = resource.into();
        let pinned = self.pinned();
        if let Some((known, answer)) = pinned.find(&resource).zip(pinned.answer(resource.origin()))
        {
            return Some(CacheInspection {
                snapshot: Some(Arc::clone(&known.snapshot)),
                entry: CacheEntry::default().after_fetch(FinishedFetch::clone(answer)),
                history: self.store.history(&resource).await,
                is_fetching: false,
                is_pinned: true,
            });
        }
        let snapshot = self.documents.published.snapshot(&resource);
        let entry = self.store.load(&resource).await;
        if snapshot.is_none() && entry.is_none() {
            return None;
        }
        let history = self.store.history(&resource).await;
        Some(CacheInspection {
            snapshot,
            entry: entry.unwrap_or_default(),
            history,
            is_fetching: self
                .call(|reply| CacheEvent::IsFetching(resource, reply))
                .await
                .unwrap_or(false),
            is_pinned: false,
        })
    }

    /// Returns the known origins that match `query`, in the order of their text, with their snapshots; without the
    /// rules of those that are only on disk. May read all entries. Pinned ones are in no state. Blocks.
    pub fn list(&self, query: &EntryQuery) -> Vec<(Origin, Arc<Snapshot>)> {
        self.lister.list(query, self.clock().now())
    }

    /// Counts the stored entries in each state, in the order of [`SnapshotState::ALL`]; if the store has failed or has not
    /// counted them yet, the entries in memory. Takes the same time however many are stored. Blocks.
    pub fn count_by_state(&self) -> [(SnapshotState, usize); 4] {
        self.lister.count_by_state(self.clock().now())
    }

    /// Updates the metrics about entries, as [`count_by_state`](Self::count_by_state) does. Blocks.
    pub fn update_metrics(&self) {
        for (state, count) in self.count_by_state() {
            self.documents.metrics.robots_entries(state.as_str(), count);
        }
        let pinned = self.documents.published.pinned().len();
        self.documents.metrics.robots_entries("pinned", pinned);
        self.documents.metrics.robots_cache_bytes(self.memory_bytes());
    }

    /// Returns the size of all entries in memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.documents.published.bytes()
    }

    /// Applies another configuration, except for its limits on fetches. Existing entries are used no longer than it
    /// says; see [`RefreshScheduler::change_lifetimes`].
    pub async fn reconfigure(&self, options: &RobotsCacheConfig) {
        self.set_wait_timeout(options);
        if self.lister.lifetimes() != options.lifetimes {
            self.lister.set_lifetimes(options.lifetimes.clone());
            // Counting waits for the running transaction, and that for the disk.
            let store = self.store.clone();
            let lifetimes = options.lifetimes.clone();
            // It is cancelled only when the process ends.
            let _ = tokio::task::spawn_blocking(move || store.set_lifetimes(lifetimes)).await;
        }
        let settings = options.refresh_settings();
        let reconfigure = |reply| CacheEvent::Reconfigure(settings, reply);
        // If the task has ended, there are no entries left to apply it to.
        let _ = self.call(reconfigure).await;
    }

    /// Returns the settings in effect, of this handle and of the task.
    #[cfg(any(test, feature = "test-util"))]
    pub async fn settings_in_effect(&self) -> impl fmt::Debug + PartialEq + use<> {
        let settings = self.call(CacheEvent::Settings).await;
        (settings, self.pending(), self.lister.lifetimes(), self.store.memory())
    }

    fn set_wait_timeout(&self, options: &RobotsCacheConfig) {
        let millis = u64::try_from((options.fetch_timeout + WAIT_MARGIN).as_millis());
        self.wait_timeout_ms.store(millis.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Returns the fleet that entries are shared with.
    pub fn fleet(&self) -> &Fleet {
        &self.fleet_entries.fleet
    }

    /// Returns the parser for documents from origins.
    pub fn parser(&self) -> &WorkPool {
        &self.documents.parser
    }

    /// Returns the changes of robots.txt files from now on.
    pub fn changes(&self) -> broadcast::Receiver<RobotsChange> {
        self.changes.subscribe()
    }

    /// Returns the store of entries.
    pub fn store(&self) -> &RobotsStore {
        &self.store
    }

    /// Returns the stored robots.txt for requests of `identity` with the body of this SHA-256 that was received or confirmed at
    /// `fetched_at`, or later; `None` if there is no such answer, or if too much is being sent already.
    pub async fn stored_copy(
        &self,
        origin: &Origin,
        identity: &FetchIdentity,
        sha256: &[u8; 32],
        fetched_at: SystemTime,
    ) -> Option<Arc<FinishedFetch>> {
        let copy = self.documents.copy_for(&origin.into(), identity);
        self.copies.find(&self.store, copy, sha256, fetched_at).await
    }

    /// Returns the head of that robots.txt, if it is in memory.
    pub fn stored_head(
        &self,
        origin: &Origin,
        identity: &FetchIdentity,
        sha256: &[u8; 32],
        fetched_at: SystemTime,
    ) -> Option<Arc<CopyHead>> {
        let copy = self.documents.copy_for(&origin.into(), identity);
        self.copies.head(&copy, sha256, fetched_at)
    }

    /// Returns the clock by which snapshots are judged.
    pub fn clock(&self) -> Clock {
        self.documents.clock
    }

    /// Ends all fetches. From then on the task answers nothing but [`close`](Self::close).
    pub async fn stop_fetching(&self) {
        // Nothing is fetched either if the task has ended already.
        let _ = self.call(CacheEvent::StopFetching).await;
    }

    /// Saves everything on disk and ends the task. Nothing new is learned afterwards.
    pub async fn close(&self) {
        self.stop_fetching().await;
        // If the task has ended already, the store saves the rest when it is dropped.
        let _ = self.call(CacheEvent::Close).await;
    }

    async fn call_with_timeout(
        &self,
        event: impl FnOnce(oneshot::Sender<Arc<Snapshot>>) -> CacheEvent,
    ) -> Result<Arc<Snapshot>, FetchPending> {
        let pending = self.pending();
        let reply = tokio::time::timeout(pending.retry_after, self.call(event)).await;
        reply.ok().flatten().ok_or(pending)
    }

    fn pending(&self) -> FetchPending {
        FetchPending {
            retry_after: Duration::from_millis(self.wait_timeout_ms.load(Ordering::Relaxed)),
        }
    }

    /// Sends a message to the refresh task and returns its reply; `None` if the task has ended.
    fn call<T>(
        &self,
        event: impl FnOnce(oneshot::Sender<T>) -> CacheEvent,
    ) -> impl Future<Output = Option<T>> {
        let (sender, reply) = oneshot::channel();
        let event = event(sender);
        async move {
            self.events.send(event).await.ok()?;
            reply.await.ok()
        }
    }
}
