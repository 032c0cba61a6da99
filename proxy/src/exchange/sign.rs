//! Signs a request on its way to its origin: always, or when the origin asks (RFC 9421 section 5).

use std::sync::OnceLock;

use wayleave_robots_txt::Origin;

use super::headers::UpstreamRequest;
use crate::signing::{MessageSigner, SignatureFields, SignatureRequest, SigningKey, SigningMode};
use crate::telemetry::metrics::Metrics;
use crate::upstream::UpstreamHead;

/// The key that signs for a crawler.
#[derive(Clone, Copy)]
pub(super) struct SigningIdentity<'a> {
    pub(super) signer: &'a MessageSigner,
    pub(super) key: &'a SigningKey,
    pub(super) metrics: &'a Metrics,
}

/// The signatures of one request: a fresh one each time it is sent, if its origin is to have one.
pub(super) struct RequestSigner<'a> {
    by: SigningIdentity<'a>,
    origin: &'a Origin,
    may_repeat: bool,
    /// The components that the origin's first response asked for.
    asked: OnceLock<SignatureRequest>,
}

impl<'a> RequestSigner<'a> {
    /// Creates the signer. `may_repeat`: the request may be sent once more if its origin asks for a signature.
    pub(super) fn new(by: SigningIdentity<'a>, origin: &'a Origin, may_repeat: bool) -> Self {
        Self { by, origin, may_repeat, asked: OnceLock::new() }
    }

    /// Removes signatures that the client made in another's name.
    pub(super) fn cleared<'r>(&self, request: UpstreamRequest<'r>) -> UpstreamRequest<'r> {
        let Some(agent) = &self.by.signer.settings.agent else {
            return request;
        };
        let (request, removed) = request.without_foreign_signatures(agent);
        self.by.metrics.signatures("foreign", removed);
        request
    }

    /// Signs the request for this attempt: with the components that the response to it asked for, or else with those asked for
    /// earlier. Returns `None` if it is not signed.
    pub(super) fn sign(&self, request: &UpstreamRequest<'_>) -> Option<SignatureFields> {
        let by = self.by;
        // An origin that once asked for a signature gets it at once the next time.
        let before = match self.asked.get() {
            Some(_) => None,
            None => by.signer.remembered_request(by.key, self.origin),
        };
        let asked = self.asked.get().or(before.as_ref());
        let always = by.signer.settings.mode == SigningMode::Always;
        if asked.is_none() && !always {
            return None;
        }
        let signed = |asked| request.signed(by.signer, by.key, asked);
        // What was asked for of an earlier request may not be there to be signed in this one.
        let signed = signed(asked).or_else(|| always.then(|| signed(None)).flatten());
        let result = match signed {
            Some(_) => "signed",
            None => "unanswerable",
        };
        by.metrics.signatures(result, 1);
        signed
    }

    /// Returns whether the response asks for a signature with which the request is to be sent again. `was_signed`: the request
    /// had one.
    pub(super) fn are_asked_for(
        &self,
        head: &UpstreamHead,
        request: &UpstreamRequest<'_>,
        was_signed: bool,
    ) -> bool {
        let may_ask = matches!(head.status(), 401 | 403 | 429) && self.asked.get().is_none();
        if !may_ask {
            return false;
        }
        let by = self.by;
        let Some(asked) = SignatureRequest::from_fields(&head.fields()) else {
            return false;
        };
        // The same signature again would get the same response, unless the origin wants its nonce in it.
        if was_signed && !asked.has_nonce() {
            return false;
        }
        if request.signed(by.signer, by.key, Some(&asked)).is_none() {
            by.metrics.signatures("unanswerable", 1);
            return false;
        }
        by.signer.remember(by.key, self.origin, &asked);
        if !self.may_repeat {
            return false;
        }
        by.metrics.signatures("asked", 1);
        self.asked.set(asked).is_ok()
    }
}
