//! The one task that owns the cache: it hears who wants what, starts fetches, applies what they bring, publishes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use wayleave_policy::Origin;
use wayleave_policy::lifecycle::{
    Cache, Entry, FetchErrorKind, FetchOutcome, FetchRequest, Snapshot,
};

use super::fetch::Fetch;
use super::queue::{Kind, Queue};
use super::{Inspection, Options, Shared};
use crate::metrics::Lookup;

/// A day without anything due is still woken from, to look again.
const LONGEST_SLEEP: Duration = Duration::from_secs(24 * 60 * 60);

/// What the handle asks of the task.
pub(super) enum Event {
    /// A request cannot go on without this origin's robots.txt.
    Wanted(Origin, oneshot::Sender<Arc<Snapshot>>),
    /// A request went on with what is known, but another attempt to reach the origin is due.
    Overdue(Origin),
    /// An operator wants it fetched anew.
    Refresh(Origin, oneshot::Sender<Arc<Snapshot>>),
    /// An operator wants it forgotten; whether it was known.
    Forget(Origin, oneshot::Sender<bool>),
    /// An operator wants to see everything there is about an origin.
    Inspect(Origin, oneshot::Sender<Option<Inspection>>),
}

/// The task's belongings.
pub(super) struct Refresh<F> {
    cache: Cache,
    queue: Queue,
    fetch: Arc<F>,
    shared: Arc<Shared>,
    events: mpsc::Receiver<Event>,
    fetching: JoinSet<(FetchOutcome, Duration)>,
    origins: HashMap<Id, Origin>,
    waiting: HashMap<Origin, Vec<oneshot::Sender<Arc<Snapshot>>>>,
}

impl<F: Fetch> Refresh<F> {
    pub(super) fn new(
        fetch: F,
        shared: Arc<Shared>,
        events: mpsc::Receiver<Event>,
        options: &Options,
    ) -> Self {
        Self {
            cache: Cache::new(options.lifetimes.clone()),
            queue: Queue::new(options.bounds),
            fetch: Arc::new(fetch),
            shared,
            events,
            fetching: JoinSet::new(),
            origins: HashMap::new(),
            waiting: HashMap::new(),
        }
    }

    /// Runs until the last handle is gone.
    pub(super) async fn run(mut self) {
        loop {
            let next_due = self.cache.next_due();
            let pause = next_due.map_or(LONGEST_SLEEP, |at| self.shared.clock.until(at));
            tokio::select! {
                event = self.events.recv() => match event {
                    Some(event) => self.hear(event),
                    None => return,
                },
                Some(ended) = self.fetching.join_next_with_id() => self.fetched(ended),
                () = tokio::time::sleep(pause.min(LONGEST_SLEEP)) => self.wake(),
            }
            self.start_fetches();
        }
    }

    fn hear(&mut self, event: Event) {
        match event {
            Event::Wanted(origin, reply) => self.wanted(origin, reply),
            Event::Overdue(origin) => {
                let request = self.cache.wanted(&origin, self.shared.clock.now());
                self.enqueue(request);
            }
            Event::Refresh(origin, reply) => {
                let request = self.cache.refetch(&origin);
                self.enqueue(request);
                self.waiting.entry(origin).or_default().push(reply);
            }
            Event::Forget(origin, reply) => {
                self.shared.withdraw(&origin);
                // Whoever asked may have gone.
                let _ = reply.send(self.cache.forget(&origin));
            }
            Event::Inspect(origin, reply) => {
                let _ = reply.send(self.inspect(&origin));
            }
        }
    }

    fn wanted(&mut self, origin: Origin, reply: oneshot::Sender<Arc<Snapshot>>) {
        let request = self.cache.wanted(&origin, self.shared.clock.now());
        let is_first = request.is_some();
        self.enqueue(request);
        if !self.cache.is_fetching(&origin)
            && let Some(snapshot) = self.cache.snapshot(&origin)
        {
            // It was published while the request was on its way here.
            self.shared.metrics.robots_lookup(Lookup::Hit);
            let _ = reply.send(snapshot);
            return;
        }
        let lookup = if is_first {
            Lookup::Miss
        } else {
            Lookup::Joined
        };
        self.shared.metrics.robots_lookup(lookup);
        self.waiting.entry(origin).or_default().push(reply);
    }

    fn enqueue(&mut self, request: Option<FetchRequest>) {
        let Some(request) = request else {
            return;
        };
        let kind = match self.cache.snapshot(&request.origin) {
            Some(_) => Kind::Known,
            None => Kind::Unknown,
        };
        self.queue.push(request, kind);
    }

    fn start_fetches(&mut self) {
        while let Some(request) = self.queue.start() {
            let origin = request.origin.clone();
            let fetch = self.fetch.clone();
            let started = Instant::now();
            let task = self.fetching.spawn(async move {
                let outcome = fetch.fetch(request).await;
                (outcome, started.elapsed())
            });
            self.origins.insert(task.id(), origin);
        }
    }

    fn fetched(&mut self, ended: Result<(Id, (FetchOutcome, Duration)), JoinError>) {
        let id = match &ended {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        let Some(origin) = self.origins.remove(&id) else {
            return;
        };
        self.queue.ended(&origin);
        let (outcome, took) = match ended {
            Ok((_, fetched)) => fetched,
            Err(error) => (broken(&origin, &error), Duration::ZERO),
        };
        let result = outcome.result();
        self.shared.metrics.robots_fetch(result.as_str(), took);
        tracing::debug!(
            origin = %origin,
            result = result.as_str(),
            status = outcome.status(),
            error = outcome.error().map(|error| error.detail.as_str()),
            took = ?took,
            "fetched robots.txt"
        );
        let now = self.shared.clock.now();
        let snapshot = self.cache.fetched(&origin, outcome, now);
        self.shared.publish(&origin, &snapshot);
        for reply in self.waiting.remove(&origin).into_iter().flatten() {
            // Whoever waited may have gone.
            let _ = reply.send(snapshot.clone());
        }
    }

    fn wake(&mut self) {
        let shared = &self.shared;
        let due = self
            .cache
            .due(shared.clock.now(), |origin| shared.is_in_use(origin));
        for origin in due.forgotten {
            shared.withdraw(&origin);
        }
        for request in due.refetch {
            self.queue.push(request, Kind::Known);
        }
    }

    fn inspect(&self, origin: &Origin) -> Option<Inspection> {
        let snapshot = self.cache.snapshot(origin)?;
        let entry: Arc<Entry> = self.cache.entry(origin)?;
        Some(Inspection {
            snapshot,
            entry,
            is_fetching: self.cache.is_fetching(origin),
        })
    }
}

/// A fetch that panicked still ends, or its origin would wait forever.
fn broken(origin: &Origin, error: &JoinError) -> FetchOutcome {
    tracing::error!(origin = %origin, %error, "the fetch of a robots.txt broke");
    FetchOutcome::failed(
        origin.robots_txt_uri(),
        FetchErrorKind::Internal,
        "the fetch broke",
    )
}
