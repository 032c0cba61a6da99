//! The shares of many parties in something bounded.
//!
//! Whatever a client or an origin can fill, queue for or make us compute belongs to a [`Holder`]. A [`SharedMap`] keeps
//! bounded facts, and the holder with the most of them gives way. [`HolderCounts`] limit the share of each, and
//! [`KeyedSemaphores`] make it wait instead. [`Turns`] is a queue that serves holders in turn. [`InTurn`] is a task that
//! takes turns on its thread with the tasks of other holders. A [`WorkPool`] runs work whose cost an outsider chooses, by
//! turns, away from the threads that serve connections.
//!
//! This crate knows nothing of requests or origins: begin reading at [`Holder`].

mod holder;
mod holder_counts;
mod keyed_semaphores;
mod registrable_domain;
mod shared_map;
mod thread_turns;
mod turns;
mod work_pool;

pub use holder::Holder;
pub use holder_counts::{HolderCountGuard, HolderCounts};
pub use keyed_semaphores::{KeyedPermit, KeyedSemaphore, KeyedSemaphores};
pub use registrable_domain::{is_public_suffix, registrable_domain};
pub use shared_map::{NoRoom, SharedMap};
pub use thread_turns::{InTurn, run_as};
pub use turns::Turns;
pub use work_pool::WorkPool;
