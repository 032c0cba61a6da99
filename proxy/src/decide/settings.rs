//! The settings that requests go by: one value, replaced as a whole at each reload.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use wayleave_robots_txt::Scheme;
use wayleave_robots_txt::preferences::Reading;

use super::https_mode::{self, Mode, Way};
use super::request::Connection;
use super::resolve::{Resolved, Scope};
use crate::identity::{Crawler, Crawlers};
use crate::origin::Upstream;
use crate::politeness;
use crate::rules::Rules;
use crate::signing::{SignedBy, Signer};
use crate::tls::entrance::Entrance;

/// Part of `[proxy]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
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

impl Options {
    /// Whether the connections of this peer begin with a PROXY header.
    pub(crate) fn is_load_balancer(&self, peer: IpAddr) -> bool {
        self.proxy_protocol
            .iter()
            .any(|range| range.contains(&peer))
    }
}

/// `[preferences]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Preferences {
    /// How statements are read.
    pub(crate) reading: Reading,
    /// Whether an answer whose use is refused is withheld, instead of only labelled.
    pub(crate) withholds: bool,
    /// How much of a page is read, decoded.
    pub(crate) meta_scan_bytes: usize,
}

/// What becomes of requests while decisions cannot be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnFailure {
    /// They go on; how many are not recorded is counted, and the log says so when it can.
    Forward,
    /// They are refused.
    Refuse,
}

/// What one exchange goes by from its beginning to its end.
pub(crate) struct Settings {
    /// Which configuration this is, counted from 1 at the start.
    pub(crate) configuration: u64,
    pub(crate) options: Options,
    pub(crate) https: https_mode::Options,
    pub(crate) crawlers: Crawlers,
    pub(crate) rules: Rules,
    pub(crate) preferences: Preferences,
    pub(crate) politeness: politeness::Options,
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) signer: Arc<Signer>,
    pub(crate) on_failure: OnFailure,
    /// For `https://` listeners.
    pub(crate) entrance: Option<Arc<Entrance>>,
}

impl Settings {
    /// Who signs what is fetched for a crawler, if it is signed.
    pub(super) fn signed_by(&self, crawler: Option<&Crawler>) -> Option<SignedBy> {
        let key = crawler.and_then(|crawler| crawler.signing_key.as_ref());
        key.filter(|_| self.signer.signs()).map(|key| SignedBy {
            signer: Arc::clone(&self.signer),
            key: Arc::clone(key),
        })
    }

    /// Whether a connection may go on as it is. None may whose client's certificate is not good any more. A tunnel may not whose password was changed, or that would be refused or not looked
    /// into if it were asked for now.
    pub(crate) fn keeps(&self, connection: &Connection) -> bool {
        let certificate = connection.certificate.as_ref();
        if certificate.is_some_and(|certificate| !self.crawlers.still_trust(certificate)) {
            return false;
        }
        let Some(tunnel) = &connection.tunnel else {
            return true;
        };
        let origin = &tunnel.origin;
        let proof = connection.proof.as_ref();
        let is_looked_into = match self.https.way(origin.host()) {
            Way::Mode(Mode::Intercept) => true,
            Way::Mode(Mode::Tunnel) => origin.scheme() == Scheme::Http,
            Way::Mode(Mode::Refuse) | Way::Bypass => false,
        };
        is_looked_into && proof.is_none_or(|proof| self.crawlers.still_hold(proof))
    }

    /// Whether an uninspected tunnel would open again uninspected, as far as that is a matter of https.mode and https.bypass.
    /// Where HTTPS is refused, its refusal may only be observed.
    pub(crate) fn leaves_blind(&self, resolved: &Resolved) -> bool {
        let scope = resolved.scope;
        match self.https.way(resolved.target.origin().host()) {
            Way::Mode(Mode::Intercept) => false,
            Way::Mode(Mode::Tunnel | Mode::Refuse) => scope == Scope::EveryPath,
            Way::Bypass => scope == Scope::Bypass,
        }
    }
}
