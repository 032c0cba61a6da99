//! The one task that owns the cache. It receives demands for documents, reads them from the store or starts fetches,
//! and publishes the results. What a result means, and when to fetch again, is decided by [`RefreshScheduler`].

mod event;
mod fetches;
mod fleet_events;
mod services;
mod store_reads;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, oneshot};
use wayleave_fleet as fleet;
use wayleave_lifecycle::{
    CacheEntry, ChosenBy, FetchIdentity, FetchOutcome, FinishedFetch, LifetimeSettings,
    ParsedEntry, RefreshScheduler, Resource, Snapshot, SnapshotState, Usability,
};
use wayleave_robots_txt::AccessResult;
use wayleave_telemetry::metrics::RobotsLookup;

pub(super) use self::event::{CacheEvent, FetchDemand};
use self::fetches::{FetchTasks, LearnedEntry};
pub(super) use self::services::{RefreshServices, RefreshSettings};
use self::store_reads::StoreReads;
use super::changes::RobotsChange;
use super::client_copies::ClientCopies;
use super::eviction::EvictionOrder;
use super::fetch::DocumentFetcher;
use super::fleet_entries::{FetchLease, FetchPurpose};
use super::fleet_lookups::FleetLookups;
use super::queue::{FairnessKey, FetchJob, FetchLimits, FetchQueue, NextFetch};

/// The longest sleep between searches for due entries: the system clock may be set meanwhile.
const MAX_SLEEP: Duration = Duration::from_secs(60);

/// The state of the task.
pub(super) struct RefreshTask<F> {
    scheduler: RefreshScheduler,
    queue: FetchQueue,
    eviction: EvictionOrder,
    services: RefreshServices,
    events: mpsc::Receiver<CacheEvent>,
    store_reads: StoreReads,
    fetches: FetchTasks<F>,
    fetch_timeout: Duration,
    fleet_events: mpsc::UnboundedReceiver<fleet::FleetEvent>,
    fleet_lookups: FleetLookups,
    waiting: HashMap<Resource, Vec<oneshot::Sender<Arc<Snapshot>>>>,
    /// Documents that are read or fetched for an operator, even if the cached copy may be used.
    forced: HashSet<Resource>,
    /// Documents that are being read from the store, and who waits for them.
    demands: HashMap<Resource, GatheredDemand>,
    client_copies: ClientCopies,
    /// Documents that joined the queue in this iteration, or were found in it.
    newly_queued: Vec<Resource>,
}

/// The requesters of a document that is being read from the store, and the identity of the first.
#[derive(Default)]
struct GatheredDemand {
    keys: HashSet<FairnessKey>,
    requested_as: Option<Arc<FetchIdentity>>,
    via: Option<Arc<[u8]>>,
}

impl<F: DocumentFetcher> RefreshTask<F> {
    pub(super) fn new(
        fetch: F,
        services: RefreshServices,
        events: mpsc::Receiver<CacheEvent>,
        settings: RefreshSettings,
        bounds: FetchLimits,
    ) -> Self {
        let fleet_events = services.fleet_entries.fleet.subscribe();
        Self {
            scheduler: RefreshScheduler::new(settings.lifetimes),
            queue: FetchQueue::new(bounds),
            eviction: EvictionOrder::new(settings.memory_bytes),
            store_reads: StoreReads::new(
                services.store.clone(),
                services.published.clone(),
                services.fleet_entries.parser.clone(),
            ),
            fetches: FetchTasks::new(fetch, &services),
            services,
            events,
            fetch_timeout: settings.fetch_timeout,
            fleet_events,
            fleet_lookups: FleetLookups::default(),
            waiting: HashMap::new(),
            forced: HashSet::new(),
            demands: HashMap::new(),
            client_copies: ClientCopies::default(),
            newly_queued: Vec::new(),
        }
    }

    /// Runs until the last handle is dropped, or [`CacheEvent::StopFetching`] and then [`CacheEvent::Close`] arrive.
    pub(super) async fn run(mut self) {
        loop {
            let pause =
                self.scheduler.next_due().map_or(MAX_SLEEP, |at| self.services.clock.until(at));
            tokio::select! {
                event = self.events.recv() => match event {
                    Some(CacheEvent::StopFetching(reply)) => {
                        self.fetches.stop().await;
                        // The receiver may be gone.
                        let _ = reply.send(());
                        return self.close().await;
                    }
                    Some(event) => self.handle_event(event),
                    None => return,
                },
                Some(entries) = self.store_reads.next() => {
                    for (resource, learned) in entries {
                        self.handle_store_read(resource, learned);
                    }
                }
                Some((job, fetched)) = self.fetches.next() => self.handle_fetched(job, fetched),
                Some(change) = self.fleet_events.recv() => self.handle_fleet_event(change),
                Some(newer) = self.fleet_lookups.next() => self.adopt(newer),
                () = tokio::time::sleep(pause.min(MAX_SLEEP)) => self.refetch_due(),
            }
            // In this order: fetches that the event made possible start before stale copies are served.
            self.store_reads.start();
            self.start_fetches();
            self.fleet_lookups.start(&self.services.published, &self.services.fleet_entries);
            self.serve_stale_to_queued();
        }
    }

    /// Saves everything on disk once that is asked for. Nothing else gets an answer.
    async fn close(mut self) {
        while let Some(event) = self.events.recv().await {
            if let CacheEvent::Close(reply) = event {
                self.services.store.flush().await;
                let _ = reply.send(());
                return;
            }
        }
    }

    fn now(&self) -> SystemTime {
        self.services.clock.now()
    }

    fn handle_event(&mut self, event: CacheEvent) {
        match event {
            CacheEvent::Demand(resource, demand, reply) => {
                self.handle_demand(resource, demand, reply);
            }
            CacheEvent::Overdue(resource) => {
                let known = self.services.published.snapshot(&resource);
                if self.scheduler.request_fetch(&resource, known.as_deref(), self.now()) {
                    self.read_from_store(resource);
                }
            }
            CacheEvent::MemoryGrew => self.shrink(),
            CacheEvent::Refresh(resource, reply) => {
                self.waiting.entry(resource.clone()).or_default().push(reply);
                self.forced.insert(resource.clone());
                // A fetch that is in progress is recent enough to answer the operator.
                if self.scheduler.start_fetch(&resource) {
                    self.read_from_store(resource);
                }
            }
            CacheEvent::Forget(resource, reply) => {
                // The receiver may be gone, here and below.
                let _ = reply.send(self.forget(&resource));
            }
            CacheEvent::Reconfigure(settings, reply) => {
                self.reconfigure(settings);
                let _ = reply.send(());
            }
            #[cfg(any(test, feature = "test-util"))]
            CacheEvent::Settings(reply) => {
                let settings = RefreshSettings {
                    lifetimes: self.scheduler.lifetimes().clone(),
                    fetch_timeout: self.fetch_timeout,
                    memory_bytes: self.eviction.limit(),
                };
                let _ = reply.send(settings);
            }
            CacheEvent::IsFetching(resource, reply) => {
                let _ = reply.send(self.scheduler.is_in_flight(&resource));
            }
            // `run` ends first.
            CacheEvent::StopFetching(_) | CacheEvent::Close(_) => {}
        }
    }

    /// Forgets a document. Returns whether it was in memory.
    fn forget(&mut self, resource: &Resource) -> bool {
        self.services.store.forget(resource);
        self.client_copies.forget(resource);
        let withdrawn = self.services.published.remove(resource);
        if let Some(known) = &withdrawn {
            self.scheduler.evict(resource, known);
        }
        withdrawn.is_some()
    }

    fn reconfigure(&mut self, settings: RefreshSettings) {
        self.fetch_timeout = settings.fetch_timeout;
        if settings.lifetimes != *self.scheduler.lifetimes() {
            self.change_lifetimes(settings.lifetimes);
        }
        self.eviction.set_limit(settings.memory_bytes);
        self.shrink();
    }

    fn change_lifetimes(&mut self, lifetimes: LifetimeSettings) {
        let known = self.services.published.select(|_, _| true).into_iter();
        for (resource, snapshot) in self.scheduler.change_lifetimes(lifetimes, known) {
            self.services.published.replace(&resource, &Arc::new(snapshot));
        }
    }

    fn shrink(&mut self) {
        let scheduler = &mut self.scheduler;
        let client_copies = &mut self.client_copies;
        self.eviction.shrink(&self.services.published, |resource, snapshot| {
            scheduler.evict(resource, snapshot);
            client_copies.forget(resource);
        });
    }

    fn handle_demand(
        &mut self,
        resource: Resource,
        demand: FetchDemand,
        reply: oneshot::Sender<Arc<Snapshot>>,
    ) {
        let known = self
            .services
            .published
            .snapshot(&resource)
            .filter(|known| known.may_be_kept_as(&resource, &demand.identity));
        let is_first = self.scheduler.request_fetch(&resource, known.as_deref(), self.now());
        let lookup = match (known, is_first, self.scheduler.is_in_flight(&resource)) {
            (Some(known), false, false) => {
                // It was published while the message was on its way here.
                let _ = reply.send(known);
                self.note_lookup(&resource, RobotsLookup::Hit);
                return;
            }
            (_, true, _) => RobotsLookup::Miss,
            (_, false, _) => RobotsLookup::Joined,
        };
        self.note_lookup(&resource, lookup);
        self.waiting.entry(resource.clone()).or_default().push(reply);
        if is_first {
            self.read_from_store(resource.clone());
            let gathered = self.demands.entry(resource).or_default();
            gathered.requested_as = Some(demand.identity);
            gathered.via = demand.via;
            gathered.keys.insert(demand.key);
        } else if let Some(gathered) = self.demands.get_mut(&resource) {
            gathered.keys.insert(demand.key);
        } else if self.queue.join(&resource, &demand.key) {
            self.newly_queued.push(resource);
        }
    }

    fn note_lookup(&self, resource: &Resource, lookup: RobotsLookup) {
        if resource.is_robots_txt() {
            self.services.metrics.robots_lookup(lookup);
        }
    }

    /// Reads the stored entry of a document, to revalidate it or to use it.
    fn read_from_store(&mut self, resource: Resource) {
        self.demands.entry(resource.clone()).or_default();
        self.store_reads.add(resource);
    }

    fn handle_store_read(&mut self, resource: Resource, learned: Option<ParsedEntry>) {
        let gathered = self.demands.remove(&resource).unwrap_or_default();
        let is_forced = self.forced.contains(&resource);
        let is_published = self.services.published.snapshot(&resource).is_some();
        // While the fleet can be asked, another node may have a newer entry than this node's store.
        let is_newest_known = !self.services.fleet_entries.fleet.is_reachable();
        if let (Some(learned), false, true) = (&learned, is_published, is_newest_known) {
            // A copy that needs no fetch answers everyone who waits, and no job is queued.
            let snapshot = Arc::new(self.scheduler.restore(&resource, learned));
            self.publish(&resource, &snapshot);
            let identity = gathered.requested_as.as_deref();
            let usable = match identity {
                Some(identity) if !snapshot.may_be_kept_as(&resource, identity) => {
                    Usability::AfterRefetch
                }
                _ => snapshot.usability(self.now()),
            };
            if usable != Usability::AfterRefetch && !is_forced {
                self.reply_to_waiting(&resource, &snapshot);
            }
            if usable == Usability::Immediate && !is_forced {
                self.scheduler.cancel_fetch(&resource);
                return;
            }
        }
        let mut keys = gathered.keys;
        // If no request waits, wayleave itself refreshes the copy before it expires.
        if keys.is_empty() {
            keys.insert(FairnessKey::default());
        }
        self.newly_queued.push(resource.clone());
        let job = FetchJob {
            resource,
            entry: learned.map(|learned| learned.entry().clone()).unwrap_or_default(),
            requested_as: gathered.requested_as,
            via: gathered.via,
        };
        self.queue.push(job, keys);
    }

    fn start_fetches(&mut self) {
        loop {
            let waiting = &self.waiting;
            let next = self.queue.next(|resource| {
                let replies = waiting.get(resource);
                // A refresh that no request ever waited for is not abandoned.
                replies.is_some_and(|replies| replies.iter().all(oneshot::Sender::is_closed))
            });
            match next {
                Some(NextFetch::Start(job)) => self.start_fetch(job),
                Some(NextFetch::Abandon(resource)) => self.abandon(&resource),
                None => return,
            }
        }
    }

    fn start_fetch(&mut self, job: FetchJob) {
        let purpose = self.purpose(&job.resource);
        let known = self.services.published.snapshot(&job.resource);
        let settings = (self.scheduler.lifetimes().clone(), self.fetch_timeout);
        self.fetches.start(job, purpose, known, settings);
    }

    fn purpose(&self, resource: &Resource) -> FetchPurpose {
        let mut waiting = self.waiting.get(resource).into_iter().flatten();
        if self.forced.contains(resource) {
            FetchPurpose::Forced
        } else if waiting.any(|reply| !reply.is_closed()) {
            FetchPurpose::Requested
        } else {
            FetchPurpose::RefreshAhead
        }
    }

    /// Gives up a fetch that nobody waits for any more. The next demand starts over.
    fn abandon(&mut self, resource: &Resource) {
        self.waiting.remove(resource);
        self.forced.remove(resource);
        let known = self.services.published.snapshot(resource);
        self.scheduler.fetch_abandoned(resource, known.as_deref());
        // The attempt that a reader reported as due was not made.
        self.services.published.clear_overdue_report(resource);
    }

    /// Serves the last copy to requests whose fetch has to wait in the queue, unless the origin is unreachable.
    fn serve_stale_to_queued(&mut self) {
        for resource in std::mem::take(&mut self.newly_queued) {
            if !self.queue.is_waiting(&resource) || self.forced.contains(&resource) {
                continue;
            }
            let known = self.services.published.snapshot(&resource);
            if let Some(known) =
                known.filter(|known| known.state(self.now()) != SnapshotState::Unreachable)
            {
                self.reply_to_waiting(&resource, &known);
            }
        }
    }

    fn handle_fetched(&mut self, job: FetchJob, fetched: Result<LearnedEntry, FetchOutcome>) {
        let FetchJob { resource, entry, requested_as, .. } = job;
        self.queue.finished(&resource);
        self.forced.remove(&resource);
        let known = self.services.published.snapshot(&resource);
        // A panic counts as a failed fetch, so that the usual back-off applies.
        let LearnedEntry { learned, reservation, version, lease } =
            fetched.unwrap_or_else(|outcome| {
                let before = (&entry, known.as_deref());
                let lifetimes = self.scheduler.lifetimes();
                let fetched_as = requested_as.or_else(|| entry.fetched_as().cloned());
                let finished = FinishedFetch {
                    fetched_at: self.now(),
                    fetched_as: fetched_as.unwrap_or_else(FetchIdentity::proxy),
                    outcome,
                };
                ParsedEntry::after_fetch(resource.kind(), before, finished, lifetimes).into()
            });
        let snapshot = self.scheduler.fetch_finished(&resource, &learned, known.as_deref());
        self.share(&resource, &learned, &snapshot);
        let new_entry = learned.into_entry();
        if let Some(lease) = lease {
            self.services.fleet_entries.report(&resource, &new_entry, &snapshot, lease);
        }
        if let Some(change) = RobotsChange::between(&resource, &entry, &new_entry) {
            // Nobody may be interested.
            let _ = self.services.changes.send(change);
        }
        // Other nodes' entries are saved as well, so that a restart without the engine has them.
        if new_entry != entry {
            self.services.store.save(&resource, Arc::new(new_entry));
        }
        let snapshot = Arc::new(snapshot);
        self.publish(&resource, &snapshot);
        // After publishing, which may have created the map entry that holds it.
        self.services.published.set_version(&resource, version);
        // From here on the body is counted as an entry, and by the store.
        drop(reservation);
        self.reply_to_waiting(&resource, &snapshot);
    }

    /// Makes a crawler's own copy the shared one if it turns out to count for everybody, and the shared one only says that its
    /// fetcher gets no rules. The answer to a client without a `[[crawler]]`, under a name that it chose, is not shared.
    fn share(&mut self, copy: &Resource, learned: &ParsedEntry, snapshot: &Snapshot) {
        let is_crawlers =
            |it: &Arc<FetchIdentity>| !it.is_client() && it.chosen == ChosenBy::Crawler;
        let is_shareable = !copy.is_shared()
            && snapshot.counts_for_everybody()
            && snapshot.fetched_as().is_some_and(is_crawlers);
        let shared = copy.shared();
        let Some(known) = self.services.published.snapshot(&shared).filter(|_| is_shareable) else {
            return;
        };
        let has_rules = matches!(known.access(self.now()), AccessResult::Successful(_));
        if known.counts_for_everybody() || has_rules || self.scheduler.is_in_flight(&shared) {
            return;
        }
        self.scheduler.evict(&shared, &known);
        let snapshot = Arc::new(self.scheduler.restore(&shared, learned));
        let entry = learned.entry().clone();
        let lease = FetchLease { token: 0, before: CacheEntry::default() };
        self.services.fleet_entries.report(&shared, &entry, &snapshot, lease);
        self.services.store.save(&shared, Arc::new(entry));
        self.publish(&shared, &snapshot);
    }

    fn publish(&mut self, resource: &Resource, snapshot: &Arc<Snapshot>) {
        if self.services.published.publish(resource, snapshot) {
            self.eviction.insert(&self.services.published, resource);
        }
        if snapshot.fetched_as().is_some_and(|identity| identity.is_client())
            && let Some(oldest) = self.client_copies.add(resource)
        {
            self.forget(&oldest);
        }
        self.shrink();
    }

    fn reply_to_waiting(&mut self, resource: &Resource, snapshot: &Arc<Snapshot>) {
        for reply in self.waiting.remove(resource).into_iter().flatten() {
            // The receiver may be gone.
            let _ = reply.send(snapshot.clone());
        }
    }

    fn refetch_due(&mut self) {
        let published = &self.services.published;
        let pinned = published.pinned();
        let due = self.scheduler.take_due(self.services.clock.now(), |resource| {
            // While another text counts, no request uses what the origin serves.
            let is_pinned = pinned.find(resource).is_some();
            let found = published.snapshot_and_use(resource);
            found.map(|(snapshot, is_used)| (snapshot, is_used && !is_pinned))
        });
        // The store keeps them for longer, with their history.
        for resource in due.forgotten {
            published.remove(&resource);
            self.client_copies.forget(&resource);
        }
        for resource in due.refetch {
            self.read_from_store(resource);
        }
    }
}

#[cfg(test)]
mod tests;
