//! The engine on Redis 7 or Valkey. Each verb is one script (`lua/`), which the server runs atomically.
//!
//! Keys begin with `PREFIX:{P}:`, where P is the origin's partition, so that all keys of an origin are in one hash slot of a
//! cluster.

mod connection;
mod failure;
mod join;
mod notes;
mod scripts;

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use redis::{FromRedisValue, Value};
use ring::digest::{SHA256, digest};
use tokio::time::sleep;

pub use self::connection::RedisAddress;
use self::connection::RedisConnection;
use self::scripts::{LuaScript, SCRIPTS};
use super::engine::{
    BeatAnswer, BudgetAnswer, BudgetKind, BudgetReport, ChangeBatch, ClaimAnswer, EngineFailure,
    EngineServer, FetchClaim, LogPositions, MAX_LISTENING, MemberNode, PacingResponse,
    RecordChange, SettleAnswer, Settlement, SharedEngine, SharedRecord, SlotAnswer, SlotRequest,
    VERSION_LIMIT,
};
use super::pace_turn::{PaceTurn, PaceTurnAnswer};

/// The time after a restart of the engine in which it grants no slots of a queue without a delay: two beats, within which all
/// nodes have renewed the slots that they hold.
const RESTART_QUIET: Duration = Duration::from_secs(2);
/// The pause before checking again whether another process still has this node's name.
const NAME_RETRY: Duration = Duration::from_millis(250);
/// The number of beats between checks for lost notes. Each new connection checks as well.
const BEATS_PER_LOOKUP: u32 = 30;
/// The time for which a day's counts are kept after the last one: until no node's clock has that day.
const BUDGET_RETENTION: Duration = Duration::from_secs(48 * 60 * 60);

/// The settings of a node's connection to its fleet.
#[derive(Clone, Debug)]
pub struct RedisSettings {
    /// The engine's address.
    pub address: RedisAddress,
    /// The prefix of all keys.
    pub prefix: String,
    /// The number of partitions.
    pub partitions: usize,
    /// The timeout of a call.
    pub timeout: Duration,
    /// This node's name, unique in the fleet.
    pub node: String,
    /// The settings that must be the same on all nodes, because all of them use the files that one fetches.
    pub shared_settings: String,
    /// The time after a restart of the engine in which other nodes may still crawl origins with a delay without it.
    pub home_window: Duration,
}

/// An engine on Redis or Valkey.
pub struct RedisEngine {
    settings: RedisSettings,
    /// An id of this process, so that two processes with one node's name are noticed. Empty for an observer.
    process: String,
    connection: RedisConnection,
    /// The connection that waits for notes: other calls on it would wait, too.
    listening: RedisConnection,
    /// The number of the last note of each partition, read separately: lost notes leave no gap if none came after them.
    heads: Mutex<Option<Vec<u64>>>,
    beats: AtomicU32,
}

impl fmt::Debug for RedisEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisEngine").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl RedisEngine {
    /// Creates an engine. The first beat connects to it.
    ///
    /// # Errors
    ///
    /// Returns an error if the address is invalid.
    pub fn new(settings: RedisSettings) -> Result<Self, EngineFailure> {
        let connection = RedisConnection::new(&settings.address, settings.timeout)?;
        let listening_timeout = MAX_LISTENING + settings.timeout;
        let listening = RedisConnection::new(&settings.address, listening_timeout)?;
        // The hasher's keys are random, so this is a random number.
        let process = RandomState::new().hash_one(());
        Ok(Self {
            settings,
            process: format!("{process:016x}"),
            connection,
            listening,
            heads: Mutex::default(),
            beats: AtomicU32::new(0),
        })
    }

    /// Turns this into an observer, which checks whether a node could join: its beats are not recorded.
    #[must_use]
    pub fn as_observer(self) -> Self {
        Self { process: String::new(), ..self }
    }

    /// Returns this node's name.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.settings.node
    }

    fn key(&self, origin: &str, kind: char) -> String {
        self.key_in(self.partition(origin), kind) + ":" + origin
    }

    fn key_in(&self, partition: usize, kind: char) -> String {
        format!("{}:{{{partition}}}:{kind}", self.settings.prefix)
    }

    /// Returns the key of a value that the fleet has once, in its first partition.
    fn fleet_key(&self, name: &str) -> String {
        format!("{}:{{0}}:{name}", self.settings.prefix)
    }

    /// Returns the keys of a partition's log and of its server's identity.
    fn log_keys(&self, partition: usize) -> [String; 2] {
        ["l", "born"].map(|name| format!("{}:{{{partition}}}:{name}", self.settings.prefix))
    }

    /// Returns the keys of a queue's slots, of its waiting requests, of its server's identity, and of the origin's rest.
    fn queue_keys(&self, request: &SlotRequest) -> [String; 4] {
        let origin = &request.queue.origin;
        let [_, born] = self.log_keys(self.partition(origin));
        let key = |kind| self.key(origin, kind) + "|" + &request.queue.name;
        [key('t'), key('w'), born, self.key(origin, 'r')]
    }

    fn slot_holder(&self, request: &SlotRequest) -> String {
        let RedisSettings { node, .. } = &self.settings;
        format!("{node}/{}/{}", self.process, request.number)
    }

    /// Runs a script and parses its answer.
    async fn run<T: FromRedisValue>(
        &self,
        script: &LuaScript,
        keys: &[String],
        arguments: &[&[u8]],
    ) -> Result<T, EngineFailure> {
        let value = self.connection.run(script, keys, arguments).await?;
        read(value, script.file)
    }

    /// Returns the number of the last note of each partition, and its server.
    async fn servers(&self) -> Result<Vec<(u64, EngineServer)>, EngineFailure> {
        let partitions = 0..self.settings.partitions;
        try_join_all(partitions.map(|partition| self.server(partition))).await
    }

    async fn server(&self, partition: usize) -> Result<(u64, EngineServer), EngineFailure> {
        let [_, born] = self.log_keys(partition);
        let (last_note, name, eviction_policy, used_bytes, run_id) =
            self.run(&SCRIPTS.join, &[born], &[]).await?;
        let server = EngineServer { name, run_id, used_bytes, eviction_policy };
        Ok((last_note, server))
    }

    /// Opens a connection, and sends the beat of a node that joins.
    async fn join_and_beat(&self, version: &str) -> Result<BeatAnswer, EngineFailure> {
        self.join().await?;
        let beat = self.read_beat(version, true).await;
        // Only a joining node compares its settings with the fleet's, so the next beat has to join again.
        let is_refused = matches!(beat, Err(EngineFailure::Denied(_)));
        let is_lost = matches!(beat, Err(EngineFailure::Timeout | EngineFailure::Connection(_)));
        if is_refused || is_lost {
            self.connection.close();
        }
        beat
    }

    /// Sends a beat and returns the engine's answer to it.
    async fn read_beat(
        &self,
        version: &str,
        is_joining: bool,
    ) -> Result<BeatAnswer, EngineFailure> {
        if self.beats.fetch_add(1, Ordering::Relaxed) % BEATS_PER_LOOKUP == BEATS_PER_LOOKUP - 1 {
            self.set_heads(self.servers().await?);
        }
        let (_, server) = self.server(0).await?;
        let mut answer = self.send_beat(version, is_joining).await?.into_iter();
        let time = answer.next().map_or(Ok(0), |time| read(time, "beat"))?;
        let mut members = Vec::new();
        while let (Some(node), Some(version)) = (answer.next(), answer.next()) {
            // No node writes anything but UTF-8.
            if let (Ok(node), Ok(version)) = (read(node, "beat"), read(version, "beat")) {
                members.push(MemberNode { node, version });
            }
        }
        members.sort_by(|one, other| one.node.cmp(&other.node));
        Ok(BeatAnswer { members, server, time })
    }
}

impl RedisEngine {
    /// Runs the script of a beat. If another process has this node's name, waits until it has beaten again, which is an error,
    /// or has been silent for the few seconds after which it counts as gone.
    async fn send_beat(
        &self,
        version: &str,
        is_joining: bool,
    ) -> Result<Vec<Value>, EngineFailure> {
        let node = &self.settings.node;
        let twin = format!("twin:{node}");
        let keys = ["nodes", "processes", "settings", &twin].map(|name| self.fleet_key(name));
        // Only a joining node compares the settings: a running one could not do anything about them.
        let joins = if is_joining { "1" } else { "0" };
        let mut other_beat_at = "0".to_owned();
        loop {
            let arguments = [
                node,
                &self.process,
                version,
                &self.settings.shared_settings,
                joins,
                &other_beat_at,
            ]
            .map(str::as_bytes);
            let mut answer: Vec<Value> = self.run(&SCRIPTS.beat, &keys, &arguments).await?;
            let rest = answer.split_off(1.min(answer.len()));
            let what: String = read(answer.pop().unwrap_or(Value::Nil), "beat")?;
            let detail = || read(rest.first().cloned().unwrap_or(Value::Nil), "beat");
            match what.as_str() {
                // Asking again with that time shows whether the other process beats on.
                "taken" => other_beat_at = detail()?,
                "twins" => return Err(self.twin_failure()),
                "settings" => return Err(self.settings_failure(&detail()?)),
                _ => return Ok(rest),
            }
            sleep(NAME_RETRY).await;
        }
    }
}

fn read<T: FromRedisValue>(value: Value, what: &str) -> Result<T, EngineFailure> {
    redis::from_redis_value(value)
        .map_err(|error| EngineFailure::Corrupt(format!("{what}: {error}")))
}

fn micros(span: Duration) -> String {
    span.as_micros().to_string()
}

fn record(bytes: Vec<u8>, age: u64, version: u64) -> SharedRecord {
    SharedRecord { bytes, age: Duration::from_micros(age), version }
}

#[async_trait]
impl SharedEngine for RedisEngine {
    fn partition(&self, origin: &str) -> usize {
        // All nodes have to agree, so not by a hasher with random keys.
        let digest = digest(&SHA256, origin.as_bytes());
        let first = digest.as_ref().first_chunk().copied().unwrap_or_default();
        usize::try_from(u64::from_be_bytes(first) % self.settings.partitions as u64).unwrap_or(0)
    }

    async fn claim(&self, claim: &FetchClaim) -> Result<ClaimAnswer, EngineFailure> {
        let keys = ['e', 'f'].map(|kind| self.key(&claim.origin, kind));
        let max_age = claim.max_age.map_or("-1".to_owned(), micros);
        let lease = micros(claim.lease);
        let rejected_version = claim.rejected_version.to_string();
        let arguments =
            [&self.settings.node, &max_age, &lease, &rejected_version].map(String::as_bytes);
        let (what, number, age, bytes, version): (String, u64, u64, Vec<u8>, u64) =
            self.run(&SCRIPTS.claim, &keys, &arguments).await?;
        match what.as_str() {
            "known" => Ok(ClaimAnswer::Known(record(bytes, age, version))),
            "wait" => Ok(ClaimAnswer::Wait(Duration::from_micros(number))),
            _ => Ok(ClaimAnswer::Fetch {
                token: number,
                older: (!bytes.is_empty()).then(|| record(bytes, age, version)),
            }),
        }
    }

    async fn settle(&self, settlement: &Settlement) -> Result<SettleAnswer, EngineFailure> {
        let origin = &settlement.origin;
        let [log, born] = self.log_keys(self.partition(origin));
        let keys = [self.key(origin, 'e'), self.key(origin, 'f'), log, born];
        if settlement.change == RecordChange::Forgotten {
            let arguments = [&self.settings.node, origin].map(String::as_bytes);
            self.run::<u8>(&SCRIPTS.forget, &keys, &arguments).await?;
            return Ok(SettleAnswer::Kept);
        }
        let change = settlement.change.as_str();
        let token = settlement.token.to_string();
        let [age, fresh_for, retention] = [
            settlement.record.age,
            settlement.fresh_for,
            // The server accepts no lifetime of zero.
            settlement.retention.max(Duration::from_millis(1)),
        ]
        .map(micros);
        let head = [&self.settings.node, origin, &token, change, &age, &fresh_for, &retention];
        let mut arguments = head.map(str::as_bytes).to_vec();
        let version = settlement.record.version.to_string();
        arguments.extend([settlement.record.bytes.as_slice(), version.as_bytes()]);
        let settled: Result<String, _> = self.run(&SCRIPTS.settle, &keys, &arguments).await;
        if settled == Err(EngineFailure::Full) {
            // Otherwise no node could fetch it before the lease ends.
            let [_, lease, ..] = &keys;
            let lease = std::slice::from_ref(lease);
            let node = self.settings.node.as_bytes();
            self.run::<u8>(&SCRIPTS.release, lease, &[node]).await?;
        }
        Ok(match settled?.as_str() {
            "older" => SettleAnswer::Outdated,
            "kept" => SettleAnswer::Kept,
            version => SettleAnswer::VersionTooLow(version.parse().unwrap_or(VERSION_LIMIT)),
        })
    }

    async fn record(&self, origin: &str) -> Result<Option<SharedRecord>, EngineFailure> {
        let found: Option<(u64, Vec<u8>, u64)> =
            self.run(&SCRIPTS.record, &[self.key(origin, 'e')], &[]).await?;
        Ok(found.map(|(age, bytes, version)| record(bytes, age, version)))
    }

    async fn changes(&self, positions: &LogPositions) -> Result<ChangeBatch, EngineFailure> {
        if positions.len() != self.settings.partitions || positions.iter().any(Option::is_none) {
            return self.first_positions().await;
        }
        self.changes_since(positions).await
    }

    async fn next_note(&self) -> Result<bool, EngineFailure> {
        self.listen().await
    }

    async fn take_slot(&self, request: &SlotRequest) -> Result<SlotAnswer, EngineFailure> {
        // A server that was restarted does not know which slots were held before.
        let quiet = match (request.delay.is_zero(), request.lease.is_zero()) {
            (true, true) => Duration::ZERO,
            (true, false) => RESTART_QUIET,
            (false, _) => request.delay + self.settings.home_window,
        };
        let SlotRequest { delay, lease, timeout, remembered_for, .. } = *request;
        let spans = [delay, lease, timeout, quiet, remembered_for].map(micros);
        let holder = self.slot_holder(request);
        let most = request.max_concurrent.to_string();
        let mut arguments = vec![holder.as_bytes(), most.as_bytes()];
        arguments.extend(spans.iter().map(String::as_bytes));
        arguments.push(if request.is_held { b"1" } else { b"0" });
        arguments.push(if request.obeys_rest { b"1" } else { b"0" });
        // One for each node, whatever the number of the request that comes for it.
        let kept_turn = SlotRequest { number: SlotRequest::KEPT_TURN, ..request.clone() };
        let kept_turn = request.keeps_turn.then(|| self.slot_holder(&kept_turn));
        let grace = micros(SlotRequest::TURN_GRACE);
        arguments.push(kept_turn.as_deref().unwrap_or_default().as_bytes());
        arguments.push(grace.as_bytes());
        let (what, wait): (String, u64) =
            self.run(&SCRIPTS.take, &self.queue_keys(request), &arguments).await?;
        let wait = Duration::from_micros(wait);
        Ok(match what.as_str() {
            "go" => SlotAnswer::Granted,
            "later" => SlotAnswer::Queued(wait),
            "rests" => SlotAnswer::Resting(wait),
            _ => SlotAnswer::NotInTime(wait),
        })
    }

    async fn release_slot(&self, request: &SlotRequest) -> Result<(), EngineFailure> {
        let [slots, waiting, ..] = self.queue_keys(request);
        let spans = [request.delay, request.lease, request.remembered_for].map(micros);
        let [delay, lease, remembered_for] = &spans;
        let holder = self.slot_holder(request);
        let is_held = if request.is_held { "1" } else { "0" };
        let arguments = [holder.as_str(), delay, lease, is_held, remembered_for].map(str::as_bytes);
        self.run::<u8>(&SCRIPTS.leave, &[slots, waiting], &arguments).await?;
        Ok(())
    }

    async fn answered(&self, response: &PacingResponse) -> Result<Option<Duration>, EngineFailure> {
        let origin = &response.origin;
        let partition = self.partition(origin);
        let [log, born] = self.log_keys(partition);
        let keys = [self.key(origin, 'r'), self.key_in(partition, 'r'), log, born];
        let status = response.status.to_string();
        let retry_after = response.retry_after.map_or("-1".to_owned(), micros);
        let max_rest = micros(response.max_rest);
        let arguments =
            [&self.settings.node, origin, &status, &retry_after, &max_rest].map(String::as_bytes);
        let rest: i64 = self.run(&SCRIPTS.answered, &keys, &arguments).await?;
        Ok(u64::try_from(rest).ok().map(Duration::from_micros))
    }

    async fn resting(&self, partition: usize) -> Result<Vec<(String, Duration)>, EngineFailure> {
        let keys = [self.key_in(partition, 'r')];
        let found: Vec<(String, u64)> = self.run(&SCRIPTS.resting, &keys, &[]).await?;
        Ok(found.into_iter().map(|(origin, rest)| (origin, Duration::from_micros(rest))).collect())
    }

    async fn spend(&self, report: &BudgetReport) -> Result<BudgetAnswer, EngineFailure> {
        let BudgetReport { crawler, day, .. } = report;
        // All counts of a crawler are in one partition, as its script needs them.
        let partition = self.partition(crawler);
        let keys =
            ['b', 'o'].map(|kind| format!("{}:{crawler}:{day}", self.key_in(partition, kind)));
        let request = report.request;
        let limits = request.map(|request| request.limits).unwrap_or_default();
        let numbers = [report.requests, report.bytes, BUDGET_RETENTION.as_millis() as u64];
        let limits = [limits.requests, limits.bytes, limits.new_origins];
        let mut arguments = vec![report.meter.clone()];
        arguments.extend(numbers.map(|number| number.to_string()));
        arguments.push(u8::from(request.is_some()).to_string());
        arguments.extend(limits.map(|limit| limit.to_string()));
        arguments.push(request.map_or_else(String::new, |request| request.origin.to_string()));
        let is_covered = request.is_some_and(|request| request.is_covered);
        arguments.push(u8::from(is_covered).to_string());
        arguments.extend(report.origins.iter().map(u64::to_string));
        let arguments: Vec<_> = arguments.iter().map(String::as_bytes).collect();
        let (spent, requests, bytes, origins, own_requests, own_bytes): (
            String,
            u64,
            u64,
            u64,
            u64,
            u64,
        ) = self.run(&SCRIPTS.spend, &keys, &arguments).await?;
        let spent = BudgetKind::ALL.into_iter().find(|kind| kind.as_str() == spent);
        Ok(BudgetAnswer { spent, requests, bytes, origins, own_requests, own_bytes })
    }

    async fn take_pace_turn(&self, turn: &PaceTurn) -> Result<PaceTurnAnswer, EngineFailure> {
        let unit = &turn.unit;
        let [_, born] = self.log_keys(self.partition(unit));
        let keys = [self.key(unit, 'p'), self.key(unit, 'r'), born];
        let (pace, proposed) = match &turn.proposal {
            Some((pace, interval)) => (pace.as_str(), *interval),
            None => ("", Duration::ZERO),
        };
        let numbers = [turn.version, turn.requests].map(|number| number.to_string());
        let spans = [proposed, turn.interval, turn.timeout, turn.kept_for].map(micros);
        let [version, requests] = &numbers;
        let [proposed, interval, timeout, kept_for] = &spans;
        let obeys_rest = if turn.obeys_rest { "1" } else { "0" };
        let arguments =
            [version.as_str(), pace, proposed, interval, requests, timeout, kept_for, obeys_rest]
                .map(str::as_bytes);
        let (version, pace, total, wait, granted): (u64, String, u64, u64, u8) =
            self.run(&SCRIPTS.pace, &keys, &arguments).await?;
        let wait = Duration::from_micros(wait);
        let is_granted = granted == 1;
        Ok(PaceTurnAnswer { version, pace, total, wait, is_granted })
    }

    async fn heads(&self) -> Result<Vec<(String, Vec<u8>)>, EngineFailure> {
        self.run(&SCRIPTS.heads, &[self.fleet_key("heads")], &[]).await
    }

    async fn replace_head(
        &self,
        log: &str,
        expected: &[u8],
        head: &[u8],
        retention: Duration,
    ) -> Result<Option<Vec<u8>>, EngineFailure> {
        let retention = micros(retention);
        let arguments = [log.as_bytes(), expected, head, retention.as_bytes()];
        self.run(&SCRIPTS.head, &[self.fleet_key("heads")], &arguments).await
    }

    async fn beat(&self, version: &str) -> Result<BeatAnswer, EngineFailure> {
        if !self.connection.is_open() {
            return self.join_and_beat(version).await;
        }
        match self.read_beat(version, false).await {
            // The connection may be dead without a reset, for example because a router forgot it. Another one shows
            // whether the engine is away, too.
            Err(EngineFailure::Timeout | EngineFailure::Connection(_)) => {
                self.connection.close();
                self.join_and_beat(version).await
            }
            beat => beat,
        }
    }

    async fn leave_fleet(&self) -> Result<(), EngineFailure> {
        let keys = ["nodes", "processes", "settings"].map(|name| self.fleet_key(name));
        let arguments = [&self.settings.node, &self.process].map(String::as_bytes);
        self.run::<u8>(&SCRIPTS.part, &keys, &arguments).await?;
        Ok(())
    }
}
