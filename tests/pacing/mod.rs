//! Pacing: Crawl-delay, concurrency, back-off and quotas, measured at the origin.

mod adaptive;
mod delays;
mod rate_limits;
mod repeats;
mod rests;
mod shared;
mod slots;
