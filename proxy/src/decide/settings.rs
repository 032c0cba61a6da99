//! The settings that requests go by: one value, replaced as a whole at each reload.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use ipnet::IpNet;
use tokio::sync::watch;
use wayleave_robots_txt::Scheme;
use wayleave_usage_preferences::PreferenceSettings;

use super::https::{self, HttpsHandling, HttpsMode};
use super::request::ClientConnection;
use super::target::{ResolvedTarget, TargetScope};
use crate::identity::{Crawler, Crawlers};
use crate::pacing;
use crate::rules::PolicyRules;
use crate::signing::{KeySigner, MessageSigner};
use crate::tls::server::ServerTls;
use crate::upstream::Upstream;

/// Part of `[proxy]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionSettings {
    /// The pseudonym in `Via` and `Proxy-Status`.
    pub(crate) name: String,
    /// How long a client may take for a request's head.
    pub(crate) header_timeout: Duration,
    /// How long a connection may be silent between requests.
    pub(crate) idle_timeout: Duration,
    /// How long exchanges under way may go on when the process ends.
    pub(crate) shutdown_grace: Duration,
    /// Load balancers, which say by the PROXY protocol whose connection it is.
    pub(crate) proxy_protocol: Vec<IpNet>,
    /// Whether responses say which decision they rest on.
    pub(crate) decision_id: bool,
}

impl ConnectionSettings {
    /// Whether the connections of this peer begin with a PROXY header.
    pub(crate) fn is_load_balancer(&self, peer: IpAddr) -> bool {
        self.proxy_protocol
            .iter()
            .any(|range| range.contains(&peer))
    }
}

/// `[preferences]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PreferencesConfig {
    /// How statements are read.
    pub(crate) reading: PreferenceSettings,
    /// Whether an answer whose use is refused is withheld, instead of only labelled.
    pub(crate) withholds: bool,
    /// How much of a page is read, decoded.
    pub(crate) meta_scan_bytes: usize,
}

/// What becomes of requests while decisions cannot be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFailureMode {
    /// They go on; how many are not recorded is counted, and the log says so when it can.
    Forward,
    /// They are refused.
    Refuse,
}

/// What one exchange goes by from its beginning to its end.
pub(crate) struct Settings {
    /// Which configuration this is, counted from 1 at the start.
    pub(crate) configuration: u64,
    pub(crate) options: ConnectionSettings,
    pub(crate) https: https::InterceptionSettings,
    pub(crate) crawlers: Crawlers,
    pub(crate) rules: PolicyRules,
    pub(crate) preferences: PreferencesConfig,
    pub(crate) politeness: pacing::PacingConfig,
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) signer: Arc<MessageSigner>,
    pub(crate) on_failure: LogFailureMode,
    /// For `https://` listeners.
    pub(crate) entrance: Option<Arc<ServerTls>>,
}

/// The settings in effect, which a reload replaces.
pub(crate) struct CurrentSettings {
    settings: ArcSwap<Settings>,
    /// The number of the configuration, for connections that outlive it.
    configuration: watch::Sender<u64>,
}

impl CurrentSettings {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            configuration: watch::Sender::new(settings.configuration),
            settings: ArcSwap::from_pointee(settings),
        }
    }

    /// Returns the settings in effect. An exchange loads them once and keeps them to its end, unless they change before its
    /// request is sent.
    pub(crate) fn load(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    /// Returns whether these are the settings in effect.
    pub(crate) fn is_current(&self, settings: &Settings) -> bool {
        self.settings.load().configuration == settings.configuration
    }

    /// Puts other settings into effect.
    pub(crate) fn replace(&self, settings: Settings) {
        let configuration = settings.configuration;
        self.settings.store(Arc::new(settings));
        self.configuration.send_replace(configuration);
    }

    /// Waits until the configuration of this number has been replaced, and returns the settings then in effect.
    pub(crate) async fn after(&self, configuration: u64) -> Arc<Settings> {
        let mut current = self.configuration.subscribe();
        if current.wait_for(|now| *now != configuration).await.is_err() {
            // The process ends, so there will be no others.
            std::future::pending::<()>().await;
        }
        self.load()
    }
}

impl Settings {
    /// Who signs what is fetched for a crawler, if it is signed.
    pub(super) fn signed_by(&self, crawler: Option<&Crawler>) -> Option<KeySigner> {
        let key = crawler.and_then(|crawler| crawler.signing_key.as_ref());
        key.filter(|_| self.signer.is_enabled())
            .map(|key| KeySigner {
                signer: Arc::clone(&self.signer),
                key: Arc::clone(key),
            })
    }

    /// Whether a connection may go on as it is. None may whose client's certificate is not good any more. A tunnel may not whose password was changed, or that would be refused or not looked
    /// into if it were asked for now.
    pub(crate) fn permits_connection(&self, connection: &ClientConnection) -> bool {
        let certificate = connection.certificate.as_ref();
        if certificate.is_some_and(|certificate| !self.crawlers.is_still_trusted(certificate)) {
            return false;
        }
        let Some(tunnel) = &connection.tunnel else {
            return true;
        };
        let origin = &tunnel.origin;
        let proof = connection.proof.as_ref();
        let is_looked_into = match self.https.handling_of(origin.host()) {
            HttpsHandling::Mode(HttpsMode::Intercept) => true,
            HttpsHandling::Mode(HttpsMode::Tunnel) => origin.scheme() == Scheme::Http,
            HttpsHandling::Mode(HttpsMode::Refuse) | HttpsHandling::Bypass => false,
        };
        is_looked_into && proof.is_none_or(|proof| self.crawlers.is_still_valid(proof))
    }

    /// Whether an uninspected tunnel would open again uninspected, as far as that is a matter of https.mode and https.bypass.
    /// Where HTTPS is refused, its refusal may only be observed.
    pub(crate) fn permits_blind_tunnel(&self, resolved: &ResolvedTarget) -> bool {
        let scope = resolved.scope;
        match self.https.handling_of(resolved.target.origin().host()) {
            HttpsHandling::Mode(HttpsMode::Intercept) => false,
            HttpsHandling::Mode(HttpsMode::Tunnel | HttpsMode::Refuse) => {
                scope == TargetScope::EveryPath
            }
            HttpsHandling::Bypass => scope == TargetScope::Bypass,
        }
    }
}
