//! The one task that owns the cache: it hears who wants what, recalls it from the store or starts fetches, applies what
//! they bring, publishes.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, oneshot};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use wayleave_policy::Origin;
use wayleave_policy::lifecycle::{
    Cache, Entry, FetchErrorKind, FetchOutcome, Lifetimes, Snapshot, Use,
};

use super::fetch::Fetch;
use super::memory::Memory;
use super::published::Published;
use super::queue::{FetchBounds, Job, Kind, Queue};
use super::store::Store;
use crate::clock::Clock;
use crate::metrics::{Lookup, Metrics};

/// What is due is looked for at least this often: the calendar may have been set meanwhile.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// How many reads of the store are under way at a time, and how many entries each brings: few threads, so that what they
/// free can be used again.
const RECALLS: usize = 4;
const RECALLED: usize = 64;

/// What the handle asks of the task.
pub(super) enum Event {
    /// A request cannot go on without this origin's robots.txt; by which `User-Agent` to fetch it, if not the usual one.
    Wanted(Origin, Option<Arc<str>>, oneshot::Sender<Arc<Snapshot>>),
    /// A request went on with what is known, but another attempt to reach the origin is due.
    Overdue(Origin),
    /// What is known of an origin takes more memory than when it was published.
    Grown,
    /// An operator wants it fetched anew.
    Refresh(Origin, oneshot::Sender<Arc<Snapshot>>),
    /// An operator wants it forgotten; whether it was in memory.
    Forget(Origin, oneshot::Sender<bool>),
    /// Whether a fetch is under way.
    IsFetching(Origin, oneshot::Sender<bool>),
    /// The configuration was read again.
    Reconfigure(Terms, oneshot::Sender<()>),
    /// The last event: what is known is to be on disk when this is answered.
    Close(oneshot::Sender<()>),
}

/// What the task works with.
pub(super) struct Surroundings {
    pub(super) published: Arc<Published>,
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) metrics: Arc<Metrics>,
}

/// How the task works.
pub(super) struct Terms {
    pub(super) lifetimes: Lifetimes,
    pub(super) memory_bytes: usize,
}

/// The task's belongings.
pub(super) struct Refresh<F> {
    cache: Cache,
    queue: Queue,
    memory: Memory,
    fetch: Arc<F>,
    around: Surroundings,
    events: mpsc::Receiver<Event>,
    to_recall: VecDeque<Origin>,
    recalling: JoinSet<Vec<(Origin, Option<Entry>)>>,
    fetching: JoinSet<(FetchOutcome, Duration)>,
    jobs: HashMap<Id, Job>,
    waiting: HashMap<Origin, Vec<oneshot::Sender<Arc<Snapshot>>>>,
    /// Being recalled, and to be fetched even if what is recalled may be gone by.
    forced: HashSet<Origin>,
    /// Being recalled, and to be fetched by another `User-Agent` than usual.
    user_agents: HashMap<Origin, Arc<str>>,
}

impl<F: Fetch> Refresh<F> {
    pub(super) fn new(
        fetch: F,
        around: Surroundings,
        events: mpsc::Receiver<Event>,
        terms: Terms,
        bounds: FetchBounds,
    ) -> Self {
        Self {
            cache: Cache::new(terms.lifetimes),
            queue: Queue::new(bounds),
            memory: Memory::new(terms.memory_bytes),
            fetch: Arc::new(fetch),
            around,
            events,
            to_recall: VecDeque::new(),
            recalling: JoinSet::new(),
            fetching: JoinSet::new(),
            jobs: HashMap::new(),
            waiting: HashMap::new(),
            forced: HashSet::new(),
            user_agents: HashMap::new(),
        }
    }

    /// Runs until the last handle is gone, or told to close.
    pub(super) async fn run(mut self) {
        loop {
            let next_due = self.cache.next_due();
            let pause = next_due.map_or(LONGEST_SLEEP, |at| self.around.clock.until(at));
            tokio::select! {
                event = self.events.recv() => match event {
                    Some(Event::Close(reply)) => {
                        self.around.store.flush().await;
                        // Whoever asked may have gone.
                        let _ = reply.send(());
                        return;
                    }
                    Some(event) => self.hear(event),
                    None => return,
                },
                Some(recalled) = self.recalling.join_next() => {
                    // A read that fails or panics is the store's to report; it brings nothing.
                    for (origin, entry) in recalled.into_iter().flatten() {
                        self.recalled(origin, entry);
                    }
                }
                Some(ended) = self.fetching.join_next_with_id() => self.fetched(ended),
                () = tokio::time::sleep(pause.min(LONGEST_SLEEP)) => self.wake(),
            }
            self.start_recalls();
            self.start_fetches();
        }
    }

    fn now(&self) -> SystemTime {
        self.around.clock.now()
    }

    fn hear(&mut self, event: Event) {
        match event {
            Event::Wanted(origin, user_agent, reply) => self.wanted(origin, user_agent, reply),
            Event::Overdue(origin) => {
                let known = self.around.published.snapshot(&origin);
                if self.cache.wanted(&origin, known.as_deref(), self.now()) {
                    self.recall(origin);
                }
            }
            Event::Grown => self.shrink(),
            Event::Refresh(origin, reply) => {
                self.waiting.entry(origin.clone()).or_default().push(reply);
                if self.cache.start(&origin) {
                    self.forced.insert(origin.clone());
                    self.recall(origin);
                }
            }
            Event::Forget(origin, reply) => {
                self.around.store.forget(&origin);
                // Whoever asked may have gone, here and below.
                let withdrawn = self.around.published.withdraw(&origin);
                if let Some(known) = &withdrawn {
                    self.cache.evict(&origin, known);
                }
                let _ = reply.send(withdrawn.is_some());
            }
            Event::Reconfigure(terms, reply) => {
                self.reconfigure(terms);
                let _ = reply.send(());
            }
            Event::IsFetching(origin, reply) => {
                let _ = reply.send(self.cache.is_under_way(&origin));
            }
            // Ends the loop.
            Event::Close(_) => {}
        }
    }

    fn reconfigure(&mut self, terms: Terms) {
        let known = self.around.published.select(|_, _| true).into_iter();
        for (origin, snapshot) in self.cache.change_lifetimes(terms.lifetimes, known) {
            self.around.published.replace(&origin, &Arc::new(snapshot));
        }
        self.memory.set_limit(terms.memory_bytes);
        self.shrink();
    }

    fn shrink(&mut self) {
        let cache = &mut self.cache;
        self.memory
            .shrink(&self.around.published, |origin, snapshot| {
                cache.evict(origin, snapshot);
            });
    }

    fn wanted(
        &mut self,
        origin: Origin,
        user_agent: Option<Arc<str>>,
        reply: oneshot::Sender<Arc<Snapshot>>,
    ) {
        let known = self.around.published.snapshot(&origin);
        let is_first = self.cache.wanted(&origin, known.as_deref(), self.now());
        let lookup = match (known, is_first, self.cache.is_under_way(&origin)) {
            (Some(known), false, false) => {
                // It was published while the request was on its way here.
                let _ = reply.send(known);
                self.around.metrics.robots_lookup(Lookup::Hit);
                return;
            }
            (_, true, _) => Lookup::Miss,
            (_, false, _) => Lookup::Joined,
        };
        self.around.metrics.robots_lookup(lookup);
        self.waiting.entry(origin.clone()).or_default().push(reply);
        if is_first {
            if let Some(user_agent) = user_agent {
                self.user_agents.insert(origin.clone(), user_agent);
            }
            self.recall(origin);
        }
    }

    /// Reads what the store keeps of an origin, for a fetch to go on from, or to go by.
    fn recall(&mut self, origin: Origin) {
        self.to_recall.push_back(origin);
    }

    fn start_recalls(&mut self) {
        while self.recalling.len() < RECALLS && !self.to_recall.is_empty() {
            let some = self.to_recall.len().min(RECALLED);
            let origins = self.to_recall.drain(..some).collect();
            let store = self.around.store.clone();
            self.recalling
                .spawn(async move { store.load_all(origins).await });
        }
    }

    fn recalled(&mut self, origin: Origin, entry: Option<Entry>) {
        let is_forced = self.forced.remove(&origin);
        let user_agent = self.user_agents.remove(&origin);
        let is_published = self.around.published.snapshot(&origin).is_some();
        if let (Some(entry), false) = (&entry, is_published) {
            let snapshot = Arc::new(self.cache.restored(&origin, entry));
            self.publish(&origin, &snapshot);
            let usable = snapshot.usable(self.now());
            if usable != Use::AfterRefetch && !is_forced {
                self.answer(&origin, &snapshot);
            }
            if usable == Use::AtOnce && !is_forced {
                self.cache.stop(&origin);
                return;
            }
        }
        let kind = match entry.is_some() || is_published {
            true => Kind::Known,
            false => Kind::Unknown,
        };
        let entry = entry.unwrap_or_default();
        let job = Job {
            origin,
            entry,
            user_agent,
        };
        self.queue.push(job, kind);
    }

    fn start_fetches(&mut self) {
        while let Some(mut job) = self.queue.start() {
            let request = job.entry.request(&job.origin);
            let user_agent = job.user_agent.take();
            let fetch = self.fetch.clone();
            let started = Instant::now();
            let task = self.fetching.spawn(async move {
                let outcome = fetch.fetch(request, user_agent.as_deref()).await;
                (outcome, started.elapsed())
            });
            self.jobs.insert(task.id(), job);
        }
    }

    fn fetched(&mut self, ended: Result<(Id, (FetchOutcome, Duration)), JoinError>) {
        let id = match &ended {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        let Some(Job { origin, entry, .. }) = self.jobs.remove(&id) else {
            return;
        };
        self.queue.ended(&origin);
        let (outcome, took) = match ended {
            Ok((_, fetched)) => fetched,
            Err(error) => (broken(&origin, &error), Duration::ZERO),
        };
        self.report(&origin, &outcome, took);
        let known = self.around.published.snapshot(&origin);
        let now = self.now();
        let (entry, snapshot) = self
            .cache
            .fetched(&origin, &entry, known.as_deref(), outcome, now);
        self.around.store.save(&origin, Arc::new(entry));
        let snapshot = Arc::new(snapshot);
        self.publish(&origin, &snapshot);
        self.answer(&origin, &snapshot);
    }

    fn report(&self, origin: &Origin, outcome: &FetchOutcome, took: Duration) {
        let result = outcome.result().as_str();
        self.around.metrics.robots_fetch(result, took);
        tracing::debug!(
            %origin,
            result,
            status = outcome.status(),
            error = outcome.error().map(|error| error.detail.as_str()),
            ?took,
            "fetched robots.txt"
        );
    }

    fn publish(&mut self, origin: &Origin, snapshot: &Arc<Snapshot>) {
        if self.around.published.publish(origin, snapshot) {
            self.memory.enter(&self.around.published, origin);
        }
        self.around.metrics.snapshot_swap();
        self.shrink();
    }

    fn answer(&mut self, origin: &Origin, snapshot: &Arc<Snapshot>) {
        for reply in self.waiting.remove(origin).into_iter().flatten() {
            // Whoever waited may have gone.
            let _ = reply.send(snapshot.clone());
        }
    }

    fn wake(&mut self) {
        let published = &self.around.published;
        let due = self
            .cache
            .due(self.around.clock.now(), |origin| published.look(origin));
        for origin in due.forgotten {
            published.withdraw(&origin);
        }
        for origin in due.refetch {
            self.recall(origin);
        }
    }
}

/// A fetch that panicked still ends, or its origin would wait forever.
fn broken(origin: &Origin, error: &JoinError) -> FetchOutcome {
    tracing::error!(%origin, %error, "the fetch of a robots.txt broke");
    FetchOutcome::failed(
        origin.robots_txt_uri(),
        FetchErrorKind::Internal,
        "the fetch broke",
    )
}
