//! The state that the handlers of the admin listener share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use wayleave_admission::Decider;
use wayleave_config::ListenAddress;
use wayleave_decision_log::DecisionLog;
use wayleave_decision_log::log_heads::LogHeads;
use wayleave_forwarding::downstream::UntrustingClients;
use wayleave_pacing::Pacer;
use wayleave_pacing::budget::DailyBudgets;
use wayleave_telemetry::metrics::Metrics;
use wayleave_telemetry::traffic::Traffic;
use wayleave_transport::tls::intercept::CertificateAuthority;

use super::refresh_limit::RefreshLimit;
use super::reload_handle::ReloadHandle;

/// The parts of the proxy that the admin listener shows.
#[derive(Clone, Debug)]
pub(crate) struct AdminState {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) decider: Arc<Decider>,
    pub(crate) budgets: Arc<DailyBudgets>,
    pub(crate) pacer: Arc<Pacer>,
    pub(crate) decisions: Arc<DecisionLog>,
    /// The heads of the logs of all nodes.
    pub(crate) log_heads: Arc<LogHeads>,
    pub(crate) traffic: Arc<Traffic>,
    /// The refreshes of robots.txt files that operators asked for lately.
    pub(crate) refreshes: Arc<RefreshLimit>,
    pub(crate) config: ReloadHandle,
    /// One replay at a time, because each reads the whole log.
    pub(crate) replay_turn: Arc<Semaphore>,
    pub(crate) started_at: SystemTime,
    /// The interception CA.
    pub(crate) authority: Arc<CertificateAuthority>,
    /// The SHA-256 of that certificate.
    pub(crate) fingerprint: Arc<str>,
    /// The absolute path of that certificate on this machine.
    pub(crate) certificate_path: Arc<str>,
    /// The URL of a copy of the documentation (`admin.docs_url`).
    pub(crate) docs_url: Option<Arc<str>>,
    /// The clients that do not trust the CA.
    pub(crate) untrusting: Arc<UntrustingClients>,
    /// The admin listener itself.
    pub(crate) own_address: SocketAddr,
    /// The HTTP proxy that clients on this machine use, if there is one.
    pub(crate) proxy: Option<ListenAddress>,
    /// Every listener for clients, as a URL.
    pub(crate) listeners: Arc<[String]>,
    /// The token that is cancelled when the process begins to stop.
    pub(crate) stopping: CancellationToken,
}
