//! One configured crawler, and whether it is behind a request.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use wayleave_robots_txt::{Dialect, ProductToken};
use wayleave_usage_preferences::{CrawlerDeclaration, PurposeSet};

use crate::certificate_name::CertificateName;
use crate::subresource::{RefusedSubresources, SubresourcePolicy};

/// The treatment of a request that is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EnforcementMode {
    /// The client gets the refusal.
    #[default]
    Enforce,
    /// The request is forwarded, and counted and logged as one that would have been refused.
    Observe,
}

impl EnforcementMode {
    /// Returns the spelling used in configuration and in the decision log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Observe => "observe",
        }
    }
}

/// The proof that a client gives for being a crawler, besides its User-Agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrawlerProof {
    /// A certificate.
    Certificate,
    /// A password.
    Password,
    /// Its address.
    Address,
}

impl CrawlerProof {
    /// Returns the word in the decision log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Certificate => "certificate",
            Self::Password => "password",
            Self::Address => "address",
        }
    }
}

/// The cause of a crawler's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CrawlTrigger {
    /// It fetches by itself.
    #[default]
    Crawler,
    /// A person asks for a page, and waits for it.
    Fetcher,
}

impl CrawlTrigger {
    /// Returns the spelling used in configuration and in signature agent cards.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Crawler => "crawler",
            Self::Fetcher => "fetcher",
        }
    }
}

/// The most that a crawler may do on one day of UTC; 0: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DailyBudget {
    /// The requests to origins.
    pub requests: u64,
    /// The bytes of bodies from origins.
    pub bytes: u64,
    /// The origins.
    pub new_origins: u64,
}

impl DailyBudget {
    /// Returns whether anything is limited.
    #[must_use]
    pub fn has_limit(&self) -> bool {
        *self != Self::default()
    }
}

/// One crawler as configured: `[[crawler]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crawler {
    /// Its label in metrics and logs: letters, digits, `-`, `_` and `.`; no two crawlers have the same.
    pub name: String,
    /// The team that answers for it, or an address. `None`: not stated.
    pub owner: Option<Arc<str>>,
    /// The cause of its requests.
    pub trigger: CrawlTrigger,
    /// Its product tokens in order of preference; at least one.
    pub tokens: Vec<ProductToken>,
    /// The text that `User-Agent` must contain, ignoring ASCII case. `None`: any will do.
    pub user_agent: Option<String>,
    /// The networks that its requests come from. Empty: any.
    pub addresses: Vec<IpNet>,
    /// A name that the client's certificate must have. `None`: it need not show one.
    pub certificate: Option<CertificateName>,
    /// The user name that must have been proved by a password. `None`: none need be.
    pub account: Option<ProxyAccount>,
    /// The dialect in which robots.txt is read for it.
    pub dialect: Dialect,
    /// The treatment of its requests that are refused.
    pub mode: EnforcementMode,
    /// The time between requests to an origin that names none, instead of `[politeness]`'s.
    pub default_delay: Option<Duration>,
    /// The shortest time between its requests to an origin, whatever that asks for. The longer of this and `[politeness]`'s
    /// applies.
    pub min_delay: Duration,
    /// The most that it may do on one day.
    pub budget: DailyBudget,
    /// The longest body of a response that it gets, in bytes as the origin encodes it; 0: any.
    pub max_response_bytes: u64,
    /// The treatment of what a page loads.
    pub subresources: SubresourcePolicy,
    /// The answer to what a page loads, if it is refused.
    pub refused_subresources: RefusedSubresources,
    /// The `User-Agent` of fetches of robots.txt that its requests cause. `None`: one that names its first token, the proxy
    /// and the contact.
    pub robots_user_agent: Option<Arc<str>>,
    /// The URL or the mail address at which its operator can be reached.
    pub contact: Option<Arc<str>>,
    /// Whether requests whose `User-Agent` contains none of the tokens are refused. They are counted either way.
    pub user_agent_must_contain_token: bool,
    /// The address that origins see, if not everybody's.
    pub source_address: Option<IpAddr>,
    /// The thumbprint of the key that its requests are signed with, if they are.
    pub signing_key: Option<Arc<str>>,
    /// The URL of the agent that its requests are signed for, its own or everybody's, without the slash of an empty path.
    pub agent: Option<Arc<str>>,
    /// The purposes that it fetches for, if it declares any: then preferences about that use are obeyed.
    pub declaration: CrawlerDeclaration,
}

/// Facts about the client of a request, by which its crawler is recognised.
#[derive(Clone, Copy, Debug)]
pub struct ClientFacts<'a> {
    /// The client's address.
    pub client: IpAddr,
    /// The user name that was proved by a password.
    pub username: Option<&'a str>,
    /// The names in the certificate that was checked; empty without one.
    pub certificate: &'a [CertificateName],
    /// The value of `User-Agent`; empty without one.
    pub user_agent: &'a [u8],
    /// The words of `Wayleave-Purpose`; empty without one.
    pub purposes: &'a [String],
}

/// A user name and the password that proves it.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxyAccount {
    /// The user name of `Proxy-Authorization: Basic`.
    pub username: String,
    /// The password's argon2id hash in PHC form.
    pub password_hash: String,
}

impl fmt::Debug for ProxyAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The password's hash must not get into a log.
        f.debug_tuple("ProxyAccount").field(&self.username).finish()
    }
}

impl Crawler {
    /// Creates a crawler that every request matches and that has nothing but its name and its tokens.
    #[must_use]
    pub fn new(name: impl Into<String>, tokens: Vec<ProductToken>) -> Self {
        Self {
            name: name.into(),
            owner: None,
            trigger: CrawlTrigger::default(),
            tokens,
            user_agent: None,
            addresses: Vec::new(),
            certificate: None,
            account: None,
            dialect: Dialect::default(),
            mode: EnforcementMode::default(),
            default_delay: None,
            min_delay: Duration::ZERO,
            budget: DailyBudget::default(),
            max_response_bytes: 0,
            subresources: SubresourcePolicy::default(),
            refused_subresources: RefusedSubresources::default(),
            robots_user_agent: None,
            contact: None,
            user_agent_must_contain_token: false,
            source_address: None,
            signing_key: None,
            agent: None,
            declaration: CrawlerDeclaration::default(),
        }
    }

    /// Returns whether it is behind a request of this client.
    pub(crate) fn matches(&self, facts: &ClientFacts<'_>) -> bool {
        self.matches_address(facts.client)
            && self.matches_certificate(facts.certificate)
            && self.account.as_ref().is_none_or(|it| facts.username == Some(&it.username))
            && self
                .user_agent
                .as_ref()
                .is_none_or(|part| contains_ignoring_case(facts.user_agent, part.as_bytes()))
    }

    /// Returns whether it declares all of these purposes.
    #[must_use]
    pub fn declares(&self, purposes: PurposeSet) -> bool {
        purposes.without(self.declaration.purposes).is_empty()
    }

    /// Returns whether `other` never matches after this one: every request that it would match matches this one, too, and no
    /// client can state a purpose that only `other` declares.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.covers_match(other) && self.declares(other.declaration.purposes)
    }

    /// Returns whether every request that `other` would match matches this one, too, whatever purposes it states.
    #[must_use]
    pub fn covers_match(&self, other: &Self) -> bool {
        let username = |crawler: &Self| crawler.account.as_ref().map(|it| it.username.clone());
        // Two adjacent ranges may contain a range that neither of them contains alone.
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
            && (self.account.is_none() || username(self) == username(other))
            && (self.certificate.is_none() || self.certificate == other.certificate)
    }

    pub(crate) fn matches_certificate(&self, names: &[CertificateName]) -> bool {
        self.certificate.as_ref().is_none_or(|name| names.contains(name))
    }

    /// Returns the strongest proof that a client has to give for being this crawler, if it has to give any.
    #[must_use]
    pub fn proven_by(&self) -> Option<CrawlerProof> {
        if self.certificate.is_some() {
            Some(CrawlerProof::Certificate)
        } else if self.account.is_some() {
            Some(CrawlerProof::Password)
        } else {
            (!self.addresses.is_empty()).then_some(CrawlerProof::Address)
        }
    }

    pub(crate) fn matches_address(&self, client: IpAddr) -> bool {
        // A dual-stack socket gives IPv4 clients mapped addresses, which no IPv4 range contains.
        self.addresses.is_empty()
            || self.addresses.iter().any(|range| range.contains(&client.to_canonical()))
    }

    /// Returns whether `user_agent` contains one of the tokens, ignoring ASCII case.
    #[must_use]
    pub fn is_named_in(&self, user_agent: &[u8]) -> bool {
        self.tokens
            .iter()
            .any(|token| contains_ignoring_case(user_agent, token.as_str().as_bytes()))
    }

    pub(crate) fn owns_token(&self, name: &str) -> bool {
        self.tokens.iter().any(|token| token.as_str().eq_ignore_ascii_case(name))
    }
}

fn contains_ignoring_case(text: &[u8], part: &[u8]) -> bool {
    // There are no windows of length zero.
    part.is_empty() || text.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part))
}

#[cfg(test)]
pub(crate) mod tests {
    use wayleave_usage_preferences::Purpose;

    use super::*;

    /// Returns a crawler that every request matches.
    pub(crate) fn crawler(name: &str) -> Crawler {
        Crawler::new(name, vec![ProductToken::new("ExampleBot").unwrap()])
    }

    fn account(username: &str) -> Option<ProxyAccount> {
        Some(ProxyAccount { username: username.to_owned(), password_hash: "$hash".to_owned() })
    }

    fn certificate(name: &str) -> Option<CertificateName> {
        Some(CertificateName::Dns(name.to_owned()))
    }

    fn addresses(ranges: &[&str]) -> Vec<IpNet> {
        ranges.iter().map(|range| range.parse().unwrap()).collect()
    }

    #[test]
    fn the_strongest_proof_is_named() {
        let mut all = crawler("all");
        assert_eq!(all.proven_by(), None);
        all.addresses = addresses(&["10.0.0.0/8"]);
        assert_eq!(all.proven_by(), Some(CrawlerProof::Address));
        all.account = account("news");
        assert_eq!(all.proven_by(), Some(CrawlerProof::Password));
        all.certificate = certificate("news.test");
        assert_eq!(all.proven_by(), Some(CrawlerProof::Certificate));
    }

    #[test]
    fn a_crawler_covers_those_that_match_less() {
        let of_agent =
            |agent: &str| Crawler { user_agent: Some(agent.to_owned()), ..crawler("agent") };
        let of_addresses =
            |ranges: &[&str]| Crawler { addresses: addresses(ranges), ..crawler("addresses") };
        let of_account = |name: &str| Crawler { account: account(name), ..crawler("account") };
        let of_certificate =
            |name: &str| Crawler { certificate: certificate(name), ..crawler("certificate") };
        let all = crawler("all");
        for (general, special) in [
            (of_agent("bot"), of_agent("NewsBot")),
            (of_addresses(&["10.0.0.0/9", "10.128.0.0/9"]), of_addresses(&["10.0.0.0/8"])),
            (of_account("news"), of_account("news")),
            (of_certificate("news.test"), of_certificate("news.test")),
        ] {
            assert!(general.covers(&special), "{general:?} {special:?}");
            assert!(all.covers(&special), "{special:?}");
            assert!(!general.covers(&all), "{general:?}");
        }
        for (one, other) in [
            (of_agent("NewsBot"), of_agent("bot")),
            (of_addresses(&["10.0.0.0/9"]), of_addresses(&["10.0.0.0/8"])),
            (of_account("news"), of_account("images")),
            (of_certificate("news.test"), of_certificate("images.test")),
        ] {
            assert!(!one.covers(&other), "{one:?} {other:?}");
        }
        let mut trainer = crawler("trainer");
        trainer.declaration.purposes = PurposeSet::of(&[Purpose::TrainAi]);
        assert!(trainer.covers(&all) && !all.covers(&trainer));
    }

    #[test]
    fn a_password_is_not_shown_for_debugging() {
        let shown = format!("{:?}", account("news"));
        assert!(shown.contains("news") && !shown.contains("hash"), "{shown}");
    }
}
