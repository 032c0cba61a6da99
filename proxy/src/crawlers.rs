//! The crawlers that the configuration knows, and how each is recognised.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use wayleave_policy::{Dialect, ProductToken};

/// One crawler as configured: `[[crawler]]`.
#[derive(Clone, Debug)]
pub struct Crawler {
    /// Its label in metrics and logs.
    pub name: String,
    /// Its product tokens in order of preference.
    pub tokens: Vec<ProductToken>,
    /// What `User-Agent` must contain, ignoring ASCII case. `None`: anything.
    pub user_agent: Option<String>,
    /// Where its requests come from. Empty: anywhere.
    pub addresses: Vec<IpNet>,
    /// How robots.txt is read for it.
    pub dialect: Dialect,
}

impl Crawler {
    fn is_behind(&self, client: IpAddr, user_agent: &[u8]) -> bool {
        let address = self.addresses.is_empty()
            || self
                .addresses
                .iter()
                .any(|range| range.contains(&client.to_canonical()));
        let agent = self
            .user_agent
            .as_ref()
            .is_none_or(|wanted| contains_ignoring_case(user_agent, wanted.as_bytes()));
        address && agent
    }
}

fn contains_ignoring_case(text: &[u8], wanted: &[u8]) -> bool {
    wanted.is_empty()
        || text
            .windows(wanted.len())
            .any(|part| part.eq_ignore_ascii_case(wanted))
}

/// All configured crawlers, in the file's order.
#[derive(Clone, Debug, Default)]
pub struct Crawlers {
    crawlers: Vec<Arc<Crawler>>,
}

impl Crawlers {
    /// The crawlers to recognise; the first that matches a request is used.
    #[must_use]
    pub fn new(crawlers: Vec<Crawler>) -> Self {
        Self {
            crawlers: crawlers.into_iter().map(Arc::new).collect(),
        }
    }

    /// The crawler behind a request from `client` with this `User-Agent`, if one is configured.
    pub(crate) fn find(&self, client: IpAddr, user_agent: &[u8]) -> Option<&Arc<Crawler>> {
        self.crawlers
            .iter()
            .find(|crawler| crawler.is_behind(client, user_agent))
    }
}

#[cfg(test)]
mod tests {
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
            dialect: Dialect::Rfc9309,
        }
    }

    fn found(crawlers: &Crawlers, client: &str, user_agent: &str) -> Option<String> {
        let client = client.parse().unwrap();
        crawlers
            .find(client, user_agent.as_bytes())
            .map(|crawler| crawler.name.clone())
    }

    #[test]
    fn all_that_is_given_must_match_and_the_first_counts() {
        let crawlers = Crawlers::new(vec![
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
        let crawlers = Crawlers::new(vec![crawler("net", None, &["10.1.0.0/16"])]);
        assert_eq!(
            found(&crawlers, "::ffff:10.1.2.3", "").as_deref(),
            Some("net")
        );
    }
}
