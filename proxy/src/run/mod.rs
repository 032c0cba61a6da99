//! The process: wires the rooms together, listens, reads the configuration again, stops.

pub(crate) mod kept;
pub(crate) mod reload;
pub mod server;
pub(crate) mod wiring;
