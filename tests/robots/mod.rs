//! robots.txt: fetching, redirects, the store, the queue of fetches, and the copy that clients get.

mod copy;
pub mod fetch;
pub mod identity;
mod pinned;
mod postponed;
mod queue;
mod redirects;
mod store;

use crate::harness::crawler::crawler;
use crate::harness::wayleave::Settings;

/// Sets lifetimes of seconds. A copy is unusable from max_stale after the fetch to max_stale after the first failure, except for the
/// crawler "google", whose dialect goes on using it.
fn with_short_lifetimes(settings: Settings) -> Settings {
    settings
        .set("robots.max_age", "\"3s\"")
        .set("robots.max_stale", "\"6s\"")
        .set("robots.error_ttl", "\"1s\"")
        .with(crawler("google", "Google").set("dialect", "google"))
}
