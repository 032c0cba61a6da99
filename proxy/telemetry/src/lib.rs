//! The metrics, the program's log, and the traffic chart of the admin page; and the formats that logs and exports share.
//!
//! Everything here can be told from any thread and never waits. This crate knows nothing of the events that are counted
//! but their names. Begin reading at [`metrics::Metrics`].

pub mod collector;
pub mod csv;
pub mod export_queue;
pub mod harmless;
pub mod json_object;
pub mod line_writer;
pub mod logging;
pub mod metrics;
pub mod traffic;
