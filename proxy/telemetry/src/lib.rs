//! The metrics, the program's log, and the traffic chart of the admin page.
//!
//! Everything here can be called from any thread, and never waits. This crate knows nothing of the events that are counted
//! but their names. Begin reading at [`metrics::Metrics`].

pub mod collector;
pub mod export_queue;
pub mod line_writer;
pub mod logging;
pub mod metrics;
pub mod traffic;
