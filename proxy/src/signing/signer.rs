//! Decides which requests are signed: all of a crawler's, or those to origins that ask for it.

use std::fmt;
use std::sync::Arc;

use quick_cache::sync::Cache;
use wayleave_robots_txt::Origin;

use super::asked::Asked;
use super::key::Key;
use super::options::{Mode, Options};
use super::request::{Message, Signed, sign};
use crate::clock::calendar;

/// The number of origins whose requests for signatures are kept, so that only the first request to each is sent twice.
const REMEMBERED_ORIGINS: usize = 10_000;

/// A signer of requests by the configuration.
pub(crate) struct Signer {
    pub(crate) options: Options,
    /// The published keys.
    pub(crate) keys: Vec<Arc<Key>>,
    asked: Cache<(Origin, String), Asked>,
}

impl Signer {
    pub(crate) fn new(options: Options, keys: Vec<Arc<Key>>) -> Self {
        Self {
            options,
            keys,
            asked: Cache::new(REMEMBERED_ORIGINS),
        }
    }

    /// Returns whether any requests are signed.
    pub(crate) fn signs(&self) -> bool {
        self.options.mode != Mode::Off
    }

    /// Returns the signature that `origin` requested of this key's crawlers earlier.
    pub(crate) fn asked_before(&self, key: &Key, origin: &Origin) -> Option<Asked> {
        let place = (origin.clone(), key.thumbprint().to_owned());
        self.asked.get(&place)
    }

    /// Keeps the signature that `origin` requested and got, for later requests.
    pub(crate) fn remember(&self, key: &Key, origin: &Origin, asked: &Asked) {
        let place = (origin.clone(), key.thumbprint().to_owned());
        self.asked.insert(place, asked.clone().without_nonce());
    }

    /// Signs a request at the present time. Returns `None` if it cannot be signed as `asked`.
    pub(crate) fn sign(
        &self,
        key: &Key,
        asked: Option<&Asked>,
        message: &Message<'_>,
    ) -> Option<Signed> {
        // The calendar, because verifiers compare it with their clocks.
        sign(key, &self.options, asked, message, calendar())
    }
}

/// A key with its signer, for requests of the proxy itself.
#[derive(Clone, Debug)]
pub(crate) struct SignedBy {
    pub(crate) signer: Arc<Signer>,
    pub(crate) key: Arc<Key>,
}

impl SignedBy {
    /// Signs a request to `origin` if the mode says so: as `wished` in the response to it, or else as requested before.
    pub(crate) fn sign(
        &self,
        origin: &Origin,
        wished: Option<&Asked>,
        message: &Message<'_>,
    ) -> Option<Signed> {
        let before = self.signer.asked_before(&self.key, origin);
        let asked = wished.or(before.as_ref());
        let always = self.signer.options.mode == Mode::Always;
        let as_asked = asked.and_then(|asked| self.signer.sign(&self.key, Some(asked), message));
        as_asked.or_else(|| always.then(|| self.signer.sign(&self.key, None, message))?)
    }

    /// Keeps the signature that `origin` requested, for later requests.
    pub(crate) fn remember(&self, origin: &Origin, asked: &Asked) {
        self.signer.remember(&self.key, origin, asked);
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer")
            .field("options", &self.options)
            .field("keys", &self.keys)
            .finish_non_exhaustive()
    }
}
