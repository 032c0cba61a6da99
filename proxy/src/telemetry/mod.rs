//! Everything operators see: decisions, metrics, traces, the program's log, and the traffic chart of the admin page.

pub(crate) mod digest {
    pub(crate) use wayleave_evidence::Sha256Digest;
}
pub(crate) mod harmless;
pub(crate) mod line_writer;
pub(crate) mod logging;
pub mod metrics;
pub mod traces;
pub(crate) mod traffic;
