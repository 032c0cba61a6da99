//! The cache of every origin's robots.txt, and of the documents beside it that speak of the use of content.
//!
//! A [`Robots`] is a handle. Both kinds are a [`Resource`], and have one lifecycle. What is known of one is a [`Snapshot`] behind an atomic pointer in one concurrent
//! map (`snapshots`): reading it takes no lock and waits for nobody. What is not known, or too old to go by, is asked
//! for: one task (`refresh`) owns the lifecycle of all entries, starts at most one fetch per origin however many wait
//! for it, and publishes what it brings. Facts go to the store on disk and come back from there when an origin that was
//! let go of (`eviction`), or known before a restart, is wanted again.

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

/// How many messages may lie before the refresh task until senders wait.
const EVENTS: usize = 4096;
/// Those who wait stay this much longer than a fetch may take, to hear of its failure.
const PATIENCE: Duration = Duration::from_secs(1);

/// How robots.txt files are kept; part of `[robots]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How long answers serve.
    pub lifetimes: Lifetimes,
    /// How many fetches may be under way.
    pub bounds: FetchBounds,
    /// How long a request waits for robots.txt; the fetcher's own timeout. Default: 10 s.
    pub fetch_timeout: Duration,
    /// What entries may hold in memory, in bytes. Default: 256 MiB; the proxy gives them their share of `robots.memory`.
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

/// Keeps robots.txt at hand. Cheap to clone; the task behind it ends when the last clone is gone.
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

/// What is known of an origin, and the moment for which that was found good enough to go by.
#[derive(Clone, Debug)]
pub struct Known {
    /// What is known.
    pub snapshot: Arc<Snapshot>,
    /// The moment.
    pub at: SystemTime,
}

impl Known {
    /// What the origin's robots.txt says at that moment.
    pub fn access(&self) -> &AccessResult {
        self.snapshot.access(self.at)
    }

    /// What a document beside robots.txt says at that moment, if there is one.
    pub fn document(&self) -> Option<&Arc<Document>> {
        self.snapshot.document(self.at)
    }
}

/// Robots.txt did not come in time: nothing is known to go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// When it may be known.
    pub retry_after: Duration,
}

impl fmt::Display for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("robots.txt has not been fetched in time")
    }
}

impl std::error::Error for Pending {}

/// Everything that is known of one resource, for operators.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// What is gone by, if it is in memory.
    pub snapshot: Option<Arc<Snapshot>>,
    /// What that follows from: the last answer with its body, the failures since.
    pub entry: Entry,
    /// What it said before, oldest first, the last answer included.
    pub history: Vec<Version>,
    /// Whether a fetch is in progress.
    pub is_fetching: bool,
}

impl Robots {
    /// Starts to keep what `fetch` brings. The task that does it ends after the last handle, or when told to
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

    /// As [`start`](Self::start), in a fleet.
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

    /// What is known of a resource, such as an origin's robots.txt. Returns at once if that may be gone by; otherwise waits until it has been
    /// fetched, at most a little longer than one fetch may take. While the fetch waits for its turn, a copy that was good so
    /// far serves. Leaving early does not end a fetch that has begun.
    ///
    /// # Errors
    ///
    /// If the fetch has not ended in time, as when too many are under way.
    pub async fn find(&self, resource: impl Into<Resource>) -> Result<Known, Pending> {
        self.find_for(resource, Behalf::default()).await
    }

    /// As [`find`](Self::find), on somebody's behalf; what a fetch brings is for all.
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
            // It came of a fetch without a signature that was under way already.
            brought = self.ask_for(&resource, behalf).await?;
        }
        match behalf.may_go_by(&brought.snapshot) {
            true => Ok(brought),
            false => Err(self.pending()),
        }
    }

    async fn ask_for(&self, resource: &Resource, behalf: Behalf<'_>) -> Result<Known, Pending> {
        let wanted = |reply| Event::Wanted(resource.clone(), behalf.wish(), reply);
        let snapshot = behalf.told(self.ask_in_time(wanted).await?);
        let at = self.clock.now();
        Ok(Known { snapshot, at })
    }

    /// What is known of a resource, such as an origin's robots.txt, if that may be gone by now. Never waits.
    pub fn at_hand(&self, resource: impl Into<Resource>) -> Option<Known> {
        self.look_up(&resource.into(), None)
    }

    /// As [`at_hand`](Self::at_hand), on somebody's behalf.
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

    /// Decides by what is `known` of `origin`. What that adds to the file, indexes above all, counts for the memory's bound.
    pub fn counting<T>(&self, origin: &Origin, known: &Known, decide: impl FnOnce() -> T) -> T {
        let before = known.snapshot.heap_bytes();
        let decided = decide();
        if known.snapshot.heap_bytes() > before && self.published.recount(&origin.into()) {
            // If too many events wait, one of them brings the memory in order.
            let _ = self.events.try_send(Event::Grown);
        }
        decided
    }

    /// Fetches a resource anew and returns what is known then.
    ///
    /// # Errors
    ///
    /// If the fetch has not ended in time. It goes on.
    pub async fn refresh(&self, resource: impl Into<Resource>) -> Result<Arc<Snapshot>, Pending> {
        let resource = resource.into();
        let refresh = |reply| Event::Refresh(resource, reply);
        self.ask_in_time(refresh).await
    }

    /// Forgets what is known of a resource, in memory and in the store; whether there was anything. What it said before
    /// stays in its history.
    pub async fn forget(&self, resource: impl Into<Resource>) -> bool {
        let resource = resource.into();
        let was_kept = self.store.load(&resource).await.is_some();
        // First: whoever fetches it then does so for all.
        self.shared.forget(&resource).await;
        let forget = |reply| Event::Forget(resource, reply);
        let was_at_hand = self.ask(forget).await.unwrap_or(false);
        was_kept || was_at_hand
    }

    /// The documents beside an origin's robots.txt that are kept, in the order of their URLs.
    pub async fn beside(&self, origin: &Origin) -> Vec<Resource> {
        self.store.beside(origin).await
    }

    /// Everything that is known of a resource, in memory and in the store. Does not count as a use.
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

    /// The known origins that `listing` asks for, in the order of their text, with what is known of them; the rules of those
    /// that are on disk only are left out. May look at all entries. Blocks.
    pub fn list(&self, listing: &Listing) -> Vec<(Origin, Arc<Snapshot>)> {
        self.places().list(listing, self.clock.now())
    }

    /// How many entries that the store keeps are in each state, in the order of [`State::ALL`]; while it fails, or has not counted
    /// them yet, how many in memory are. Takes as long however many the store keeps. Blocks.
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

    /// Brings what the metrics say of entries up to date, as [`count`](Self::count) does. Blocks.
    pub fn observe(&self) {
        for (state, count) in self.count() {
            self.metrics.robots_entries(state.as_str(), count);
        }
        self.metrics.robots_cache_bytes(self.memory_bytes());
    }

    /// What the entries in memory cost, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.published.bytes()
    }

    /// Goes by other options from now on, but for their bounds of fetches under way. What is known holds at most as long as
    /// they say; see [`Cache::change_lifetimes`]. If crawlers are others, no more fetches are made as those that were.
    pub async fn reconfigure(&self, options: &Options, are_crawlers_others: bool) {
        self.set_patience(options);
        if self.on_disk.lifetimes() != options.lifetimes {
            self.on_disk.change_lifetimes(options.lifetimes.clone());
            let (store, lifetimes) = (self.store.clone(), options.lifetimes.clone());
            // Cancelled only when the process ends.
            let _ = tokio::task::spawn_blocking(move || store.count_by(lifetimes)).await;
        }
        let reconfigure = |reply| Event::Reconfigure(options.terms(), are_crawlers_others, reply);
        // If the task has ended, there is nothing left to keep by them.
        let _ = self.ask(reconfigure).await;
    }

    /// What the handle and the task behind it go by.
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

    /// Who they are shared with.
    pub fn fleet(&self) -> &Fleet {
        &self.shared.fleet
    }

    /// Parses what origins send.
    pub(crate) fn parser(&self) -> &Parser {
        &self.shared.parser
    }

    /// Where facts are kept.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// What the handle's clock shows: the time to judge snapshots by.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Ends the task, once what was learned is on disk. From then on nothing new is learned.
    pub async fn close(&self) {
        // If the task has ended already, the store writes what is left when it is dropped.
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

    /// The refresh task's answer; `None` if it has ended.
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
