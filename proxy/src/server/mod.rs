//! The process: builds the parts from the configuration, runs them, reloads the configuration, stops.

pub(crate) mod config_archive;
pub mod process;
pub(crate) mod reload;
pub(crate) mod wiring;
