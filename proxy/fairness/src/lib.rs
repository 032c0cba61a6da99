//! The shares of many parties in something bounded.
//!
//! Whatever a client or an origin can fill, queue for or make us compute belongs to a [`Holder`]. A [`SharedMap`] keeps
//! bounded facts, and the holder with the most of them gives way. [`HolderCounts`] limit the share of each, and
//! [`KeyedSemaphores`] make it wait instead. [`Turns`] is a queue that serves holders in turn. A [`WorkPool`] runs work
//! whose cost an outsider chooses, by turns, away from the threads that serve connections.
//!
//! This crate knows nothing of requests, origins or time: begin reading at [`Holder`].

mod holder;
mod holder_counts;
mod keyed_semaphores;
mod registrable_domain;
mod shared_map;
mod turns;
mod work_pool;

pub use holder::Holder;
pub use holder_counts::{HolderCountGuard, HolderCounts};
pub use keyed_semaphores::{KeyedPermit, KeyedSemaphore, KeyedSemaphores};
pub use registrable_domain::{is_public_suffix, registrable_domain};
pub use shared_map::{NoRoom, SharedMap};
pub use turns::Turns;
pub use work_pool::WorkPool;
