//! Signs a request on its way to its origin: always, or when the origin asks (RFC 9421 section 5).

use wayleave_robots_txt::Origin;
use wayleave_signing::{AgentKey, MessageSigner, SignatureFields, SignatureRequest, SigningMode};
use wayleave_telemetry::metrics::Metrics;
use wayleave_upstream::UpstreamHead;

use super::headers::UpstreamRequest;

/// The key that signs for a crawler, and the services that it needs.
pub(super) struct SigningIdentity<'a> {
    pub(super) signer: &'a MessageSigner,
    pub(super) key: AgentKey,
    pub(super) metrics: &'a Metrics,
}

/// The signatures of one request: a fresh one each time it is sent, if its origin is to have one.
pub(super) struct RequestSigner<'a> {
    identity: SigningIdentity<'a>,
    origin: &'a Origin,
    may_repeat: bool,
    /// The components that the origin's first response requested.
    requested: Option<SignatureRequest>,
}

impl<'a> RequestSigner<'a> {
    /// Creates the signer. `may_repeat`: the request may be sent once more if its origin asks for a signature; `requested`: it has
    /// asked for this one.
    pub(super) fn new(
        identity: SigningIdentity<'a>,
        origin: &'a Origin,
        may_repeat: bool,
        requested: Option<SignatureRequest>,
    ) -> Self {
        Self { identity, origin, may_repeat, requested }
    }

    /// Returns the signature that the origin's first response requested.
    pub(super) fn requested(&self) -> Option<&SignatureRequest> {
        self.requested.as_ref()
    }

    /// Returns the URL of the agent in whose name it signs.
    pub(super) fn agent_url(&self) -> String {
        self.identity.key.agent.url().to_owned()
    }

    /// Removes signatures that the client made in another's name.
    pub(super) fn without_foreign_signatures<'r>(
        &self,
        request: UpstreamRequest<'r>,
    ) -> UpstreamRequest<'r> {
        let (request, removed) = request.without_foreign_signatures(&self.identity.key.agent);
        self.identity.metrics.signatures("foreign", removed);
        request
    }

    /// Signs the request for this attempt: with the components that the response to it requested, or else with those requested
    /// earlier. Returns `None` if it is not signed.
    pub(super) fn sign(&self, request: &UpstreamRequest<'_>) -> Option<SignatureFields> {
        let SigningIdentity { signer, key, metrics } = &self.identity;
        if !signer.may_sign_for(self.origin) {
            return None;
        }
        // An origin that once requested a signature gets it at once the next time.
        let remembered = match self.requested {
            Some(_) => None,
            None => signer.remembered_request(key, self.origin),
        };
        let requested = self.requested.as_ref().or(remembered.as_ref());
        let always = signer.settings.mode == SigningMode::Always;
        if requested.is_none() && !always {
            return None;
        }
        let sign = |requested| request.signed(signer, key, requested);
        // A component that the origin requested of an earlier request may be missing in this one.
        let signature = sign(requested).or_else(|| always.then(|| sign(None)).flatten());
        let result = if signature.is_some() { "signed" } else { "unanswerable" };
        metrics.signatures(result, 1);
        signature
    }

    /// Remembers the signature that the response requests, and returns whether the request is to be sent again with it.
    /// `was_signed`: the request had a signature.
    pub(super) fn accept_request(
        &mut self,
        head: &UpstreamHead,
        request: &UpstreamRequest<'_>,
        was_signed: bool,
    ) -> bool {
        let SigningIdentity { signer, key, metrics } = &self.identity;
        // Once only: an origin that requests another signature each time would be sent the request forever.
        let is_refused = matches!(head.status(), 401 | 403 | 429);
        if !is_refused || self.requested.is_some() || !signer.may_sign_for(self.origin) {
            return false;
        }
        let Some(requested) = SignatureRequest::from_fields(&head.fields()) else {
            return false;
        };
        if was_signed && !signer.should_sign_again(key, self.origin, &requested) {
            return false;
        }
        if request.signed(signer, key, Some(&requested)).is_none() {
            metrics.signatures("unanswerable", 1);
            return false;
        }
        signer.remember(key, self.origin, &requested);
        // After a 429 the next request, whoever sends it, has to wait.
        if !self.may_repeat || head.status() == 429 {
            return false;
        }
        metrics.signatures("asked", 1);
        self.requested = Some(requested);
        true
    }
}
