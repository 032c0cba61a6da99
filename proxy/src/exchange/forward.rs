//! The permitted request: sent upstream, its response relayed to the client, and the outcome.

use std::pin::pin;
use std::sync::Arc;

use wayleave_decision::{Crawler, EnforcementMode, Identity, Permit, Refusal};
use wayleave_fairness::Holder;
use wayleave_gate::documents::DocumentSource;
use wayleave_gate::refusal;
use wayleave_gate::settings::Settings;
use wayleave_http_wire::http1::SWITCHING_PROTOCOLS;
use wayleave_pacing::PacingSlot;
use wayleave_robots_cache::Requester;
use wayleave_robots_txt::{Origin, UrlScheme};
use wayleave_signing::SignatureRequest;
use wayleave_transport::http::downstream::{ClientGone, Downstream, ResponseField};

use super::admission::{Admission, ResponseFindings};
use super::attempt::{ForwardedResponse, UpgradedConnection, UpstreamAttempt, may_repeat};
use super::error_response::decision_field;
use super::outcome::{
    ExchangeOutcome, ForwardEnd, ReplyKind, RequestRepeat, client_closed, permitted_outcome,
    shut_down,
};
use super::relay::RelayError;
use super::response_notes::TurnedAway;
use super::response_policy::{self, ResponseLabeller};
use super::revoke::LongLivedRequest;
use super::sign::{RequestSigner, SigningIdentity};
use super::{ConnectionReuse, Exchange, splice};

impl Exchange<'_, '_> {
    /// Sends a permitted request and relays the response, unless it has to be decided again.
    pub(super) async fn forward(
        &mut self,
        permit: &Permit,
        slot: Option<&PacingSlot<'_>>,
        client: &mut Downstream,
    ) -> ForwardEnd {
        let mut attempt = UpstreamAttempt {
            admission: Admission::new(self, permit, slot),
            signer: self.signer(permit),
            is_signed: false,
        };
        let forwarded = {
            // Pinned here because `select!` would move it, which copies kilobytes.
            let forwarding = pin!(attempt.run(client));
            tokio::select! {
                biased;
                forwarded = forwarding => forwarded,
                () = self.services.shutdown.cancelled() => Err(RelayError::ShutDown),
            }
        };
        let is_signed = attempt.is_signed;
        let findings = attempt.admission.finish();
        let mut response = None;
        let whole = ReplyKind::Given(ConnectionReuse::Whole);
        let (outcome, reply) = match forwarded {
            Ok(ForwardedResponse { response: relayed, upgraded: None }) => {
                response = Some(relayed);
                (permitted_outcome(permit, relayed.status), whole)
            }
            Ok(ForwardedResponse { response: relayed, upgraded: Some(upgraded) }) => {
                response = Some(relayed);
                // Boxed because it is rare, like everything in this module that is: a busy connection's future remains small.
                match Box::pin(self.splice(permit, *upgraded, client)).await {
                    Ok(reuse) => {
                        (permitted_outcome(permit, relayed.status), ReplyKind::Given(reuse))
                    }
                    Err(error) => outcome_of_error(error, permit.resolved.target.origin()),
                }
            }
            Err(RelayError::SettingsChanged) => return ForwardEnd::SettingsChanged,
            Err(RelayError::Repeat(repeat)) => return ForwardEnd::Repeat(repeat),
            Err(error) => outcome_of_error(error, permit.resolved.target.origin()),
        };
        let outcome = findings.judge(outcome.after_head(findings.relayed_status), permit);
        // After an upgrade there is no body: what passed was the other protocol's.
        let has_body = findings.is_request_sent && outcome.status() != SWITCHING_PROTOCOLS;
        self.record.body_bytes = has_body.then_some(findings.relayed_bytes);
        if let Some(response) = response {
            self.record.oddities = response.oddities;
            self.record.signature = is_signed.then_some("signed");
        }
        self.record_findings(findings, is_signed);
        ForwardEnd::Ended(outcome, reply)
    }

    /// Copies the bytes of an upgraded connection, until it ends or would no longer be allowed as it is.
    async fn splice(
        &self,
        permit: &Permit,
        mut upgraded: UpgradedConnection,
        client: &mut Downstream,
    ) -> Result<ConnectionReuse, RelayError> {
        let UpgradedConnection { writer, reader, .. } = &mut upgraded;
        tokio::select! {
            biased;
            () = splice::splice(client, writer, reader, self.byte_meter()) => {
                Ok(ConnectionReuse::Whole)
            }
            () = self.until_upgrade_revoked(permit) => Ok(ConnectionReuse::CutOff),
            () = self.services.shutdown.cancelled() => Err(RelayError::ShutDown),
        }
    }

    /// Records what the response shows.
    fn record_findings(&mut self, findings: ResponseFindings, is_signed: bool) {
        // Without a response, those from before the request are in the record already.
        if findings.preferences.is_some() {
            self.record.facts.preferences = findings.preferences;
        }
        if let Some(TurnedAway { kind, payment, .. }) = findings.turned_away {
            self.record.edge_refusal = Some(kind);
            self.record.payment = payment;
            // Whether it was signed matters, even if the rest of the response never came.
            self.record.signature = is_signed.then_some("signed");
        }
    }

    /// Returns the crawler if the configuration has it.
    pub(super) fn crawler(&self) -> Option<&Crawler> {
        self.record.identity.as_ref().and_then(Identity::crawler)
    }

    /// Returns whether refusals are only observed.
    pub(super) fn is_observe_mode(&self) -> bool {
        let identity = self.record.identity.as_ref();
        identity.is_some_and(|it| it.mode() == EnforcementMode::Observe)
    }

    /// Creates the labeller of the response, if the request has usage preferences.
    pub(super) fn labeller<'b>(&'b self, permit: &'b Permit) -> Option<ResponseLabeller<'b>> {
        let preferences = self.record.facts.preferences.as_ref()?;
        // Supplies the licences that the response names.
        let documents = DocumentSource {
            robots: &self.services.decider.robots,
            settings: &self.settings,
            requester: Requester {
                crawler: self.record.identity.as_ref().map_or("", Identity::label),
                client: Some(self.connection.client),
                identity: Arc::clone(&self.fetch_identity),
                via: None,
            },
        };
        let method = self.received.method();
        let holder = Holder::of_client(self.connection.client);
        Some(ResponseLabeller::new(preferences, documents, permit, method, holder))
    }

    /// Returns the signer if the crawler has a key and the protocol has fields to sign, unlike FTP.
    fn signer<'b>(&'b self, permit: &'b Permit) -> Option<RequestSigner<'b>> {
        let thumbprint = self.crawler()?.signing_key.as_deref()?;
        let signer = &self.settings.signer;
        let origin = permit.resolved.target.origin();
        if origin.scheme() == UrlScheme::Ftp {
            return None;
        }
        let identity = SigningIdentity {
            signer,
            key: signer.enabled_key(thumbprint)?,
            metrics: &self.services.metrics,
        };
        let requested = match &self.repeat {
            Some(RequestRepeat::Signature(requested)) => Some(SignatureRequest::clone(requested)),
            _ => None,
        };
        Some(RequestSigner::new(identity, origin, may_repeat(self.received), requested))
    }

    /// Returns the proxy's own fields, which replace any of the same name in the response.
    pub(super) fn own_fields(&self, permit: &Permit) -> Vec<ResponseField<'static>> {
        let decision = decision_field(self.settings.options.decision_id, self.record.id);
        // If the site's statements are evaluated, the labeller adds the field, once it knows those of the response.
        let has_statements = self.record.facts.preferences.is_some();
        let label = if permit.purposes.is_empty() || has_statements {
            None
        } else {
            response_policy::label_without_statements(permit, self.received)
        };
        decision.into_iter().chain(label).collect()
    }

    /// Waits until an upgraded connection would no longer be allowed as it is.
    async fn until_upgrade_revoked(&self, permit: &Permit) {
        let connection = &self.connection.with_proof(self.proof.clone());
        let upgraded =
            LongLivedRequest { connection, request: &self.request(), resolved: &permit.resolved };
        let permits_connection = |settings: &Settings| settings.permits_connection(connection);
        let configuration = self.settings.configuration;
        self.services.until_revoked(upgraded, configuration, permits_connection).await;
    }
}

/// Returns the outcome of an exchange that broke, and the answer for its client if it has none yet.
fn outcome_of_error(error: RelayError, origin: &Origin) -> (ExchangeOutcome, ReplyKind) {
    let (outcome, answered) = match error {
        RelayError::Upstream { fault, answered } => (ExchangeOutcome::Fail(fault.into()), answered),
        RelayError::Body { details, answered } => {
            (ExchangeOutcome::Fail(Refusal::malformed(details)), answered)
        }
        RelayError::BodyTimeout { answered } => {
            (ExchangeOutcome::Fail(refusal::body_timeout()), answered)
        }
        RelayError::TooSoon(too_soon) => {
            // Only a lost slot gets here, which says nothing about the delay in robots.txt.
            let refusal = refusal::too_soon(&too_soon, None, None, origin);
            (ExchangeOutcome::Refuse(refusal), false)
        }
        RelayError::Refused(refusal) => (ExchangeOutcome::Withhold(*refusal), false),
        // As if answered: a client that is gone reads no answer, and the shutdown does not wait for one to be read.
        RelayError::ShutDown => (ExchangeOutcome::Fail(shut_down()), true),
        RelayError::ClientGone(gone) => (ExchangeOutcome::Fail(client_closed(gone)), true),
        RelayError::SignatureRequested | RelayError::SettingsChanged | RelayError::Repeat(_) => {
            (ExchangeOutcome::Fail(client_closed(ClientGone::Left)), true)
        }
    };
    let reply =
        if answered { ReplyKind::Given(ConnectionReuse::CutOff) } else { ReplyKind::Refusal };
    (outcome, reply)
}
