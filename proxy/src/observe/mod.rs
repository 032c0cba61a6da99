//! What operators see: decisions, metrics, traces, the log, traffic as the page draws it.

pub(crate) mod chain;
pub(crate) mod decisions;
pub(crate) mod digest;
pub(crate) mod harmless;
pub(crate) mod line_writer;
pub(crate) mod logging;
pub mod metrics;
pub mod traces;
pub(crate) mod traffic;
