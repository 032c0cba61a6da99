//! The fleet's background task: it beats, reconnects, reads the notes of others, and sends what the engine missed.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use tokio::time::{Instant, timeout};

use super::breaker::Trouble;
use super::engine::{Changes, Engine, Failure, Positions, What};
use super::handle::{Event, Fleet, Options, Shared, lock};
use crate::clock::calendar;
use crate::observe::metrics::Metrics;

/// The interval at which notes are read: other nodes know a change within this time and a round trip.
const READ: Duration = Duration::from_millis(250);
/// The interval of beats, with which slots are renewed.
const BEAT: Duration = Duration::from_secs(1);
/// The shortest and the longest pause between attempts to reach an engine that is away.
const RETRY: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(2)];
/// The most settlements sent with one beat after the engine was away.
const SETTLED_AT_ONCE: usize = 200;
/// The time within which all nodes notice that the engine is back and have renewed their slots: an attempt that times out,
/// the pause after it, and an attempt that succeeds.
pub(crate) const BACK_WITHIN: Duration = Duration::from_secs(8);
/// The time within which all nodes notice that the engine is away: a beat, and an attempt to reconnect.
pub(super) const NOTICED_WITHIN: Duration = Duration::from_secs(4);
/// The longest round trip after which the engine's time is compared with ours.
const ROUND_TRIP: Duration = Duration::from_secs(1);

/// The state of the task.
#[derive(Default)]
struct Watch {
    positions: Positions,
    last_beat: Option<Instant>,
    misses: u32,
    /// Whether the last beat failed.
    has_missed: bool,
    run_id: String,
}

impl Fleet {
    /// Joins the fleet of `engine`. If the engine is away, the node starts without it and joins later. Must be called within
    /// a tokio runtime.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine answers but refuses this node, or is not configured as a fleet needs it.
    pub async fn join(
        engine: Box<dyn Engine>,
        options: Options,
        metrics: Arc<Metrics>,
    ) -> Result<Self, Failure> {
        let fleet = Self::new(engine, options, Some(metrics));
        let asked = Instant::now();
        match fleet.shared.engine.beat(&fleet.shared.options.about).await {
            Err(failure @ Failure::Denied(_)) => return Err(failure),
            Err(failure) => fleet.shared.failed(&failure),
            Ok(beat) => {
                fleet.shared.note_clock(beat.time, asked.elapsed());
                fleet.shared.note_sharers(beat.members.len());
                *lock(&fleet.shared.last_beat) = beat;
            }
        }
        start(&fleet.shared);
        Ok(fleet)
    }
}

fn start(shared: &Arc<Shared>) {
    shared.observe_state();
    let (weak, wake) = (Arc::downgrade(shared), Arc::clone(&shared.wake));
    tokio::spawn(async move {
        let mut watch = Watch::default();
        while let Some(pause) = watch.round(&weak).await {
            // A timeout is the normal case; waking only shortens the pause.
            let _ = timeout(pause, wake.notified()).await;
        }
    });
}

impl Watch {
    /// Polls the engine once. Returns the pause until the next time; `None` when the fleet is no longer used.
    async fn round(&mut self, shared: &Weak<Shared>) -> Option<Duration> {
        let shared = shared.upgrade()?;
        if shared.has_parted.load(Ordering::Acquire) {
            return None;
        }
        let done = self.look(&shared).await;
        match done {
            Ok(()) => {
                self.misses = 0;
                Some(READ)
            }
            Err(failure) if shared.breaker.is_open() => {
                tracing::debug!(error = %failure, "the fleet's engine is away");
                self.last_beat = None;
                self.misses = self.misses.saturating_add(1);
                let pause = RETRY[0] * 2_u32.saturating_pow(self.misses.min(8));
                Some(spread(
                    pause.min(RETRY[1]),
                    &shared.options.node,
                    self.misses,
                ))
            }
            Err(_) => Some(READ),
        }
    }

    async fn look(&mut self, shared: &Shared) -> Result<(), Failure> {
        if self.last_beat.is_none_or(|at| at.elapsed() >= BEAT) {
            let beaten = self.beat(shared).await;
            shared.note_beat(&beaten);
            match beaten {
                // The engine is reachable, so notes can still be read.
                Ok(()) | Err(Failure::Corrupt(_) | Failure::Full) => {}
                lost => {
                    self.has_missed = true;
                    return lost;
                }
            }
            if std::mem::take(&mut self.has_missed) {
                // Other nodes may have lost it for longer, and not be back yet.
                *lock(&shared.back_at) = Some(Instant::now());
            }
            self.last_beat = Some(Instant::now());
            if !shared.breaker.is_open() {
                shared.keep_turns().await;
                shared.settle_missed().await;
            }
        }
        let is_first = shared.has_new_follower.swap(false, Ordering::AcqRel);
        let changes = noted(shared, shared.engine.changes(&self.positions).await)?;
        let rests = shared
            .rests(&changes, is_first || shared.breaker.is_open())
            .await?;
        for _ in &changes.unreadable {
            shared.failed(&Failure::Corrupt("notes that cannot be read".to_owned()));
        }
        self.positions = changes.positions.clone();
        shared.tell(&changes, rests);
        if shared.breaker.is_open() {
            // Only after the notes were read: requests must not get slots at origins that rest.
            *lock(&shared.back_at) = Some(Instant::now());
            shared.breaker.close();
            shared.keep_turns().await;
            shared.observe_state();
            tracing::info!("the fleet's engine is back");
        }
        Ok(())
    }

    async fn beat(&mut self, shared: &Shared) -> Result<(), Failure> {
        let asked = Instant::now();
        let beat = noted(shared, shared.engine.beat(&shared.options.about).await)?;
        shared.note_clock(beat.time, asked.elapsed());
        shared.note_sharers(beat.members.len());
        let run_id = &beat.server.run_id;
        let is_another = !self.run_id.is_empty() && self.run_id != *run_id;
        self.run_id.clone_from(run_id);
        if let Some(metrics) = &shared.metrics {
            let unsettled = lock(&shared.unsettled).len();
            metrics.fleet().beat(beat.members.len(), unsettled);
            let offset = shared.offset.load(Ordering::Relaxed);
            metrics.fleet().clock_offset(offset as f64 / 1000.0);
            if is_another {
                metrics.fleet().born();
            }
        }
        *lock(&shared.last_beat) = beat;
        Ok(())
    }
}

/// Returns this machine's time, in milliseconds since the epoch.
fn now() -> i64 {
    let since_epoch = calendar().duration_since(SystemTime::UNIX_EPOCH);
    let millis = since_epoch.unwrap_or_default().as_millis();
    i64::try_from(millis).unwrap_or(i64::MAX)
}

/// Returns the milliseconds by which the engine's clock, which shows `time`, is ahead of this machine's.
pub(super) fn offset(time: u64) -> i64 {
    signed(time) - now()
}

fn signed(millis: u64) -> i64 {
    i64::try_from(millis).unwrap_or(i64::MAX)
}

/// Records a failure and passes the answer on.
fn noted<T>(shared: &Shared, answer: Result<T, Failure>) -> Result<T, Failure> {
    answer.inspect_err(|failure| shared.failed(failure))
}

/// Shortens `pause` by up to a third, so that nodes that lost the engine together do not all come back at once.
fn spread(pause: Duration, node: &str, round: u32) -> Duration {
    let sum = node.bytes().fold(round, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(byte.into())
    });
    pause - pause / 3 * (sum % 100) / 100
}

impl Shared {
    /// Notes whether beats fail although the engine is reachable.
    fn note_beat(&self, beaten: &Result<(), Failure>) {
        let failure = match beaten {
            Err(failure @ (Failure::Corrupt(_) | Failure::Full)) => Some(failure),
            _ => None,
        };
        let mut beats_fail = lock(&self.beats_fail);
        match (failure, beats_fail.is_some()) {
            (Some(failure), false) => {
                tracing::warn!(error = %failure, "the beats to the fleet's engine fail: other nodes may take this one for gone");
                let (since, failure) = (Instant::now(), failure.clone());
                *beats_fail = Some(Trouble { since, failure });
            }
            (None, true) => {
                tracing::info!("the beats to the fleet's engine fail no more");
                *beats_fail = None;
            }
            _ => return,
        }
        drop(beats_fail);
        self.observe_state();
    }

    /// Notes the difference of the clocks, unless the beat `took` too long for that.
    fn note_clock(&self, time: u64, took: Duration) {
        if time == 0 || took > ROUND_TRIP {
            return;
        }
        let was_off = self.is_clock_off();
        let offset = offset(time);
        self.offset.store(offset, Ordering::Relaxed);
        if self.is_clock_off() != was_off {
            if was_off {
                tracing::info!("this machine's clock is right again");
            } else {
                tracing::warn!(
                    seconds = -offset / 1000,
                    "this machine's clock is off: with store.key_file nothing is gone by that other nodes wrote"
                );
            }
            self.observe_state();
        }
    }

    /// Notes the number of nodes. After a loss it only rises at first: the others may not be back yet.
    fn note_sharers(&self, members: usize) {
        if self.breaker.is_open() || self.returning().is_some() {
            self.sharers.fetch_max(members, Ordering::Relaxed);
        } else {
            self.sharers.store(members, Ordering::Relaxed);
        }
    }

    /// Returns how long other nodes may still act without the engine that has come back.
    pub(super) fn returning(&self) -> Option<Duration> {
        let back_at = *lock(&self.back_at);
        let left = BACK_WITHIN.checked_sub(back_at?.elapsed())?;
        (!left.is_zero()).then_some(left)
    }

    /// Returns the origins that rest, in all partitions or in those where `changes` say that it may have changed.
    async fn rests(
        &self,
        changes: &Changes,
        all: bool,
    ) -> Result<Vec<(String, Duration)>, Failure> {
        let mut partitions: Vec<usize> = if all {
            (0..changes.positions.len()).collect()
        } else {
            let rests = changes.notes.iter().filter(|note| note.what == What::Rests);
            let noted = rests.map(|note| self.engine.partition(&note.origin));
            noted.chain(changes.gaps.iter().copied()).collect()
        };
        partitions.sort_unstable();
        partitions.dedup();
        let asking = partitions
            .into_iter()
            .map(|partition| self.engine.resting(partition));
        let mut resting = Vec::new();
        for answer in join_all(asking).await {
            resting.extend(noted(self, answer)?);
        }
        Ok(resting)
    }

    /// Turns notes into events, sends them to the caches of this node, and counts them.
    fn tell(&self, changes: &Changes, rests: Vec<(String, Duration)>) {
        if let Some(metrics) = &self.metrics {
            metrics.fleet().gaps(changes.gaps.len());
            let now = now() + self.offset.load(Ordering::Relaxed);
            for at in &changes.times {
                let delay = (now - signed(*at)).max(0);
                metrics
                    .fleet()
                    .change(Duration::from_millis(delay.unsigned_abs()));
            }
        }
        let gaps = changes.gaps.iter().copied().map(Event::Suspect);
        let notes = changes.notes.iter().filter_map(|note| {
            let origin = note.origin.clone();
            match note.what {
                What::Changed => Some(Event::Changed(origin)),
                What::Forgotten => Some(Event::Forgotten(origin)),
                What::Rested => Some(Event::Rested(origin)),
                // It comes with `rests`, which have the time that is left.
                What::Rests => None,
            }
        });
        let rests = rests
            .into_iter()
            .map(|(origin, rest)| Event::Rests(origin, rest));
        self.tell_followers(gaps.chain(notes).chain(rests));
    }

    /// Sends some of the settlements that the engine missed.
    async fn settle_missed(&self) {
        let missed: Vec<_> = {
            let mut unsettled = lock(&self.unsettled);
            let popped = std::iter::from_fn(|| unsettled.pop());
            popped.take(SETTLED_AT_ONCE).collect()
        };
        for (mut settlement, learned_at) in missed {
            // The lease has ended, so the token no longer fences anything.
            settlement.token = 0;
            self.settle(settlement, learned_at).await;
        }
    }
}
