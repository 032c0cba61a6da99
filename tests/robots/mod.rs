//! robots.txt: fetching, redirects, the store, the queue of fetches, and the copy that clients get.

mod copy;
pub mod fetch;
mod queue;
mod redirects;
mod store;
