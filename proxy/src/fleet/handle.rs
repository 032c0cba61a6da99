//! `Fleet`: the handle, and what is behind it.

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

/// What becomes of origins with a delay while the engine is away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLoss {
    /// They are refused: a node cannot tell an engine that is dead from one that others still reach, so nothing else keeps
    /// the delay in every case.
    #[default]
    Refuse,
    /// One node goes on with each, as the nodes last agreed. A node that alone is cut off goes beside the fleet.
    Home,
}

impl OnLoss {
    /// The spelling used in configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Home => "home",
        }
    }
}

/// How a node takes part.
#[derive(Debug)]
pub struct Options {
    /// Its name, as the engine has it.
    pub node: String,
    /// What it says of itself.
    pub about: String,
    /// What becomes of origins with a delay while the engine is away.
    pub on_loss: OnLoss,
    /// How long what nobody confirms is kept.
    pub keep: Duration,
    /// By which records are authenticated.
    pub key: Option<Key>,
}

/// What became of a node's share in the fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Another node knows something else of this origin.
    Changed(String),
    /// What this node noted of it came too late: the fleet had gone on without it.
    /// With the token that it was fetched with; 0: none.
    Superseded(String, u64),
    /// An operator had another node forget it.
    Forgotten(String),
    /// What others noted of this partition is lost: anything there may have changed.
    Suspect(usize),
    /// It rests from now on for so long.
    Rests(String, Duration),
    /// It rests no longer.
    Rested(String),
}

/// What a node shares with others. Cheap to clone; the task behind it ends when the last clone is gone.
#[derive(Clone)]
pub struct Fleet {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) engine: Box<dyn Engine>,
    pub(super) options: Options,
    pub(super) breaker: Breaker,
    /// None for a node that is alone: it has nothing to count.
    pub(super) metrics: Option<Arc<Metrics>>,
    /// By their numbers, of which the last is apart.
    pub(super) turns: Mutex<HashMap<u64, UnderWay>>,
    pub(super) last_turn: AtomicU64,
    pub(super) followers: Mutex<Vec<mpsc::UnboundedSender<Event>>>,
    /// One of them has not been told yet what rests.
    pub(super) has_new_follower: AtomicBool,
    /// What was learned while the engine was away.
    pub(super) unsettled: Mutex<Unsettled>,
    pub(super) last_beat: Mutex<Beat>,
    /// Why beats fail, though the engine is there.
    pub(super) beats_fail: Mutex<Option<Trouble>>,
    /// When the engine was found again.
    pub(super) back_at: Mutex<Option<Instant>>,
    /// The nodes among which `max_concurrent_per_origin` is shared while the engine is away.
    pub(super) sharers: AtomicUsize,
    /// The node has said that it stops.
    pub(super) has_parted: AtomicBool,
    /// How far the engine's calendar is ahead of this machine's, in milliseconds.
    pub(super) offset: AtomicI64,
    /// Something happened that the task is to look at now.
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

    /// Whether there may be others and they can be asked, so that what this node alone has kept may be out of date.
    pub(crate) fn is_to_be_asked(&self) -> bool {
        self.shared.engine.is_shared() && !self.shared.breaker.is_open()
    }

    /// Hears what others note from now on, and what rests already.
    pub(crate) fn follow(&self) -> mpsc::UnboundedReceiver<Event> {
        let (sender, receiver) = mpsc::unbounded_channel();
        if self.shared.engine.is_shared() {
            lock(&self.shared.followers).push(sender);
            self.shared.has_new_follower.store(true, Ordering::Release);
            self.shared.wake.notify_one();
        }
        receiver
    }

    /// Says that this node stops: another process may have its name at once.
    pub(crate) async fn part(&self) {
        let shared = &self.shared;
        shared.has_parted.store(true, Ordering::Release);
        if shared.engine.is_shared() {
            // Unheard, it is gone for the others within seconds.
            let _ = shared.ask("part", shared.engine.part()).await;
        }
    }

    /// In which partition an origin is.
    pub(crate) fn partition(&self, origin: &str) -> usize {
        self.shared.engine.partition(origin)
    }
}

impl Shared {
    /// Asks the engine, unless it is known to be away.
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

    /// Tells everybody here.
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

    /// Whether this machine's calendar is too far from the engine's for records that are authenticated.
    pub(super) fn is_clock_off(&self) -> bool {
        let offset = self.offset.load(Ordering::Relaxed).unsigned_abs();
        self.options.key.is_some() && Duration::from_millis(offset) > TOLERATED
    }

    /// The engine's calendar now, since the epoch.
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
