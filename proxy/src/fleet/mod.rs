//! The fleet: what several nodes share, and the engine through which they share it.
//!
//! A [`Fleet`] is a handle. A node without a fleet has an engine that grants everything at once. Otherwise one background task
//! (`watch`) sends beats, reads the notes of other nodes and reconnects, and a circuit breaker keeps requests from waiting for an
//! engine that is away. Meanwhile each node uses the records of its own store, and `on_loss` decides about origins with a delay.

pub mod alone;
pub(crate) mod back_off;
mod breaker;
pub mod check;
pub mod engine;
mod facts;
mod handle;
pub mod memory;
pub mod redis;
mod sealed;
mod state;
mod status;
#[cfg(test)]
mod tests;
mod turns;
mod under_way;
mod unsettled;
mod watch;

pub(crate) use self::facts::Claimable;
pub(crate) use self::handle::Event;
pub use self::handle::{Fleet, OnLoss, Options};
pub use self::sealed::Key;
pub use self::state::State;
pub use self::status::Status;
pub use self::turns::Held;
pub(crate) use self::turns::NoTurn;
pub(crate) use self::watch::BACK_WITHIN;
