//! The error of a request that came before its slot, and when it may come again.

use std::time::Duration;

/// A request that comes too soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooSoon {
    pub cause: TooSoonCause,
    /// The time until it may come again.
    pub retry_after: Duration,
}

/// The cause of a request being too soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooSoonCause {
    /// The Crawl-delay of its crawler.
    CrawlDelay,
    /// A Crawl-delay applies, but the fleet's engine is unreachable, so nobody knows when another node last sent a
    /// request.
    FleetLost,
    /// The slot may belong to another node by now: this node was suspended, or lost the engine meanwhile.
    SlotLost,
    /// The origin answered 429 or 503, or that nothing is left of its quota, and its rest is not over.
    OriginRests,
    /// The origin is slowed down: requests to it have turns.
    Slowed,
    /// The limit of concurrent requests to the origin is reached.
    Concurrency,
    /// The client keeps as many origins waiting or resting as one client may.
    ShareFull,
}
