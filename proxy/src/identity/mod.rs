//! The crawlers that the configuration knows, and how each is recognised.

mod certificate;
mod crawler;
mod passwords;
pub(crate) mod per_client;
mod well_known;

use std::net::IpAddr;
use std::sync::Arc;

use quick_cache::sync::Cache;
use wayleave_robots_txt::{Dialect, ProductToken};

pub(crate) use self::certificate::{CertificateName, ClientCertificate};
pub(crate) use self::crawler::ClientFacts;
pub use self::crawler::{Crawler, EnforcementMode, ProxyAccount};
use self::passwords::PasswordChecker;
pub(crate) use self::passwords::{PasswordProof, TooManyChecks, check_hash};
use self::well_known::WellKnownCrawler;
use crate::clock::system_time;
use crate::tls::server::ServerTls;

/// `User-Agent` values whose name is remembered, and the longest that are.
const CLAIM_CAPACITY: usize = 4096;
const MAX_CACHED_USER_AGENT_BYTES: usize = 512;

/// The names that a `User-Agent` gives.
#[derive(Debug, Default)]
pub(crate) struct ClaimedNames {
    /// The product token; none if no product is named.
    pub(crate) tokens: Vec<ProductToken>,
    /// The well-known crawlers that are named anywhere.
    well_known: Vec<WellKnownCrawler>,
}

impl ClaimedNames {
    fn of(user_agent: &[u8]) -> Self {
        let token = ProductToken::from_user_agent(user_agent);
        Self {
            tokens: token.into_iter().collect(),
            well_known: well_known::find_well_known(user_agent),
        }
    }

    /// Whose name is given besides `crawler`'s own, if it is a well-known crawler's.
    pub(crate) fn foreign_owner(&self, crawler: Option<&Crawler>) -> Option<&'static str> {
        let is_own = |named: &WellKnownCrawler| {
            crawler.is_some_and(|crawler| crawler.owns_token(&named.token))
        };
        let foreign = self.well_known.iter().find(|named| !is_own(named));
        foreign.map(|named| named.owner)
    }
}

/// How crawlers are told apart; `[[crawler]]` and part of `[proxy]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrawlersConfig {
    /// The known ones; the first that matches a request is used.
    pub crawlers: Vec<Crawler>,
    /// Whether requests of others are refused.
    pub require_crawler: bool,
    /// How robots.txt is read for others.
    pub dialect: Dialect,
    /// What is done about requests of others that may not be sent.
    pub mode: EnforcementMode,
}

/// All configured crawlers, in the file's order, and what holds for others.
#[derive(Debug)]
pub struct Crawlers {
    crawlers: Vec<Arc<Crawler>>,
    passwords: Option<Arc<PasswordChecker>>,
    /// Who checks certificates.
    entrance: Option<Arc<ServerTls>>,
    claims: Cache<Box<[u8]>, Arc<ClaimedNames>>,
    /// Whether requests of other crawlers are refused.
    pub(crate) require_crawler: bool,
    /// How robots.txt is read for other crawlers.
    pub(crate) dialect: Dialect,
    /// What is done about requests of other crawlers that may not be sent.
    pub(crate) mode: EnforcementMode,
}

impl Crawlers {
    /// The crawlers to recognise.
    #[must_use]
    pub fn new(options: CrawlersConfig) -> Self {
        Self::replacing(None, options)
    }

    /// The crawlers to recognise from now on. Where nobody's password changed, what was verified `before` stays so: a reload costs
    /// no client another verification.
    #[must_use]
    pub(crate) fn replacing(before: Option<&Self>, options: CrawlersConfig) -> Self {
        let accounts = options
            .crawlers
            .iter()
            .filter_map(|crawler| crawler.account.as_ref());
        let hashes: std::collections::HashMap<_, _> = accounts
            .map(|account| (account.username.clone(), account.password_hash.clone()))
            .collect();
        let kept = before
            .and_then(|before| before.passwords.clone())
            .filter(|passwords| passwords.has_accounts(&hashes));
        let passwords =
            kept.or_else(|| (!hashes.is_empty()).then(|| Arc::new(PasswordChecker::new(&hashes))));
        Self {
            passwords,
            entrance: None,
            crawlers: options.crawlers.into_iter().map(Arc::new).collect(),
            claims: Cache::new(CLAIM_CAPACITY),
            require_crawler: options.require_crawler,
            dialect: options.dialect,
            mode: options.mode,
        }
    }

    /// The same, where this entrance says which certificates are good.
    #[must_use]
    pub(crate) fn with_tls(self, entrance: Option<Arc<ServerTls>>) -> Self {
        Self { entrance, ..self }
    }

    /// Whether a certificate that was found good once still is.
    pub(crate) fn is_still_trusted(&self, certificate: &ClientCertificate) -> bool {
        certificate.is_still_valid(self.entrance.as_deref(), system_time())
    }

    /// The configured crawlers, in the file's order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Crawler> {
        self.crawlers.iter().map(Arc::as_ref)
    }

    /// The names of the configured crawlers, in the file's order.
    pub(crate) fn names(&self) -> Vec<String> {
        let names = self.crawlers.iter().map(|crawler| crawler.name.clone());
        names.collect()
    }

    /// Whether some crawler is recognised by a user name.
    pub(crate) fn uses_passwords(&self) -> bool {
        self.passwords.is_some()
    }

    /// What the value of `Proxy-Authorization` proves, if it proves anything.
    ///
    /// # Errors
    ///
    /// Returns an error if too many verifications wait.
    pub(crate) async fn prove(
        &self,
        client: IpAddr,
        credentials: &[u8],
    ) -> Result<Option<PasswordProof>, TooManyChecks> {
        match &self.passwords {
            Some(passwords) => passwords.prove(client, credentials).await,
            None => Ok(None),
        }
    }

    /// Whether what was proved once would be by the same password now.
    pub(crate) fn is_still_valid(&self, proof: &PasswordProof) -> bool {
        let passwords = self.passwords.as_ref();
        passwords.is_some_and(|passwords| passwords.is_still_valid(proof))
    }

    /// Whether a client at this address with this certificate may be a known crawler without a user name.
    pub(crate) fn may_match_without_password(
        &self,
        client: IpAddr,
        certificate: Option<&ClientCertificate>,
    ) -> bool {
        let mut crawlers = self.crawlers.iter();
        crawlers.any(|crawler| {
            crawler.account.is_none()
                && crawler.matches_address(client)
                && crawler.matches_certificate(certificate)
        })
    }

    /// The crawler with this name.
    pub(crate) fn named(&self, name: &str) -> Option<Arc<Crawler>> {
        let mut crawlers = self.crawlers.iter();
        crawlers.find(|crawler| crawler.name == name).cloned()
    }

    /// The crawler behind a request, if one is configured.
    pub(crate) fn find(&self, seen: &ClientFacts<'_>) -> Option<&Arc<Crawler>> {
        self.crawlers.iter().find(|crawler| crawler.matches(seen))
    }

    /// The name that `user_agent` gives.
    pub(crate) fn claim(&self, user_agent: &[u8]) -> Arc<ClaimedNames> {
        if let Some(claim) = self.claims.get(user_agent) {
            return claim;
        }
        let claim = Arc::new(ClaimedNames::of(user_agent));
        if user_agent.len() <= MAX_CACHED_USER_AGENT_BYTES {
            self.claims.insert(user_agent.into(), Arc::clone(&claim));
        }
        claim
    }
}

#[cfg(test)]
mod tests {
    use wayleave_usage_preferences::CrawlerDeclaration;

    use super::*;

    fn crawler(name: &str, user_agent: Option<&str>, addresses: &[&str]) -> Crawler {
        Crawler {
            name: name.to_owned(),
            tokens: vec![ProductToken::new("ExampleBot").unwrap()],
            user_agent: user_agent.map(str::to_owned),
            addresses: addresses
                .iter()
                .map(|range| range.parse().unwrap())
                .collect(),
            certificate: None,
            account: None,
            dialect: Dialect::Rfc9309,
            mode: EnforcementMode::Enforce,
            default_delay: None,
            robots_user_agent: None,
            user_agent_must_contain_token: false,
            source_address: None,
            signing_key: None,
            declaration: CrawlerDeclaration::default(),
        }
    }

    fn crawlers(crawlers: Vec<Crawler>) -> Crawlers {
        Crawlers::new(CrawlersConfig {
            crawlers,
            ..CrawlersConfig::default()
        })
    }

    fn seen<'a>(client: &str, username: Option<&'a str>, user_agent: &'a [u8]) -> ClientFacts<'a> {
        ClientFacts {
            client: client.parse().unwrap(),
            username,
            certificate: None,
            user_agent,
        }
    }

    fn found(crawlers: &Crawlers, client: &str, user_agent: &str) -> Option<String> {
        crawlers
            .find(&seen(client, None, user_agent.as_bytes()))
            .map(|crawler| crawler.name.clone())
    }

    #[test]
    fn all_that_is_given_must_match_and_the_first_counts() {
        let crawlers = crawlers(vec![
            crawler("both", Some("examplebot"), &["10.1.0.0/16"]),
            crawler("agent", Some("ExampleBot"), &[]),
        ]);
        let agent = "Mozilla/5.0 (compatible; EXAMPLEBOT/1.0)";
        assert_eq!(found(&crawlers, "10.1.2.3", agent).as_deref(), Some("both"));
        assert_eq!(
            found(&crawlers, "10.2.2.3", agent).as_deref(),
            Some("agent")
        );
        assert_eq!(found(&crawlers, "10.1.2.3", "Other/1.0"), None);
    }

    #[test]
    fn a_mapped_address_is_the_address_it_maps() {
        let crawlers = crawlers(vec![crawler("net", None, &["10.1.0.0/16"])]);
        assert_eq!(
            found(&crawlers, "::ffff:10.1.2.3", "").as_deref(),
            Some("net")
        );
    }

    #[test]
    fn a_user_name_must_have_been_proved() {
        let mut named = crawler("named", None, &["10.1.0.0/16"]);
        named.account = Some(ProxyAccount {
            username: "news".to_owned(),
            password_hash: String::new(),
        });
        let known = crawlers(vec![named]);
        let found = |username| known.find(&seen("10.1.2.3", username, b""));
        assert!(found(Some("news")).is_some());
        assert!(found(Some("other")).is_none());
        assert!(found(None).is_none());
        assert!(!known.may_match_without_password("10.1.2.3".parse().unwrap(), None));
    }

    #[test]
    fn a_well_known_name_is_foreign_to_all_but_its_crawler() {
        let known = crawlers(Vec::new());
        let agent = b"Mozilla/5.0 (compatible; gptbot/1.2; +https://openai.com/gptbot)";
        assert_eq!(known.claim(agent).foreign_owner(None), Some("OpenAI"));
        let mut own = crawler("own", None, &[]);
        assert_eq!(known.claim(agent).foreign_owner(Some(&own)), Some("OpenAI"));
        own.tokens.push(ProductToken::new("GPTBot").unwrap());
        assert_eq!(known.claim(agent).foreign_owner(Some(&own)), None);
        assert_eq!(known.claim(b"ExampleBot/1.0").foreign_owner(None), None);
        assert_eq!(known.claim(b"").tokens, []);
    }

    #[test]
    fn a_reload_keeps_what_was_verified_unless_a_password_changed() {
        let with = |hash: &str| {
            let account = ProxyAccount {
                username: "news".to_owned(),
                password_hash: hash.to_owned(),
            };
            CrawlersConfig {
                crawlers: vec![Crawler {
                    account: Some(account),
                    ..crawler("news", None, &[])
                }],
                ..CrawlersConfig::default()
            }
        };
        let before = Crawlers::new(with("one"));
        let kept = |hash| {
            let after = Crawlers::replacing(Some(&before), with(hash));
            let (before, after) = (before.passwords.as_ref(), after.passwords);
            Arc::ptr_eq(before.expect("one has"), &after.expect("one has"))
        };
        assert!(kept("one"));
        assert!(!kept("other"));
        let none = Crawlers::replacing(Some(&before), CrawlersConfig::default());
        assert!(!none.uses_passwords());
    }
}
