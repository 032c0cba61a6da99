//! The engine on Redis 7 or Valkey. Each verb is one script (`lua/`), which the server runs atomically.
//!
//! Keys begin with `PREFIX:{P}:`, where P is the origin's partition, so that all keys of an origin are in one hash slot of a
//! cluster.

mod connection;
mod join;
mod notes;
mod reason;
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

pub use self::connection::Address;
use self::connection::Connection;
use self::scripts::{Lua, SCRIPTS};
use super::engine::{
    Answer, Beat, Changes, Claim, Claimed, Engine, Failure, Kind, Member, Positions, Record,
    Server, Settled, Settlement, Taken, Turn, UNSOUND_VERSION,
};

/// The time after a restart of the engine in which it grants no slots of a queue without a delay: two beats, within which all
/// nodes have renewed the slots that they hold.
const QUIET: Duration = Duration::from_secs(2);
/// The pause before checking again whether another process still has this node's name.
const TAKEN_AGAIN: Duration = Duration::from_millis(250);
/// The number of beats between checks for lost notes. Each new connection checks as well.
const LOOK_FOR_LOST: u32 = 30;

/// The settings of a node's connection to its fleet.
#[derive(Clone, Debug)]
pub struct Options {
    /// The engine's address.
    pub address: Address,
    /// The prefix of all keys.
    pub prefix: String,
    /// The number of partitions.
    pub partitions: usize,
    /// The timeout of a call.
    pub timeout: Duration,
    /// This node's name, unique in the fleet.
    pub node: String,
    /// The settings that must be the same on all nodes, because all of them use what one fetches.
    pub settings: String,
    /// The time after a restart of the engine in which other nodes may still crawl origins with a delay without it.
    pub home_for: Duration,
}

/// An engine on Redis or Valkey.
pub struct Redis {
    options: Options,
    /// An id of this process, so that two processes with one node's name are noticed. Empty for an observer.
    process: String,
    connection: Connection,
    /// The number of the last note of each partition, read separately: lost notes leave no gap if none came after them.
    heads: Mutex<Option<Vec<u64>>>,
    beats: AtomicU32,
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Redis {
    /// Creates an engine. The first beat connects to it.
    ///
    /// # Errors
    ///
    /// Returns an error if the address is invalid.
    pub fn new(options: Options) -> Result<Self, Failure> {
        let connection = Connection::new(&options.address, options.timeout)?;
        let process = RandomState::new().hash_one(());
        Ok(Self {
            options,
            process: format!("{process:016x}"),
            connection,
            heads: Mutex::default(),
            beats: AtomicU32::new(0),
        })
    }

    /// Turns this into an observer, which checks whether a node could join: its beats are not recorded.
    #[must_use]
    pub fn looking(self) -> Self {
        Self {
            process: String::new(),
            ..self
        }
    }

    /// Returns this node's name.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.options.node
    }

    fn key(&self, origin: &str, kind: char) -> String {
        self.key_in(self.partition(origin), kind) + ":" + origin
    }

    fn key_in(&self, partition: usize, kind: char) -> String {
        format!("{}:{{{partition}}}:{kind}", self.options.prefix)
    }

    /// Returns the keys of a partition's log and of its server's identity.
    fn log(&self, partition: usize) -> [String; 2] {
        ["l", "born"].map(|name| format!("{}:{{{partition}}}:{name}", self.options.prefix))
    }

    /// Returns the keys of a queue's slots, of its waiting requests, and of its server's identity.
    fn line(&self, turn: &Turn) -> [String; 3] {
        let origin = &turn.queue.origin;
        let [_, born] = self.log(self.partition(origin));
        let key = |kind| self.key(origin, kind) + "|" + &turn.queue.name;
        [key('t'), key('w'), born]
    }

    fn who(&self, turn: &Turn) -> String {
        let Options { node, .. } = &self.options;
        format!("{node}/{}/{}", self.process, turn.number)
    }

    async fn run<T: FromRedisValue>(
        &self,
        script: &Lua,
        keys: &[String],
        arguments: &[&[u8]],
    ) -> Result<T, Failure> {
        let value = self.connection.run(script, keys, arguments).await?;
        read(value, script.file)
    }

    /// Returns the number of the last note of each partition, and its server.
    async fn servers(&self) -> Result<Vec<(u64, Server)>, Failure> {
        let partitions = 0..self.options.partitions;
        try_join_all(partitions.map(|partition| self.server(partition))).await
    }

    async fn server(&self, partition: usize) -> Result<(u64, Server), Failure> {
        let [_, born] = self.log(partition);
        let (last_note, name, policy, memory, run_id) =
            self.run(&SCRIPTS.join, &[born], &[]).await?;
        let server = Server {
            name,
            run_id,
            memory,
            policy,
        };
        Ok((last_note, server))
    }

    /// Sends a beat and returns the engine's answer to it.
    async fn hear(&self, about: &str, is_joining: bool) -> Result<Beat, Failure> {
        if self.beats.fetch_add(1, Ordering::Relaxed) % LOOK_FOR_LOST == LOOK_FOR_LOST - 1 {
            self.set_heads(self.servers().await?);
        }
        let (_, server) = self.server(0).await?;
        let mut found = self.beaten(about, is_joining).await?.into_iter();
        let time = found.next().map_or(Ok(0), |time| read(time, "beat"))?;
        let mut members = Vec::new();
        while let (Some(node), Some(about)) = (found.next(), found.next()) {
            // No node writes what is not UTF-8.
            if let (Ok(node), Ok(about)) = (read(node, "beat"), read(about, "beat")) {
                members.push(Member { node, about });
            }
        }
        members.sort_by(|one, other| one.node.cmp(&other.node));
        Ok(Beat {
            members,
            server,
            time,
        })
    }
}

impl Redis {
    /// Runs the script of a beat. If another process has this node's name, waits until it has beaten again, which is an error,
    /// or has been silent for the few seconds after which it counts as gone.
    async fn beaten(&self, about: &str, is_joining: bool) -> Result<Vec<Value>, Failure> {
        let Options { prefix, node, .. } = &self.options;
        let own = ["nodes", "processes", "settings"].map(|name| format!("{prefix}:{{0}}:{name}"));
        let [nodes, processes, settings] = own;
        let keys = [
            nodes,
            processes,
            settings,
            format!("{prefix}:{{0}}:twin:{node}"),
        ];
        let joins = if is_joining { "1" } else { "0" };
        let mut heard_at = "0".to_owned();
        loop {
            let arguments = [
                node,
                &self.process,
                about,
                &self.options.settings,
                joins,
                &heard_at,
            ];
            let arguments = arguments.map(str::as_bytes);
            let mut answer: Vec<Value> = self.run(&SCRIPTS.beat, &keys, &arguments).await?;
            let rest = answer.split_off(1.min(answer.len()));
            let what: String = read(answer.pop().unwrap_or(Value::Nil), "beat")?;
            let detail = || read(rest.first().cloned().unwrap_or(Value::Nil), "beat");
            match what.as_str() {
                "taken" => heard_at = detail()?,
                "twins" => return Err(self.is_twin()),
                "settings" => return Err(self.differs(&detail()?)),
                _ => return Ok(rest),
            }
            sleep(TAKEN_AGAIN).await;
        }
    }
}

fn read<T: FromRedisValue>(value: Value, what: &str) -> Result<T, Failure> {
    redis::from_redis_value(value).map_err(|error| Failure::Corrupt(format!("{what}: {error}")))
}

fn micros(span: Duration) -> String {
    span.as_micros().to_string()
}

fn record(bytes: Vec<u8>, age: u64, version: u64) -> Record {
    Record {
        bytes,
        age: Duration::from_micros(age),
        version,
    }
}

#[async_trait]
impl Engine for Redis {
    fn partition(&self, origin: &str) -> usize {
        let digest = digest(&SHA256, origin.as_bytes());
        let first = digest.as_ref().first_chunk().copied().unwrap_or_default();
        usize::try_from(u64::from_be_bytes(first) % self.options.partitions as u64).unwrap_or(0)
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed, Failure> {
        let keys = ['e', 'f'].map(|kind| self.key(&claim.origin, kind));
        let newer_than = claim.newer_than.map_or("-1".to_owned(), micros);
        let lease = micros(claim.lease);
        let distrusted = claim.distrusted.to_string();
        let arguments = [&self.options.node, &newer_than, &lease, &distrusted];
        let arguments = arguments.map(String::as_bytes);
        let (what, number, age, bytes, version): (String, u64, u64, Vec<u8>, u64) =
            self.run(&SCRIPTS.claim, &keys, &arguments).await?;
        match what.as_str() {
            "known" => Ok(Claimed::Known(record(bytes, age, version))),
            "wait" => Ok(Claimed::Wait(Duration::from_micros(number))),
            _ => Ok(Claimed::Fetch {
                token: number,
                older: (!bytes.is_empty()).then(|| record(bytes, age, version)),
            }),
        }
    }

    async fn settle(&self, settlement: &Settlement) -> Result<Settled, Failure> {
        let origin = &settlement.origin;
        let [log, born] = self.log(self.partition(origin));
        let keys = [self.key(origin, 'e'), self.key(origin, 'f'), log, born];
        if settlement.kind == Kind::Forgotten {
            let arguments = [&self.options.node, origin].map(String::as_bytes);
            self.run::<u8>(&SCRIPTS.forget, &keys, &arguments).await?;
            return Ok(Settled::Kept);
        }
        let kind = settlement.kind.as_str();
        let token = settlement.token.to_string();
        let [age, fresh_for, keep] = [
            settlement.record.age,
            settlement.fresh_for,
            settlement.keep.max(Duration::from_millis(1)),
        ]
        .map(micros);
        let head = [
            &self.options.node,
            origin,
            &token,
            kind,
            &age,
            &fresh_for,
            &keep,
        ];
        let mut arguments = head.map(str::as_bytes).to_vec();
        let version = settlement.record.version.to_string();
        arguments.extend([settlement.record.bytes.as_slice(), version.as_bytes()]);
        let settled: Result<String, _> = self.run(&SCRIPTS.settle, &keys, &arguments).await;
        if settled == Err(Failure::Full) {
            // Otherwise no node could fetch it before the lease ends.
            let [_, lease, ..] = &keys;
            let (lease, node) = (std::slice::from_ref(lease), self.options.node.as_bytes());
            self.run::<u8>(&SCRIPTS.release, lease, &[node]).await?;
        }
        Ok(match settled?.as_str() {
            "older" => Settled::Older,
            "kept" => Settled::Kept,
            version => Settled::Behind(version.parse().unwrap_or(UNSOUND_VERSION)),
        })
    }

    async fn record(&self, origin: &str) -> Result<Option<Record>, Failure> {
        let found: Option<(u64, Vec<u8>, u64)> = self
            .run(&SCRIPTS.record, &[self.key(origin, 'e')], &[])
            .await?;
        Ok(found.map(|(age, bytes, version)| record(bytes, age, version)))
    }

    async fn changes(&self, positions: &Positions) -> Result<Changes, Failure> {
        if positions.len() != self.options.partitions || positions.iter().any(Option::is_none) {
            return self.start().await;
        }
        self.changes_since(positions).await
    }

    async fn take(&self, turn: &Turn) -> Result<Taken, Failure> {
        let quiet = if turn.delay.is_zero() {
            QUIET
        } else {
            turn.delay + self.options.home_for
        };
        let spans = [turn.delay, turn.term, turn.patience, quiet].map(micros);
        let (who, most) = (self.who(turn), turn.most.to_string());
        let mut arguments = vec![who.as_bytes(), most.as_bytes()];
        arguments.extend(spans.iter().map(String::as_bytes));
        arguments.push(if turn.is_under_way { b"1" } else { b"0" });
        let (what, wait): (String, u64) = self
            .run(&SCRIPTS.take, &self.line(turn), &arguments)
            .await?;
        let wait = Duration::from_micros(wait);
        Ok(match what.as_str() {
            "go" => Taken::Go,
            "later" => Taken::Later(wait),
            _ => Taken::TooSoon(wait),
        })
    }

    async fn leave(&self, turn: &Turn) -> Result<(), Failure> {
        let [turns, waiting, _] = self.line(turn);
        let [delay, term] = [turn.delay, turn.term].map(micros);
        let who = self.who(turn);
        let began = if turn.is_under_way { "1" } else { "0" };
        let arguments = [who.as_str(), &delay, &term, began].map(str::as_bytes);
        self.run::<u8>(&SCRIPTS.leave, &[turns, waiting], &arguments)
            .await?;
        Ok(())
    }

    async fn answered(&self, answer: &Answer) -> Result<Option<Duration>, Failure> {
        let origin = &answer.origin;
        let partition = self.partition(origin);
        let [log, born] = self.log(partition);
        let keys = [
            self.key(origin, 'r'),
            self.key_in(partition, 'r'),
            log,
            born,
        ];
        let status = answer.status.to_string();
        let retry_after = answer.retry_after.map_or("-1".to_owned(), micros);
        let longest = micros(answer.longest);
        let arguments = [&self.options.node, origin, &status, &retry_after, &longest];
        let arguments = arguments.map(String::as_bytes);
        let rest: i64 = self.run(&SCRIPTS.answered, &keys, &arguments).await?;
        Ok(u64::try_from(rest).ok().map(Duration::from_micros))
    }

    async fn resting(&self, partition: usize) -> Result<Vec<(String, Duration)>, Failure> {
        let keys = [self.key_in(partition, 'r')];
        let found: Vec<(String, u64)> = self.run(&SCRIPTS.resting, &keys, &[]).await?;
        let found = found.into_iter();
        Ok(found
            .map(|(origin, rest)| (origin, Duration::from_micros(rest)))
            .collect())
    }

    async fn beat(&self, about: &str) -> Result<Beat, Failure> {
        let is_joining = !self.connection.is_open();
        if is_joining {
            self.join().await?;
        }
        let beaten = self.hear(about, is_joining).await;
        if is_joining && matches!(beaten, Err(Failure::Denied(_))) {
            self.connection.close();
        }
        if matches!(beaten, Err(Failure::Timeout | Failure::Connection(_))) {
            // The connection may be dead without a reset: the next beat reconnects.
            self.connection.close();
        }
        beaten
    }

    async fn part(&self) -> Result<(), Failure> {
        let Options { prefix, node, .. } = &self.options;
        let keys = ["nodes", "processes", "settings"].map(|name| format!("{prefix}:{{0}}:{name}"));
        let arguments = [node, &self.process].map(String::as_bytes);
        self.run::<u8>(&SCRIPTS.part, &keys, &arguments).await?;
        Ok(())
    }
}
