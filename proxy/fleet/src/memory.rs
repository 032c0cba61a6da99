//! The reference engine: a fleet in the memory of one process, for tests. It uses tokio's clock, which tests can pause.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::engine::{
    BeatAnswer, BudgetAnswer, BudgetKind, BudgetReport, ChangeBatch, ChangeNote, ClaimAnswer,
    EngineFailure, FetchClaim, LogPositions, MemberNode, NoteKind, PacingResponse, QueueId,
    RecordChange, SettleAnswer, Settlement, SharedEngine, SharedRecord, SlotAnswer, SlotRequest,
};
use super::pace_turn::{PaceBook, PaceTurn, PaceTurnAnswer};
use super::rest::requested_rest;

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
    state: Arc<Mutex<MemoryState>>,
}

#[derive(Debug, Default)]
struct MemoryState {
    /// The start of the time that paces count in.
    started: Option<Instant>,
    /// While set, every call fails with it.
    failure: Option<EngineFailure>,
    /// Whether the next beat clears `failure`.
    is_until_beat: bool,
    /// The time that each call about a slot or a budget takes, one after another.
    service_time: Duration,
    /// The time after which such a call fails.
    call_timeout: Duration,
    /// The time when the calls so far have been served.
    served_at: Option<Instant>,
    /// The calls about slots and budgets so far.
    calls: usize,
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
    /// The paces that the nodes determine jointly.
    paces: HashMap<String, PaceBook>,
    members: BTreeMap<String, (String, Instant)>,
    /// The counts of each crawler's days.
    budgets: HashMap<(String, u64), MemoryBudget>,
    /// The heads of the nodes' logs.
    heads: BTreeMap<String, Vec<u8>>,
}

/// The counts of a crawler's day.
#[derive(Debug, Default)]
struct MemoryBudget {
    /// The requests and bytes of each meter.
    meters: HashMap<String, (u64, u64)>,
    origins: HashSet<u64>,
}

#[derive(Debug)]
struct MemoryEntry {
    version: u64,
    bytes: Vec<u8>,
    fetched_at: Option<Instant>,
    fresh_until: Instant,
    kept_until: Instant,
}

type SlotHolder = (String, u64);

/// The holders of slots in one queue, and the requests that wait.
#[derive(Debug)]
struct MemoryQueue {
    next_at: Instant,
    /// The end of the last slot.
    ended_at: Option<Instant>,
    /// The end of each holder's lease, and its delay if ends are remembered.
    holders: HashMap<SlotHolder, (Instant, Option<Duration>)>,
    /// The requests that wait, in order of arrival, each with the time by which it must ask again.
    waiting: VecDeque<(SlotHolder, Instant)>,
}

impl MemoryEntry {
    fn record(&self) -> SharedRecord {
        let age = self.fetched_at.map_or(Duration::MAX, |at| at.elapsed());
        SharedRecord { bytes: self.bytes.clone(), age, version: self.version }
    }
}

impl MemoryEngine {
    /// Creates a fleet with its first node.
    #[must_use]
    pub fn new(node: &str) -> Self {
        Self { node: node.to_owned(), state: Arc::default() }
    }

    /// Returns the engine of another node of the same fleet.
    #[must_use]
    pub fn add_node(&self, node: &str) -> Self {
        Self { node: node.to_owned(), state: Arc::clone(&self.state) }
    }

    /// Joins the fleet as another node.
    pub async fn join(&self, node: &str) -> super::Fleet {
        self.join_with(node, |settings| settings).await
    }

    /// Joins the fleet as another node, with changed settings.
    pub(crate) async fn join_with(
        &self,
        node: &str,
        change: impl FnOnce(super::FleetSettings) -> super::FleetSettings,
    ) -> super::Fleet {
        let settings = super::FleetSettings {
            node: node.to_owned(),
            version: String::new(),
            on_loss: super::OnLoss::Refuse,
            retention: Duration::from_secs(24 * 60 * 60),
            key: None,
        };
        let metrics = wayleave_telemetry::metrics::Metrics::new().unwrap();
        let engine = Box::new(self.add_node(node));
        let joined = super::Fleet::join(engine, change(settings), metrics.into()).await;
        joined.unwrap()
    }

    /// Makes every verb of every node fail from now on, or none.
    pub fn fail(&self, failure: Option<EngineFailure>) {
        self.lock().failure = failure;
    }

    /// Makes every verb time out until the next beat, which opens another connection.
    #[cfg(test)]
    pub(crate) fn lose_connection(&self) {
        let mut state = self.lock();
        state.failure = Some(EngineFailure::Timeout);
        state.is_until_beat = true;
    }

    /// Makes calls about slots and budgets take this long each, one after another, as on a real server. A call that waits for
    /// longer than `timeout` fails, but still takes effect.
    pub fn serve_one_at_a_time(&self, service_time: Duration, timeout: Duration) {
        let mut state = self.lock();
        state.service_time = service_time;
        state.call_timeout = timeout;
    }

    /// Returns how many calls about slots and budgets there were so far.
    #[cfg(test)]
    pub(crate) fn calls(&self) -> usize {
        self.lock().calls
    }

    /// Waits until a call that is made now is served, or fails.
    async fn serve(&self) -> Result<(), EngineFailure> {
        let Some([served_at, fails_at]) = self.queue_call() else { return Ok(()) };
        tokio::time::sleep_until(served_at.min(fails_at)).await;
        if served_at > fails_at { Err(EngineFailure::Timeout) } else { Ok(()) }
    }

    /// Counts a call. Returns when it will be served, and when it fails; `None` if it takes no time.
    fn queue_call(&self) -> Option<[Instant; 2]> {
        let now = Instant::now();
        let mut state = self.lock();
        state.calls += 1;
        if state.service_time.is_zero() || state.failure.is_some() {
            return None;
        }
        let served_at = state.served_at.map_or(now, |at| at.max(now)) + state.service_time;
        state.served_at = Some(served_at);
        Some([served_at, now + state.call_timeout])
    }

    fn lock(&self) -> MutexGuard<'_, MemoryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn access(&self) -> Result<MutexGuard<'_, MemoryState>, EngineFailure> {
        let state = self.lock();
        match &state.failure {
            Some(failure) => Err(failure.clone()),
            None => Ok(state),
        }
    }
}

impl MemoryState {
    fn entry(&mut self, origin: &str) -> Option<&MemoryEntry> {
        let now = Instant::now();
        self.entries.retain(|_, entry| entry.kept_until > now);
        self.entries.get(origin)
    }

    fn note(&mut self, node: &str, origin: &str, kind: NoteKind) {
        let note = ChangeNote { origin: origin.to_owned(), kind };
        self.notes.push_back((node.to_owned(), note));
        if self.notes.len() > MAX_NOTES {
            self.notes.pop_front();
            self.notes_dropped += 1;
        }
    }
}

impl MemoryBudget {
    /// Adds a meter's counts, and counts its request if no limit is reached.
    fn spend(&mut self, report: &BudgetReport) -> BudgetAnswer {
        self.origins.extend(&report.origins);
        let own = self.meters.entry(report.meter.clone()).or_default();
        *own = (own.0.max(report.requests), own.1.max(report.bytes));
        let total = |part: fn(&(u64, u64)) -> u64| self.meters.values().map(part).sum::<u64>();
        let requests = total(|meter| meter.0);
        let bytes = total(|meter| meter.1);
        let more = report.request.map_or(0, |request| u64::from(!request.is_covered));
        let spent = report.request.and_then(|request| {
            let limits = request.limits;
            let is_new = !self.origins.contains(&request.origin);
            let is_over = |limit: u64, count: u64| limit > 0 && count > limit;
            if is_over(limits.requests, requests + more) {
                Some(BudgetKind::Requests)
            } else if is_over(limits.bytes, bytes + 1) {
                Some(BudgetKind::Bytes)
            } else if is_new && is_over(limits.new_origins, self.origins.len() as u64 + 1) {
                Some(BudgetKind::NewOrigins)
            } else {
                None
            }
        });
        let counted = if spent.is_none() { more } else { 0 };
        let own = self.meters.entry(report.meter.clone()).or_default();
        own.0 += counted;
        if let Some(request) = report.request
            && spent.is_none()
            && request.limits.new_origins > 0
        {
            self.origins.insert(request.origin);
        }
        BudgetAnswer {
            spent,
            requests: requests + counted,
            bytes,
            origins: self.origins.len() as u64,
            own_requests: own.0,
            own_bytes: own.1,
        }
    }
}

impl MemoryQueue {
    fn new() -> Self {
        Self {
            next_at: Instant::now(),
            ended_at: None,
            holders: HashMap::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Drops holders whose lease has ended and requests that have not asked again in time. Returns the end of the last slot.
    fn expire(&mut self, request: &SlotRequest, now: Instant) -> Option<Instant> {
        let mut ended_at = self.ended_at;
        // A holder that hangs may still have sent its request, at the end of its lease at the latest.
        for (until, delay) in self.holders.values().filter(|(until, _)| *until <= now) {
            self.next_at = self.next_at.max(*until + delay.unwrap_or(request.delay));
            ended_at = ended_at.max(Some(*until));
        }
        if !request.remembered_for.is_zero() {
            self.ended_at = ended_at;
        }
        self.holders.retain(|_, (until, _)| *until > now);
        self.waiting.retain(|(_, deadline)| *deadline > now);
        ended_at
    }

    /// Grants a slot that is free, or says when to ask again. `rested_at`: the end of the origin's rest.
    fn take(
        &mut self,
        holder: SlotHolder,
        request: &SlotRequest,
        rested_at: Option<Instant>,
        now: Instant,
    ) -> SlotAnswer {
        let ended_at = self.expire(request, now).map(|at| at + request.delay);
        let is_mine = request.is_held || self.holders.contains_key(&holder);
        let free_at = self.next_at.max(ended_at.max(rested_at).unwrap_or(now));
        let kept_turn = request.keeps_turn.then(|| (holder.0.clone(), SlotRequest::KEPT_TURN));
        let position = |turn| self.waiting.iter().position(|(other, _)| other == turn);
        let own_place = position(&holder);
        let place = own_place.or_else(|| position(kept_turn.as_ref()?));
        let ahead = place.unwrap_or(self.waiting.len());
        let is_free = self.holders.len() + ahead < request.max_concurrent;
        if is_mine || (is_free && free_at <= now) {
            self.waiting.retain(|(it, _)| *it != holder && Some(it) != kept_turn.as_ref());
            if request.lease.is_zero() {
                self.ended_at = Some(now);
            } else {
                let delay = (!request.remembered_for.is_zero()).then_some(request.delay);
                self.holders.insert(holder, (now + request.lease, delay));
            }
            return SlotAnswer::Granted;
        }
        let next_at = if self.holders.len() < request.max_concurrent {
            free_at
        } else {
            free_at.max(now + request.delay)
        };
        // Each request ahead takes one slot and its delay.
        let ahead = request.delay.saturating_mul(u32::try_from(ahead).unwrap_or(u32::MAX));
        let wait = next_at.saturating_duration_since(now) + ahead;
        if request.timeout.is_zero() || wait > request.timeout {
            self.waiting.retain(|(other, _)| *other != holder);
            if rested_at == Some(next_at) {
                return SlotAnswer::Resting(wait);
            }
            let kept_until = now + wait + SlotRequest::TURN_GRACE;
            if let Some(turn) = kept_turn.filter(|_| request.timeout.is_zero()) {
                match self.waiting.iter_mut().find(|(other, _)| *other == turn) {
                    Some((_, until)) => *until = kept_until,
                    None => self.waiting.push_back((turn, kept_until)),
                }
            }
            return SlotAnswer::NotInTime(wait);
        }
        // The end of a slot cannot be predicted, so the request polls.
        let again = if is_free {
            wait.max(Duration::from_millis(1))
        } else {
            (request.delay / 10).clamp(POLL_RANGE[0], POLL_RANGE[1])
        };
        let deadline = now + again + POLL_GRACE;
        match (own_place, place) {
            (Some(own_place), _) => self.waiting[own_place].1 = deadline,
            // The turn that was kept for this node lapses when it would have.
            (None, Some(_)) => {}
            (None, None) => self.waiting.push_back((holder, deadline)),
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
        let mut state = self.access()?;
        let now = Instant::now();
        let mut older = None;
        let mut version = 0;
        let stored_version = state.entry(&claim.origin).map(|entry| entry.version);
        // Removed only if it is still the one that failed verification: it may have been replaced meanwhile.
        if stored_version == Some(claim.rejected_version) {
            state.entries.remove(&claim.origin);
        }
        if let Some(entry) = state.entry(&claim.origin) {
            let record = entry.record();
            let is_new = claim.max_age.is_none_or(|age| record.age < age);
            if is_new && entry.fresh_until > now {
                return Ok(ClaimAnswer::Known(record));
            }
            (older, version) = (Some(record), entry.version);
        }
        match state.leases.get(&claim.origin) {
            Some((node, until)) if *until > now && *node != self.node => {
                return Ok(ClaimAnswer::Wait(*until - now));
            }
            _ => {}
        }
        let lease = (self.node.clone(), now + claim.lease);
        state.leases.insert(claim.origin.clone(), lease);
        // Above the stored version, or the settlement would count as outdated.
        let token = state.last_token.max(version) + 1;
        state.last_token = token;
        Ok(ClaimAnswer::Fetch { token, older })
    }

    async fn settle(&self, settlement: &Settlement) -> Result<SettleAnswer, EngineFailure> {
        let mut state = self.access()?;
        let now = Instant::now();
        let origin = &settlement.origin;
        // Whatever its token: the answer to this node's claim may have been lost.
        if matches!(state.leases.get(origin), Some((node, _)) if *node == self.node) {
            state.leases.remove(origin);
        }
        if settlement.change == RecordChange::Forgotten {
            state.entries.remove(origin);
            state.note(&self.node, origin, NoteKind::Forgotten);
            return Ok(SettleAnswer::Kept);
        }
        let known = state.entry(origin).map(|entry| (entry.version, entry.record().age));
        let version = known.map_or(0, |(version, _)| version);
        // Without a lease the ages decide, because the token fences nothing.
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
        state.last_token = state.last_token.max(version);
        let entry = MemoryEntry {
            version,
            bytes: settlement.record.bytes.clone(),
            fetched_at: now.checked_sub(settlement.record.age),
            fresh_until: now + settlement.fresh_for,
            kept_until: now + settlement.retention,
        };
        state.entries.insert(origin.clone(), entry);
        if settlement.change == RecordChange::Changed {
            state.note(&self.node, origin, NoteKind::Changed);
        }
        Ok(SettleAnswer::Kept)
    }

    async fn record(&self, origin: &str) -> Result<Option<SharedRecord>, EngineFailure> {
        Ok(self.access()?.entry(origin).map(MemoryEntry::record))
    }

    async fn changes(&self, positions: &LogPositions) -> Result<ChangeBatch, EngineFailure> {
        let state = self.access()?;
        let end = state.notes_dropped + state.notes.len() as u64;
        let from = positions.first().copied().flatten().unwrap_or(end);
        let skipped = from.saturating_sub(state.notes_dropped);
        let notes = state
            .notes
            .iter()
            .skip(usize::try_from(skipped).unwrap_or(usize::MAX))
            .filter(|(node, _)| *node != self.node);
        Ok(ChangeBatch {
            notes: notes.map(|(_, note)| note.clone()).collect(),
            positions: vec![Some(end)],
            gaps: Vec::from_iter((from < state.notes_dropped).then_some(0)),
            ..ChangeBatch::default()
        })
    }

    async fn take_slot(&self, request: &SlotRequest) -> Result<SlotAnswer, EngineFailure> {
        let answer = {
            let mut state = self.access()?;
            let now = Instant::now();
            let rest = state.rests.get(&request.queue.origin).filter(|_| request.obeys_rest);
            let rested_at = rest.map(|(until, _)| *until);
            let queue = state.queues.entry(request.queue.clone()).or_insert_with(MemoryQueue::new);
            queue.take((self.node.clone(), request.number), request, rested_at, now)
        };
        self.serve().await.map(|()| answer)
    }

    async fn release_slot(&self, request: &SlotRequest) -> Result<(), EngineFailure> {
        {
            let mut state = self.access()?;
            let holder = (self.node.clone(), request.number);
            if let Some(queue) = state.queues.get_mut(&request.queue) {
                queue.waiting.retain(|(other, _)| *other != holder);
                queue.holders.remove(&holder);
                if request.is_held {
                    let now = Instant::now();
                    queue.next_at = queue.next_at.max(now + request.delay);
                    if !request.remembered_for.is_zero() {
                        queue.ended_at = Some(now);
                    }
                }
            }
        }
        self.serve().await
    }

    async fn answered(&self, answer: &PacingResponse) -> Result<Option<Duration>, EngineFailure> {
        let mut state = self.access()?;
        let origin = &answer.origin;
        let known = state.rests.get(origin).copied();
        let before = known.map_or(0, |(_, refusals)| refusals);
        let response = (answer.status, answer.retry_after, before);
        match (requested_rest(response, answer.max_rest), known) {
            (Some(rest), known) => {
                let now = Instant::now();
                let until = known.map_or(now + rest, |(known, _)| known.max(now + rest));
                state.rests.insert(origin.clone(), (until, before + 1));
                state.note(&self.node, origin, NoteKind::RestStarted);
                return Ok(Some(until - now));
            }
            // It may answer a request that was sent before the rest began.
            (None, Some((until, _))) if until > Instant::now() => {
                return Ok(Some(until - Instant::now()));
            }
            (None, Some(_)) => {
                state.rests.remove(origin);
                state.note(&self.node, origin, NoteKind::RestEnded);
            }
            (None, None) => {}
        }
        Ok(None)
    }

    async fn resting(&self, _: usize) -> Result<Vec<(String, Duration)>, EngineFailure> {
        let state = self.access()?;
        let now = Instant::now();
        let resting = state.rests.iter().filter(|(_, (until, _))| *until > now);
        Ok(resting.map(|(origin, (until, _))| (origin.clone(), *until - now)).collect())
    }

    async fn spend(&self, report: &BudgetReport) -> Result<BudgetAnswer, EngineFailure> {
        let answer = {
            let mut state = self.access()?;
            let day = (report.crawler.clone(), report.day);
            state.budgets.entry(day).or_default().spend(report)
        };
        self.serve().await.map(|()| answer)
    }

    async fn take_pace_turn(&self, turn: &PaceTurn) -> Result<PaceTurnAnswer, EngineFailure> {
        let mut state = self.access()?;
        let started = *state.started.get_or_insert_with(Instant::now);
        let rest = state.rests.get(&turn.unit).filter(|_| turn.obeys_rest);
        let rested_at = rest.map_or(Duration::ZERO, |(until, _)| until.duration_since(started));
        let book = state.paces.entry(turn.unit.clone()).or_default();
        Ok(book.take(started.elapsed(), rested_at, turn))
    }

    async fn heads(&self) -> Result<Vec<(String, Vec<u8>)>, EngineFailure> {
        Ok(self.access()?.heads.clone().into_iter().collect())
    }

    async fn replace_head(
        &self,
        log: &str,
        expected: &[u8],
        head: &[u8],
        _: Duration,
    ) -> Result<Option<Vec<u8>>, EngineFailure> {
        let mut state = self.access()?;
        let stored = state.heads.get(log).cloned().unwrap_or_default();
        if stored != expected {
            return Ok(Some(stored));
        }
        if head.is_empty() {
            state.heads.remove(log);
        } else {
            state.heads.insert(log.to_owned(), head.to_vec());
        }
        Ok(None)
    }

    async fn beat(&self, version: &str) -> Result<BeatAnswer, EngineFailure> {
        if std::mem::take(&mut self.lock().is_until_beat) {
            self.fail(None);
        }
        let mut state = self.access()?;
        let now = Instant::now();
        state.members.insert(self.node.clone(), (version.to_owned(), now));
        state.members.retain(|_, (_, at)| now - *at < MEMBER_TIMEOUT);
        let members = state.members.iter();
        let member = |(node, (about, _)): (&String, &(String, Instant))| MemberNode {
            node: node.clone(),
            version: about.clone(),
        };
        Ok(BeatAnswer { members: members.map(member).collect(), ..BeatAnswer::default() })
    }

    async fn leave_fleet(&self) -> Result<(), EngineFailure> {
        self.access()?.members.remove(&self.node);
        Ok(())
    }
}
