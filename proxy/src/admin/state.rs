//! The state that the handlers of the admin listener share.

use std::sync::Arc;
use std::time::SystemTime;

use tokio_util::sync::CancellationToken;

use super::reload_handle::Reload;
use crate::connection::listeners::Listen;
use crate::decide::Decider;
use crate::observe::decisions::Decisions;
use crate::observe::metrics::Metrics;
use crate::observe::traffic::Traffic;

/// The parts of the proxy that the admin listener shows.
#[derive(Clone, Debug)]
pub(crate) struct Admin {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) decider: Arc<Decider>,
    pub(crate) decisions: Arc<Decisions>,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) reload: Reload,
    pub(crate) started_at: SystemTime,
    /// The interception CA's certificate.
    pub(crate) certificate_pem: Arc<str>,
    /// The SHA-256 of that certificate.
    pub(crate) fingerprint: Arc<str>,
    /// The listener that clients on this machine use.
    pub(crate) proxy: Listen,
    /// Every listener for clients, as a URL.
    pub(crate) listeners: Arc<[String]>,
    /// Cancelled when the process begins to stop.
    pub(crate) stopping: CancellationToken,
}
