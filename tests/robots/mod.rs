//! robots.txt: fetching, redirects, the store, and the queue of fetches.

pub mod fetch;
mod queue;
mod redirects;
mod store;
