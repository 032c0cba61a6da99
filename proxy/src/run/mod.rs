//! The process: builds the parts from the configuration, runs them, reloads the configuration, stops.

pub(crate) mod kept;
pub(crate) mod reload;
pub mod server;
pub(crate) mod wiring;
