//! The fleet: what several nodes share, and the engine that they share it in.
//!
//! A [`Fleet`] is a handle. A node that is alone has the engine `Alone`, with which everything is as if there were no
//! fleet. Otherwise one task (`watch`) beats, reads what others noted and connects anew; and the breaker keeps everybody else
//! from waiting for an engine that is gone. Facts go on from each node's own store then; a pace is kept as `on_loss` says.

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
