//! `Fleet`, the handle that the rest of the proxy uses, and the state that its clones share.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::time::Instant;
use wayleave_clock::system_time;
use wayleave_telemetry::metrics::Metrics;

use super::alone::LoneEngine;
use super::breaker::{EngineBreaker, LastFailure};
use super::engine::{BeatAnswer, EngineFailure, SharedEngine};
use super::held_slots::{HeldSlot, MAX_CONCURRENT_CALLS};
use super::seal::{FleetKey, MAX_CLOCK_SKEW};
use super::state::FleetState;
use super::unsettled::UnsettledQueue;

/// The treatment of origins with a delay while the engine is away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLoss {
    /// Requests are refused. A node cannot distinguish an engine that is dead from one that others still reach, so nothing else
    /// keeps the delay in every case.
    #[default]
    Refuse,
    /// Each origin is crawled by one node, by the last known list of nodes. If only one node is cut off, it and the rest of the
    /// fleet may crawl the same origin.
    Home,
}

impl OnLoss {
    /// Returns the spelling in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Home => "home",
        }
    }
}

/// The settings of a node's part in the fleet.
#[derive(Debug)]
pub struct FleetSettings {
    /// The node's name in the engine.
    pub node: String,
    /// The node's version, shown to operators of other nodes.
    pub version: String,
    /// The treatment of origins with a delay while the engine is away.
    pub on_loss: OnLoss,
    /// The time for which a record that is not revalidated is kept.
    pub retention: Duration,
    /// The key that authenticates records.
    pub key: Option<FleetKey>,
}

/// An event in the fleet that the caches of this node react to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FleetEvent {
    /// Another node has a record of this origin with different content.
    Changed(String),
    /// This node's record of the origin, fetched with this token (0: none), came too late: the fleet has a newer one.
    Superseded(String, u64),
    /// An operator had another node delete the record.
    Forgotten(String),
    /// Notes of this partition were lost: any record there may be out of date.
    NotesLost(usize),
    /// The origin rests for this time from now.
    RestStarted(String, Duration),
    /// The origin's rest has ended.
    RestEnded(String),
}

/// A handle on the state that this node shares with others. Cheap to clone; its background task ends when the last clone is
/// dropped.
#[derive(Clone)]
pub struct Fleet {
    pub(super) inner: Arc<FleetInner>,
}

pub(super) struct FleetInner {
    pub(super) engine: Box<dyn SharedEngine>,
    pub(super) settings: FleetSettings,
    pub(super) breaker: EngineBreaker,
    /// The counters; none for a node that is alone.
    pub(super) metrics: Option<Arc<Metrics>>,
    /// The slots held, by their numbers.
    pub(super) held_slots: Mutex<HashMap<u64, HeldSlot>>,
    pub(super) last_slot_number: AtomicU64,
    /// The turns of releases that are tried again.
    pub(super) release_retries: Semaphore,
    pub(super) subscribers: Mutex<Vec<mpsc::UnboundedSender<FleetEvent>>>,
    /// Whether a receiver was added that does not know yet which origins rest.
    pub(super) has_new_subscriber: AtomicBool,
    /// The settlements that wait for the engine to come back.
    pub(super) unsettled: Mutex<UnsettledQueue>,
    pub(super) last_beat: Mutex<BeatAnswer>,
    /// The failure of the last beat, while other calls succeed.
    pub(super) beat_failure: Mutex<Option<LastFailure>>,
    /// The time when the engine came back.
    pub(super) engine_back_at: Mutex<Option<Instant>>,
    /// The number of nodes that share `max_concurrent_per_origin` while the engine is away.
    pub(super) sharing_nodes: AtomicUsize,
    /// Whether this node has announced that it stops.
    pub(super) has_left: AtomicBool,
    /// The milliseconds by which the engine's clock is ahead of this machine's.
    pub(super) clock_offset: AtomicI64,
    /// Wakes the background task before its next interval.
    pub(super) wake: Arc<Notify>,
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet").field("engine", &self.inner.engine).finish_non_exhaustive()
    }
}

impl Default for Fleet {
    fn default() -> Self {
        Self::new(Box::new(LoneEngine), FleetSettings::alone(), None)
    }
}

impl FleetSettings {
    fn alone() -> Self {
        Self {
            node: String::new(),
            version: String::new(),
            on_loss: OnLoss::default(),
            retention: Duration::ZERO,
            key: None,
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fleet {
    pub(super) fn new(
        engine: Box<dyn SharedEngine>,
        settings: FleetSettings,
        metrics: Option<Arc<Metrics>>,
    ) -> Self {
        let inner = FleetInner {
            engine,
            settings,
            breaker: EngineBreaker::default(),
            metrics,
            held_slots: Mutex::default(),
            last_slot_number: AtomicU64::new(0),
            release_retries: Semaphore::new(MAX_CONCURRENT_CALLS),
            subscribers: Mutex::default(),
            has_new_subscriber: AtomicBool::new(false),
            unsettled: Mutex::default(),
            last_beat: Mutex::default(),
            beat_failure: Mutex::default(),
            engine_back_at: Mutex::default(),
            sharing_nodes: AtomicUsize::new(1),
            has_left: AtomicBool::new(false),
            clock_offset: AtomicI64::new(0),
            wake: Arc::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Returns whether other nodes may know newer records and the engine can be asked for them.
    pub fn is_reachable(&self) -> bool {
        self.inner.engine.is_shared() && !self.inner.breaker.is_open()
    }

    /// Returns a receiver of events from now on, the first of which name the origins that rest already.
    pub fn subscribe(&self) -> mpsc::UnboundedReceiver<FleetEvent> {
        // Unbounded, because a lost event would leave a stale record; there is at most one for each note read.
        let (sender, receiver) = mpsc::unbounded_channel();
        if self.inner.engine.is_shared() {
            lock(&self.inner.subscribers).push(sender);
            self.inner.has_new_subscriber.store(true, Ordering::Release);
            self.inner.wake.notify_one();
        }
        receiver
    }

    /// Announces that this node stops, so that another process can take its name at once.
    pub async fn leave(&self) {
        let inner = &self.inner;
        inner.has_left.store(true, Ordering::Release);
        if inner.engine.is_shared() {
            // If this fails, the others drop this node a few seconds after its last beat.
            let _ = inner.call_engine("part", inner.engine.leave_fleet()).await;
        }
    }

    /// Returns the partition of an origin.
    pub fn partition(&self, origin: &str) -> usize {
        self.inner.engine.partition(origin)
    }
}

impl FleetInner {
    /// Calls the engine and records how it went. Fails at once while the engine is away.
    pub(super) async fn call_engine<T>(
        &self,
        verb: &'static str,
        call: impl Future<Output = Result<T, EngineFailure>>,
    ) -> Result<T, EngineFailure> {
        // Requests must not wait for an engine that is known to be away; the background task finds it again.
        if self.breaker.is_open() {
            return Err(EngineFailure::Connection("the engine is unreachable".to_owned()));
        }
        let started = Instant::now();
        let answer = call.await;
        if let Some(metrics) = &self.metrics {
            metrics.fleet().call(verb, started.elapsed());
        }
        match &answer {
            Ok(_) => self.breaker.record_success(),
            Err(failure) => self.note_failure(failure, started),
        }
        answer
    }

    /// Counts the failure of a call that was made at `called_at`, and reports it if it opens the breaker.
    pub(super) fn note_failure(&self, failure: &EngineFailure, called_at: Instant) {
        if let Some(metrics) = &self.metrics {
            metrics.fleet().error(failure.kind());
        }
        if self.breaker.record_failure(failure, called_at) {
            tracing::warn!(error = %failure, "the fleet's engine is unreachable: this node works without it");
            self.observe_state();
            self.wake.notify_one();
        }
    }

    /// Sends events to every receiver, and drops those that are closed.
    pub(super) fn notify_subscribers(&self, events: impl IntoIterator<Item = FleetEvent>) {
        let mut subscribers = lock(&self.subscribers);
        for event in events {
            subscribers.retain(|subscriber| subscriber.send(event.clone()).is_ok());
        }
    }

    pub(super) fn observe_state(&self) {
        if let Some(metrics) = &self.metrics {
            metrics.fleet().state(self.state().as_str());
        }
    }

    pub(super) fn state(&self) -> FleetState {
        if !self.engine.is_shared() {
            FleetState::Alone
        } else if self.breaker.is_open() {
            FleetState::Lost
        } else if lock(&self.beat_failure).is_some() {
            FleetState::BeatsFailing
        } else if self.is_clock_off() {
            FleetState::ClockOff
        } else {
            FleetState::Up
        }
    }

    /// Returns whether there is a key and this machine's clock is too far from the engine's to verify records.
    pub(super) fn is_clock_off(&self) -> bool {
        let offset = self.clock_offset.load(Ordering::Relaxed).unsigned_abs();
        self.settings.key.is_some() && Duration::from_millis(offset) > MAX_CLOCK_SKEW
    }

    /// Returns the engine's time now, since the epoch.
    pub(super) fn engine_time(&self) -> Duration {
        let own = system_time().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let offset = self.clock_offset.load(Ordering::Relaxed);
        let difference = Duration::from_millis(offset.unsigned_abs());
        if offset >= 0 { own + difference } else { own.saturating_sub(difference) }
    }
}
