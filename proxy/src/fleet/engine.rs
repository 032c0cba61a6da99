//! `Engine`: what the nodes of a fleet share, as eight verbs over plain values.
//!
//! The engine's clock alone decides between nodes. So no instant crosses this border: what was learned has an *age*, and
//! what comes later is *so long from now*.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

/// What is known of one origin, as bytes that the engine does not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What the node that learned it wrote.
    pub bytes: Vec<u8>,
    /// How long ago it was learned or confirmed.
    pub age: Duration,
    /// Which of the origin's records it is: they rise, and are told by the engine's clock. 0: the engine is to say.
    pub version: u64,
}

/// From here on numbers are not exact to every engine: no node writes such a version.
pub const UNSOUND_VERSION: u64 = 1 << 53;

/// A node is about to fetch, unless the fleet knows better.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Whose robots.txt.
    pub origin: String,
    /// Only what was learned later than so long ago will do. `None`: whatever may still be gone by.
    pub newer_than: Option<Duration>,
    /// How long the fetch may take: for so long nobody else is told to fetch.
    pub lease: Duration,
    /// A version of what is known that no node wrote: it counts as unknown. 0: none.
    pub distrusted: u64,
}

/// The answer to a [`Claim`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// No fetch is needed.
    Known(Record),
    /// This node is to fetch.
    Fetch {
        /// The fencing token that the fetch is settled with. It rises from one lease of an origin to the next.
        token: u64,
        /// What is known, though too old to go by: to ask the origin whether it still holds.
        older: Option<Record>,
    },
    /// Another node fetches. Its lease ends in so long.
    Wait(Duration),
}

/// How what was learned differs from what was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nodes that hold something else are to take it over.
    Changed,
    /// It says the same as before: nobody has to hear of it.
    Same,
    /// An operator had it forgotten.
    Forgotten,
}

impl Kind {
    /// The kind, as metrics label it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Same => "same",
            Self::Forgotten => "forgotten",
        }
    }
}

/// What came of a fetch, to be kept for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// Whose robots.txt.
    pub origin: String,
    /// The lease's token. 0: there was no lease, and it is kept only if nothing as new is known.
    pub token: u64,
    /// What to tell the other nodes.
    pub kind: Kind,
    /// What was learned. Nothing for [`Kind::Forgotten`].
    pub record: Record,
    /// How long it may be gone by from now on.
    pub fresh_for: Duration,
    /// How long it is kept.
    pub keep: Duration,
}

/// The answer to a [`Settlement`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It is known now.
    Kept,
    /// Something newer is.
    Older,
    /// Not yet: what was learned is newer than what is known, but the version it was given is not beyond this one.
    Behind(u64),
}

/// Those who go to an origin one after the other, or so many at a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Queue {
    /// Where they go.
    pub origin: String,
    /// What they have in common.
    pub name: String,
}

/// A request for a turn, or to keep one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// In which queue.
    pub queue: Queue,
    /// This node's number for it.
    pub number: u64,
    /// How many may have their turn at a time.
    pub most: usize,
    /// From the end of one turn to the beginning of the next.
    pub delay: Duration,
    /// A turn that is neither kept nor left for so long has ended.
    pub term: Duration,
    /// How long the request waits for its turn.
    pub patience: Duration,
    /// Whether it has begun.
    pub is_under_way: bool,
}

/// The answer to a request for a [`Turn`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It has begun, or goes on.
    Go,
    /// It has a place in the queue, which it keeps if it asks again in so long.
    Later(Duration),
    /// It would not come in time; it may in so long.
    TooSoon(Duration),
}

/// An origin's answer that says how often to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whose.
    pub origin: String,
    /// Its status.
    pub status: u16,
    /// Its `Retry-After`.
    pub retry_after: Option<Duration>,
    /// The longest that an origin can ask for.
    pub longest: Duration,
}

/// Where a node has read up to, by partition. `None`: it has not begun.
pub type Positions = Vec<Option<u64>>;

/// What other nodes noted since.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// In the order in which each partition's were noted.
    pub notes: Vec<Note>,
    /// When each was noted by the engine's calendar, in milliseconds since the epoch, if it says.
    pub times: Vec<u64>,
    /// Where to go on.
    pub positions: Positions,
    /// Partitions with notes that are lost: anything may have changed there.
    pub gaps: Vec<usize>,
    /// Partitions whose notes cannot be read.
    pub unreadable: Vec<usize>,
}

/// One thing that another node noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Of which origin.
    pub origin: String,
    /// What.
    pub what: What,
}

/// What a [`Note`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Something else is known.
    Changed,
    /// Nothing is known any more.
    Forgotten,
    /// It asked for rest.
    Rests,
    /// It asks for rest no longer.
    Rested,
}

/// A node of the fleet, as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub node: String,
    /// What it says of itself.
    pub about: String,
}

/// What an engine says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// Product and version.
    pub name: String,
    /// Another one after each start, and on another server of a cluster.
    pub run_id: String,
    /// In bytes.
    pub memory: u64,
    /// What it does when its memory is full.
    pub policy: String,
}

/// The engine and the nodes at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beat {
    /// The nodes that were heard of lately, in the order of their names.
    pub members: Vec<Member>,
    /// What the engine says of itself.
    pub server: Server,
    /// Its calendar, in milliseconds since the epoch.
    pub time: u64,
}

/// Why the engine did not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Not in time.
    Timeout,
    /// There is no connection.
    Connection(String),
    /// It has no memory left for what it was to keep.
    Full,
    /// It does not let this node do that, or is not fit for it.
    Denied(String),
    /// What it said cannot be read.
    Corrupt(String),
}

impl Failure {
    /// Its kind, as metrics label it.
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

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => f.write_str("no answer in time"),
            Self::Full => f.write_str("the engine's memory is full"),
            Self::Connection(detail) | Self::Denied(detail) | Self::Corrupt(detail) => {
                f.write_str(detail)
            }
        }
    }
}

impl std::error::Error for Failure {}

/// One node's way to what the fleet shares. Every verb can be repeated: what is said twice counts once.
#[async_trait]
pub trait Engine: fmt::Debug + Send + Sync {
    /// Whether there can be other nodes. If not, nobody has to be asked whether something changed.
    fn is_shared(&self) -> bool {
        true
    }

    /// In which of the partitions an origin is.
    fn partition(&self, origin: &str) -> usize;

    /// Whether to fetch.
    async fn claim(&self, claim: &Claim) -> Result<Claimed, Failure>;

    /// Keeps what a fetch brought, tells the others, ends the lease.
    async fn settle(&self, settlement: &Settlement) -> Result<Settled, Failure>;

    /// What is known of an origin.
    async fn record(&self, origin: &str) -> Result<Option<Record>, Failure>;

    /// What other nodes noted since `positions`; at first only where to begin.
    async fn changes(&self, positions: &Positions) -> Result<Changes, Failure>;

    /// Begins a turn, or keeps one that has begun.
    async fn take(&self, turn: &Turn) -> Result<Taken, Failure>;

    /// Ends a turn, or gives up waiting for one.
    async fn leave(&self, turn: &Turn) -> Result<(), Failure>;

    /// Notes an origin's answer; for how long the origin rests, if it does. Only once it has rested does an answer that asks
    /// for none end the row of those that did.
    async fn answered(&self, answer: &Answer) -> Result<Option<Duration>, Failure>;

    /// The origins of a partition that asked for rest, and for how long from now on.
    async fn resting(&self, partition: usize) -> Result<Vec<(String, Duration)>, Failure>;

    /// Says that this node is here and connects anew if it has to.
    async fn beat(&self, about: &str) -> Result<Beat, Failure>;

    /// Says that this node stops.
    async fn part(&self) -> Result<(), Failure> {
        Ok(())
    }
}
