//! The fleet: the state that several nodes share, and the engine through which they share it.
//!
//! A [`Fleet`] is a handle. A node without a fleet has an engine that grants everything at once. Otherwise one background task
//! (`watch`) sends beats, reads the notes of other nodes and reconnects, and a circuit breaker keeps requests from waiting for an
//! engine that is away. Meanwhile each node uses the records of its own store, and `on_loss` decides about origins with a delay.
//!
//! This crate knows nothing of the contents of records, nor of HTTP: keys and records are bytes, and a slot is a lease. Begin
//! reading at [`engine`], the verbs that an engine has.

mod alone;
mod breaker;
pub mod check;
pub mod engine;
mod handle;
mod held_slots;
#[cfg(any(test, feature = "test-util"))]
pub mod memory;
mod node_heads;
pub mod pace_turn;
mod records;
pub mod redis;
pub mod rest;
mod seal;
mod slots;
mod state;
mod status;
#[cfg(test)]
mod tests;
mod unsettled;
mod watch;

pub use self::handle::FleetEvent;
pub use self::handle::{Fleet, FleetSettings, OnLoss};
pub use self::node_heads::NodeHead;
pub use self::records::ClaimOutcome;
pub use self::seal::FleetKey;
pub use self::slots::FleetSlot;
pub use self::slots::{NoSlot, SlotTerms};
pub use self::state::FleetState;
pub use self::status::FleetReport;
pub use self::watch::RETURN_WINDOW;
