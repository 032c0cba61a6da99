//! One crawler, and whether it is the one that asks.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use wayleave_robots_txt::{Dialect, ProductToken};
use wayleave_usage_preferences::CrawlerDeclaration;

use super::certificate::{CertificateName, ClientCertificate};
use crate::signing::SigningKey;

/// What is done about a request that may not be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EnforcementMode {
    /// It is refused.
    #[default]
    Enforce,
    /// It is forwarded, and counted and logged as one that would have been refused.
    Observe,
}

impl EnforcementMode {
    /// The spelling used in configuration and in the decision log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Observe => "observe",
        }
    }
}

/// One crawler as configured: `[[crawler]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crawler {
    /// Its label in metrics and logs: letters, digits, `-`, `_` and `.`; no two crawlers have the same.
    pub name: String,
    /// Its product tokens in order of preference; at least one.
    pub tokens: Vec<ProductToken>,
    /// What `User-Agent` must contain, ignoring ASCII case. `None`: anything.
    pub user_agent: Option<String>,
    /// Where its requests come from. Empty: anywhere.
    pub addresses: Vec<IpNet>,
    /// What the client's certificate must say. `None`: it need not show one.
    pub(crate) certificate: Option<CertificateName>,
    /// Who must have proved a name by a password. `None`: anyone.
    pub account: Option<ProxyAccount>,
    /// How robots.txt is read for it.
    pub dialect: Dialect,
    /// What is done about its requests that may not be sent.
    pub mode: EnforcementMode,
    /// The time between requests to an origin that names none, instead of `[politeness]`'s.
    pub default_delay: Option<Duration>,
    /// The `User-Agent` field of fetches of robots.txt that its requests cause. `None`: that of `[robots]`.
    pub robots_user_agent: Option<Arc<str>>,
    /// Whether requests whose `User-Agent` contains none of the tokens are refused. They are counted either way.
    pub user_agent_must_contain_token: bool,
    /// The address that origins see, if not everybody's.
    pub source_address: Option<IpAddr>,
    /// What its requests are signed with, if they are.
    pub(crate) signing_key: Option<Arc<SigningKey>>,
    /// What it fetches for, if it says so: then preferences about that use are obeyed.
    pub declaration: CrawlerDeclaration,
}

/// What is seen of whoever asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientFacts<'a> {
    pub(crate) client: IpAddr,
    /// Proved by a password.
    pub(crate) username: Option<&'a str>,
    pub(crate) certificate: Option<&'a ClientCertificate>,
    pub(crate) user_agent: &'a [u8],
}

/// A user name and what proves it.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxyAccount {
    /// The user name of `Proxy-Authorization: Basic`.
    pub username: String,
    /// The password's argon2id hash in PHC form.
    pub password_hash: String,
}

impl fmt::Debug for ProxyAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Account").field(&self.username).finish()
    }
}

impl Crawler {
    pub(super) fn matches(&self, seen: &ClientFacts<'_>) -> bool {
        let account = self.account.as_ref();
        let user_agent = self.user_agent.as_ref();
        self.matches_address(seen.client)
            && self.matches_certificate(seen.certificate)
            && account.is_none_or(|account| seen.username == Some(&account.username))
            && user_agent
                .is_none_or(|wanted| contains_ignoring_case(seen.user_agent, wanted.as_bytes()))
    }

    /// Whether every request that `other` would match is matched by this one, too, so that `other` never is after it.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let name = |crawler: &Self| crawler.account.as_ref().map(|it| it.username.clone());
        let ranges = IpNet::aggregate(&self.addresses);
        let is_inside = |range: &IpNet| ranges.iter().any(|outer| outer.contains(range));
        let has_addresses = self.addresses.is_empty()
            || !other.addresses.is_empty() && other.addresses.iter().all(is_inside);
        let has_agent = self.user_agent.as_ref().is_none_or(|part| {
            let whole = other.user_agent.as_deref().unwrap_or_default();
            contains_ignoring_case(whole.as_bytes(), part.as_bytes())
        });
        has_addresses
            && has_agent
            && (self.account.is_none() || name(self) == name(other))
            && (self.certificate.is_none() || self.certificate == other.certificate)
    }

    pub(super) fn matches_certificate(&self, certificate: Option<&ClientCertificate>) -> bool {
        let wanted = self.certificate.as_ref();
        wanted.is_none_or(|name| certificate.is_some_and(|certificate| certificate.has_name(name)))
    }

    /// By what a client proves that it is this crawler, if by anything: what is hardest to have stands for all.
    pub(crate) fn proven_by(&self) -> Option<&'static str> {
        if self.certificate.is_some() {
            Some("certificate")
        } else if self.account.is_some() {
            Some("password")
        } else {
            (!self.addresses.is_empty()).then_some("address")
        }
    }

    pub(super) fn matches_address(&self, client: IpAddr) -> bool {
        self.addresses.is_empty()
            || self
                .addresses
                .iter()
                .any(|range| range.contains(&client.to_canonical()))
    }

    /// Whether `user_agent` contains one of the tokens, ignoring ASCII case.
    pub(crate) fn is_named_in(&self, user_agent: &[u8]) -> bool {
        let mut tokens = self.tokens.iter();
        tokens.any(|token| contains_ignoring_case(user_agent, token.as_str().as_bytes()))
    }

    pub(super) fn owns_token(&self, name: &str) -> bool {
        let mut tokens = self.tokens.iter();
        tokens.any(|token| token.as_str().eq_ignore_ascii_case(name))
    }
}

fn contains_ignoring_case(text: &[u8], wanted: &[u8]) -> bool {
    wanted.is_empty()
        || text
            .windows(wanted.len())
            .any(|part| part.eq_ignore_ascii_case(wanted))
}
