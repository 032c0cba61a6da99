//! Why a request has no turn yet, and when it may come again.

use std::time::Duration;

/// A request comes too soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooSoon {
    pub(crate) cause: Cause,
    /// When it may come again.
    pub(crate) retry_after: Duration,
}

/// Why a request comes too soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The Crawl-delay of its crawler.
    CrawlDelay,
    /// It asks for a Crawl-delay, and while the fleet's engine is away nobody knows when another node last went.
    FleetLost,
    /// The turn that it waited for may be another node's by now: this one stood still, or lost the engine meanwhile.
    TurnEnded,
    /// The origin answered 429 or 503 and has not rested long enough.
    OriginRests,
    /// As many requests are under way to the origin as may be.
    Concurrency,
}
