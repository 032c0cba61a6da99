//! The reference engine: a fleet in the memory of one process, for tests. It uses tokio's clock, which tests can pause.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::back_off;
use super::engine::{
    BeatAnswer, ChangeBatch, ChangeNote, ClaimAnswer, EngineFailure, FetchClaim, LogPositions,
    MemberNode, NoteKind, PacingResponse, QueueId, RecordChange, SettleAnswer, Settlement,
    SharedEngine, SharedRecord, SlotAnswer, SlotRequest,
};

/// The time after its last beat at which a node is dropped.
const MEMBER_TIMEOUT: Duration = Duration::from_secs(5);
/// The number of notes kept.
const MAX_NOTES: usize = 10_000;
/// The bounds of the time after which a waiting request asks again, which is a tenth of the delay.
const POLL_RANGE: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];
/// The time after which a waiting request that has not asked again loses its place.
const POLL_GRACE: Duration = Duration::from_secs(1);

/// One node's access to the shared memory.
#[derive(Clone, Debug)]
pub struct MemoryEngine {
    node: String,
    shared: Arc<Mutex<MemoryState>>,
}

#[derive(Debug, Default)]
struct MemoryState {
    /// The failure of every verb while it is set.
    failure: Option<EngineFailure>,
    entries: HashMap<String, MemoryEntry>,
    leases: HashMap<String, (String, Instant)>,
    last_token: u64,
    /// The notes, each with the node that wrote it.
    notes: VecDeque<(String, ChangeNote)>,
    /// The number of notes dropped so far.
    notes_dropped: u64,
    queues: HashMap<QueueId, MemoryQueue>,
    /// The end of each origin's rest, and the number of its refusals in a row.
    rests: HashMap<String, (Instant, u32)>,
    members: BTreeMap<String, (String, Instant)>,
}

#[derive(Debug)]
struct MemoryEntry {
    version: u64,
    bytes: Vec<u8>,
    learned_at: Option<Instant>,
    fresh_until: Instant,
    kept_until: Instant,
}

type SlotHolder = (String, u64);

/// The holders of slots in one queue, and the requests that wait.
#[derive(Debug)]
struct MemoryQueue {
    next_at: Instant,
    /// The end of each holder's lease.
    holders: HashMap<SlotHolder, Instant>,
    /// The requests that wait, in order of arrival, each with the time by which it must ask again.
    waiting: VecDeque<(SlotHolder, Instant)>,
}

impl MemoryEntry {
    fn record(&self) -> SharedRecord {
        let age = self.learned_at.map_or(Duration::MAX, |at| at.elapsed());
        SharedRecord {
            bytes: self.bytes.clone(),
            age,
            version: self.version,
        }
    }
}

impl MemoryEngine {
    /// Creates a fleet with its first node.
    #[must_use]
    pub fn new(node: &str) -> Self {
        Self {
            node: node.to_owned(),
            shared: Arc::default(),
        }
    }

    /// Returns the engine of another node of the same fleet.
    #[must_use]
    pub fn add_node(&self, node: &str) -> Self {
        Self {
            node: node.to_owned(),
            shared: Arc::clone(&self.shared),
        }
    }

    /// Joins the fleet as another node.
    #[cfg(test)]
    pub(crate) async fn join(&self, node: &str) -> super::Fleet {
        self.join_with(node, |options| options).await
    }

    /// Joins the fleet as another node, with changed settings.
    #[cfg(test)]
    pub(crate) async fn join_with(
        &self,
        node: &str,
        change: impl FnOnce(super::FleetSettings) -> super::FleetSettings,
    ) -> super::Fleet {
        let options = super::FleetSettings {
            node: node.to_owned(),
            version: String::new(),
            on_loss: super::OnLoss::Refuse,
            retention: Duration::from_secs(24 * 60 * 60),
            key: None,
        };
        let metrics = crate::telemetry::metrics::Metrics::new().unwrap();
        let engine = Box::new(self.add_node(node));
        let joined = super::Fleet::join(engine, change(options), metrics.into()).await;
        joined.unwrap()
    }

    /// Makes every verb of every node fail from now on, or none.
    pub fn fail(&self, failure: Option<EngineFailure>) {
        self.lock().failure = failure;
    }

    fn lock(&self) -> MutexGuard<'_, MemoryState> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn access(&self) -> Result<MutexGuard<'_, MemoryState>, EngineFailure> {
        let shared = self.lock();
        match &shared.failure {
            Some(failure) => Err(failure.clone()),
            None => Ok(shared),
        }
    }
}

impl MemoryState {
    fn entry(&mut self, origin: &str) -> Option<&MemoryEntry> {
        let now = Instant::now();
        self.entries.retain(|_, entry| entry.kept_until > now);
        self.entries.get(origin)
    }

    fn note(&mut self, node: &str, origin: &str, what: NoteKind) {
        let origin = origin.to_owned();
        self.notes
            .push_back((node.to_owned(), ChangeNote { origin, kind: what }));
        if self.notes.len() > MAX_NOTES {
            self.notes.pop_front();
            self.notes_dropped += 1;
        }
    }
}

impl MemoryQueue {
    fn new() -> Self {
        Self {
            next_at: Instant::now(),
            holders: HashMap::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Drops holders whose lease has ended and requests that have not asked again in time.
    fn expire(&mut self, delay: Duration, now: Instant) {
        for until in self.holders.values().filter(|until| **until <= now) {
            self.next_at = self.next_at.max(*until + delay);
        }
        self.holders.retain(|_, until| *until > now);
        self.waiting.retain(|(_, by)| *by > now);
    }

    fn take(&mut self, who: SlotHolder, turn: &SlotRequest, now: Instant) -> SlotAnswer {
        if turn.is_held || self.holders.contains_key(&who) {
            self.holders.insert(who, now + turn.lease);
            return SlotAnswer::Granted;
        }
        let place = self.waiting.iter().position(|(other, _)| *other == who);
        let ahead = place.unwrap_or(self.waiting.len());
        let is_free = self.holders.len() + ahead < turn.max_concurrent;
        if is_free && self.next_at <= now {
            self.waiting.retain(|(other, _)| *other != who);
            self.holders.insert(who, now + turn.lease);
            return SlotAnswer::Granted;
        }
        let next_at = if self.holders.len() < turn.max_concurrent {
            self.next_at
        } else {
            self.next_at.max(now + turn.delay)
        };
        let wait = next_at + turn.delay * u32::try_from(ahead).unwrap_or(u32::MAX) - now;
        if turn.timeout.is_zero() || wait > turn.timeout {
            self.waiting.retain(|(other, _)| *other != who);
            return SlotAnswer::NotInTime(wait);
        }
        let again = if is_free {
            wait
        } else {
            (turn.delay / 10).clamp(POLL_RANGE[0], POLL_RANGE[1])
        };
        let again = again.max(Duration::from_millis(1));
        let by = now + again + POLL_GRACE;
        match place {
            Some(place) => self.waiting[place].1 = by,
            None => self.waiting.push_back((who, by)),
        }
        SlotAnswer::Queued(again)
    }
}

#[async_trait]
impl SharedEngine for MemoryEngine {
    fn partition(&self, _: &str) -> usize {
        0
    }

    async fn claim(&self, claim: &FetchClaim) -> Result<ClaimAnswer, EngineFailure> {
        let mut shared = self.access()?;
        let now = Instant::now();
        let (mut older, mut version) = (None, 0);
        let known = shared.entry(&claim.origin);
        if known.is_some_and(|entry| entry.version == claim.rejected_version) {
            shared.entries.remove(&claim.origin);
        }
        if let Some(entry) = shared.entry(&claim.origin) {
            let record = entry.record();
            let is_new = claim.max_age.is_none_or(|age| record.age < age);
            if is_new && entry.fresh_until > now {
                return Ok(ClaimAnswer::Known(record));
            }
            (older, version) = (Some(record), entry.version);
        }
        match shared.leases.get(&claim.origin) {
            Some((node, until)) if *until > now && *node != self.node => {
                return Ok(ClaimAnswer::Wait(*until - now));
            }
            _ => {}
        }
        let lease = (self.node.clone(), now + claim.lease);
        shared.leases.insert(claim.origin.clone(), lease);
        let token = shared.last_token.max(version) + 1;
        shared.last_token = token;
        Ok(ClaimAnswer::Fetch { token, older })
    }

    async fn settle(&self, settlement: &Settlement) -> Result<SettleAnswer, EngineFailure> {
        let mut shared = self.access()?;
        let now = Instant::now();
        let origin = &settlement.origin;
        if matches!(shared.leases.get(origin), Some((node, _)) if *node == self.node) {
            shared.leases.remove(origin);
        }
        if settlement.change == RecordChange::Forgotten {
            shared.entries.remove(origin);
            shared.note(&self.node, origin, NoteKind::Forgotten);
            return Ok(SettleAnswer::Kept);
        }
        let known = shared.entry(origin);
        let known = known.map(|entry| (entry.version, entry.record().age));
        let version = known.map_or(0, |(version, _)| version);
        let is_older = match (settlement.token, known) {
            (0, Some((_, age))) => age <= settlement.record.age,
            (token, _) => token != 0 && token <= version,
        };
        if is_older {
            return Ok(SettleAnswer::Outdated);
        }
        let own_version = settlement.record.version;
        if settlement.token == 0 && own_version > 0 && own_version <= version {
            return Ok(SettleAnswer::VersionTooLow(version));
        }
        let version = own_version.max(settlement.token).max(version + 1);
        shared.last_token = shared.last_token.max(version);
        let entry = MemoryEntry {
            version,
            bytes: settlement.record.bytes.clone(),
            learned_at: now.checked_sub(settlement.record.age),
            fresh_until: now + settlement.fresh_for,
            kept_until: now + settlement.retention,
        };
        shared.entries.insert(origin.clone(), entry);
        if settlement.change == RecordChange::Changed {
            shared.note(&self.node, origin, NoteKind::Changed);
        }
        Ok(SettleAnswer::Kept)
    }

    async fn record(&self, origin: &str) -> Result<Option<SharedRecord>, EngineFailure> {
        Ok(self.access()?.entry(origin).map(MemoryEntry::record))
    }

    async fn changes(&self, positions: &LogPositions) -> Result<ChangeBatch, EngineFailure> {
        let shared = self.access()?;
        let end = shared.notes_dropped + shared.notes.len() as u64;
        let from = positions.first().copied().flatten().unwrap_or(end);
        let skipped = from.saturating_sub(shared.notes_dropped);
        let notes = shared.notes.iter();
        let notes = notes.skip(usize::try_from(skipped).unwrap_or(usize::MAX));
        let notes = notes.filter(|(node, _)| *node != self.node);
        Ok(ChangeBatch {
            notes: notes.map(|(_, note)| note.clone()).collect(),
            positions: vec![Some(end)],
            gaps: Vec::from_iter((from < shared.notes_dropped).then_some(0)),
            ..ChangeBatch::default()
        })
    }

    async fn take(&self, turn: &SlotRequest) -> Result<SlotAnswer, EngineFailure> {
        let mut shared = self.access()?;
        let now = Instant::now();
        let line = shared.queues.entry(turn.queue.clone());
        let line = line.or_insert_with(MemoryQueue::new);
        line.expire(turn.delay, now);
        Ok(line.take((self.node.clone(), turn.number), turn, now))
    }

    async fn leave(&self, turn: &SlotRequest) -> Result<(), EngineFailure> {
        let mut shared = self.access()?;
        let who = (self.node.clone(), turn.number);
        if let Some(line) = shared.queues.get_mut(&turn.queue) {
            line.waiting.retain(|(other, _)| *other != who);
            line.holders.remove(&who);
            if turn.is_held {
                line.next_at = line.next_at.max(Instant::now() + turn.delay);
            }
        }
        Ok(())
    }

    async fn answered(&self, answer: &PacingResponse) -> Result<Option<Duration>, EngineFailure> {
        let mut shared = self.access()?;
        let origin = &answer.origin;
        let known = shared.rests.get(origin).copied();
        let before = known.map_or(0, |(_, refusals)| refusals);
        let asked = (answer.status, answer.retry_after, before);
        match (back_off::requested_rest(asked, answer.max_rest), known) {
            (Some(rest), known) => {
                let now = Instant::now();
                let until = known.map_or(now + rest, |(known, _)| known.max(now + rest));
                shared.rests.insert(origin.clone(), (until, before + 1));
                shared.note(&self.node, origin, NoteKind::RestStarted);
                return Ok(Some(until - now));
            }
            // It may answer a request that was sent before the rest began.
            (None, Some((until, _))) if until > Instant::now() => {
                return Ok(Some(until - Instant::now()));
            }
            (None, Some(_)) => {
                shared.rests.remove(origin);
                shared.note(&self.node, origin, NoteKind::RestEnded);
            }
            (None, None) => {}
        }
        Ok(None)
    }

    async fn resting(&self, _: usize) -> Result<Vec<(String, Duration)>, EngineFailure> {
        let shared = self.access()?;
        let now = Instant::now();
        let resting = shared.rests.iter().filter(|(_, (until, _))| *until > now);
        Ok(resting
            .map(|(origin, (until, _))| (origin.clone(), *until - now))
            .collect())
    }

    async fn beat(&self, about: &str) -> Result<BeatAnswer, EngineFailure> {
        let mut shared = self.access()?;
        let now = Instant::now();
        let own = (about.to_owned(), now);
        shared.members.insert(self.node.clone(), own);
        shared
            .members
            .retain(|_, (_, at)| now - *at < MEMBER_TIMEOUT);
        let members = shared.members.iter();
        let member = |(node, (about, _)): (&String, &(String, Instant))| MemberNode {
            node: node.clone(),
            version: about.clone(),
        };
        Ok(BeatAnswer {
            members: members.map(member).collect(),
            ..BeatAnswer::default()
        })
    }

    async fn part(&self) -> Result<(), EngineFailure> {
        self.access()?.members.remove(&self.node);
        Ok(())
    }
}
