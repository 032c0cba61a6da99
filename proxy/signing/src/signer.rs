//! Decides which requests are signed: all of a crawler's, or those to origins that ask for it.

use std::fmt;
use std::sync::Arc;

use quick_cache::sync::Cache;
use wayleave_clock::system_time;
use wayleave_robots_txt::{Origin, UrlScheme};

use super::accept_signature::SignatureRequest;
use super::agent::{AgentKey, SigningAgent};
use super::request::{MessageToSign, SignatureFields, sign};
use super::settings::{PlainHttp, SigningMode, SigningSettings};

/// The number of origins whose requests for signatures are kept, so that only the first request to each is sent twice.
const REMEMBERED_ORIGINS: usize = 10_000;

/// A signer of requests by the configuration.
pub struct MessageSigner {
    pub settings: SigningSettings,
    agents: Vec<Arc<SigningAgent>>,
    remembered: Cache<(Origin, String), SignatureRequest>,
}

impl MessageSigner {
    pub fn new(settings: SigningSettings, agents: Vec<Arc<SigningAgent>>) -> Self {
        Self { settings, agents, remembered: Cache::new(REMEMBERED_ORIGINS) }
    }

    /// Returns whether any requests are signed.
    pub fn is_enabled(&self) -> bool {
        self.settings.mode != SigningMode::Off
    }

    /// Returns whether requests to `origin` may be signed at all.
    pub fn may_sign_for(&self, origin: &Origin) -> bool {
        let settings = &self.settings;
        origin.scheme() != UrlScheme::Http || settings.plain_http == PlainHttp::Sign
    }

    /// Returns the key with this thumbprint, and its agent, if any requests are signed.
    pub fn enabled_key(&self, thumbprint: &str) -> Option<AgentKey> {
        let agents = self.agents.iter().filter(|_| self.is_enabled());
        let mut keys = agents.flat_map(|agent| agent.keys.iter().map(move |key| (agent, key)));
        let (agent, key) = keys.find(|(_, key)| key.thumbprint() == thumbprint)?;
        Some(AgentKey { agent: Arc::clone(agent), key: Arc::clone(key) })
    }

    /// Returns the signature that `origin` requested of this key's crawlers earlier.
    pub fn remembered_request(&self, key: &AgentKey, origin: &Origin) -> Option<SignatureRequest> {
        let cache_key = (origin.clone(), key.key.thumbprint().to_owned());
        self.remembered.get(&cache_key)
    }

    /// Returns whether a request that was signed should be signed again as `origin` requests: to use its nonce, or because the
    /// signature covered something else. The same signature again would get the same answer.
    pub fn should_sign_again(
        &self,
        key: &AgentKey,
        origin: &Origin,
        requested: &SignatureRequest,
    ) -> bool {
        requested.has_nonce() || self.remembered_request(key, origin).as_ref() != Some(requested)
    }

    /// Keeps the signature that `origin` requested and got, for later requests.
    pub fn remember(&self, key: &AgentKey, origin: &Origin, requested: &SignatureRequest) {
        let cache_key = (origin.clone(), key.key.thumbprint().to_owned());
        // A nonce is valid for one signature only.
        self.remembered.insert(cache_key, requested.clone().without_nonce());
    }

    /// Signs a request at the present time. Returns `None` if it cannot be signed as `requested`.
    pub fn sign(
        &self,
        key: &AgentKey,
        requested: Option<&SignatureRequest>,
        message: &MessageToSign<'_>,
    ) -> Option<SignatureFields> {
        // The calendar, because verifiers compare it with their clocks.
        sign(key, &self.settings, requested, message, system_time())
    }
}

/// A key with its signer, for requests of the proxy itself.
#[derive(Clone, Debug)]
pub struct KeySigner {
    pub signer: Arc<MessageSigner>,
    pub key: AgentKey,
}

impl KeySigner {
    /// Signs a request to `origin` if the mode says so: as `requested` in the response to it, or else as requested before.
    pub fn sign(
        &self,
        origin: &Origin,
        requested: Option<&SignatureRequest>,
        message: &MessageToSign<'_>,
    ) -> Option<SignatureFields> {
        if !self.signer.may_sign_for(origin) {
            return None;
        }
        let remembered = self.signer.remembered_request(&self.key, origin);
        let is_always = self.signer.settings.mode == SigningMode::Always;
        // A signature that does not cover what was requested may still satisfy other verifiers.
        requested
            .or(remembered.as_ref())
            .and_then(|requested| self.signer.sign(&self.key, Some(requested), message))
            .or_else(|| is_always.then(|| self.signer.sign(&self.key, None, message))?)
    }

    /// Returns whether a request that was signed should be signed again as `origin` requests.
    pub fn should_sign_again(&self, origin: &Origin, requested: &SignatureRequest) -> bool {
        self.signer.should_sign_again(&self.key, origin, requested)
    }

    /// Keeps the signature that `origin` requested, for later requests.
    pub fn remember(&self, origin: &Origin, requested: &SignatureRequest) {
        self.signer.remember(&self.key, origin, requested);
    }
}

impl fmt::Debug for MessageSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageSigner")
            .field("settings", &self.settings)
            .field("agents", &self.agents)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use wayleave_robots_txt::Target;

    use super::*;
    use crate::agent::KeyDiscovery;
    use crate::key::test_key;

    fn signer(mode: SigningMode, plain_http: PlainHttp) -> MessageSigner {
        let url = |text: &str| SigningAgent::parse_url(text, KeyDiscovery::Uri).unwrap();
        let agent =
            |text: &str, keys| Arc::new(SigningAgent::new(url(text), KeyDiscovery::Uri, keys));
        let agents = vec![
            agent("https://bot.example/search", Vec::new()),
            agent("https://bot.example/training", vec![Arc::new(test_key())]),
        ];
        MessageSigner::new(
            SigningSettings { mode, plain_http, ..SigningSettings::default() },
            agents,
        )
    }

    #[test]
    fn a_key_signs_for_the_agent_that_has_it() {
        let key = test_key();
        let signer = |mode| signer(mode, PlainHttp::Sign);
        let found = signer(SigningMode::Always).enabled_key(key.thumbprint()).unwrap();
        assert_eq!(found.agent.url(), "https://bot.example/training");
        assert!(signer(SigningMode::Always).enabled_key("unknown").is_none());
        assert!(signer(SigningMode::Off).enabled_key(key.thumbprint()).is_none());
    }

    #[test]
    fn plain_http_is_signed_unless_it_is_left_out() {
        let origin = |url: &str| Target::parse(url).unwrap().origin().clone();
        for (plain_http, url, expected) in [
            (PlainHttp::Sign, "http://shop.example/", true),
            (PlainHttp::LeaveUnsigned, "http://shop.example/", false),
            (PlainHttp::LeaveUnsigned, "https://shop.example/", true),
        ] {
            let signer = signer(SigningMode::Always, plain_http);
            assert_eq!(signer.may_sign_for(&origin(url)), expected, "{plain_http:?} {url}");
        }
    }
}
