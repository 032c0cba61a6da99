//! The permitted request: sent upstream, its response relayed to the client, and the outcome.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use wayleave_decision::{
    Crawler, EnforcementMode, Identity, Permit, PreferenceFinding, Reason, Refusal,
};
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

use super::attempt::{UpstreamAttempt, may_repeat};
use super::error_response::decision_field;
use super::outcome::{
    ExchangeOutcome, ForwardEnd, ReplyKind, RequestRepeat, client_closed, permitted_outcome,
    shut_down,
};
use super::relay::{RelayError, RelayedResponse};
use super::response_notes::{ResponseNotes, TurnedAway};
use super::response_policy::{self, ResponseLabeller};
use super::revoke::LongLivedRequest;
use super::sign::{RequestSigner, SigningIdentity};
use super::{ConnectionReuse, Exchange};

impl Exchange<'_, '_> {
    /// Sends a permitted request and relays the response, unless it has to be decided again.
    pub(super) async fn forward(
        &mut self,
        permit: &Permit,
        slot: Option<&PacingSlot<'_>>,
        client: &mut Downstream,
    ) -> ForwardEnd {
        let attempt = self.attempt(permit, slot);
        let upgrade_revoked = async {
            // It happens while `relaying` is polled, and this is polled right after that: nobody has to be woken.
            let is_upgraded = || attempt.is_upgraded.load(Ordering::Relaxed);
            poll_fn(|_| if is_upgraded() { Poll::Ready(()) } else { Poll::Pending }).await;
            // Boxed because it is rare, like everything in this module that is: a busy connection's future remains small.
            Box::pin(self.until_upgrade_revoked(permit)).await;
        };
        let relayed = {
            // Pinned here because `select!` would move it, which copies kilobytes.
            let relaying = pin!(attempt.run(client));
            tokio::select! {
                biased;
                relayed = relaying => Some(relayed),
                () = upgrade_revoked => None,
                () = self.services.shutdown.cancelled() => Some(Err(RelayError::ShutDown)),
            }
        };
        let mut response = None;
        let (outcome, reply) = match relayed {
            Some(Ok(relayed)) => {
                response = Some(relayed);
                (
                    permitted_outcome(permit, relayed.status),
                    ReplyKind::Given(ConnectionReuse::Whole),
                )
            }
            Some(Err(RelayError::SettingsChanged)) => return ForwardEnd::SettingsChanged,
            Some(Err(RelayError::Repeat(repeat))) => return ForwardEnd::Repeat(repeat),
            Some(Err(error)) => outcome_of_error(error, permit.resolved.target.origin()),
            None => (
                permitted_outcome(permit, SWITCHING_PROTOCOLS),
                ReplyKind::Given(ConnectionReuse::CutOff),
            ),
        };
        let outcome = outcome.after_head(attempt.relayed_status.into_inner());
        let is_signed = attempt.is_signed.into_inner();
        let turned_away = attempt.notes.into_turned_away();
        let observed = attempt.observed.into_inner();
        let preferences = attempt.labeller.and_then(ResponseLabeller::into_preferences);
        let has_demand = turned_away.as_ref().is_some_and(|it| it.payment.is_some());
        let outcome = match observed {
            Some(refusal) => outcome_with_observed(outcome, *refusal),
            None if has_demand => outcome_of_demand(outcome),
            None => outcome_of_response(outcome, preferences.as_ref(), permit),
        };
        // After an upgrade there is no body: what passed was the other protocol's.
        let has_body =
            attempt.is_request_sent.into_inner() && outcome.status() != SWITCHING_PROTOCOLS;
        self.record.body_bytes = has_body.then_some(attempt.relayed_bytes.into_inner());
        self.record_response(response, is_signed, preferences);
        self.record_turned_away(turned_away, is_signed);
        ForwardEnd::Ended(outcome, reply)
    }

    fn attempt<'a>(
        &'a self,
        permit: &'a Permit,
        slot: Option<&'a PacingSlot<'a>>,
    ) -> UpstreamAttempt<'a> {
        UpstreamAttempt {
            exchange: self,
            permit,
            slot,
            signer: self.signer(permit),
            labeller: self.labeller(permit),
            own_fields: self.own_fields(permit),
            is_upgraded: AtomicBool::new(false),
            is_request_sent: AtomicBool::new(false),
            relayed_status: OnceLock::new(),
            relayed_bytes: AtomicU64::new(0),
            observed: OnceLock::new(),
            is_signed: AtomicBool::new(false),
            notes: ResponseNotes::default(),
        }
    }

    /// Records what the response shows.
    fn record_response(
        &mut self,
        response: Option<RelayedResponse>,
        is_signed: bool,
        preferences: Option<PreferenceFinding>,
    ) {
        if let Some(response) = response {
            self.record.oddities = response.oddities;
            self.record.signature = is_signed.then_some("signed");
        }
        // Without a response, those from before the request are in the record already.
        if preferences.is_some() {
            self.record.facts.preferences = preferences;
        }
    }

    /// Records how the response turns the request away, if it does.
    fn record_turned_away(&mut self, turned_away: Option<TurnedAway>, is_signed: bool) {
        let Some(TurnedAway { kind, payment, .. }) = turned_away else {
            return;
        };
        (self.record.edge_refusal, self.record.payment) = (Some(kind), payment);
        // Whether it was signed matters, even if the rest of the response never came.
        self.record.signature = is_signed.then_some("signed");
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
    fn labeller<'b>(&'b self, permit: &'b Permit) -> Option<ResponseLabeller<'b>> {
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
    fn own_fields(&self, permit: &Permit) -> Vec<ResponseField<'static>> {
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

/// Returns the outcome of a request whose response would have been refused.
fn outcome_with_observed(outcome: ExchangeOutcome, refusal: Refusal) -> ExchangeOutcome {
    match outcome {
        ExchangeOutcome::Forward { status, .. } => ExchangeOutcome::Observe { status, refusal },
        outcome => outcome,
    }
}

/// Returns the outcome of a request whose response asks for payment, which the client gets as it is.
fn outcome_of_demand(outcome: ExchangeOutcome) -> ExchangeOutcome {
    match outcome {
        ExchangeOutcome::Forward { status, .. } => {
            ExchangeOutcome::Forward { status, reason: Reason::Payment }
        }
        outcome => outcome,
    }
}

/// Adjusts the outcome to the response, which may be refused though refusals are only observed.
fn outcome_of_response(
    outcome: ExchangeOutcome,
    preferences: Option<&PreferenceFinding>,
    permit: &Permit,
) -> ExchangeOutcome {
    let Some(preferences) = preferences else {
        return outcome;
    };
    match outcome {
        ExchangeOutcome::Forward { status, .. }
            if response_policy::is_judged(status) && preferences.is_only_observed() =>
        {
            match preferences.refusal(&permit.resolved) {
                Some(refusal) => ExchangeOutcome::Observe { status, refusal },
                None => outcome,
            }
        }
        outcome => outcome,
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
