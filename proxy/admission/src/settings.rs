//! The settings in effect: one value, replaced as a whole at each reload. `proxy/config` reads its parts from the file.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use ipnet::IpNet;
use tokio::sync::watch;
use wayleave_decision::{
    Crawler, Crawlers, DecisionSettings, HttpsHandling, HttpsMode, InterceptionSettings,
    PolicyRules, ResolvedTarget, TargetScope,
};
use wayleave_evidence::Sha256Digest;
use wayleave_pacing::PacingConfig;
use wayleave_robots_cache::{FetchIdentities, PinnedFiles};
use wayleave_robots_txt::UrlScheme;
use wayleave_signing::MessageSigner;
use wayleave_transport::tls::server::ServerTls;
use wayleave_upstream::Upstream;
use wayleave_usage_preferences::PreferenceSettings;

use super::request::ClientConnection;
use crate::identity::Authenticator;

/// The part of `[proxy]` that concerns connections of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// The pseudonym in `Via` and `Proxy-Status`.
    pub name: String,
    /// The time that a client may take for a request's head.
    pub header_timeout: Duration,
    /// The time that a connection may be silent between requests.
    pub idle_timeout: Duration,
    /// The time that exchanges may go on when the process ends.
    pub shutdown_grace: Duration,
    /// Load balancers, which name the client by the PROXY protocol.
    pub proxy_protocol: Vec<IpNet>,
    /// Whether responses carry the id of their decision in a field.
    pub decision_id: bool,
}

impl ConnectionSettings {
    /// Returns whether the connections of this peer begin with a PROXY header.
    pub fn is_load_balancer(&self, peer: IpAddr) -> bool {
        self.proxy_protocol.iter().any(|range| range.contains(&peer))
    }
}

/// The section `[preferences]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreferencesConfig {
    /// The settings by which statements are read.
    pub reading: PreferenceSettings,
    /// The treatment of a response whose use is refused.
    pub refused_response: RefusedResponse,
    /// The number of bytes of a page that are read, decoded.
    pub meta_scan_bytes: usize,
}

/// The source of the answer to a client's request for robots.txt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RobotsTxtSource {
    /// The copy that decides about the crawler's other requests.
    Copy,
    /// The origin, to which the request is forwarded.
    Origin,
}

/// The treatment of a response whose use is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedResponse {
    /// The client gets a refusal instead.
    Withhold,
    /// The client gets the response, with the preferences in a field.
    Label,
}

/// The treatment of requests while decisions cannot be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFailureMode {
    /// Requests are forwarded; those that are not recorded are counted, and the log says so when it can.
    Forward,
    /// Requests are refused.
    Refuse,
}

/// A gateway's credential: `gateway.tokens`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayToken {
    pub sha256: Sha256Digest,
    /// The crawler that all requests are of about which the gateway asks.
    pub crawler: String,
}

/// The settings of one exchange.
pub struct Settings {
    /// The number of the configuration, counted from 1 at the start.
    pub configuration: u64,
    pub options: ConnectionSettings,
    pub https: InterceptionSettings,
    pub crawlers: Crawlers,
    pub authenticator: Authenticator,
    pub rules: PolicyRules,
    pub preferences: PreferencesConfig,
    pub robots_txt_source: RobotsTxtSource,
    /// The texts that the cache serves instead of the origins' own, while this is in effect.
    pub pinned: Arc<PinnedFiles>,
    pub pacing: PacingConfig,
    pub upstream: Arc<Upstream>,
    pub signer: Arc<MessageSigner>,
    pub identities: Arc<FetchIdentities>,
    pub on_failure: LogFailureMode,
    /// Whether the digests of responses' bodies are recorded.
    pub digests_bodies: bool,
    pub gateway_tokens: Vec<GatewayToken>,
    /// For `https://` listeners.
    pub entrance: Option<Arc<ServerTls>>,
}

/// The settings in effect, which a reload replaces.
pub struct CurrentSettings {
    settings: ArcSwap<Settings>,
    /// The number of the configuration, for connections that outlive it.
    configuration: watch::Sender<u64>,
}

impl CurrentSettings {
    pub fn new(settings: Settings) -> Self {
        Self {
            configuration: watch::Sender::new(settings.configuration),
            settings: ArcSwap::from_pointee(settings),
        }
    }

    /// Returns the settings in effect. An exchange loads them once and keeps them to its end, unless they change before its
    /// request is sent.
    pub fn load(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    /// Returns whether these are the settings in effect.
    pub fn is_current(&self, settings: &Settings) -> bool {
        self.settings.load().configuration == settings.configuration
    }

    /// Puts other settings into effect.
    pub fn replace(&self, settings: Settings) {
        let configuration = settings.configuration;
        // Stored first: those that the number wakes load these.
        self.settings.store(Arc::new(settings));
        self.configuration.send_replace(configuration);
    }

    /// Waits until the configuration of this number has been replaced, and returns the settings then in effect.
    pub async fn after(&self, configuration: u64) -> Arc<Settings> {
        let mut current = self.configuration.subscribe();
        if current.wait_for(|now| *now != configuration).await.is_err() {
            // The process ends, so there will be no others.
            std::future::pending::<()>().await;
        }
        self.load()
    }
}

impl Settings {
    /// Returns the crawler of a gateway's token, in a time that does not depend on which digits are right.
    pub fn crawler_of_token(&self, sha256: &Sha256Digest) -> Option<Arc<Crawler>> {
        let mut found = None;
        for token in &self.gateway_tokens {
            let pairs = token.sha256.0.iter().zip(&sha256.0);
            if pairs.fold(0, |differing, (one, other)| differing | (one ^ other)) == 0 {
                found = Some(&token.crawler);
            }
        }
        self.crawlers.named(found?)
    }

    /// Returns the settings that decide.
    pub fn for_decisions(&self) -> DecisionSettings<'_> {
        DecisionSettings {
            crawlers: &self.crawlers,
            rules: &self.rules,
            interception: &self.https,
            preferences: &self.preferences.reading,
        }
    }

    /// Returns whether a connection may remain open. It may not if its client's certificate is no longer trusted. A tunnel may not
    /// if its password was changed, or if it would now be refused or not be inspected.
    pub fn permits_connection(&self, connection: &ClientConnection) -> bool {
        let certificate = connection.certificate.as_ref();
        if certificate.is_some_and(|certificate| !self.authenticator.is_still_trusted(certificate))
        {
            return false;
        }
        // Only connections of which something was proved before their requests: each other request proves its password itself.
        let proof = connection.proof.as_ref();
        if proof.is_some_and(|proof| !self.authenticator.is_still_valid(proof)) {
            return false;
        }
        let Some(tunnel) = &connection.tunnel else {
            return true;
        };
        let origin = &tunnel.origin;
        match self.https.handling_of(origin.host()) {
            HttpsHandling::Mode(HttpsMode::Intercept) => true,
            // Plain HTTP in a tunnel is inspected even in mode "tunnel".
            HttpsHandling::Mode(HttpsMode::Tunnel) => origin.scheme() == UrlScheme::Http,
            HttpsHandling::Mode(HttpsMode::Refuse) | HttpsHandling::Bypass => false,
        }
    }

    /// Returns whether a blind tunnel would be opened again by `https.mode` and `https.bypass`. Mode "refuse" counts as a blind tunnel,
    /// since its refusal may only be observed.
    pub fn permits_blind_tunnel(&self, resolved: &ResolvedTarget) -> bool {
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
