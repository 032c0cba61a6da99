//! The reference engine: a fleet in the memory of one process, for tests. It uses tokio's clock, which tests can pause.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::back_off;
use super::engine::{
    Answer, Beat, Changes, Claim, Claimed, Engine, Failure, Kind, Member, Note, Positions, Queue,
    Record, Settled, Settlement, Taken, Turn, What,
};

/// The time after its last beat at which a node is dropped.
const GONE: Duration = Duration::from_secs(5);
/// The number of notes kept.
const NOTES: usize = 10_000;
/// The bounds of the time after which a waiting request asks again, which is a tenth of the delay.
const POLL: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];
/// The time after which a waiting request that has not asked again loses its place.
const LATE: Duration = Duration::from_secs(1);

/// One node's access to the shared memory.
#[derive(Clone, Debug)]
pub struct Memory {
    node: String,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// The failure of every verb while it is set.
    failure: Option<Failure>,
    entries: HashMap<String, Entry>,
    leases: HashMap<String, (String, Instant)>,
    last_token: u64,
    /// The notes, each with the node that wrote it.
    notes: VecDeque<(String, Note)>,
    /// The number of notes dropped so far.
    notes_dropped: u64,
    queues: HashMap<Queue, Line>,
    /// The end of each origin's rest, and the number of its refusals in a row.
    rests: HashMap<String, (Instant, u32)>,
    members: BTreeMap<String, (String, Instant)>,
}

#[derive(Debug)]
struct Entry {
    version: u64,
    bytes: Vec<u8>,
    learned_at: Option<Instant>,
    fresh_until: Instant,
    kept_until: Instant,
}

type Who = (String, u64);

/// The holders of slots in one queue, and the requests that wait.
#[derive(Debug)]
struct Line {
    next_at: Instant,
    /// The end of each holder's lease.
    held: HashMap<Who, Instant>,
    /// The requests that wait, in order of arrival, each with the time by which it must ask again.
    waiting: VecDeque<(Who, Instant)>,
}

impl Entry {
    fn record(&self) -> Record {
        let age = self.learned_at.map_or(Duration::MAX, |at| at.elapsed());
        Record {
            bytes: self.bytes.clone(),
            age,
            version: self.version,
        }
    }
}

impl Memory {
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
    pub fn node(&self, node: &str) -> Self {
        Self {
            node: node.to_owned(),
            shared: Arc::clone(&self.shared),
        }
    }

    /// Joins the fleet as another node.
    #[cfg(test)]
    pub(crate) async fn joined(&self, node: &str) -> super::Fleet {
        self.joined_with(node, |options| options).await
    }

    /// Joins the fleet as another node, with changed settings.
    #[cfg(test)]
    pub(crate) async fn joined_with(
        &self,
        node: &str,
        change: impl FnOnce(super::Options) -> super::Options,
    ) -> super::Fleet {
        let options = super::Options {
            node: node.to_owned(),
            about: String::new(),
            on_loss: super::OnLoss::Refuse,
            keep: Duration::from_secs(24 * 60 * 60),
            key: None,
        };
        let metrics = crate::observe::metrics::Metrics::new().unwrap();
        let engine = Box::new(self.node(node));
        let joined = super::Fleet::join(engine, change(options), metrics.into()).await;
        joined.unwrap()
    }

    /// Makes every verb of every node fail from now on, or none.
    pub fn fail(&self, failure: Option<Failure>) {
        self.lock().failure = failure;
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reach(&self) -> Result<MutexGuard<'_, Shared>, Failure> {
        let shared = self.lock();
        match &shared.failure {
            Some(failure) => Err(failure.clone()),
            None => Ok(shared),
        }
    }
}

impl Shared {
    fn entry(&mut self, origin: &str) -> Option<&Entry> {
        let now = Instant::now();
        self.entries.retain(|_, entry| entry.kept_until > now);
        self.entries.get(origin)
    }

    fn note(&mut self, node: &str, origin: &str, what: What) {
        let origin = origin.to_owned();
        self.notes
            .push_back((node.to_owned(), Note { origin, what }));
        if self.notes.len() > NOTES {
            self.notes.pop_front();
            self.notes_dropped += 1;
        }
    }
}

impl Line {
    fn new() -> Self {
        Self {
            next_at: Instant::now(),
            held: HashMap::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Drops holders whose lease has ended and requests that have not asked again in time.
    fn tidy(&mut self, delay: Duration, now: Instant) {
        for until in self.held.values().filter(|until| **until <= now) {
            self.next_at = self.next_at.max(*until + delay);
        }
        self.held.retain(|_, until| *until > now);
        self.waiting.retain(|(_, by)| *by > now);
    }

    fn take(&mut self, who: Who, turn: &Turn, now: Instant) -> Taken {
        if turn.is_under_way || self.held.contains_key(&who) {
            self.held.insert(who, now + turn.term);
            return Taken::Go;
        }
        let place = self.waiting.iter().position(|(other, _)| *other == who);
        let ahead = place.unwrap_or(self.waiting.len());
        let is_free = self.held.len() + ahead < turn.most;
        if is_free && self.next_at <= now {
            self.waiting.retain(|(other, _)| *other != who);
            self.held.insert(who, now + turn.term);
            return Taken::Go;
        }
        let next_at = if self.held.len() < turn.most {
            self.next_at
        } else {
            self.next_at.max(now + turn.delay)
        };
        let wait = next_at + turn.delay * u32::try_from(ahead).unwrap_or(u32::MAX) - now;
        if turn.patience.is_zero() || wait > turn.patience {
            self.waiting.retain(|(other, _)| *other != who);
            return Taken::TooSoon(wait);
        }
        let again = if is_free {
            wait
        } else {
            (turn.delay / 10).clamp(POLL[0], POLL[1])
        };
        let again = again.max(Duration::from_millis(1));
        let by = now + again + LATE;
        match place {
            Some(place) => self.waiting[place].1 = by,
            None => self.waiting.push_back((who, by)),
        }
        Taken::Later(again)
    }
}

#[async_trait]
impl Engine for Memory {
    fn partition(&self, _: &str) -> usize {
        0
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed, Failure> {
        let mut shared = self.reach()?;
        let now = Instant::now();
        let (mut older, mut version) = (None, 0);
        let known = shared.entry(&claim.origin);
        if known.is_some_and(|entry| entry.version == claim.distrusted) {
            shared.entries.remove(&claim.origin);
        }
        if let Some(entry) = shared.entry(&claim.origin) {
            let record = entry.record();
            let is_new = claim.newer_than.is_none_or(|age| record.age < age);
            if is_new && entry.fresh_until > now {
                return Ok(Claimed::Known(record));
            }
            (older, version) = (Some(record), entry.version);
        }
        match shared.leases.get(&claim.origin) {
            Some((node, until)) if *until > now && *node != self.node => {
                return Ok(Claimed::Wait(*until - now));
            }
            _ => {}
        }
        let lease = (self.node.clone(), now + claim.lease);
        shared.leases.insert(claim.origin.clone(), lease);
        let token = shared.last_token.max(version) + 1;
        shared.last_token = token;
        Ok(Claimed::Fetch { token, older })
    }

    async fn settle(&self, settlement: &Settlement) -> Result<Settled, Failure> {
        let mut shared = self.reach()?;
        let now = Instant::now();
        let origin = &settlement.origin;
        if matches!(shared.leases.get(origin), Some((node, _)) if *node == self.node) {
            shared.leases.remove(origin);
        }
        if settlement.kind == Kind::Forgotten {
            shared.entries.remove(origin);
            shared.note(&self.node, origin, What::Forgotten);
            return Ok(Settled::Kept);
        }
        let known = shared.entry(origin);
        let known = known.map(|entry| (entry.version, entry.record().age));
        let version = known.map_or(0, |(version, _)| version);
        let is_older = match (settlement.token, known) {
            (0, Some((_, age))) => age <= settlement.record.age,
            (token, _) => token != 0 && token <= version,
        };
        if is_older {
            return Ok(Settled::Older);
        }
        let own_version = settlement.record.version;
        if settlement.token == 0 && own_version > 0 && own_version <= version {
            return Ok(Settled::Behind(version));
        }
        let version = own_version.max(settlement.token).max(version + 1);
        shared.last_token = shared.last_token.max(version);
        let entry = Entry {
            version,
            bytes: settlement.record.bytes.clone(),
            learned_at: now.checked_sub(settlement.record.age),
            fresh_until: now + settlement.fresh_for,
            kept_until: now + settlement.keep,
        };
        shared.entries.insert(origin.clone(), entry);
        if settlement.kind == Kind::Changed {
            shared.note(&self.node, origin, What::Changed);
        }
        Ok(Settled::Kept)
    }

    async fn record(&self, origin: &str) -> Result<Option<Record>, Failure> {
        Ok(self.reach()?.entry(origin).map(Entry::record))
    }

    async fn changes(&self, positions: &Positions) -> Result<Changes, Failure> {
        let shared = self.reach()?;
        let end = shared.notes_dropped + shared.notes.len() as u64;
        let from = positions.first().copied().flatten().unwrap_or(end);
        let skipped = from.saturating_sub(shared.notes_dropped);
        let notes = shared.notes.iter();
        let notes = notes.skip(usize::try_from(skipped).unwrap_or(usize::MAX));
        let notes = notes.filter(|(node, _)| *node != self.node);
        Ok(Changes {
            notes: notes.map(|(_, note)| note.clone()).collect(),
            positions: vec![Some(end)],
            gaps: Vec::from_iter((from < shared.notes_dropped).then_some(0)),
            ..Changes::default()
        })
    }

    async fn take(&self, turn: &Turn) -> Result<Taken, Failure> {
        let mut shared = self.reach()?;
        let now = Instant::now();
        let line = shared.queues.entry(turn.queue.clone());
        let line = line.or_insert_with(Line::new);
        line.tidy(turn.delay, now);
        Ok(line.take((self.node.clone(), turn.number), turn, now))
    }

    async fn leave(&self, turn: &Turn) -> Result<(), Failure> {
        let mut shared = self.reach()?;
        let who = (self.node.clone(), turn.number);
        if let Some(line) = shared.queues.get_mut(&turn.queue) {
            line.waiting.retain(|(other, _)| *other != who);
            line.held.remove(&who);
            if turn.is_under_way {
                line.next_at = line.next_at.max(Instant::now() + turn.delay);
            }
        }
        Ok(())
    }

    async fn answered(&self, answer: &Answer) -> Result<Option<Duration>, Failure> {
        let mut shared = self.reach()?;
        let origin = &answer.origin;
        let known = shared.rests.get(origin).copied();
        let before = known.map_or(0, |(_, refusals)| refusals);
        let asked = (answer.status, answer.retry_after, before);
        match (back_off::asked(asked, answer.longest), known) {
            (Some(rest), known) => {
                let now = Instant::now();
                let until = known.map_or(now + rest, |(known, _)| known.max(now + rest));
                shared.rests.insert(origin.clone(), (until, before + 1));
                shared.note(&self.node, origin, What::Rests);
                return Ok(Some(until - now));
            }
            // It may answer a request that was sent before the rest began.
            (None, Some((until, _))) if until > Instant::now() => {
                return Ok(Some(until - Instant::now()));
            }
            (None, Some(_)) => {
                shared.rests.remove(origin);
                shared.note(&self.node, origin, What::Rested);
            }
            (None, None) => {}
        }
        Ok(None)
    }

    async fn resting(&self, _: usize) -> Result<Vec<(String, Duration)>, Failure> {
        let shared = self.reach()?;
        let now = Instant::now();
        let resting = shared.rests.iter().filter(|(_, (until, _))| *until > now);
        Ok(resting
            .map(|(origin, (until, _))| (origin.clone(), *until - now))
            .collect())
    }

    async fn beat(&self, about: &str) -> Result<Beat, Failure> {
        let mut shared = self.reach()?;
        let now = Instant::now();
        let own = (about.to_owned(), now);
        shared.members.insert(self.node.clone(), own);
        shared.members.retain(|_, (_, at)| now - *at < GONE);
        let members = shared.members.iter();
        let member = |(node, (about, _)): (&String, &(String, Instant))| Member {
            node: node.clone(),
            about: about.clone(),
        };
        Ok(Beat {
            members: members.map(member).collect(),
            ..Beat::default()
        })
    }

    async fn part(&self) -> Result<(), Failure> {
        self.reach()?.members.remove(&self.node);
        Ok(())
    }
}
