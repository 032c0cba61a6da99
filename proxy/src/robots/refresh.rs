//! The one task that owns the cache: it receives requests for entries, loads them from the store or starts fetches, applies what
//! they bring, and publishes it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, oneshot};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use wayleave_policy::Origin;
use wayleave_policy::lifecycle::{
    Cache, Entry, FetchErrorKind, FetchOutcome, Learned, Lifetimes, Snapshot, State, Use,
};

use super::eviction::Memory;
use super::fetch::{Fetch, FetchAs, Fetched};
use super::following::Following;
use super::queue::{Asker, FetchBounds, Job, Next, Queue};
use super::room::Place;
use super::shared::{Claim, Lease, Purpose, Shared};
use super::snapshots::Published;
use super::store::Store;
use crate::clock::Clock;
use crate::fleet;
use crate::observe::metrics::{Lookup, Metrics};

/// What is due is looked for at least this often: the calendar may have been set meanwhile.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// How many reads of the store are under way at a time, and how many entries each brings: few threads, so that what they
/// free can be used again.
const RECALLS: usize = 4;
const RECALLED: usize = 64;

/// What the handle asks of the task.
pub(super) enum Event {
    /// A request cannot go on without this origin's robots.txt.
    Wanted(Origin, Wish, oneshot::Sender<Arc<Snapshot>>),
    /// A request went on with what is known, but another attempt to reach the origin is due.
    Overdue(Origin),
    /// What is known of an origin takes more memory than when it was published.
    Grown,
    /// An operator wants it fetched anew.
    Refresh(Origin, oneshot::Sender<Arc<Snapshot>>),
    /// An operator wants it forgotten; whether it was in memory.
    Forget(Origin, oneshot::Sender<bool>),
    /// Whether a fetch is in progress.
    IsFetching(Origin, oneshot::Sender<bool>),
    /// The configuration was read again.
    Reconfigure(Terms, oneshot::Sender<()>),
    /// The last event: what is known is to be on disk when this is answered.
    Close(oneshot::Sender<()>),
}

/// On whose behalf a request waits.
pub(super) struct Wish {
    pub(super) asker: Asker,
    pub(super) fetch_as: FetchAs,
}

/// What the task works with.
pub(super) struct Surroundings {
    pub(super) published: Arc<Published>,
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) metrics: Arc<Metrics>,
    pub(super) shared: Shared,
}

/// How the task works.
pub(super) struct Terms {
    pub(super) lifetimes: Lifetimes,
    pub(super) fetch_timeout: Duration,
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
    recalling: JoinSet<Vec<(Origin, Option<Learned>)>>,
    fetching: JoinSet<Brought>,
    fetch_timeout: Duration,
    changes: mpsc::UnboundedReceiver<fleet::Event>,
    following: Following,
    jobs: HashMap<Id, Job>,
    waiting: HashMap<Origin, Vec<oneshot::Sender<Arc<Snapshot>>>>,
    /// Being recalled or fetched for an operator, even if what is known may be gone by.
    forced: HashSet<Origin>,
    /// Being recalled, and who wants them.
    wishes: HashMap<Origin, Wishes>,
    /// Joined the queue just now, or found themselves in it.
    queued: Vec<Origin>,
}

/// What a fetch brought, or the fleet knew.
struct Brought {
    learned: Learned,
    place: Option<Place>,
    /// If the fleet is to hear of it.
    lease: Option<Lease>,
}

/// Who wants an origin that is being recalled, and as whom the first of them wants it fetched.
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
            fetch: Arc::new(fetch),
            around,
            events,
            to_recall: VecDeque::new(),
            recalling: JoinSet::new(),
            fetching: JoinSet::new(),
            fetch_timeout: terms.fetch_timeout,
            changes,
            following: Following::default(),
            jobs: HashMap::new(),
            waiting: HashMap::new(),
            forced: HashSet::new(),
            wishes: HashMap::new(),
            queued: Vec::new(),
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
                    for (origin, learned) in recalled.into_iter().flatten() {
                        self.recalled(origin, learned);
                    }
                }
                Some(ended) = self.fetching.join_next_with_id() => self.fetched(ended),
                Some(change) = self.changes.recv() => self.follow(change),
                Some(followed) = self.following.next() => self.followed(followed),
                () = tokio::time::sleep(pause.min(LONGEST_SLEEP)) => self.wake(),
            }
            self.start_recalls();
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
            Event::Wanted(origin, wish, reply) => self.wanted(origin, wish, reply),
            Event::Overdue(origin) => {
                let known = self.around.published.snapshot(&origin);
                if self.cache.wanted(&origin, known.as_deref(), self.now()) {
                    self.recall(origin);
                }
            }
            Event::Grown => self.shrink(),
            Event::Refresh(origin, reply) => {
                self.waiting.entry(origin.clone()).or_default().push(reply);
                self.forced.insert(origin.clone());
                if self.cache.start(&origin) {
                    self.recall(origin);
                }
            }
            Event::Forget(origin, reply) => {
                // Whoever asked may have gone, here and below.
                let _ = reply.send(self.forget(&origin));
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

    /// Whether it was in memory.
    fn forget(&mut self, origin: &Origin) -> bool {
        self.around.store.forget(origin);
        let withdrawn = self.around.published.withdraw(origin);
        if let Some(known) = &withdrawn {
            self.cache.evict(origin, known);
        }
        withdrawn.is_some()
    }

    /// Another node noted something. What is only in the store is asked about when it is wanted.
    fn follow(&mut self, change: fleet::Event) {
        match change {
            fleet::Event::Changed(origin) => {
                let origin = Origin::parse(&origin).ok();
                let published = &self.around.published;
                let held = origin.filter(|origin| published.snapshot(origin).is_some());
                self.following.add(held);
            }
            fleet::Event::Forgotten(origin) => {
                if let Ok(origin) = Origin::parse(&origin) {
                    self.forget(&origin);
                }
            }
            fleet::Event::Suspect(partition) => {
                let fleet = &self.around.shared.fleet;
                let suspect = |origin: &Origin| fleet.partition(&origin.to_string()) == partition;
                let held = self.around.published.select(|origin, _| suspect(origin));
                self.following
                    .add(held.into_iter().map(|(origin, _)| origin));
            }
            fleet::Event::Rests(..) | fleet::Event::Rested(_) => {}
        }
    }

    fn followed(&mut self, newer: Option<(Origin, Learned)>) {
        let Some((origin, learned)) = newer else {
            return;
        };
        let Some(known) = self.around.published.snapshot(&origin) else {
            return;
        };
        self.cache.evict(&origin, &known);
        let snapshot = Arc::new(self.cache.restored(&origin, &learned));
        let entry = Arc::new(learned.into_entry());
        self.around.store.save(&origin, entry);
        self.publish(&origin, &snapshot);
    }

    fn reconfigure(&mut self, terms: Terms) {
        self.fetch_timeout = terms.fetch_timeout;
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

    fn wanted(&mut self, origin: Origin, wish: Wish, reply: oneshot::Sender<Arc<Snapshot>>) {
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
            self.recall(origin.clone());
            let wishes = self.wishes.entry(origin).or_default();
            wishes.fetch_as = wish.fetch_as;
            wishes.askers.insert(wish.asker);
        } else if let Some(wishes) = self.wishes.get_mut(&origin) {
            wishes.askers.insert(wish.asker);
        } else if self.queue.join(&origin, &wish.asker) {
            self.queued.push(origin);
        }
    }

    /// Reads what the store keeps of an origin, for a fetch to go on from, or to go by.
    fn recall(&mut self, origin: Origin) {
        self.wishes.entry(origin.clone()).or_default();
        self.to_recall.push_back(origin);
    }

    fn start_recalls(&mut self) {
        while self.recalling.len() < RECALLS && !self.to_recall.is_empty() {
            let some = self.to_recall.len().min(RECALLED);
            let origins = self.to_recall.drain(..some).collect();
            let (store, published) = (self.around.store.clone(), self.around.published.clone());
            self.recalling.spawn(async move {
                let loaded = store.load_all(origins).await.into_iter();
                let parse = |(origin, entry): (Origin, Option<Entry>)| {
                    let known = published.snapshot(&origin);
                    let learned = entry.map(|entry| Learned::of(entry, known.as_deref()));
                    (origin, learned)
                };
                loaded.map(parse).collect()
            });
        }
    }

    fn recalled(&mut self, origin: Origin, learned: Option<Learned>) {
        let wishes = self.wishes.remove(&origin).unwrap_or_default();
        let is_forced = self.forced.contains(&origin);
        let is_published = self.around.published.snapshot(&origin).is_some();
        // Another node may have learned something since this one kept it.
        let is_current = !self.around.shared.fleet.is_to_be_asked();
        if let (Some(learned), false, true) = (&learned, is_published, is_current) {
            let snapshot = Arc::new(self.cache.restored(&origin, learned));
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
        let mut askers = wishes.askers;
        if askers.is_empty() {
            askers.insert(Asker::default());
        }
        self.queued.push(origin.clone());
        let job = Job {
            origin,
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
            let is_abandoned = |origin: &Origin| {
                let replies = waiting.get(origin);
                replies.is_some_and(|replies| replies.iter().all(oneshot::Sender::is_closed))
            };
            match self.queue.next(is_abandoned) {
                Some(Next::Start(job)) => self.start_fetch(job),
                Some(Next::Drop(origin)) => self.abandon(&origin),
                None => return,
            }
        }
    }

    /// Fetches in a task of its own, and parses there: files may be long, and this task has every origin to look after.
    fn start_fetch(&mut self, mut job: Job) {
        let fetch_as = std::mem::take(&mut job.fetch_as);
        let (fetch, clock) = (self.fetch.clone(), self.around.clock);
        let (purpose, shared) = (self.purpose(&job.origin), self.around.shared.clone());
        let timeout = self.fetch_timeout;
        let known = self.around.published.snapshot(&job.origin);
        let lifetimes = self.cache.lifetimes().clone();
        let (origin, own) = (job.origin.clone(), job.entry.clone());
        let metrics = self.around.metrics.clone();
        let task = self.fetching.spawn(async move {
            let terms = (&lifetimes, timeout);
            let lease = match shared.claim(&origin, own, purpose, terms).await {
                Claim::Fetch(lease) => lease,
                Claim::Known(learned, lease) => {
                    let place = None;
                    return Brought {
                        learned,
                        place,
                        lease,
                    };
                }
            };
            let started = Instant::now();
            let request = lease.before.request(&origin);
            let Fetched { outcome, place } = fetch.fetch(request, Some(&fetch_as)).await;
            report(&metrics, &origin, &outcome, started.elapsed());
            let before = (&lease.before, known.as_deref());
            Brought {
                learned: Learned::after(before, outcome, clock.now(), &lifetimes),
                place,
                lease: Some(lease),
            }
        });
        self.jobs.insert(task.id(), job);
    }

    fn purpose(&self, origin: &Origin) -> Purpose {
        let mut waiting = self.waiting.get(origin).into_iter().flatten();
        if self.forced.contains(origin) {
            Purpose::Forced
        } else if waiting.any(|reply| !reply.is_closed()) {
            Purpose::Wanted
        } else {
            Purpose::Ahead
        }
    }

    /// Nobody waits for it any more; the next who wants it starts anew.
    fn abandon(&mut self, origin: &Origin) {
        self.waiting.remove(origin);
        self.forced.remove(origin);
        let known = self.around.published.snapshot(origin);
        self.cache.abandoned(origin, known.as_deref());
        self.around.published.unreport(origin);
    }

    /// Those whose origin has to wait for its turn go by a copy that was good so far, if there is one.
    fn answer_those_in_the_queue(&mut self) {
        for origin in std::mem::take(&mut self.queued) {
            if !self.queue.is_waiting(&origin) || self.forced.contains(&origin) {
                continue;
            }
            let known = self.around.published.snapshot(&origin);
            if let Some(known) = known.filter(|known| known.state(self.now()) != State::Unreachable)
            {
                self.answer(&origin, &known);
            }
        }
    }

    fn fetched(&mut self, ended: Result<(Id, Brought), JoinError>) {
        let id = match &ended {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        let Some(Job { origin, entry, .. }) = self.jobs.remove(&id) else {
            return;
        };
        self.queue.ended(&origin);
        self.forced.remove(&origin);
        let known = self.around.published.snapshot(&origin);
        let brought = match ended {
            Ok((_, brought)) => brought,
            Err(error) => {
                let outcome = broken(&origin, &error);
                report(&self.around.metrics, &origin, &outcome, Duration::ZERO);
                let before = (&entry, known.as_deref());
                let lifetimes = self.cache.lifetimes();
                Brought {
                    learned: Learned::after(before, outcome, self.now(), lifetimes),
                    place: None,
                    lease: None,
                }
            }
        };
        let Brought {
            learned,
            place,
            lease,
        } = brought;
        let snapshot = self.cache.fetched(&origin, &learned, known.as_deref());
        let learned = learned.into_entry();
        if let Some(lease) = lease {
            let shared = &self.around.shared;
            shared.settle(&origin, &learned, &snapshot, lease);
        }
        if learned != entry {
            self.around.store.save(&origin, Arc::new(learned));
        }
        let snapshot = Arc::new(snapshot);
        self.publish(&origin, &snapshot);
        // From here on it is counted as an entry, and by the store.
        drop(place);
        self.answer(&origin, &snapshot);
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

fn report(metrics: &Metrics, origin: &Origin, outcome: &FetchOutcome, took: Duration) {
    let result = outcome.result().as_str();
    metrics.robots_fetch(result, took);
    tracing::debug!(
        %origin,
        result,
        status = outcome.status(),
        error = outcome.cause(),
        ?took,
        "fetched robots.txt"
    );
}

/// A fetch that panicked still ends, or its origin would wait forever.
fn broken(origin: &Origin, error: &JoinError) -> FetchOutcome {
    tracing::error!(%origin, %error, "the fetch of a robots.txt failed unexpectedly");
    FetchOutcome::failed(
        origin.robots_txt_uri(),
        FetchErrorKind::Internal,
        "the fetch failed unexpectedly",
    )
}
