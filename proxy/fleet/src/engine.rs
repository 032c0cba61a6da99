//! The interface of an engine: the shared state of a fleet, as verbs over plain values.
//!
//! Only the engine's clock decides between nodes, so no instant crosses this interface: the past is given as an age, the
//! future as a duration from now.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use wayleave_decision::DailyBudget;

use super::pace_turn::{PaceTurn, PaceTurnAnswer};

/// The record of one origin's robots.txt, as bytes that the engine does not interpret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedRecord {
    /// The content, as written by the node that fetched it.
    pub bytes: Vec<u8>,
    /// The time since it was fetched or revalidated.
    pub age: Duration,
    /// The version. Versions of an origin rise and come from the engine's clock. 0: the engine assigns one.
    pub version: u64,
}

/// The first version that no node writes: Lua and JSON hold integers as doubles, exact only below 2^53.
pub(crate) const VERSION_LIMIT: u64 = 1 << 53;

/// The longest wait for a note.
pub(super) const MAX_LISTENING: Duration = Duration::from_secs(1);

/// A node's question before it fetches: whether the fleet has a record already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchClaim {
    /// The origin of the robots.txt.
    pub origin: String,
    /// The age that a record must be below. `None`: any record that is fresh.
    pub max_age: Option<Duration>,
    /// The longest that the fetch takes. No other node may fetch meanwhile.
    pub lease: Duration,
    /// The version of a record that failed verification; it is replaced. 0: none.
    pub rejected_version: u64,
}

/// The answer to a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimAnswer {
    /// The record; no fetch is needed.
    Known(SharedRecord),
    /// This node fetches.
    Fetch {
        /// The fencing token to settle the fetch with. It rises from one lease of an origin to the next.
        token: u64,
        /// The stale record, to be revalidated.
        older: Option<SharedRecord>,
    },
    /// Another node fetches. Its lease ends after this time.
    Wait(Duration),
}

/// The difference between a new record and the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordChange {
    /// The content is different: the other nodes replace theirs.
    Changed,
    /// The content is the same: the other nodes are not notified.
    Same,
    /// An operator had the record deleted.
    Forgotten,
}

impl RecordChange {
    /// Returns the label in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Same => "same",
            Self::Forgotten => "forgotten",
        }
    }
}

/// The result of a fetch, to be kept for all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// The origin of the robots.txt.
    pub origin: String,
    /// The lease's token. 0: there was no lease, and the record is kept only if it is the newest.
    pub token: u64,
    /// The difference that the other nodes are notified of.
    pub change: RecordChange,
    /// The new record; empty if it was forgotten.
    pub record: SharedRecord,
    /// The time from now until it is stale.
    pub fresh_for: Duration,
    /// The time from now until it is deleted.
    pub retention: Duration,
}

/// The answer to a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleAnswer {
    /// The record was stored.
    Kept,
    /// The engine has a newer record.
    Outdated,
    /// The record is newer than the stored one, but its version is not higher than the stored record's, which is given.
    VersionTooLow(u64),
}

/// The identity of a queue: requests to one origin, or to several that share a pace, with one delay or limit of concurrency.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QueueId {
    /// The origin, or the name of the unit that shares a pace.
    pub origin: String,
    /// The crawler and the kind of limit.
    pub name: String,
}

/// A request for a slot, or for the renewal of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotRequest {
    /// The queue.
    pub queue: QueueId,
    /// This node's number for the slot.
    pub number: u64,
    /// The most slots that may be held at a time.
    pub max_concurrent: usize,
    /// The time from the end of one slot to the start of the next. Of two requests in a row, the longer delay counts.
    pub delay: Duration,
    /// The time for which the end of a slot is remembered after its delay, for requests with a longer delay.
    pub remembered_for: Duration,
    /// The time after which a slot that is neither renewed nor released expires. Zero: the slot is not held.
    pub lease: Duration,
    /// The longest that the request waits.
    pub timeout: Duration,
    /// Whether no slot is granted while the whole origin rests.
    pub obeys_rest: bool,
    /// Whether this node's next request inherits this one's turn if this one is refused because it may not wait.
    pub keeps_turn: bool,
    /// Whether the slot is held already.
    pub is_held: bool,
}

impl SlotRequest {
    /// The time for which a turn is kept after the wait in a refusal, which clients learn in whole seconds.
    pub const TURN_GRACE: Duration = Duration::from_secs(2);
    /// The number under which an engine keeps a turn: no slot has it.
    pub(super) const KEPT_TURN: u64 = 0;

    /// Returns the answer for a queue that is free again after `wait`.
    pub(super) fn answer_after(&self, wait: Duration) -> SlotAnswer {
        if wait.is_zero() {
            SlotAnswer::Granted
        } else if wait <= self.timeout {
            SlotAnswer::Queued(wait)
        } else {
            SlotAnswer::NotInTime(wait)
        }
    }
}

/// The answer to a request for a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotAnswer {
    /// The slot is held now, or was renewed.
    Granted,
    /// The request is in the queue, and keeps its place if it asks again after this time.
    Queued(Duration),
    /// No slot is free before the timeout; one may be after this time.
    NotInTime(Duration),
    /// The origin rests for this time, which is longer than the timeout.
    Resting(Duration),
}

/// A response that changes how fast an origin may be crawled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacingResponse {
    /// The origin, or the name of its pace unit.
    pub origin: String,
    /// The status code.
    pub status: u16,
    /// The `Retry-After` field (RFC 9110 section 10.2.3).
    pub retry_after: Option<Duration>,
    /// The longest rest that an origin can ask for.
    pub max_rest: Duration,
}

/// The parts of a crawler's daily budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BudgetKind {
    /// `requests_per_day`.
    Requests,
    /// `bytes_per_day`.
    Bytes,
    /// `new_origins_per_day`.
    NewOrigins,
}

impl BudgetKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Requests, Self::Bytes, Self::NewOrigins];

    /// Returns the label in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Bytes => "bytes",
            Self::NewOrigins => "new_origins",
        }
    }
}

/// Everything that a node has counted of a crawler's day, and a request that asks to be counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetReport {
    /// The crawler's name.
    pub crawler: String,
    /// The day, counted from the epoch.
    pub day: u64,
    /// The id under which the node counts, which outlives its process.
    pub meter: String,
    /// The requests that it has counted on that day, without the one that asks and others in question.
    pub requests: u64,
    /// The bytes that it has received on that day.
    pub bytes: u64,
    /// Digests of origins that it has counted without asking.
    pub origins: Vec<u64>,
    /// The request that asks, if one does.
    pub request: Option<BudgetRequest>,
}

/// A request that asks to be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetRequest {
    /// The digest of its origin.
    pub origin: u64,
    /// The limits of the day for all nodes.
    pub limits: DailyBudget,
    /// Whether the engine has counted a request of this node that was never sent, whose place this one takes.
    pub is_covered: bool,
}

/// The answer to a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetAnswer {
    /// The part that is spent, so that the request was not counted.
    pub spent: Option<BudgetKind>,
    /// The requests of all nodes.
    pub requests: u64,
    /// The bytes of all nodes.
    pub bytes: u64,
    /// The origins of all nodes.
    pub origins: u64,
    /// The requests of the node that reports.
    pub own_requests: u64,
    /// The bytes of the node that reports.
    pub own_bytes: u64,
}

/// The position in each partition's log up to which a node has read. `None`: it has read nothing.
pub type LogPositions = Vec<Option<u64>>;

/// The notes of other nodes since a position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeBatch {
    /// The notes, in the order of each partition's log.
    pub notes: Vec<ChangeNote>,
    /// The times of notes by the engine's clock, in milliseconds since the epoch; a note without one adds none.
    pub times: Vec<u64>,
    /// The positions to continue from.
    pub positions: LogPositions,
    /// The partitions where notes were lost: any record there may be out of date.
    pub gaps: Vec<usize>,
    /// The partitions whose notes cannot be parsed.
    pub unreadable: Vec<usize>,
}

/// One note of another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeNote {
    /// The origin that it is about.
    pub origin: String,
    /// The event.
    pub kind: NoteKind,
}

/// The events that nodes note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteKind {
    /// The record has different content.
    Changed,
    /// The record was deleted.
    Forgotten,
    /// The origin asked for a rest.
    RestStarted,
    /// The origin's rest has ended.
    RestEnded,
}

/// A node of the fleet, as the others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberNode {
    /// Its name.
    pub node: String,
    /// Its version.
    pub version: String,
}

/// The server that an engine runs on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineServer {
    /// Product and version.
    pub name: String,
    /// An id that differs after each restart and on each server of a cluster.
    pub run_id: String,
    /// The memory in use, in bytes.
    pub used_bytes: u64,
    /// The eviction policy (Redis: `maxmemory-policy`).
    pub eviction_policy: String,
}

/// The answer to a beat: the engine and the nodes at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BeatAnswer {
    /// The nodes that sent a beat lately, sorted by name.
    pub members: Vec<MemberNode>,
    /// The engine's server.
    pub server: EngineServer,
    /// The engine's time, in milliseconds since the epoch.
    pub time: u64,
}

/// The reasons why a call to the engine fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineFailure {
    /// The call timed out.
    #[error("no answer in time")]
    Timeout,
    /// There is no connection.
    #[error("{0}")]
    Connection(String),
    /// The engine has no memory left for a new record.
    #[error("the engine's memory is full")]
    Full,
    /// The engine refuses this node, or is not configured as a fleet needs it.
    #[error("{0}")]
    Denied(String),
    /// The engine's answer cannot be parsed.
    #[error("{0}")]
    Corrupt(String),
}

impl EngineFailure {
    /// Returns the label in metrics.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Connection(_) => "connection",
            Self::Full => "full",
            Self::Denied(_) => "denied",
            Self::Corrupt(_) => "corrupt",
        }
    }
}

/// One node's access to the state that the fleet shares. A call that timed out may have taken effect. It can be repeated, except
/// that a repeated `answered` may count a refusal twice, `take_pace_turn` and a `take_slot` with a lease of zero may take another
/// turn, and a `spend` with a request may count another request.
#[async_trait]
pub trait SharedEngine: fmt::Debug + Send + Sync {
    /// Returns whether there can be other nodes.
    fn is_shared(&self) -> bool {
        true
    }

    /// Returns the partition of an origin.
    fn partition(&self, origin: &str) -> usize;

    /// Returns the fleet's record, or says whether this node or another one fetches it.
    async fn claim(&self, claim: &FetchClaim) -> Result<ClaimAnswer, EngineFailure>;

    /// Stores the result of a fetch, notifies the other nodes and ends the lease.
    async fn settle(&self, settlement: &Settlement) -> Result<SettleAnswer, EngineFailure>;

    /// Returns the record of an origin.
    async fn record(&self, origin: &str) -> Result<Option<SharedRecord>, EngineFailure>;

    /// Returns the other nodes' notes since `positions`; the first time only the positions to begin at.
    async fn changes(&self, positions: &LogPositions) -> Result<ChangeBatch, EngineFailure>;

    /// Waits up to a second for the next note, and returns whether there is one. By default, for engines that can only be polled:
    /// waits, and returns false.
    async fn next_note(&self) -> Result<bool, EngineFailure> {
        tokio::time::sleep(MAX_LISTENING).await;
        Ok(false)
    }

    /// Requests a slot, or renews one that is held.
    async fn take_slot(&self, request: &SlotRequest) -> Result<SlotAnswer, EngineFailure>;

    /// Releases a slot, or gives up waiting for one.
    async fn release_slot(&self, request: &SlotRequest) -> Result<(), EngineFailure>;

    /// Notes an origin's response and returns how long the origin rests, if it does. A response that asks for no rest resets
    /// the count of refusals only after the rest has ended: it may belong to a request that was sent before.
    async fn answered(&self, response: &PacingResponse) -> Result<Option<Duration>, EngineFailure>;

    /// Returns the origins of a partition that rest, and for how long from now.
    async fn resting(&self, partition: usize) -> Result<Vec<(String, Duration)>, EngineFailure>;

    /// Adds a node's counts of a crawler's day, and counts one request more if the report has one and no limit is reached. A node
    /// repeats all that it has counted, of which the highest number counts.
    async fn spend(&self, report: &BudgetReport) -> Result<BudgetAnswer, EngineFailure>;

    /// Takes a turn at a server whose pace the nodes find together, and learns the pace.
    async fn take_pace_turn(&self, turn: &PaceTurn) -> Result<PaceTurnAnswer, EngineFailure>;

    /// Returns the heads of the nodes' logs, as stored, each with the id of its log.
    async fn heads(&self) -> Result<Vec<(String, Vec<u8>)>, EngineFailure>;

    /// Stores `head` for a log if `expected` is the stored head; otherwise returns the stored one. An empty slice stands for no
    /// head. Heads are kept for at least `retention`.
    async fn replace_head(
        &self,
        log: &str,
        expected: &[u8],
        head: &[u8],
        retention: Duration,
    ) -> Result<Option<Vec<u8>>, EngineFailure>;

    /// Announces that this node is alive, and reconnects if it has to.
    async fn beat(&self, version: &str) -> Result<BeatAnswer, EngineFailure>;

    /// Announces that this node stops.
    async fn leave_fleet(&self) -> Result<(), EngineFailure> {
        Ok(())
    }
}
