//! `Fleet`, the handle that the rest of the proxy uses, and the state that its clones share.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::alone::Alone;
use super::breaker::{Breaker, Trouble};
use super::engine::{Beat, Engine, Failure};
use super::sealed::{Key, TOLERATED};
use super::state::State;
use super::under_way::UnderWay;
use super::unsettled::Unsettled;
use crate::clock::calendar;
use crate::observe::metrics::Metrics;

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
pub struct Options {
    /// The node's name in the engine.
    pub node: String,
    /// The node's version, shown to operators of other nodes.
    pub about: String,
    /// The treatment of origins with a delay while the engine is away.
    pub on_loss: OnLoss,
    /// The time for which a record that is not revalidated is kept.
    pub keep: Duration,
    /// The key that authenticates records.
    pub key: Option<Key>,
}

/// An event in the fleet that the caches of this node react to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Another node has a record of this origin with different content.
    Changed(String),
    /// This node's record of the origin, fetched with this token (0: none), came too late: the fleet has a newer one.
    Superseded(String, u64),
    /// An operator had another node delete the record.
    Forgotten(String),
    /// Notes of this partition were lost: any record there may be out of date.
    Suspect(usize),
    /// The origin rests for this time from now.
    Rests(String, Duration),
    /// The origin's rest has ended.
    Rested(String),
}

/// A handle on what this node shares with others. Cheap to clone; its background task ends when the last clone is dropped.
#[derive(Clone)]
pub struct Fleet {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) engine: Box<dyn Engine>,
    pub(super) options: Options,
    pub(super) breaker: Breaker,
    /// The counters; none for a node that is alone.
    pub(super) metrics: Option<Arc<Metrics>>,
    /// The slots held, by their numbers.
    pub(super) turns: Mutex<HashMap<u64, UnderWay>>,
    pub(super) last_turn: AtomicU64,
    pub(super) followers: Mutex<Vec<mpsc::UnboundedSender<Event>>>,
    /// Whether a receiver was added that does not know yet which origins rest.
    pub(super) has_new_follower: AtomicBool,
    /// The settlements that wait for the engine to come back.
    pub(super) unsettled: Mutex<Unsettled>,
    pub(super) last_beat: Mutex<Beat>,
    /// The failure of the last beat, while other calls succeed.
    pub(super) beats_fail: Mutex<Option<Trouble>>,
    /// The time when the engine came back.
    pub(super) back_at: Mutex<Option<Instant>>,
    /// The number of nodes that share `max_concurrent_per_origin` while the engine is away.
    pub(super) sharers: AtomicUsize,
    /// Whether this node has announced that it stops.
    pub(super) has_parted: AtomicBool,
    /// The milliseconds by which the engine's clock is ahead of this machine's.
    pub(super) offset: AtomicI64,
    /// Wakes the background task before its next interval.
    pub(super) wake: Arc<Notify>,
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet")
            .field("engine", &self.shared.engine)
            .finish_non_exhaustive()
    }
}

impl Default for Fleet {
    fn default() -> Self {
        Self::new(Box::new(Alone), Options::alone(), None)
    }
}

impl Options {
    fn alone() -> Self {
        Self {
            node: String::new(),
            about: String::new(),
            on_loss: OnLoss::default(),
            keep: Duration::ZERO,
            key: None,
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fleet {
    pub(super) fn new(
        engine: Box<dyn Engine>,
        options: Options,
        metrics: Option<Arc<Metrics>>,
    ) -> Self {
        let shared = Shared {
            engine,
            options,
            breaker: Breaker::default(),
            metrics,
            turns: Mutex::default(),
            last_turn: AtomicU64::new(0),
            followers: Mutex::default(),
            has_new_follower: AtomicBool::new(false),
            unsettled: Mutex::default(),
            last_beat: Mutex::default(),
            beats_fail: Mutex::default(),
            back_at: Mutex::default(),
            sharers: AtomicUsize::new(1),
            has_parted: AtomicBool::new(false),
            offset: AtomicI64::new(0),
            wake: Arc::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Returns whether other nodes may know newer records and the engine can be asked for them.
    pub(crate) fn is_to_be_asked(&self) -> bool {
        self.shared.engine.is_shared() && !self.shared.breaker.is_open()
    }

    /// Returns a receiver of events from now on, the first of which name the origins that rest already.
    pub(crate) fn follow(&self) -> mpsc::UnboundedReceiver<Event> {
        let (sender, receiver) = mpsc::unbounded_channel();
        if self.shared.engine.is_shared() {
            lock(&self.shared.followers).push(sender);
            self.shared.has_new_follower.store(true, Ordering::Release);
            self.shared.wake.notify_one();
        }
        receiver
    }

    /// Announces that this node stops, so that another process can take its name at once.
    pub(crate) async fn part(&self) {
        let shared = &self.shared;
        shared.has_parted.store(true, Ordering::Release);
        if shared.engine.is_shared() {
            // If this fails, the others drop this node a few seconds after its last beat.
            let _ = shared.ask("part", shared.engine.part()).await;
        }
    }

    /// Returns the partition of an origin.
    pub(crate) fn partition(&self, origin: &str) -> usize {
        self.shared.engine.partition(origin)
    }
}

impl Shared {
    /// Calls the engine and records how it went. Fails at once while the engine is away.
    pub(super) async fn ask<T>(
        &self,
        verb: &'static str,
        call: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        if self.breaker.is_open() {
            return Err(Failure::Connection("the engine is away".to_owned()));
        }
        let started = Instant::now();
        let answer = call.await;
        if let Some(metrics) = &self.metrics {
            metrics.fleet().call(verb, started.elapsed());
        }
        match &answer {
            Ok(_) => self.breaker.answered(),
            Err(failure) => self.failed(failure),
        }
        answer
    }

    pub(super) fn failed(&self, failure: &Failure) {
        if let Some(metrics) = &self.metrics {
            metrics.fleet().error(failure.kind());
        }
        if self.breaker.failed(failure) {
            tracing::warn!(error = %failure, "the fleet's engine is away: this node goes on by itself");
            self.observe_state();
            self.wake.notify_one();
        }
    }

    /// Sends events to every receiver, and drops those that are closed.
    pub(super) fn tell_followers(&self, events: impl IntoIterator<Item = Event>) {
        let mut followers = lock(&self.followers);
        for event in events {
            followers.retain(|follower| follower.send(event.clone()).is_ok());
        }
    }

    pub(super) fn observe_state(&self) {
        if let Some(metrics) = &self.metrics {
            metrics.fleet().state(self.state().as_str());
        }
    }

    pub(super) fn state(&self) -> State {
        match () {
            () if !self.engine.is_shared() => State::Alone,
            () if self.breaker.is_open() => State::Lost,
            () if lock(&self.beats_fail).is_some() => State::BeatsFailing,
            () if self.is_clock_off() => State::ClockOff,
            () => State::Up,
        }
    }

    /// Returns whether there is a key and this machine's clock is too far from the engine's to verify records.
    pub(super) fn is_clock_off(&self) -> bool {
        let offset = self.offset.load(Ordering::Relaxed).unsigned_abs();
        self.options.key.is_some() && Duration::from_millis(offset) > TOLERATED
    }

    /// Returns the engine's time now, since the epoch.
    pub(super) fn engine_time(&self) -> Duration {
        let own = calendar().duration_since(SystemTime::UNIX_EPOCH);
        let own = own.unwrap_or_default();
        let offset = self.offset.load(Ordering::Relaxed);
        let by = Duration::from_millis(offset.unsigned_abs());
        match offset {
            0.. => own + by,
            _ => own.saturating_sub(by),
        }
    }
}
