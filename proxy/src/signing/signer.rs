//! Which requests are signed: all of a crawler's, or those to origins that ask.

use std::fmt;
use std::sync::Arc;

use quick_cache::sync::Cache;
use wayleave_robots_txt::Origin;

use super::asked::Asked;
use super::key::Key;
use super::options::{Mode, Options};
use super::request::{Message, Signed, sign};
use crate::clock::calendar;

/// Origins whose wishes are remembered, so that a request is sent twice to each once, not always.
const REMEMBERED_ORIGINS: usize = 10_000;

/// Signs as the configuration says.
pub(crate) struct Signer {
    pub(crate) options: Options,
    /// Every key that is published.
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

    /// Whether requests of crawlers with a key are signed at all.
    pub(crate) fn signs(&self) -> bool {
        self.options.mode != Mode::Off
    }

    /// What `origin` asked this key's crawlers for earlier.
    pub(crate) fn asked_before(&self, key: &Key, origin: &Origin) -> Option<Asked> {
        let place = (origin.clone(), key.thumbprint().to_owned());
        self.asked.get(&place)
    }

    /// Keeps what `origin` asks for, and was given, for the requests that follow.
    pub(crate) fn remember(&self, key: &Key, origin: &Origin, asked: &Asked) {
        let place = (origin.clone(), key.thumbprint().to_owned());
        self.asked.insert(place, asked.clone().without_nonce());
    }

    /// A new signature of a request, as it is sent now.
    ///
    /// `None`: it cannot be signed as was `asked`.
    pub(crate) fn sign(
        &self,
        key: &Key,
        asked: Option<&Asked>,
        message: &Message<'_>,
    ) -> Option<Signed> {
        // It is compared with the clocks of others.
        sign(key, &self.options, asked, message, calendar())
    }
}

/// A key, and how it signs: for requests that are not a client's.
#[derive(Clone, Debug)]
pub(crate) struct SignedBy {
    pub(crate) signer: Arc<Signer>,
    pub(crate) key: Arc<Key>,
}

impl SignedBy {
    /// A signature of a request to `origin`, if it is to have one: as is `wished` in answer to it, or else as was asked before.
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

    /// Keeps what `origin` asks for, for the requests that follow.
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
