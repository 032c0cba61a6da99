//! Sends a permitted request upstream, relays its response, and determines the outcome.

use std::pin::pin;

use wayleave_admission::outcome::{
    ConnectionReuse, ExchangeOutcome, ReplyKind, RequestRepeat, client_closed, permitted_outcome,
    shut_down,
};
use wayleave_admission::{Admission, GatedRequest, refusal};
use wayleave_decision::{Permit, Refusal};
use wayleave_http_wire::http1::SWITCHING_PROTOCOLS;
use wayleave_pacing::PacingSlot;
use wayleave_record::RequestSignature;
use wayleave_robots_txt::{Origin, UrlScheme};
use wayleave_signing::SignatureRequest;
use wayleave_transport::http::downstream::{ClientGone, Downstream};

use super::attempt::{ForwardedResponse, UpgradedConnection, UpstreamAttempt, may_repeat};
use super::relay::RelayError;
use super::sign::{RequestSigner, SigningIdentity};
use super::splice;

/// The end of an attempt to forward a request.
pub(super) enum ForwardEnd {
    /// The exchange's outcome, and the answer still owed to the client.
    Ended(ExchangeOutcome, ReplyKind),
    /// The request was not sent, because other settings are in effect by now.
    SettingsChanged,
    /// The request must be sent again, in another slot.
    Repeat(RequestRepeat),
}

/// Sends a permitted request and relays its response; or reports that the request must be decided again or resent.
pub(super) async fn forward(
    request: &mut GatedRequest<'_, '_>,
    permit: &Permit,
    slot: Option<&PacingSlot<'_>>,
    client: &mut Downstream,
) -> ForwardEnd {
    let mut attempt = UpstreamAttempt {
        admission: Admission::new(request, permit, slot),
        signer: signer(request, permit),
        is_signed: false,
    };
    let forwarded = {
        // Pinned here because `select!` would move it, which copies kilobytes.
        let forwarding = pin!(attempt.run(client));
        tokio::select! {
            biased;
            forwarded = forwarding => forwarded,
            () = request.gate.shutdown.cancelled() => Err(RelayError::ShutDown),
        }
    };
    let is_signed = attempt.is_signed;
    // A signer leaves some requests unsigned: in mode "on-request", or over plain HTTP.
    let agent = attempt.signer.as_ref().filter(|_| is_signed).map(RequestSigner::agent_url);
    let mut findings = attempt.admission.finish();
    let (outcome, reply) = match forwarded {
        Ok(ForwardedResponse { response, upgraded }) => {
            request.record.oddities = response.oddities;
            request.record.signature = is_signed.then_some(RequestSignature::Signed);
            let ended = match upgraded {
                None => Ok(ConnectionReuse::Whole),
                // Boxed, like everything rare in this module, to keep the common future small.
                Some(upgraded) => {
                    Box::pin(splice_until_revoked(request, permit, *upgraded, client)).await
                }
            };
            match ended {
                Ok(reuse) => (permitted_outcome(permit, response.status), ReplyKind::Given(reuse)),
                Err(error) => outcome_of_error(error, permit.resolved.target.origin()),
            }
        }
        Err(RelayError::SettingsChanged) => return ForwardEnd::SettingsChanged,
        Err(RelayError::Repeat(repeat)) => return ForwardEnd::Repeat(repeat),
        Err(error) => outcome_of_error(error, permit.resolved.target.origin()),
    };
    let outcome = findings.judge(outcome.after_head(findings.relayed_status), permit);
    // After an upgrade there is no body: the bytes were the other protocol's.
    let has_body = findings.is_request_sent && outcome.status() != SWITCHING_PROTOCOLS;
    request.record.body_bytes = has_body.then_some(findings.relayed_bytes);
    request.record.body_sha256 = findings.relayed_sha256.take();
    request.record_findings(findings, is_signed);
    // The record has a signature only if the response was complete or turned the request away. Without one, no agent.
    request.record.agent = agent.filter(|_| request.record.signature.is_some());
    ForwardEnd::Ended(outcome, reply)
}

/// Copies the bytes of an upgraded connection until it ends or is revoked.
async fn splice_until_revoked(
    request: &GatedRequest<'_, '_>,
    permit: &Permit,
    mut upgraded: UpgradedConnection,
    client: &mut Downstream,
) -> Result<ConnectionReuse, RelayError> {
    let UpgradedConnection { writer, reader, .. } = &mut upgraded;
    tokio::select! {
        biased;
        () = splice::splice(client, writer, reader, request.byte_meter()) => {
            Ok(ConnectionReuse::Whole)
        }
        () = request.until_upgrade_revoked(permit) => Ok(ConnectionReuse::CutOff),
        () = request.gate.shutdown.cancelled() => Err(RelayError::ShutDown),
    }
}

/// Returns the signer if the crawler has a key and the protocol has fields to sign, unlike FTP. The signature's agent comes
/// from the key; each key is configured with one (`proxy/config/src/signing.rs`).
fn signer<'b>(request: &'b GatedRequest<'_, '_>, permit: &'b Permit) -> Option<RequestSigner<'b>> {
    let thumbprint = request.crawler()?.signing_key.as_deref()?;
    let message_signer = &request.settings.signer;
    let origin = permit.resolved.target.origin();
    if origin.scheme() == UrlScheme::Ftp {
        return None;
    }
    let identity = SigningIdentity {
        signer: message_signer,
        key: message_signer.enabled_key(thumbprint)?,
        metrics: &request.gate.metrics,
    };
    let requested = match &request.repeat {
        Some(RequestRepeat::Signature(requested)) => Some(SignatureRequest::clone(requested)),
        _ => None,
    };
    Some(RequestSigner::new(identity, origin, may_repeat(request.received), requested))
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
        RelayError::Refused { refusal, answered: false } => {
            (ExchangeOutcome::Withhold(*refusal), false)
        }
        RelayError::Refused { refusal, answered: true } => (ExchangeOutcome::Fail(*refusal), true),
        // As if answered: a client that is gone reads no answer, and the shutdown does not wait for one to be read.
        RelayError::ShutDown => (ExchangeOutcome::Fail(shut_down()), true),
        RelayError::ClientGone(gone) => (ExchangeOutcome::Fail(client_closed(gone)), true),
        // Never reached: `UpstreamAttempt::run` handles the first, and `forward` the others.
        RelayError::SignatureRequested | RelayError::SettingsChanged | RelayError::Repeat(_) => {
            (ExchangeOutcome::Fail(client_closed(ClientGone::Left)), true)
        }
    };
    let reply =
        if answered { ReplyKind::Given(ConnectionReuse::CutOff) } else { ReplyKind::Refusal };
    (outcome, reply)
}
