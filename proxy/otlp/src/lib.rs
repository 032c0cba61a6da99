//! Decisions and fetches of robots.txt for a collector that speaks OTLP over HTTP.
//!
//! ```text
//!  decision_export   decisions as log records
//!  traces            spans of exchanges and of fetches
//!    └─ attributes     the attributes of both, by OpenTelemetry's names
//! ```
//!
//! Everything is made of a decision after it was recorded, and waits in a bounded queue: no request waits for the collector.
//! This crate knows nothing of the decision log, its files or the cache. Begin reading at [`DecisionExport`] and
//! [`traces::Traces`].

pub mod attributes;
mod decision_export;
pub mod traces;

pub use self::decision_export::DecisionExport;
