//! Robots: keeps every origin's robots.txt at hand.
//!
//! A [`Robots`] is a handle. What is known of an origin is a [`Snapshot`] behind an atomic pointer in one concurrent
//! map: reading it takes no lock and waits for nobody. What is not known, or too old to go by, is asked for: one task
//! (`refresh`) owns the lifecycle of all entries, starts at most one fetch per origin however many wait for it, and
//! publishes what it brings.
//!
//! The map is papaya's: its readers never lock and never wait for writers, nor for its growth, which it spreads over
//! later writes. dashmap and scc lock a shard or a bucket for a read, which the writer of another origin may hold.

mod body;
mod fetch;
mod fields;
mod hop;
mod queue;
mod refresh;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use wayleave_policy::Origin;
use wayleave_policy::lifecycle::{Entry, Lifetimes, Snapshot, State, Use};

use crate::clock::Clock;
use crate::metrics::{Lookup, Metrics};
pub use fetch::{Fetch, FetchOptions, HttpFetch};
pub use queue::FetchBounds;
use refresh::{Event, Refresh};

/// How many messages may lie before the refresh task until senders wait.
const EVENTS: usize = 4096;
/// Those who wait stay this much longer than a fetch may take, to hear of its failure.
const PATIENCE: Duration = Duration::from_secs(1);

/// How robots.txt files are kept; part of `[robots]`.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long answers serve.
    pub lifetimes: Lifetimes,
    /// How many fetches may be under way.
    pub bounds: FetchBounds,
    /// How long a request waits for robots.txt; the fetcher's own timeout. Default: 10 s.
    pub fetch_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            lifetimes: Lifetimes::default(),
            bounds: FetchBounds::default(),
            fetch_timeout: FetchOptions::default().timeout,
        }
    }
}

/// Keeps robots.txt at hand. Cheap to clone; the task behind it ends when the last clone is gone.
#[derive(Clone)]
pub struct Robots {
    shared: Arc<Shared>,
    events: mpsc::Sender<Event>,
    patience: Duration,
}

impl fmt::Debug for Robots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Robots")
            .field("entries", &self.shared.slots.len())
            .finish_non_exhaustive()
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

/// Everything that is known of one origin, for operators.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// What is gone by.
    pub snapshot: Arc<Snapshot>,
    /// What that follows from.
    pub entry: Arc<Entry>,
    /// Whether a fetch is under way.
    pub is_fetching: bool,
}

/// Which entries an operator wants to see.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// Only these.
    pub state: Option<State>,
    /// Only origins that contain this.
    pub query: String,
    /// Only origins after this one, in order.
    pub after: Option<Origin>,
    /// At most so many.
    pub limit: usize,
}

/// What readers and the refresh task share.
struct Shared {
    slots: papaya::HashMap<Origin, Slot, foldhash::fast::RandomState>,
    clock: Clock,
    metrics: Arc<Metrics>,
}

/// One origin's place in the map.
struct Slot {
    snapshot: ArcSwap<Snapshot>,
    /// Whether it was gone by since it was published.
    is_used: AtomicBool,
    /// Whether the refresh task was told since that another attempt is due.
    is_reported: AtomicBool,
}

impl Shared {
    /// Makes `snapshot` what readers find; whoever holds the one before keeps it.
    fn publish(&self, origin: &Origin, snapshot: &Arc<Snapshot>) {
        let slots = self.slots.pin();
        match slots.get(origin) {
            Some(slot) => {
                slot.snapshot.store(snapshot.clone());
                slot.is_used.store(false, Ordering::Relaxed);
                slot.is_reported.store(false, Ordering::Relaxed);
            }
            None => {
                let slot = Slot {
                    snapshot: ArcSwap::new(snapshot.clone()),
                    is_used: AtomicBool::new(false),
                    is_reported: AtomicBool::new(false),
                };
                slots.insert(origin.clone(), slot);
            }
        }
        self.metrics.snapshot_swap();
    }

    fn withdraw(&self, origin: &Origin) {
        self.slots.pin().remove(origin);
    }

    fn is_in_use(&self, origin: &Origin) -> bool {
        let slots = self.slots.pin();
        slots
            .get(origin)
            .is_some_and(|slot| slot.is_used.load(Ordering::Relaxed))
    }
}

impl Robots {
    /// Starts to keep what `fetch` brings. The task that does it ends after the last handle.
    pub fn start<F: Fetch>(
        fetch: F,
        options: &Options,
        clock: Clock,
        metrics: Arc<Metrics>,
    ) -> (Self, JoinHandle<()>) {
        let shared = Arc::new(Shared {
            slots: papaya::HashMap::with_hasher(foldhash::fast::RandomState::default()),
            clock,
            metrics,
        });
        let (events, heard) = mpsc::channel(EVENTS);
        let refresh = Refresh::new(fetch, shared.clone(), heard, options);
        let robots = Self {
            shared,
            events,
            patience: options.fetch_timeout + PATIENCE,
        };
        (robots, tokio::spawn(refresh.run()))
    }

    /// What is known of `origin`'s robots.txt. Returns at once if that may be gone by; otherwise waits until it has been
    /// fetched, at most a little longer than one fetch may take. Leaving early does not end the fetch.
    ///
    /// # Errors
    ///
    /// If the fetch has not ended in time, as when too many are under way.
    pub async fn find(&self, origin: &Origin) -> Result<Arc<Snapshot>, Pending> {
        match self.at_hand(origin) {
            Some(snapshot) => Ok(snapshot),
            None => {
                let wanted = |reply| Event::Wanted(origin.clone(), reply);
                self.ask_in_time(wanted).await
            }
        }
    }

    /// What is known of `origin`'s robots.txt, if that may be gone by now. Never waits.
    pub fn at_hand(&self, origin: &Origin) -> Option<Arc<Snapshot>> {
        let slots = self.shared.slots.pin();
        let slot = slots.get(origin)?;
        let snapshot = slot.snapshot.load_full();
        let usable = snapshot.usable(self.shared.clock.now());
        if usable == Use::AfterRefetch {
            return None;
        }
        if usable == Use::AtOnceAndRefetch && !slot.is_reported.swap(true, Ordering::Relaxed) {
            let overdue = Event::Overdue(origin.clone());
            // With the channel full the next reader says it again.
            let is_heard = self.events.try_send(overdue).is_ok();
            slot.is_reported.store(is_heard, Ordering::Relaxed);
        }
        if !slot.is_used.load(Ordering::Relaxed) {
            slot.is_used.store(true, Ordering::Relaxed);
        }
        self.shared.metrics.robots_lookup(Lookup::Hit);
        Some(snapshot)
    }

    /// Fetches `origin`'s robots.txt anew and returns what is known then.
    ///
    /// # Errors
    ///
    /// If the fetch has not ended in time. It goes on.
    pub async fn refresh(&self, origin: &Origin) -> Result<Arc<Snapshot>, Pending> {
        let refresh = |reply| Event::Refresh(origin.clone(), reply);
        self.ask_in_time(refresh).await
    }

    /// Forgets what is known of `origin`; whether there was anything.
    pub async fn forget(&self, origin: &Origin) -> bool {
        let forget = |reply| Event::Forget(origin.clone(), reply);
        self.ask(forget).await.unwrap_or(false)
    }

    /// Everything that is known of `origin`. Does not count as a use.
    pub async fn inspect(&self, origin: &Origin) -> Option<Inspection> {
        let inspect = |reply| Event::Inspect(origin.clone(), reply);
        self.ask(inspect).await.flatten()
    }

    /// The known origins that `listing` asks for, in order, with what is known of them. Looks at all entries.
    pub fn list(&self, listing: &Listing) -> Vec<(Origin, Arc<Snapshot>)> {
        let now = self.shared.clock.now();
        let is_asked_for = |origin: &Origin, snapshot: &Snapshot| {
            listing.after.as_ref().is_none_or(|after| origin > after)
                && listing
                    .state
                    .is_none_or(|state| snapshot.state(now) == state)
                && (listing.query.is_empty() || origin.to_string().contains(&listing.query))
        };
        let mut found: Vec<_> = self
            .shared
            .slots
            .pin()
            .iter()
            .map(|(origin, slot)| (origin, slot.snapshot.load_full()))
            .filter(|(origin, snapshot)| is_asked_for(origin, snapshot))
            .map(|(origin, snapshot)| (origin.clone(), snapshot))
            .collect();
        found.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        found.truncate(listing.limit);
        found
    }

    /// Counts the entries by state into the metrics. Looks at all entries: for whoever gathers the metrics.
    pub fn observe(&self) {
        let now = self.shared.clock.now();
        let mut counts = State::ALL.map(|state| (state, 0));
        for (_, slot) in &self.shared.slots.pin() {
            let found = slot.snapshot.load().state(now);
            for (state, count) in &mut counts {
                *count += usize::from(*state == found);
            }
        }
        for (state, count) in counts {
            self.shared.metrics.robots_entries(state.as_str(), count);
        }
    }

    /// What the handle's clock shows: the time to judge snapshots by.
    pub fn clock(&self) -> Clock {
        self.shared.clock
    }

    async fn ask_in_time(
        &self,
        event: impl FnOnce(oneshot::Sender<Arc<Snapshot>>) -> Event,
    ) -> Result<Arc<Snapshot>, Pending> {
        let answer = tokio::time::timeout(self.patience, self.ask(event)).await;
        answer.ok().flatten().ok_or(Pending {
            retry_after: self.patience,
        })
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
