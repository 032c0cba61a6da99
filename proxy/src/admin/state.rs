//! What the admin listener's handlers share.

use std::sync::Arc;
use std::time::SystemTime;

use tokio_util::sync::CancellationToken;

use super::reload_handle::Reload;
use crate::connection::listeners::Listen;
use crate::decide::Decider;
use crate::observe::decisions::Decisions;
use crate::observe::metrics::Metrics;
use crate::observe::traffic::Traffic;

/// What the operators' listener shows.
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
    /// Its SHA-256.
    pub(crate) fingerprint: Arc<str>,
    /// Where clients on this machine reach the proxy.
    pub(crate) proxy: Listen,
    /// Every listener for clients, as a URL.
    pub(crate) listeners: Arc<[String]>,
    /// Cancelled when the process was told to stop.
    pub(crate) stopping: CancellationToken,
}
