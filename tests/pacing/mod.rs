//! Pacing: Crawl-delay, concurrency and back-off, measured at the origin.

mod delays;
mod slots;
