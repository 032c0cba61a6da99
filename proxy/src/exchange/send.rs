//! Sends a request on and what comes back to its client, and tells what became of it.

use std::pin::pin;
use std::sync::atomic::AtomicU64;

use tokio::sync::Notify;
use wayleave_policy::Origin;

use super::forward::{self, Onward, Sent};
use super::label::{self, Label};
use super::outcome::{Outcome, client_closed, passed};
use super::refuse::By;
use super::relay::RelayError;
use super::revoke::Lasting;
use super::sign::Signing;
use super::{AfterExchange, Exchanges, await_delay, note_answer, refuse};
use crate::decide::documents::Documents;
use crate::decide::permit::Permit;
use crate::decide::preference::Said;
use crate::decide::refusal::{self, Refusal};
use crate::decide::request::{Connection, Request};
use crate::decide::resolve::Resolved;
use crate::decide::settings::Settings;
use crate::http::client::{Client, Field};
use crate::http::received::Received;
use crate::identity::{Crawler, Mode, Proof};
use crate::observe::decisions::DecisionId;
use crate::origin::OriginHead;
use crate::politeness::Turn;

/// The status by which an exchange becomes a connection of another protocol.
const SWITCHING_PROTOCOLS: u16 = 101;

/// Why an answer was handed on that asks for payment: its status says so itself.
const PAYMENT: &str = "payment";

/// A request on its way to its origin.
#[derive(Clone, Copy)]
pub(super) struct Sending<'a> {
    pub(super) settings: &'a Settings,
    pub(super) id: DecisionId,
    pub(super) connection: &'a Connection,
    pub(super) proof: Option<&'a Proof>,
    pub(super) received: &'a Received,
    /// Whose it is, if that is known.
    pub(super) crawler: Option<&'a Crawler>,
}

impl Sending<'_> {
    /// Whether refusals are only noted.
    fn is_observed(&self) -> bool {
        self.crawler.is_some_and(|it| it.mode == Mode::Observe)
    }
}

/// The fields of ours that an answer gets, whatever it says itself. `said`: what it is labelled by besides.
fn ours(sending: Sending<'_>, said: Option<&Said>, permit: &Permit) -> Vec<Field<'static>> {
    let by = By::of(&sending.settings.options, sending.id).field();
    let settled = said
        .is_none()
        .then(|| label::settled(permit, sending.received));
    by.into_iter().chain(settled.flatten()).collect()
}

/// What became of a request that was sent.
pub(super) struct Ended {
    pub(super) outcome: Outcome,
    pub(super) sent: Sent,
    /// What was said about use, the answer included, if that was asked.
    pub(super) said: Option<Said>,
    pub(super) after: AfterExchange,
}

impl Exchanges {
    /// Sends a request that may go on; its turn is held until its response is complete. `said`: about its use, so far. `None`: it was
    /// not sent, because other settings hold by now.
    pub(super) async fn send(
        &self,
        sending: Sending<'_>,
        client: &mut Client,
        said: Option<&Said>,
        (permit, turn): (&Permit, Option<&Turn<'_>>),
    ) -> Option<Ended> {
        let upgraded = Notify::new();
        let origin = permit.resolved.target.origin();
        let documents = self.documents(sending, origin);
        let label = said.map(|it| Label::new(it, documents, permit, sending.received.method()));
        let ours = ours(sending, said, permit);
        let heard = |head: &OriginHead| {
            if let Some(turn) = turn {
                note_answer::note_answer(turn, origin, head);
            }
            if head.status() == SWITCHING_PROTOCOLS {
                upgraded.notify_one();
            }
            ours.clone()
        };
        let handed_on = AtomicU64::new(0);
        let is_outdated = || !self.decider.goes_by(sending.settings);
        let onward = Onward {
            upstream: &sending.settings.upstream,
            name: &sending.settings.options.name,
            received: sending.received,
            resolved: &permit.resolved,
            source: sending.crawler.and_then(|it| it.source_address),
            signing: self.signing(sending),
            label: label.as_ref(),
            is_outdated: &is_outdated,
            turn: turn.filter(|_| !sending.is_observed()),
            handed_on: &handed_on,
        };
        let revoked = async {
            upgraded.notified().await;
            // Few come here: in a box it takes no room in every exchange.
            Box::pin(self.upgrade_revoked(sending, &permit.resolved)).await;
        };
        let forwarded = {
            // Where it stays: `select!` would move it, which is to copy kilobytes.
            let forwarding = pin!(forward::forward(onward, client, &heard));
            tokio::select! {
                biased;
                forwarded = forwarding => Some(forwarded),
                () = revoked => None,
            }
        };
        let mut sent = Sent::default();
        let (outcome, after) = match forwarded {
            Some(Ok(forwarded)) => {
                sent = forwarded.sent;
                (passed(permit, forwarded.status), AfterExchange::Whole)
            }
            Some(Err(broke)) => answer(sending, client, permit, broke).await?,
            None => (passed(permit, SWITCHING_PROTOCOLS), AfterExchange::CutOff),
        };
        let has_body = outcome.status() != SWITCHING_PROTOCOLS;
        sent.body_bytes = has_body.then(|| handed_on.into_inner());
        let said = label.and_then(Label::into_judged);
        Some(Ended {
            outcome: judged_outcome(outcome, said.as_ref(), permit),
            sent,
            said,
            after,
        })
    }

    /// Where licences come from that the answer names.
    fn documents<'a>(&'a self, sending: Sending<'a>, origin: &'a Origin) -> Documents<'a> {
        Documents {
            robots: &self.decider.robots,
            settings: sending.settings,
            client: sending.connection.client,
            origin,
        }
    }

    /// Who signs for the crawler, if it has a key.
    fn signing<'a>(&'a self, sending: Sending<'a>) -> Option<Signing<'a>> {
        let key = sending.crawler?.signing_key.as_deref()?;
        Some(Signing {
            signer: &sending.settings.signer,
            key,
            metrics: &self.metrics,
        })
    }

    /// Waits until a connection that outlasts its exchange would no longer be opened as it is.
    async fn upgrade_revoked(&self, sending: Sending<'_>, resolved: &Resolved) {
        let Sending {
            settings,
            connection,
            proof,
            received,
            ..
        } = sending;
        let connection = &connection.proven_by(proof.cloned());
        let request = Request::of(received, &settings.options.name);
        let lasting = Lasting {
            connection,
            request: &request,
            resolved,
        };
        let keeps = |now: &Settings| now.keeps(connection);
        self.revoked(lasting, settings.configuration, keeps).await;
    }
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

/// Tells the client what broke, unless it had an answer by then. `None`: nothing did, but it was not sent.
async fn answer(
    sending: Sending<'_>,
    client: &mut Client,
    permit: &Permit,
    broke: RelayError,
) -> Option<(Outcome, AfterExchange)> {
    let (outcome, answered) = match broke {
        RelayError::Origin { fault, answered } => (Outcome::Fail(fault.into()), answered),
        RelayError::Body { details, answered } => {
            (Outcome::Fail(Refusal::malformed(details)), answered)
        }
        RelayError::Late { answered } => (Outcome::Fail(refusal::body_too_slow()), answered),
        RelayError::TooSoon(too_soon) => {
            let origin = permit.resolved.target.origin();
            let refusal = await_delay::refusal(&too_soon, None, origin);
            (Outcome::Refuse(refusal), false)
        }
        // Its client is answered once that is recorded.
        RelayError::Refused(refusal) => (Outcome::Withhold(*refusal), true),
        RelayError::Outdated => return None,
        RelayError::ClientGone | RelayError::Withheld => (Outcome::Fail(client_closed()), true),
    };
    let by = By::of(&sending.settings.options, sending.id);
    let after = match outcome.refusal().filter(|_| !answered) {
        Some(refusal) => refuse::answer(by, sending.received, client, refusal).await,
        None => AfterExchange::CutOff,
    };
    Some((outcome, after))
}
