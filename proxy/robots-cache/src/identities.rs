//! The identities of the configured crawlers, under which documents are fetched.

use std::collections::HashMap;
use std::sync::Arc;

use wayleave_decision::{Crawler, Identity, contacts};
use wayleave_lifecycle::FetchIdentity;
use wayleave_robots_txt::ProductToken;
use wayleave_signing::{KeySigner, MessageSigner, SigningSettings};

/// The longest `User-Agent` of a client with which a document is fetched, in bytes. The rest of a longer one is left out.
const MAX_USER_AGENT_BYTES: usize = 1024;

/// The identity of each configured crawler, and the keys to sign with.
#[derive(Debug)]
pub struct FetchIdentities {
    crawlers: HashMap<String, Arc<FetchIdentity>>,
    proxy_user_agent: String,
    signer: Arc<MessageSigner>,
}

/// Returns the `User-Agent` with which documents are fetched for a crawler, so that a site's log shows that the crawler
/// reads robots.txt: its own, or else its first token, with the contact in `proxy_user_agent` if it has none itself. The
/// crawler's contact is added to one that has none.
pub fn fetch_user_agent(crawler: &Crawler, proxy_user_agent: &str) -> Arc<str> {
    if let Some(user_agent) = &crawler.robots_user_agent {
        return match &crawler.contact {
            Some(contact) if contacts(user_agent).is_empty() => {
                format!("{user_agent} (+{})", without_scheme(contact)).into()
            }
            _ => Arc::clone(user_agent),
        };
    }
    let found = contacts(proxy_user_agent).into_iter().next();
    let contact = crawler.contact.as_deref().or(found.as_deref());
    let contact = contact.map(|contact| format!("; +{}", without_scheme(contact)));
    let contact = contact.unwrap_or_default();
    let token = crawler.tokens.first().map_or(crawler.name.as_str(), ProductToken::as_str);
    format!("{token} (wayleave/{}{contact})", env!("CARGO_PKG_VERSION")).into()
}

/// Returns a contact as people write it in a `User-Agent`.
fn without_scheme(contact: &str) -> &str {
    contact.strip_prefix("mailto:").unwrap_or(contact)
}

impl FetchIdentities {
    /// Returns the identities of `crawlers`; `proxy_user_agent` is that of other fetches.
    pub fn new(crawlers: &[Crawler], proxy_user_agent: &str, signer: Arc<MessageSigner>) -> Self {
        let proxy_user_agent = proxy_user_agent.to_owned();
        let mut identities = Self { crawlers: HashMap::new(), proxy_user_agent, signer };
        for crawler in crawlers {
            let identity = Arc::new(identities.of_crawler(crawler));
            identities.crawlers.insert(crawler.name.clone(), identity);
        }
        identities
    }

    /// Returns the identity for requests of a client, which sent this `User-Agent`.
    pub fn of(&self, identity: &Identity, user_agent: &[u8]) -> Arc<FetchIdentity> {
        match identity {
            Identity::Known(crawler) => match self.crawlers.get(&crawler.name) {
                Some(identity) => Arc::clone(identity),
                None => Arc::new(self.of_crawler(crawler)),
            },
            Identity::Asserted { .. } => {
                let sent = &user_agent[..user_agent.len().min(MAX_USER_AGENT_BYTES)];
                Arc::new(FetchIdentity::of_client(String::from_utf8_lossy(sent)))
            }
        }
    }

    /// Returns the identity as it is now, of which an earlier one may have been stored; `None` if the crawler is no longer
    /// configured.
    pub(super) fn current(&self, stored: &Arc<FetchIdentity>) -> Option<Arc<FetchIdentity>> {
        match &stored.crawler {
            None => Some(Arc::clone(stored)),
            Some(name) => Some(self.crawlers.get(&**name)?.with_chosen(stored.chosen)),
        }
    }

    /// Returns the signer of requests with this identity, if they are signed.
    pub(super) fn signer_of(&self, identity: &FetchIdentity) -> Option<KeySigner> {
        let key = self.signer.enabled_key(identity.key.as_deref()?)?;
        Some(KeySigner { signer: Arc::clone(&self.signer), key })
    }

    fn of_crawler(&self, crawler: &Crawler) -> FetchIdentity {
        let key = crawler.signing_key.as_deref().and_then(|key| self.signer.enabled_key(key));
        FetchIdentity {
            crawler: Some(crawler.name.as_str().into()),
            user_agent: Some(fetch_user_agent(crawler, &self.proxy_user_agent)),
            key: key.as_ref().map(|signer| signer.key.thumbprint().into()),
            agent: key.as_ref().map(|signer| signer.agent.signature_agent().into()),
            source: crawler.source_address,
            ..FetchIdentity::default()
        }
    }
}

impl Default for FetchIdentities {
    fn default() -> Self {
        Self::new(&[], "", Arc::new(MessageSigner::new(SigningSettings::default(), Vec::new())))
    }
}

#[cfg(test)]
mod tests {
    use wayleave_lifecycle::ChosenBy;

    use super::*;

    #[test]
    fn a_stored_identity_keeps_who_chose_the_host() {
        let token = ProductToken::new("ExampleBot").expect("a token");
        let signer = FetchIdentities::default().signer;
        let identities =
            FetchIdentities::new(&[Crawler::new("news", vec![token])], "", Arc::clone(&signer));
        let stored = |name: &str| FetchIdentity {
            crawler: Some(name.into()),
            chosen: ChosenBy::Public,
            ..FetchIdentity::default()
        };
        let current = identities.current(&Arc::new(stored("news"))).expect("it is configured");
        assert_eq!(current.chosen, ChosenBy::Public);
        assert!(current.user_agent.is_some(), "as it is now");
        assert_eq!(identities.current(&Arc::new(stored("gone"))), None);
    }

    #[test]
    fn fetches_name_the_crawler_the_proxy_and_a_contact() {
        let token = ProductToken::new("ExampleBot").expect("a token");
        let crawler = Crawler::new("news", vec![token]);
        let with = |contact: &str| Crawler { contact: Some(contact.into()), ..crawler.clone() };
        let own = Crawler { robots_user_agent: Some("NewsBot/1".into()), ..crawler.clone() };
        let own_with = |contact: &str| Crawler { contact: Some(contact.into()), ..own.clone() };
        let with_page = Crawler {
            robots_user_agent: Some("NewsBot/1 (+https://page.test)".into()),
            ..own_with("bot@team.test")
        };
        let version = env!("CARGO_PKG_VERSION");
        for (crawler, proxy, expected) in [
            (crawler.clone(), "wayleave/0.1", format!("ExampleBot (wayleave/{version})")),
            (
                crawler.clone(),
                "wayleave/0.1 (+https://team.test)",
                format!("ExampleBot (wayleave/{version}; +https://team.test)"),
            ),
            (
                crawler.clone(),
                "wayleave/0.1 (bot@team.test)",
                format!("ExampleBot (wayleave/{version}; +bot@team.test)"),
            ),
            (
                with("https://bot.test"),
                "wayleave/0.1 (+https://team.test)",
                format!("ExampleBot (wayleave/{version}; +https://bot.test)"),
            ),
            (
                own_with("mailto:bot@team.test"),
                "wayleave/0.1",
                "NewsBot/1 (+bot@team.test)".to_owned(),
            ),
            (with_page, "wayleave/0.1", "NewsBot/1 (+https://page.test)".to_owned()),
            (own, "wayleave/0.1 (+https://team.test)", "NewsBot/1".to_owned()),
        ] {
            assert_eq!(&*fetch_user_agent(&crawler, proxy), expected);
        }
    }
}
