//! The identities of the configured crawlers, under which documents are fetched.

use std::collections::HashMap;
use std::sync::Arc;

use wayleave_decision::{Crawler, Identity};
use wayleave_lifecycle::FetchIdentity;

use crate::signing::{KeySigner, MessageSigner, SigningSettings};

/// The longest `User-Agent` of a client with which a document is fetched, in bytes. The rest of a longer one is left out.
const MAX_USER_AGENT_BYTES: usize = 1024;

/// The identity of each configured crawler, and the keys to sign with.
#[derive(Debug)]
pub(crate) struct FetchIdentities {
    crawlers: HashMap<String, Arc<FetchIdentity>>,
    signer: Arc<MessageSigner>,
}

impl FetchIdentities {
    /// Returns the identities of `crawlers`.
    pub(crate) fn new(crawlers: &[Crawler], signer: Arc<MessageSigner>) -> Self {
        let mut identities = Self { crawlers: HashMap::new(), signer };
        for crawler in crawlers {
            let identity = Arc::new(identities.of_crawler(crawler));
            identities.crawlers.insert(crawler.name.clone(), identity);
        }
        identities
    }

    /// Returns the identity for requests of a client, which sent this `User-Agent`.
    pub(crate) fn of(&self, identity: &Identity, user_agent: &[u8]) -> Arc<FetchIdentity> {
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
        Some(KeySigner { signer: Arc::clone(&self.signer), key: Arc::clone(key) })
    }

    fn of_crawler(&self, crawler: &Crawler) -> FetchIdentity {
        let key = crawler.signing_key.as_deref().and_then(|key| self.signer.enabled_key(key));
        let agent = self.signer.settings.agent.as_ref().filter(|_| key.is_some());
        FetchIdentity {
            crawler: Some(crawler.name.as_str().into()),
            user_agent: crawler.robots_user_agent.clone(),
            key: key.map(|key| key.thumbprint().into()),
            agent: agent.map(|agent| agent.as_str().into()),
            source: crawler.source_address,
            ..FetchIdentity::default()
        }
    }
}

impl Default for FetchIdentities {
    fn default() -> Self {
        Self::new(&[], Arc::new(MessageSigner::new(SigningSettings::default(), Vec::new())))
    }
}
