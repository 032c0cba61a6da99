//! Decides which requests are signed: all of a crawler's, or those to origins that ask for it.

use std::fmt;
use std::sync::Arc;

use quick_cache::sync::Cache;
use wayleave_robots_txt::Origin;

use super::accept_signature::SignatureRequest;
use super::key::SigningKey;
use super::request::{MessageToSign, SignatureFields, sign};
use super::settings::{SigningMode, SigningSettings};
use crate::clock::system_time;

/// The number of origins whose requests for signatures are kept, so that only the first request to each is sent twice.
const REMEMBERED_ORIGINS: usize = 10_000;

/// A signer of requests by the configuration.
pub(crate) struct MessageSigner {
    pub(crate) settings: SigningSettings,
    /// The published keys.
    pub(crate) keys: Vec<Arc<SigningKey>>,
    remembered: Cache<(Origin, String), SignatureRequest>,
}

impl MessageSigner {
    pub(crate) fn new(settings: SigningSettings, keys: Vec<Arc<SigningKey>>) -> Self {
        Self {
            settings,
            keys,
            remembered: Cache::new(REMEMBERED_ORIGINS),
        }
    }

    /// Returns whether any requests are signed.
    pub(crate) fn is_enabled(&self) -> bool {
        self.settings.mode != SigningMode::Off
    }

    /// Returns the signature that `origin` requested of this key's crawlers earlier.
    pub(crate) fn remembered_request(
        &self,
        key: &SigningKey,
        origin: &Origin,
    ) -> Option<SignatureRequest> {
        let place = (origin.clone(), key.thumbprint().to_owned());
        self.remembered.get(&place)
    }

    /// Keeps the signature that `origin` requested and got, for later requests.
    pub(crate) fn remember(&self, key: &SigningKey, origin: &Origin, asked: &SignatureRequest) {
        let place = (origin.clone(), key.thumbprint().to_owned());
        self.remembered.insert(place, asked.clone().without_nonce());
    }

    /// Signs a request at the present time. Returns `None` if it cannot be signed as `asked`.
    pub(crate) fn sign(
        &self,
        key: &SigningKey,
        asked: Option<&SignatureRequest>,
        message: &MessageToSign<'_>,
    ) -> Option<SignatureFields> {
        // The calendar, because verifiers compare it with their clocks.
        sign(key, &self.settings, asked, message, system_time())
    }
}

/// A key with its signer, for requests of the proxy itself.
#[derive(Clone, Debug)]
pub(crate) struct KeySigner {
    pub(crate) signer: Arc<MessageSigner>,
    pub(crate) key: Arc<SigningKey>,
}

impl KeySigner {
    /// Signs a request to `origin` if the mode says so: as `wished` in the response to it, or else as requested before.
    pub(crate) fn sign(
        &self,
        origin: &Origin,
        wished: Option<&SignatureRequest>,
        message: &MessageToSign<'_>,
    ) -> Option<SignatureFields> {
        let before = self.signer.remembered_request(&self.key, origin);
        let asked = wished.or(before.as_ref());
        let always = self.signer.settings.mode == SigningMode::Always;
        let as_asked = asked.and_then(|asked| self.signer.sign(&self.key, Some(asked), message));
        as_asked.or_else(|| always.then(|| self.signer.sign(&self.key, None, message))?)
    }

    /// Keeps the signature that `origin` requested, for later requests.
    pub(crate) fn remember(&self, origin: &Origin, asked: &SignatureRequest) {
        self.signer.remember(&self.key, origin, asked);
    }
}

impl fmt::Debug for MessageSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer")
            .field("options", &self.settings)
            .field("keys", &self.keys)
            .finish_non_exhaustive()
    }
}
