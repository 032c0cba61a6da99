//! Exports decisions and robots.txt fetches to an OTLP/HTTP collector.
//!
//! ```text
//!  decision_export   decisions as log records
//!  traces            spans of exchanges and of fetches
//!    └─ attributes     attributes shared by both, by OpenTelemetry's names
//! ```
//!
//! Exports are built afterwards, from a recorded decision or a finished fetch, and wait in bounded queues: no request waits for
//! the collector.
//! This crate knows nothing of the decision log, its files or the cache. Begin reading at [`DecisionExport`] and
//! [`traces::Traces`].

pub mod attributes;
mod decision_export;
pub mod traces;

pub use self::decision_export::DecisionExport;
