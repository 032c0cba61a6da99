//! The one task that owns the cache. It receives demands for documents, reads them from the store or starts fetches,
//! and
//! publishes the results.

mod event;
mod fetches;
mod fleet_changes;
mod recalls;
mod surroundings;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, oneshot};
use wayleave_robots_txt::lifecycle::{
    Cache, FetchOutcome, Learned, Lifetimes, Resource, Snapshot, State, Use,
};

pub(super) use self::event::{Event, Wish};
use self::fetches::{Brought, Fetches};
use self::recalls::Recalls;
pub(super) use self::surroundings::{Surroundings, Terms};
use super::eviction::Memory;
use super::fetch::{Fetch, FetchAs};
use super::fleet_lookup::Following;
use super::queue::{Asker, FetchBounds, Job, Next, Queue};
use super::refetch_as::RefetchAs;
use super::shared::Purpose;
use crate::fleet;
use crate::observe::metrics::Lookup;

/// The longest sleep between searches for due entries: the system clock may be set meanwhile.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// The state of the task.
pub(super) struct Refresh<F> {
    cache: Cache,
    queue: Queue,
    memory: Memory,
    around: Surroundings,
    events: mpsc::Receiver<Event>,
    recalls: Recalls,
    fetches: Fetches<F>,
    fetch_timeout: Duration,
    changes: mpsc::UnboundedReceiver<fleet::Event>,
    following: Following,
    waiting: HashMap<Resource, Vec<oneshot::Sender<Arc<Snapshot>>>>,
    /// Documents that are read or fetched for an operator, even if the cached copy may be used.
    forced: HashSet<Resource>,
    /// Documents that are being read from the store, and who waits for them.
    wishes: HashMap<Resource, Wishes>,
    refetch_as: RefetchAs,
    /// Documents that joined the queue in this iteration, or were found in it.
    queued: Vec<Resource>,
}

/// The requesters of a document that is being read from the store, and the identity of the first.
#[derive(Default)]
struct Wishes {
    askers: HashSet<Asker>,
    fetch_as: FetchAs,
}

impl<F: Fetch> Refresh<F> {
    pub(super) fn new(
        fetch: F,
        around: Surroundings,
        events: mpsc::Receiver<Event>,
        terms: Terms,
        bounds: FetchBounds,
    ) -> Self {
        let changes = around.shared.fleet.follow();
        Self {
            cache: Cache::new(terms.lifetimes),
            queue: Queue::new(bounds),
            memory: Memory::new(terms.memory_bytes),
            recalls: Recalls::new(
                around.store.clone(),
                around.published.clone(),
                around.shared.parser.clone(),
            ),
            fetches: Fetches::new(fetch, &around),
            around,
            events,
            fetch_timeout: terms.fetch_timeout,
            changes,
            following: Following::default(),
            waiting: HashMap::new(),
            forced: HashSet::new(),
            wishes: HashMap::new(),
            refetch_as: RefetchAs::default(),
            queued: Vec::new(),
        }
    }

    /// Runs until the last handle is dropped or [`Event::Close`] arrives.
    pub(super) async fn run(mut self) {
        loop {
            let next_due = self.cache.next_due();
            let pause = next_due.map_or(LONGEST_SLEEP, |at| self.around.clock.until(at));
            tokio::select! {
                event = self.events.recv() => match event {
                    Some(Event::Close(reply)) => {
                        self.around.store.flush().await;
                        // The sender may be gone.
                        let _ = reply.send(());
                        return;
                    }
                    Some(event) => self.hear(event),
                    None => return,
                },
                Some(recalled) = self.recalls.next() => {
                    for (resource, learned) in recalled {
                        self.recalled(resource, learned);
                    }
                }
                Some((job, brought)) = self.fetches.next() => self.fetched(job, brought),
                Some(change) = self.changes.recv() => self.follow(change),
                Some(followed) = self.following.next() => self.followed(followed),
                () = tokio::time::sleep(pause.min(LONGEST_SLEEP)) => self.wake(),
            }
            // In this order: fetches that the event made possible start before stale copies are served.
            self.recalls.start();
            self.start_fetches();
            self.following
                .start(&self.around.published, &self.around.shared);
            self.answer_those_in_the_queue();
        }
    }

    fn now(&self) -> SystemTime {
        self.around.clock.now()
    }

    fn hear(&mut self, event: Event) {
        match event {
            Event::Wanted(resource, wish, reply) => self.wanted(resource, wish, reply),
            Event::Overdue(resource, fetch_as) => {
                // The origin may admit only the crawler that sees the file now.
                if let Some(fetch_as) = fetch_as {
                    self.refetch_as.note(&resource, &fetch_as);
                }
                let known = self.around.published.snapshot(&resource);
                if self.cache.wanted(&resource, known.as_deref(), self.now()) {
                    self.recall(resource);
                }
            }
            Event::Grown => self.shrink(),
            Event::Refresh(resource, reply) => {
                self.waiting
                    .entry(resource.clone())
                    .or_default()
                    .push(reply);
                self.forced.insert(resource.clone());
                // A fetch that is in progress is recent enough to answer the operator.
                if self.cache.start(&resource) {
                    self.recall(resource);
                }
            }
            Event::Forget(resource, reply) => {
                // The sender may be gone, here and below.
                let _ = reply.send(self.forget(&resource));
            }
            Event::Reconfigure(terms, are_crawlers_others, reply) => {
                if are_crawlers_others {
                    self.refetch_as.clear();
                }
                self.reconfigure(terms);
                let _ = reply.send(());
            }
            #[cfg(test)]
            Event::Terms(reply) => {
                let terms = Terms {
                    lifetimes: self.cache.lifetimes().clone(),
                    fetch_timeout: self.fetch_timeout,
                    memory_bytes: self.memory.limit(),
                };
                let _ = reply.send(terms);
            }
            Event::IsFetching(resource, reply) => {
                let _ = reply.send(self.cache.is_under_way(&resource));
            }
            // The loop in `run` ends first.
            Event::Close(_) => {}
        }
    }

    /// Forgets a document. Returns whether it was in memory.
    fn forget(&mut self, resource: &Resource) -> bool {
        self.around.store.forget(resource);
        self.refetch_as.forget(resource);
        let withdrawn = self.around.published.withdraw(resource);
        if let Some(known) = &withdrawn {
            self.cache.evict(resource, known);
        }
        withdrawn.is_some()
    }

    fn reconfigure(&mut self, terms: Terms) {
        self.fetch_timeout = terms.fetch_timeout;
        if terms.lifetimes != *self.cache.lifetimes() {
            self.change_lifetimes(terms.lifetimes);
        }
        self.memory.set_limit(terms.memory_bytes);
        self.shrink();
    }

    fn change_lifetimes(&mut self, lifetimes: Lifetimes) {
        let known = self.around.published.select(|_, _| true).into_iter();
        for (resource, snapshot) in self.cache.change_lifetimes(lifetimes, known) {
            self.around
                .published
                .replace(&resource, &Arc::new(snapshot));
        }
    }

    fn shrink(&mut self) {
        let (cache, refetch_as) = (&mut self.cache, &mut self.refetch_as);
        self.memory
            .shrink(&self.around.published, |resource, snapshot| {
                cache.evict(resource, snapshot);
                refetch_as.forget(resource);
            });
    }

    fn wanted(&mut self, resource: Resource, wish: Wish, reply: oneshot::Sender<Arc<Snapshot>>) {
        let known = self.around.published.snapshot(&resource);
        let known = known.map(|known| wish.fetch_as.told(&known));
        let is_first = self.cache.wanted(&resource, known.as_deref(), self.now());
        let lookup = match (known, is_first, self.cache.is_under_way(&resource)) {
            (Some(known), false, false) => {
                // It was published while the message was on its way here.
                let _ = reply.send(known);
                self.note_lookup(&resource, Lookup::Hit);
                return;
            }
            (_, true, _) => Lookup::Miss,
            (_, false, _) => Lookup::Joined,
        };
        self.note_lookup(&resource, lookup);
        self.waiting
            .entry(resource.clone())
            .or_default()
            .push(reply);
        if is_first {
            self.recall(resource.clone());
            self.refetch_as.note(&resource, &wish.fetch_as);
            let wishes = self.wishes.entry(resource).or_default();
            wishes.fetch_as = wish.fetch_as;
            wishes.askers.insert(wish.asker);
        } else if let Some(wishes) = self.wishes.get_mut(&resource) {
            wishes.askers.insert(wish.asker);
        } else if self.queue.join(&resource, &wish.asker) {
            self.queued.push(resource);
        }
    }

    fn note_lookup(&self, resource: &Resource, lookup: Lookup) {
        if resource.is_robots_txt() {
            self.around.metrics.robots_lookup(lookup);
        }
    }

    /// Reads the stored entry of a document, to revalidate it or to use it.
    fn recall(&mut self, resource: Resource) {
        let fetch_as = self.refetch_as.of(&resource);
        let wishes = self.wishes.entry(resource.clone()).or_default();
        wishes.fetch_as = fetch_as;
        self.recalls.add(resource);
    }

    fn recalled(&mut self, resource: Resource, learned: Option<Learned>) {
        let wishes = self.wishes.remove(&resource).unwrap_or_default();
        let is_forced = self.forced.contains(&resource);
        let is_published = self.around.published.snapshot(&resource).is_some();
        // Another node may have a newer entry than this node's store.
        let is_current = !self.around.shared.fleet.is_to_be_asked();
        if let (Some(learned), false, true) = (&learned, is_published, is_current) {
            // A copy that needs no fetch answers everyone who waits, and no job is queued.
            let snapshot = Arc::new(self.cache.restored(&resource, learned));
            self.publish(&resource, &snapshot);
            let usable = wishes.fetch_as.told(&snapshot).usable(self.now());
            if usable != Use::AfterRefetch && !is_forced {
                self.answer(&resource, &snapshot);
            }
            if usable == Use::AtOnce && !is_forced {
                self.cache.stop(&resource);
                return;
            }
        }
        let mut askers = wishes.askers;
        // Wayleave itself wants it: a refresh before the copy expires.
        if askers.is_empty() {
            askers.insert(Asker::default());
        }
        self.queued.push(resource.clone());
        let job = Job {
            resource,
            entry: learned
                .map(|learned| learned.entry().clone())
                .unwrap_or_default(),
            fetch_as: wishes.fetch_as,
        };
        self.queue.push(job, askers);
    }

    fn start_fetches(&mut self) {
        loop {
            let waiting = &self.waiting;
            let is_abandoned = |resource: &Resource| {
                let replies = waiting.get(resource);
                // A refresh that no request ever waited for is not abandoned.
                replies.is_some_and(|replies| replies.iter().all(oneshot::Sender::is_closed))
            };
            match self.queue.next(is_abandoned) {
                Some(Next::Start(job)) => self.start_fetch(job),
                Some(Next::Drop(resource)) => self.abandon(&resource),
                None => return,
            }
        }
    }

    fn start_fetch(&mut self, job: Job) {
        let purpose = self.purpose(&job.resource);
        let known = self.around.published.snapshot(&job.resource);
        let terms = (self.cache.lifetimes().clone(), self.fetch_timeout);
        self.fetches.start(job, purpose, known, terms);
    }

    fn purpose(&self, resource: &Resource) -> Purpose {
        let mut waiting = self.waiting.get(resource).into_iter().flatten();
        if self.forced.contains(resource) {
            Purpose::Forced
        } else if waiting.any(|reply| !reply.is_closed()) {
            Purpose::Wanted
        } else {
            Purpose::Ahead
        }
    }

    /// Gives up a fetch that nobody waits for any more. The next demand starts over.
    fn abandon(&mut self, resource: &Resource) {
        self.waiting.remove(resource);
        self.forced.remove(resource);
        let known = self.around.published.snapshot(resource);
        self.cache.abandoned(resource, known.as_deref());
        self.around.published.unreport(resource);
    }

    /// Serves a copy that was valid so far to requests whose fetch has to wait in the queue.
    fn answer_those_in_the_queue(&mut self) {
        for resource in std::mem::take(&mut self.queued) {
            if !self.queue.is_waiting(&resource) || self.forced.contains(&resource) {
                continue;
            }
            let known = self.around.published.snapshot(&resource);
            if let Some(known) = known.filter(|known| known.state(self.now()) != State::Unreachable)
            {
                self.answer(&resource, &known);
            }
        }
    }

    fn fetched(&mut self, job: Job, brought: Result<Brought, FetchOutcome>) {
        let Job {
            resource, entry, ..
        } = job;
        self.queue.ended(&resource);
        self.forced.remove(&resource);
        let known = self.around.published.snapshot(&resource);
        // A panic counts as a failed fetch, so that the usual back-off applies.
        let brought = brought.unwrap_or_else(|outcome| {
            let before = (&entry, known.as_deref());
            let lifetimes = self.cache.lifetimes();
            Learned::after(resource.kind(), before, outcome, self.now(), lifetimes).into()
        });
        let Brought {
            learned,
            place,
            version,
            lease,
        } = brought;
        let snapshot = self.cache.fetched(&resource, &learned, known.as_deref());
        let learned = learned.into_entry();
        if let Some(lease) = lease {
            let shared = &self.around.shared;
            shared.settle(&resource, &learned, &snapshot, lease);
        }
        if learned != entry {
            self.around.store.save(&resource, Arc::new(learned));
        }
        let snapshot = Arc::new(snapshot);
        self.publish(&resource, &snapshot);
        // After publishing, which may have created the map entry that holds it.
        self.around.published.set_version(&resource, version);
        // From here on the body is counted as an entry, and by the store.
        drop(place);
        self.answer(&resource, &snapshot);
    }

    fn publish(&mut self, resource: &Resource, snapshot: &Arc<Snapshot>) {
        if self.around.published.publish(resource, snapshot) {
            self.memory.enter(&self.around.published, resource);
        }
        self.around.metrics.snapshot_swap();
        self.shrink();
    }

    fn answer(&mut self, resource: &Resource, snapshot: &Arc<Snapshot>) {
        for reply in self.waiting.remove(resource).into_iter().flatten() {
            // The receiver may be gone.
            let _ = reply.send(snapshot.clone());
        }
    }

    fn wake(&mut self) {
        let published = &self.around.published;
        let due = self
            .cache
            .due(self.around.clock.now(), |resource| published.look(resource));
        for resource in due.forgotten {
            published.withdraw(&resource);
            self.refetch_as.forget(&resource);
        }
        for resource in due.refetch {
            self.recall(resource);
        }
    }
}
