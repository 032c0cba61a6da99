//! The metrics, the program's log, and the traffic chart of the admin page.

pub(crate) mod collector;
pub(crate) mod csv;
pub(crate) mod export_queue;
pub(crate) mod harmless;
pub(crate) mod json_object;
pub(crate) mod line_writer;
pub(crate) mod logging;
pub mod metrics;
pub(crate) mod traffic;
