//! The configured crawlers, and how each is recognised.

use std::net::IpAddr;
use std::sync::Arc;

use quick_cache::sync::Cache;
use wayleave_robots_txt::Dialect;
use wayleave_usage_preferences::{Purpose, PurposeSet};

use crate::certificate_name::CertificateName;
use crate::claimed_names::ClaimedNames;
use crate::crawler::{ClientFacts, Crawler, EnforcementMode};
use crate::identity::{Identified, Identity};
use crate::reason::Reason;
use crate::refusal::Refusal;
use crate::stated_purposes::stated_purposes;

/// The number of `User-Agent` values whose names are cached, and the longest value that is.
const CLAIM_CAPACITY: usize = 4096;
const MAX_CACHED_USER_AGENT_BYTES: usize = 512;

/// The configuration of crawlers: `[[crawler]]` and part of `[proxy]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrawlersConfig {
    /// The known ones; the first that matches a request is used.
    pub crawlers: Vec<Crawler>,
    /// Whether requests of others are refused.
    pub require_crawler: bool,
    /// The dialect in which robots.txt is read for others.
    pub dialect: Dialect,
    /// The treatment of refused requests of others.
    pub mode: EnforcementMode,
}

/// All configured crawlers, in the file's order, and the settings of other clients.
#[derive(Debug)]
pub struct Crawlers {
    crawlers: Vec<Arc<Crawler>>,
    claims: Cache<Box<[u8]>, Arc<ClaimedNames>>,
    /// Whether requests of other crawlers are refused.
    pub require_crawler: bool,
    /// The dialect in which robots.txt is read for other crawlers.
    pub dialect: Dialect,
    /// The treatment of refused requests of other crawlers.
    pub mode: EnforcementMode,
}

impl Crawlers {
    /// Returns the crawlers of a configuration.
    #[must_use]
    pub fn new(config: CrawlersConfig) -> Self {
        Self {
            crawlers: config.crawlers.into_iter().map(Arc::new).collect(),
            claims: Cache::new(CLAIM_CAPACITY),
            require_crawler: config.require_crawler,
            dialect: config.dialect,
            mode: config.mode,
        }
    }

    /// Returns the configured crawlers, in the file's order.
    pub fn all(&self) -> impl Iterator<Item = &Crawler> {
        self.crawlers.iter().map(Arc::as_ref)
    }

    /// Returns the names of the configured crawlers, in the file's order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.all().map(|crawler| crawler.name.clone()).collect()
    }

    /// Returns whether a client at this address with this certificate could be a known crawler without a password.
    #[must_use]
    pub fn may_match_without_password(
        &self,
        client: IpAddr,
        certificate: &[CertificateName],
    ) -> bool {
        self.all().any(|crawler| {
            crawler.account.is_none()
                && crawler.matches_address(client)
                && crawler.matches_certificate(certificate)
        })
    }

    /// Returns the crawler with this name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<Arc<Crawler>> {
        self.crawlers.iter().find(|crawler| crawler.name == name).cloned()
    }

    /// Returns the crawler behind a request, if one is configured: the first that matches it and declares the purposes that the
    /// client states, or else the first that matches it.
    pub(crate) fn find(&self, facts: &ClientFacts<'_>) -> Option<&Arc<Crawler>> {
        let mut matching = self.crawlers.iter().filter(|crawler| crawler.matches(facts));
        let first = matching.next()?;
        let stated = stated_purposes(facts.purposes).unwrap_or_default();
        if first.declares(stated) {
            return Some(first);
        }
        Some(matching.find(|crawler| crawler.declares(stated)).unwrap_or(first))
    }

    /// Returns the names in `user_agent`, which is parsed once for many requests.
    #[must_use]
    pub fn claim(&self, user_agent: &[u8]) -> Arc<ClaimedNames> {
        if let Some(claim) = self.claims.get(user_agent) {
            return claim;
        }
        let claim = Arc::new(ClaimedNames::parse(user_agent));
        // The cache counts values, not bytes, and clients choose how long they are.
        if user_agent.len() <= MAX_CACHED_USER_AGENT_BYTES {
            self.claims.insert(user_agent.into(), Arc::clone(&claim));
        }
        claim
    }
}

impl Crawlers {
    /// Identifies the crawler behind a request, and objects to a name that is not its own.
    #[must_use]
    pub fn identify(&self, client: &ClientFacts<'_>) -> Identified {
        self.identified(self.identity_of(client), client)
    }

    /// Identifies a request as one of this crawler, which was proved otherwise, and objects to a name that is not its own.
    #[must_use]
    pub fn identify_as(&self, crawler: Arc<Crawler>, client: &ClientFacts<'_>) -> Identified {
        self.identified(Identity::Known(crawler), client)
    }

    fn identified(&self, identity: Identity, client: &ClientFacts<'_>) -> Identified {
        Identified {
            objection: objection_to_purposes(&identity, client.purposes)
                .or_else(|| self.objection_to(&identity, client.user_agent)),
            identity,
            purposes_from: None,
        }
    }

    /// Returns the configured crawler behind a request, or else the name that the client gives itself.
    #[must_use]
    pub fn identity_of(&self, client: &ClientFacts<'_>) -> Identity {
        match self.find(client) {
            Some(crawler) => Identity::Known(Arc::clone(crawler)),
            None => Identity::Asserted {
                claim: self.claim(client.user_agent),
                dialect: self.dialect,
                mode: self.mode,
            },
        }
    }

    /// Returns the objection to an identity, or to the name that it gives itself.
    fn objection_to(&self, identity: &Identity, user_agent: &[u8]) -> Option<Refusal> {
        let crawler = identity.crawler();
        if crawler.is_none() && self.require_crawler {
            let details = "no [[crawler]] matches this request";
            return Some(Refusal::by_policy(Reason::Unidentified, details));
        }
        let claim = match identity {
            Identity::Known(_) => &self.claim(user_agent),
            Identity::Asserted { claim, .. } => claim,
        };
        if let Some(owner) = claim.foreign_owner(crawler) {
            let details = format!(
                "User-Agent names a crawler of {owner}, and no [[crawler]] here has that token"
            );
            return Some(Refusal::by_policy(Reason::ForeignToken, details));
        }
        // Only a configured crawler can be required to name itself.
        let crawler = crawler?;
        let is_missing = crawler.user_agent_must_contain_token && !crawler.is_named_in(user_agent);
        is_missing.then(|| {
            let details = format!("User-Agent contains no token of crawler {}", crawler.name);
            Refusal::by_policy(Reason::TokenMissing, details)
        })
    }
}

/// Returns the objection to a purpose that the client states and the crawler does not declare. It is enforced in any mode: a
/// request must not go out under a name that stands for something else.
fn objection_to_purposes(identity: &Identity, words: &[String]) -> Option<Refusal> {
    let stated = match stated_purposes(words) {
        Ok(stated) => stated,
        Err(mistake) => {
            let details = format!("Wayleave-Purpose: {mistake}");
            return Some(Refusal::new(Reason::PurposeNotDeclared, details));
        }
    };
    let declared = identity.crawler().map_or(PurposeSet::NONE, |it| it.declaration.purposes);
    let lacking: Vec<_> = stated.without(declared).iter().map(Purpose::as_str).collect();
    (!lacking.is_empty()).then(|| {
        let lacking = lacking.join(", ");
        let details = match identity.crawler() {
            Some(crawler) => format!(
                "no [[crawler]] that matches this request declares all of its purposes: {} lacks {lacking}",
                crawler.name
            ),
            None => format!("no [[crawler]] matches this request, so none declares its purposes: {lacking}"),
        };
        Refusal::new(Reason::PurposeNotDeclared, details)
    })
}

#[cfg(test)]
mod tests {
    use wayleave_robots_txt::ProductToken;

    use super::*;
    use crate::crawler::ProxyAccount;

    fn crawler(name: &str, user_agent: Option<&str>, addresses: &[&str]) -> Crawler {
        Crawler {
            user_agent: user_agent.map(str::to_owned),
            addresses: addresses.iter().map(|range| range.parse().unwrap()).collect(),
            ..crate::crawler::tests::crawler(name)
        }
    }

    fn crawlers(crawlers: Vec<Crawler>) -> Crawlers {
        Crawlers::new(CrawlersConfig { crawlers, ..CrawlersConfig::default() })
    }

    fn facts<'a>(client: &str, username: Option<&'a str>, user_agent: &'a [u8]) -> ClientFacts<'a> {
        let client = client.parse().unwrap();
        ClientFacts { client, username, certificate: &[], user_agent, purposes: &[] }
    }

    fn found(crawlers: &Crawlers, client: &str, user_agent: &str) -> Option<String> {
        crawlers
            .find(&facts(client, None, user_agent.as_bytes()))
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
        assert_eq!(found(&crawlers, "10.2.2.3", agent).as_deref(), Some("agent"));
        assert_eq!(found(&crawlers, "10.1.2.3", "Other/1.0"), None);
    }

    #[test]
    fn a_mapped_address_is_the_address_it_maps() {
        let crawlers = crawlers(vec![crawler("net", None, &["10.1.0.0/16"])]);
        assert_eq!(found(&crawlers, "::ffff:10.1.2.3", "").as_deref(), Some("net"));
    }

    #[test]
    fn a_user_name_must_have_been_proved() {
        let mut named = crawler("named", None, &["10.1.0.0/16"]);
        named.account =
            Some(ProxyAccount { username: "news".to_owned(), password_hash: String::new() });
        let known = crawlers(vec![named]);
        let found = |username| known.find(&facts("10.1.2.3", username, b""));
        assert!(found(Some("news")).is_some());
        assert!(found(Some("other")).is_none());
        assert!(found(None).is_none());
        assert!(!known.may_match_without_password("10.1.2.3".parse().unwrap(), &[]));
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
    fn a_certificate_must_have_the_name() {
        let name = |text: &str| text.parse::<CertificateName>().unwrap();
        let mut named = crawler("named", None, &[]);
        named.certificate = Some(name("DNS:News.Example"));
        let known = crawlers(vec![named]);
        for (names, is_known) in [
            (&[][..], false),
            (&[name("DNS:images.example")], false),
            (&[name("CN=x"), name("DNS:news.example")], true),
        ] {
            let client = [10, 1, 2, 3].into();
            let facts = ClientFacts {
                client,
                username: None,
                certificate: names,
                user_agent: b"",
                purposes: &[],
            };
            assert_eq!(known.find(&facts).is_some(), is_known, "{names:?}");
            assert_eq!(known.may_match_without_password(client, names), is_known, "{names:?}");
        }
    }

    #[test]
    fn of_several_objections_the_first_counts() {
        let mut own = crawler("own", None, &["10.1.0.0/16"]);
        own.user_agent_must_contain_token = true;
        let free = crawler("free", None, &["10.2.0.0/16"]);
        let known = Crawlers::new(CrawlersConfig {
            crawlers: vec![own, free],
            require_crawler: true,
            ..CrawlersConfig::default()
        });
        for (client, user_agent, reason) in [
            ("10.9.0.1", "GPTBot/1", Some(Reason::Unidentified)),
            ("10.1.0.1", "GPTBot/1", Some(Reason::ForeignToken)),
            ("10.1.0.1", "Mozilla/5.0", Some(Reason::TokenMissing)),
            ("10.1.0.1", "Mozilla/5.0 (EXAMPLEBOT)", None),
            ("10.2.0.1", "Mozilla/5.0", None),
        ] {
            let identified = known.identify(&facts(client, None, user_agent.as_bytes()));
            let objection = identified.objection.map(|refusal| refusal.reason);
            assert_eq!(objection, reason, "{client} {user_agent}");
        }
    }

    #[test]
    fn the_foreign_name_among_several_is_found() {
        let mut own = crawler("own", None, &[]);
        own.tokens.push(ProductToken::new("GPTBot").unwrap());
        let claim = crawlers(Vec::new()).claim(b"GPTBot/1.2 (-Googlebot-)");
        assert_eq!(claim.foreign_owner(Some(&own)), Some("Google"));
    }

    #[test]
    fn the_first_crawler_that_declares_the_purposes_is_chosen() {
        let declaring = |name: &str, purposes: &[Purpose]| {
            let mut crawler = crawler(name, Some("Bot"), &[]);
            crawler.declaration.purposes = PurposeSet::of(purposes);
            crawler.mode = EnforcementMode::Observe;
            crawler
        };
        let crawlers = Crawlers::new(CrawlersConfig {
            crawlers: vec![
                declaring("none", &[]),
                declaring("search", &[Purpose::Search]),
                declaring("both", &[Purpose::Search, Purpose::TrainAi]),
            ],
            ..CrawlersConfig::default()
        });
        for (agent, purposes, name, refused) in [
            ("Bot/1", &[][..], "none", false),
            ("Bot/1", &["search"], "search", false),
            ("Bot/1", &["train-ai"], "both", false),
            ("Bot/1", &["search", "train-ai"], "both", false),
            ("Bot/1", &["archive"], "none", true),
            ("Bot/1", &["search", "tdm"], "none", true),
            ("Bot/1", &["nothing"], "none", true),
            ("Bot/1", &[""], "none", true),
            ("Other/1", &["search"], "asserted", true),
            ("Other/1", &[], "asserted", false),
        ] {
            let words: Vec<_> = purposes.iter().map(|word| (*word).to_owned()).collect();
            let facts = ClientFacts {
                client: "10.0.0.1".parse().unwrap(),
                username: None,
                certificate: &[],
                user_agent: agent.as_bytes(),
                purposes: &words,
            };
            let Identified { identity, objection, .. } = crawlers.identify(&facts);
            assert_eq!(identity.label(), name, "{purposes:?}");
            let reason = objection.as_ref().map(|refusal| refusal.reason);
            assert_eq!(reason, refused.then_some(Reason::PurposeNotDeclared), "{purposes:?}");
            // Not even a crawler whose refusals are observed sends it.
            assert!(objection.is_none_or(|it| it.observe_or_refuse(identity.mode()).is_err()));
        }
    }
}
