//! Sends a request upstream, relays the response to the client and returns the outcome.

use std::pin::pin;
use std::sync::atomic::AtomicU64;

use tokio::sync::Notify;
use wayleave_robots_txt::Scheme;

use super::error_response::AnswerOrigin;
use super::forward::{
    self, ForwardedResponse, OutgoingExchange, PermittedRequest, SWITCHING_PROTOCOLS,
};
use super::outcome::{
    ExchangeEnd, ExchangeOutcome, ReplyKind, SentMessage, client_closed, permitted_outcome,
    shut_down,
};
use super::relay::RelayError;
use super::response_policy::{self, ResponseLabeller};
use super::revoke::LongLivedRequest;
use super::sign::SigningIdentity;
use super::{ConnectionReuse, ExchangeServices};
use crate::decide::documents::DocumentSource;
use crate::decide::permit::Permit;
use crate::decide::preference::PreferenceDecision;
use crate::decide::refusal::{self, Refusal};
use crate::decide::request::RequestView;
use crate::decide::settings::Settings;
use crate::http::client::{Downstream, ResponseField};

/// The reason of a relayed response that asks for payment; its status shows that already.
const PAYMENT: &str = "payment";

impl ExchangeServices {
    /// Sends a permitted request. Returns `None` if it was not sent because other settings are in effect by now.
    pub(super) async fn send(
        &self,
        sending: PermittedRequest<'_>,
        client: &mut Downstream,
    ) -> Option<ExchangeEnd> {
        let (upgraded, handed_on) = (Notify::new(), AtomicU64::new(0));
        let label = self.label(sending);
        let onward = OutgoingExchange {
            permitted: sending,
            signing: self.signing(sending),
            label: label.as_ref(),
            own_fields: &ours(sending),
            upgraded: &upgraded,
            relayed_bytes: &handed_on,
        };
        let revoked = async {
            upgraded.notified().await;
            // Few come here: in a box it takes no room in every exchange.
            Box::pin(self.upgrade_revoked(sending)).await;
        };
        let forwarded = {
            // Where it stays: `select!` would move it, which is to copy kilobytes.
            let forwarding = pin!(forward::forward(onward, client));
            tokio::select! {
                biased;
                forwarded = forwarding => Some(forwarded),
                () = revoked => None,
                () = self.shutdown.cancelled() => Some(Err(RelayError::ShutDown)),
            }
        };
        let permit = &sending.cleared.permit;
        let (outcome, reply, sent) = match forwarded {
            Some(Ok(ForwardedResponse { status, sent })) => {
                let reply = ReplyKind::Given(ConnectionReuse::Whole);
                (permitted_outcome(permit, status), reply, sent)
            }
            Some(Err(RelayError::SettingsChanged)) => return None,
            Some(Err(broke)) => broken(broke, sending),
            None => {
                let reply = ReplyKind::Given(ConnectionReuse::CutOff);
                (
                    permitted_outcome(permit, SWITCHING_PROTOCOLS),
                    reply,
                    SentMessage::default(),
                )
            }
        };
        let has_body = outcome.status() != SWITCHING_PROTOCOLS;
        let body_bytes = has_body.then(|| handed_on.into_inner());
        let said = label.and_then(ResponseLabeller::into_preferences);
        Some(ExchangeEnd {
            outcome: outcome_of_response(outcome, said.as_ref(), permit),
            reply,
            sent: SentMessage { body_bytes, ..sent },
            preferences: said,
        })
    }

    /// Creates the labeller of the response, if the request has usage preferences.
    fn label<'a>(&'a self, sending: PermittedRequest<'a>) -> Option<ResponseLabeller<'a>> {
        let said = sending.known.facts.preferences.as_ref()?;
        // Where licences come from that the answer names.
        let documents = DocumentSource {
            robots: &self.decider.robots,
            settings: sending.settings,
            client: sending.connection.client,
            origin: sending.origin(),
        };
        let method = sending.received.method();
        Some(ResponseLabeller::new(
            said,
            documents,
            &sending.cleared.permit,
            method,
        ))
    }

    /// Returns the identity that signs for the crawler, if it has a key and the protocol has fields to sign, unlike FTP.
    fn signing<'a>(&'a self, sending: PermittedRequest<'a>) -> Option<SigningIdentity<'a>> {
        let key = sending.crawler()?.signing_key.as_deref()?;
        let signer = &sending.settings.signer;
        let signs = signer.is_enabled() && sending.origin().scheme() != Scheme::Ftp;
        signs.then_some(SigningIdentity {
            signer,
            key,
            metrics: &self.metrics,
        })
    }

    /// Waits until an upgraded connection would no longer be allowed as it is.
    async fn upgrade_revoked(&self, sending: PermittedRequest<'_>) {
        let (settings, received) = (sending.settings, sending.received);
        let connection = &sending.connection.with_proof(sending.proof.cloned());
        let lasting = LongLivedRequest {
            connection,
            request: &RequestView::from_received(received, &settings.options.name),
            resolved: sending.resolved(),
        };
        let keeps = |now: &Settings| now.permits_connection(connection);
        self.until_revoked(lasting, settings.configuration, keeps)
            .await;
    }
}

/// Returns the proxy's own fields, which replace any of the same name in the response.
fn ours(sending: PermittedRequest<'_>) -> Vec<ResponseField<'static>> {
    let by = AnswerOrigin::new(&sending.settings.options, sending.id).field();
    let permit = &sending.cleared.permit;
    // Of a crawler with purposes whose site was not asked about them.
    let is_settled = !permit.purposes.is_empty() && sending.known.facts.preferences.is_none();
    let settled =
        is_settled.then(|| response_policy::label_without_statements(permit, sending.received));
    by.into_iter().chain(settled.flatten()).collect()
}

/// Adjusts the outcome to the response, which may ask for payment, or be withheld where refusals are not only observed.
fn outcome_of_response(
    outcome: ExchangeOutcome,
    said: Option<&PreferenceDecision>,
    permit: &Permit,
) -> ExchangeOutcome {
    let Some(said) = said else {
        return outcome;
    };
    match outcome {
        ExchangeOutcome::Forward { status, .. } if said.asks_for_payment() => {
            ExchangeOutcome::Forward {
                status,
                reason: PAYMENT,
            }
        }
        ExchangeOutcome::Forward { status, .. }
            if response_policy::is_judged(status) && said.is_only_observed() =>
        {
            match said.refusal(&permit.resolved) {
                Some(refusal) => ExchangeOutcome::Observe { status, refusal },
                None => outcome,
            }
        }
        outcome => outcome,
    }
}

/// Returns the outcome of an exchange that broke, and the answer for its client if it has none yet.
fn broken(
    broke: RelayError,
    sending: PermittedRequest<'_>,
) -> (ExchangeOutcome, ReplyKind, SentMessage) {
    let (outcome, answered) = match broke {
        RelayError::Upstream { fault, answered } => (ExchangeOutcome::Fail(fault.into()), answered),
        RelayError::Body { details, answered } => {
            (ExchangeOutcome::Fail(Refusal::malformed(details)), answered)
        }
        RelayError::BodyTimeout { answered } => {
            (ExchangeOutcome::Fail(refusal::body_timeout()), answered)
        }
        RelayError::TooSoon(too_soon) => {
            let refusal = refusal::too_soon(&too_soon, None, sending.origin());
            (ExchangeOutcome::Refuse(refusal), false)
        }
        RelayError::Refused(refusal) => (ExchangeOutcome::Withhold(*refusal), false),
        RelayError::ShutDown => (ExchangeOutcome::Fail(shut_down()), true),
        RelayError::ClientGone | RelayError::Withheld | RelayError::SettingsChanged => {
            (ExchangeOutcome::Fail(client_closed()), true)
        }
    };
    let reply = if answered {
        ReplyKind::Given(ConnectionReuse::CutOff)
    } else {
        ReplyKind::Refusal
    };
    (outcome, reply, SentMessage::default())
}
