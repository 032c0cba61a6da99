//! The fleet's background task: it beats, reconnects, reads the notes of others, and sends the values that the engine missed.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use tokio::time::{Instant, timeout};
use wayleave_clock::system_time;
use wayleave_telemetry::metrics::Metrics;

use super::breaker::LastFailure;
use super::engine::{ChangeBatch, EngineFailure, LogPositions, NoteKind, SharedEngine};
use super::handle::{Fleet, FleetEvent, FleetInner, FleetSettings, lock};

/// The longest time between two reads of notes. Other nodes know a change within this time and a round trip even if the engine
/// cannot tell that there is a note.
const READ_INTERVAL: Duration = Duration::from_millis(250);
/// The pause after a note, in which more are collected.
const NOTE_INTERVAL: Duration = Duration::from_millis(10);
/// The interval of beats, with which slots are renewed.
const BEAT_INTERVAL: Duration = Duration::from_secs(1);
/// The shortest and the longest pause between attempts to reach an engine that is away.
const RETRY_PAUSES: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(2)];
/// The most settlements sent with one beat after the engine was unreachable.
const SETTLED_PER_BEAT: usize = 200;
/// The time within which all nodes notice that the engine is back and have renewed their slots: an attempt that times out,
/// the pause after it, and an attempt that succeeds.
pub const RETURN_WINDOW: Duration = Duration::from_secs(8);
/// The time within which all nodes notice that the engine is away: a beat, and an attempt to reconnect.
pub(super) const LOSS_NOTICED_WITHIN: Duration = Duration::from_secs(4);
/// The longest round trip after which the engine's time is compared with ours.
const MAX_ROUND_TRIP: Duration = Duration::from_secs(1);

/// The state of the task.
#[derive(Default)]
struct FleetWatcher {
    positions: LogPositions,
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
        engine: Box<dyn SharedEngine>,
        settings: FleetSettings,
        metrics: Arc<Metrics>,
    ) -> Result<Self, EngineFailure> {
        let fleet = Self::new(engine, settings, Some(metrics));
        let sent_at = Instant::now();
        match fleet.inner.engine.beat(&fleet.inner.settings.version).await {
            // A mistake in the configuration must be reported at the start; an outage must not stop a restart.
            Err(failure @ EngineFailure::Denied(_)) => return Err(failure),
            Err(failure) => fleet.inner.note_failure(&failure, sent_at),
            Ok(beat) => {
                fleet.inner.note_clock(beat.time, sent_at.elapsed());
                fleet.inner.note_sharers(beat.members.len());
                *lock(&fleet.inner.last_beat) = beat;
            }
        }
        spawn_watcher(&fleet.inner);
        Ok(fleet)
    }
}

fn spawn_watcher(inner: &Arc<FleetInner>) {
    inner.observe_state();
    // Weak, so that the task ends when the last handle is dropped.
    let weak = Arc::downgrade(inner);
    let wake = Arc::clone(&inner.wake);
    tokio::spawn(listen(weak.clone()));
    tokio::spawn(async move {
        let mut watch = FleetWatcher::default();
        while let Some(pause) = watch.round(&weak).await {
            // A timeout is the normal case; waking only shortens the pause.
            let _ = timeout(pause, wake.notified()).await;
        }
    });
}

/// Wakes the watcher when there is a note, so that all nodes know of a rest before they send further requests.
async fn listen(fleet: Weak<FleetInner>) {
    while let Some(inner) = fleet.upgrade()
        && !inner.has_left.load(Ordering::Acquire)
    {
        let has_note = inner.engine.next_note().await;
        if has_note == Ok(true) {
            inner.wake.notify_one();
        }
        drop(inner);
        tokio::time::sleep(if has_note.is_ok() { NOTE_INTERVAL } else { BEAT_INTERVAL }).await;
    }
}

impl FleetWatcher {
    /// Polls the engine once. Returns the pause until the next time; `None` when the fleet is no longer used.
    async fn round(&mut self, fleet: &Weak<FleetInner>) -> Option<Duration> {
        let inner = fleet.upgrade()?;
        if inner.has_left.load(Ordering::Acquire) {
            return None;
        }
        match self.poll(&inner).await {
            Ok(()) => {
                self.misses = 0;
                Some(READ_INTERVAL)
            }
            Err(failure) if inner.breaker.is_open() => {
                tracing::debug!(error = %failure, "the fleet's engine is unreachable");
                // Whatever comes next has to be a beat, because only a beat reconnects.
                self.last_beat = None;
                self.misses = self.misses.saturating_add(1);
                let pause = RETRY_PAUSES[0] * 2_u32.saturating_pow(self.misses.min(8));
                Some(jittered(pause.min(RETRY_PAUSES[1]), &inner.settings.node, self.misses))
            }
            // A single timeout: the breaker is still closed.
            Err(_) => Some(READ_INTERVAL),
        }
    }

    /// Sends a beat if one is due, then reads the notes, and closes the breaker if both succeed.
    async fn poll(&mut self, inner: &FleetInner) -> Result<(), EngineFailure> {
        // If calls failed, their connection may be dead, and only a beat opens another.
        let is_lost = inner.breaker.is_open();
        if is_lost || self.last_beat.is_none_or(|at| at.elapsed() >= BEAT_INTERVAL) {
            let beat = self.beat(inner).await;
            inner.note_beat(&beat);
            match beat {
                // The engine is reachable, so notes can still be read.
                Ok(()) | Err(EngineFailure::Corrupt(_) | EngineFailure::Full) => {}
                lost => {
                    self.has_missed = true;
                    return lost;
                }
            }
            if std::mem::take(&mut self.has_missed) {
                // Other nodes may have lost it for longer, and not be back yet.
                *lock(&inner.engine_back_at) = Some(Instant::now());
            }
            self.last_beat = Some(Instant::now());
            if !inner.breaker.is_open() {
                inner.renew_slots().await;
                inner.settle_missed().await;
            }
        }
        // A new subscriber needs all rests, not only those noted from now on.
        let is_first = inner.has_new_subscriber.swap(false, Ordering::AcqRel);
        let asked_at = Instant::now();
        let changes = counted(inner, asked_at, inner.engine.changes(&self.positions).await)?;
        let rests = inner.read_rests(&changes, is_first || inner.breaker.is_open()).await?;
        for _ in &changes.unreadable {
            let failure = EngineFailure::Corrupt("notes that cannot be read".to_owned());
            inner.note_failure(&failure, asked_at);
        }
        self.positions = changes.positions.clone();
        inner.publish(&changes, rests);
        if inner.breaker.is_open() {
            // Only after the notes were read: requests must not get slots at origins that rest.
            *lock(&inner.engine_back_at) = Some(Instant::now());
            inner.breaker.close();
            inner.renew_slots().await;
            inner.observe_state();
            tracing::info!("the fleet's engine is back");
        }
        Ok(())
    }

    async fn beat(&mut self, inner: &FleetInner) -> Result<(), EngineFailure> {
        let sent_at = Instant::now();
        let beat = inner.engine.beat(&inner.settings.version).await;
        let beat = counted(inner, sent_at, beat)?;
        inner.note_clock(beat.time, sent_at.elapsed());
        inner.note_sharers(beat.members.len());
        let run_id = &beat.server.run_id;
        // Read with every beat, because a replica can be promoted without a closed connection.
        let is_restarted = !self.run_id.is_empty() && self.run_id != *run_id;
        self.run_id.clone_from(run_id);
        if let Some(metrics) = &inner.metrics {
            let unsettled = lock(&inner.unsettled).len();
            metrics.fleet().heartbeat(beat.members.len(), unsettled);
            let offset = inner.clock_offset.load(Ordering::Relaxed);
            metrics.fleet().clock_offset(offset as f64 / 1000.0);
            if is_restarted {
                metrics.fleet().engine_restarted();
            }
        }
        *lock(&inner.last_beat) = beat;
        Ok(())
    }
}

/// Returns this machine's time, in milliseconds since the epoch.
fn calendar_millis() -> i64 {
    let since_epoch = system_time().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
}

/// Returns the milliseconds by which the engine's clock, which shows `time`, is ahead of this machine's.
pub(super) fn clock_offset(time: u64) -> i64 {
    signed_millis(time) - calendar_millis()
}

fn signed_millis(millis: u64) -> i64 {
    i64::try_from(millis).unwrap_or(i64::MAX)
}

/// Records the failure of a call that was made at `called_at`, and passes the answer on.
fn counted<T>(
    inner: &FleetInner,
    called_at: Instant,
    answer: Result<T, EngineFailure>,
) -> Result<T, EngineFailure> {
    answer.inspect_err(|failure| inner.note_failure(failure, called_at))
}

/// Shortens `pause` by up to a third, so that nodes that lost the engine together do not all come back at once.
fn jittered(pause: Duration, node: &str, round: u32) -> Duration {
    let sum = node.bytes().fold(round, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    // By the node's name instead of random numbers, so that tests can repeat it.
    pause - pause / 3 * (sum % 100) / 100
}

impl FleetInner {
    /// Notes whether beats fail although the engine is reachable.
    fn note_beat(&self, beat: &Result<(), EngineFailure>) {
        let failure = match beat {
            Err(failure @ (EngineFailure::Corrupt(_) | EngineFailure::Full)) => Some(failure),
            _ => None,
        };
        let mut beat_failure = lock(&self.beat_failure);
        match (failure, beat_failure.is_some()) {
            (Some(failure), false) => {
                tracing::warn!(error = %failure, "the beats to the fleet's engine fail: other nodes may drop this one");
                *beat_failure =
                    Some(LastFailure { since: Instant::now(), failure: failure.clone() });
            }
            (None, true) => {
                tracing::info!("the beats to the fleet's engine succeed again");
                *beat_failure = None;
            }
            _ => return,
        }
        // `observe_state` takes the lock again.
        drop(beat_failure);
        self.observe_state();
    }

    /// Notes the difference of the clocks, unless the round trip of the beat was too long for that.
    fn note_clock(&self, time: u64, round_trip: Duration) {
        if time == 0 || round_trip > MAX_ROUND_TRIP {
            return;
        }
        let was_off = self.is_clock_off();
        let offset = clock_offset(time);
        self.clock_offset.store(offset, Ordering::Relaxed);
        if self.is_clock_off() != was_off {
            if was_off {
                tracing::info!("this machine's clock is right again");
            } else {
                tracing::warn!(
                    seconds = -offset / 1000,
                    "this machine's clock is off: with store.key_file the records of other nodes are not used"
                );
            }
            self.observe_state();
        }
    }

    /// Notes the number of nodes. After a loss it only rises at first: the others may not be back yet.
    fn note_sharers(&self, members: usize) {
        if self.breaker.is_open() || self.return_window_left().is_some() {
            self.sharing_nodes.fetch_max(members, Ordering::Relaxed);
        } else {
            self.sharing_nodes.store(members, Ordering::Relaxed);
        }
    }

    /// Returns how long other nodes may still act without the engine that has come back.
    pub(super) fn return_window_left(&self) -> Option<Duration> {
        let back_at = *lock(&self.engine_back_at);
        let left = RETURN_WINDOW.checked_sub(back_at?.elapsed())?;
        (!left.is_zero()).then_some(left)
    }

    /// Returns the origins that rest, in all partitions or in those where `changes` say that it may have changed.
    async fn read_rests(
        &self,
        changes: &ChangeBatch,
        all: bool,
    ) -> Result<Vec<(String, Duration)>, EngineFailure> {
        let mut partitions: Vec<usize> = if all {
            (0..changes.positions.len()).collect()
        } else {
            // A note does not say how long the rest is, and lost notes may have been about rests.
            let rests = changes
                .notes
                .iter()
                .filter(|note| note.kind == NoteKind::RestStarted)
                .map(|note| self.engine.partition(&note.origin));
            rests.chain(changes.gaps.iter().copied()).collect()
        };
        partitions.sort_unstable();
        partitions.dedup();
        let asked_at = Instant::now();
        let answers =
            join_all(partitions.into_iter().map(|partition| self.engine.resting(partition)));
        let mut resting = Vec::new();
        for answer in answers.await {
            resting.extend(counted(self, asked_at, answer)?);
        }
        Ok(resting)
    }

    /// Turns notes into events, sends them to the caches of this node, and counts them.
    fn publish(&self, changes: &ChangeBatch, rests: Vec<(String, Duration)>) {
        if let Some(metrics) = &self.metrics {
            metrics.fleet().gaps(changes.gaps.len());
            let now = calendar_millis() + self.clock_offset.load(Ordering::Relaxed);
            for at in &changes.times {
                let delay = (now - signed_millis(*at)).max(0);
                metrics.fleet().change_delay(Duration::from_millis(delay.unsigned_abs()));
            }
        }
        let gaps = changes.gaps.iter().copied().map(FleetEvent::NotesLost);
        let notes = changes.notes.iter().filter_map(|note| {
            let origin = note.origin.clone();
            match note.kind {
                NoteKind::Changed => Some(FleetEvent::Changed(origin)),
                NoteKind::Forgotten => Some(FleetEvent::Forgotten(origin)),
                NoteKind::RestEnded => Some(FleetEvent::RestEnded(origin)),
                // It comes with `rests`, which have the time that is left.
                NoteKind::RestStarted => None,
            }
        });
        let started = rests.into_iter().map(|(origin, rest)| FleetEvent::RestStarted(origin, rest));
        self.notify_subscribers(gaps.chain(notes).chain(started));
    }

    /// Sends some of the settlements that the engine missed.
    async fn settle_missed(&self) {
        // Few at a time, so that a long queue does not delay the next beat.
        let missed: Vec<_> = {
            let mut unsettled = lock(&self.unsettled);
            let popped = std::iter::from_fn(|| unsettled.pop());
            popped.take(SETTLED_PER_BEAT).collect()
        };
        for (mut settlement, fetched_at) in missed {
            // The lease has ended, so the token no longer fences anything.
            settlement.token = 0;
            self.settle(settlement, fetched_at).await;
        }
    }
}
