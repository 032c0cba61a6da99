//! Sends a request on and what comes back to its client, and tells what became of it.

use std::pin::pin;
use std::sync::atomic::AtomicU64;

use tokio::sync::Notify;
use wayleave_robots_txt::Scheme;

use super::forward::{self, Forwarded, Onward, SWITCHING_PROTOCOLS, Sending};
use super::label::{self, Label};
use super::outcome::{Ended, Outcome, Reply, Sent, client_closed, cut_off, passed};
use super::refuse::By;
use super::relay::RelayError;
use super::revoke::Lasting;
use super::sign::Signing;
use super::{AfterExchange, Exchanges};
use crate::decide::documents::Documents;
use crate::decide::permit::Permit;
use crate::decide::preference::Said;
use crate::decide::refusal::{self, Refusal};
use crate::decide::request::Request;
use crate::decide::settings::Settings;
use crate::http::client::{Client, Field};

/// Why an answer was handed on that asks for payment: its status says so itself.
const PAYMENT: &str = "payment";

impl Exchanges {
    /// Sends a request that may go on. `None`: it was not sent, because other settings hold by now.
    pub(super) async fn send(&self, sending: Sending<'_>, client: &mut Client) -> Option<Ended> {
        let (upgraded, handed_on) = (Notify::new(), AtomicU64::new(0));
        let label = self.label(sending);
        let onward = Onward {
            sending,
            signing: self.signing(sending),
            label: label.as_ref(),
            ours: &ours(sending),
            upgraded: &upgraded,
            handed_on: &handed_on,
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
                () = self.ending.cut() => Some(Err(RelayError::Cut)),
            }
        };
        let permit = &sending.cleared.permit;
        let (outcome, reply, sent) = match forwarded {
            Some(Ok(Forwarded { status, sent })) => {
                let reply = Reply::Given(AfterExchange::Whole);
                (passed(permit, status), reply, sent)
            }
            Some(Err(RelayError::Outdated)) => return None,
            Some(Err(broke)) => broken(broke, sending),
            None => {
                let reply = Reply::Given(AfterExchange::CutOff);
                (passed(permit, SWITCHING_PROTOCOLS), reply, Sent::default())
            }
        };
        let has_body = outcome.status() != SWITCHING_PROTOCOLS;
        let body_bytes = has_body.then(|| handed_on.into_inner());
        let said = label.and_then(Label::into_judged);
        Some(Ended {
            outcome: judged_outcome(outcome, said.as_ref(), permit),
            reply,
            sent: Sent { body_bytes, ..sent },
            said,
        })
    }

    /// Judges the answer, if anything was said about its use.
    fn label<'a>(&'a self, sending: Sending<'a>) -> Option<Label<'a>> {
        let said = sending.known.facts.preferences.as_ref()?;
        // Where licences come from that the answer names.
        let documents = Documents {
            robots: &self.decider.robots,
            settings: sending.settings,
            client: sending.connection.client,
            origin: sending.origin(),
        };
        let method = sending.received.method();
        Some(Label::new(said, documents, &sending.cleared.permit, method))
    }

    /// Who signs for the crawler, if it has a key and there are fields to sign, which FTP has not.
    fn signing<'a>(&'a self, sending: Sending<'a>) -> Option<Signing<'a>> {
        let key = sending.crawler()?.signing_key.as_deref()?;
        let signer = &sending.settings.signer;
        let signs = signer.signs() && sending.origin().scheme() != Scheme::Ftp;
        signs.then_some(Signing {
            signer,
            key,
            metrics: &self.metrics,
        })
    }

    /// Waits until a connection that outlasts its exchange would no longer be opened as it is.
    async fn upgrade_revoked(&self, sending: Sending<'_>) {
        let (settings, received) = (sending.settings, sending.received);
        let connection = &sending.connection.proven_by(sending.proof.cloned());
        let lasting = Lasting {
            connection,
            request: &Request::of(received, &settings.options.name),
            resolved: sending.resolved(),
        };
        let keeps = |now: &Settings| now.keeps(connection);
        self.revoked(lasting, settings.configuration, keeps).await;
    }
}

/// The fields of ours that an answer gets, whatever it says itself.
fn ours(sending: Sending<'_>) -> Vec<Field<'static>> {
    let by = By::of(&sending.settings.options, sending.id).field();
    let permit = &sending.cleared.permit;
    // Of a crawler with purposes whose site was not asked about them.
    let is_settled = !permit.purposes.is_empty() && sending.known.facts.preferences.is_none();
    let settled = is_settled.then(|| label::settled(permit, sending.received));
    by.into_iter().chain(settled.flatten()).collect()
}

/// The outcome with what the answer says: it may ask for payment, or be one that is withheld where that is not only observed.
fn judged_outcome(outcome: Outcome, said: Option<&Said>, permit: &Permit) -> Outcome {
    let Some(said) = said else {
        return outcome;
    };
    match outcome {
        Outcome::Forward { status, .. } if said.asks_for_payment() => Outcome::Forward {
            status,
            reason: PAYMENT,
        },
        Outcome::Forward { status, .. } if label::is_judged(status) && said.is_only_observed() => {
            match said.refusal(&permit.resolved) {
                Some(refusal) => Outcome::Observe { status, refusal },
                None => outcome,
            }
        }
        outcome => outcome,
    }
}

/// The outcome of a request whose exchange broke, and what its client is told, unless it had an answer by then.
fn broken(broke: RelayError, sending: Sending<'_>) -> (Outcome, Reply, Sent) {
    let (outcome, answered) = match broke {
        RelayError::Origin { fault, answered } => (Outcome::Fail(fault.into()), answered),
        RelayError::Body { details, answered } => {
            (Outcome::Fail(Refusal::malformed(details)), answered)
        }
        RelayError::Late { answered } => (Outcome::Fail(refusal::body_too_slow()), answered),
        RelayError::TooSoon(too_soon) => {
            let refusal = refusal::too_soon(&too_soon, None, sending.origin());
            (Outcome::Refuse(refusal), false)
        }
        RelayError::Refused(refusal) => (Outcome::Withhold(*refusal), false),
        RelayError::Cut => (Outcome::Fail(cut_off()), true),
        RelayError::ClientGone | RelayError::Withheld | RelayError::Outdated => {
            (Outcome::Fail(client_closed()), true)
        }
    };
    let reply = if answered {
        Reply::Given(AfterExchange::CutOff)
    } else {
        Reply::Refusal
    };
    (outcome, reply, Sent::default())
}
