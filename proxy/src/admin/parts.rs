//! What the operators' listener works with.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::decisions::Decisions;
use crate::flow::Flow;
use crate::metrics::Metrics;
use crate::reload::Reload;

/// What the operators' listener shows.
#[derive(Clone, Debug)]
pub(crate) struct Admin {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) flow: Arc<Flow>,
    pub(crate) decisions: Arc<Decisions>,
    pub(crate) reload: Reload,
    /// The interception CA's certificate.
    pub(crate) certificate_pem: Arc<str>,
    /// Where clients on this machine reach the proxy.
    pub(crate) proxy: SocketAddr,
    /// Cancelled when the process was told to stop.
    pub(crate) stopping: CancellationToken,
}
