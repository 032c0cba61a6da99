//! Sends a request on and what comes back to its client, and tells what became of it.

use tokio::sync::Notify;

use super::forward::{self, Forwarded, Onward, Sent};
use super::outcome::{Outcome, client_closed, passed};
use super::relay::RelayError;
use super::revoke::Lasting;
use super::sign::Signing;
use super::{AfterExchange, Exchanges, note_answer, refuse};
use crate::decide::permit::Permit;
use crate::decide::refusal::{self, Refusal};
use crate::decide::request::{Connection, Request};
use crate::decide::resolve::Resolved;
use crate::decide::settings::Settings;
use crate::http::client::Client;
use crate::http::received::Received;
use crate::identity::Proof;
use crate::observe::decisions::DecisionId;
use crate::origin::OriginHead;
use crate::politeness::Turn;
use crate::signing::Key;

/// The status by which an exchange becomes a connection of another protocol.
const SWITCHING_PROTOCOLS: u16 = 101;

/// A request on its way to its origin.
#[derive(Clone, Copy)]
pub(super) struct Sending<'a> {
    pub(super) settings: &'a Settings,
    pub(super) id: DecisionId,
    pub(super) connection: &'a Connection,
    pub(super) proof: Option<&'a Proof>,
    pub(super) received: &'a Received,
    /// The crawler's, if it has one.
    pub(super) key: Option<&'a Key>,
}

impl Exchanges {
    /// Sends a request that may go on; `turn` is held until its response is complete.
    pub(super) async fn send(
        &self,
        sending: Sending<'_>,
        client: &mut Client,
        permit: Permit,
        turn: Option<Turn<'_>>,
    ) -> (Outcome, Sent, AfterExchange) {
        let origin = permit.resolved.target.origin();
        let upgraded = Notify::new();
        let heard = |head: &OriginHead| {
            if let Some(turn) = &turn {
                note_answer::note_answer(turn, origin, head);
            }
            if head.status() == SWITCHING_PROTOCOLS {
                upgraded.notify_one();
            }
        };
        let signing = sending.key.map(|key| Signing {
            signer: &sending.settings.signer,
            key,
            metrics: &self.metrics,
        });
        let onward = Onward {
            upstream: &sending.settings.upstream,
            name: &sending.settings.options.name,
            received: sending.received,
            resolved: &permit.resolved,
            signing,
        };
        let relaying = forward::forward(onward, client, &heard);
        let revoked = async {
            upgraded.notified().await;
            self.upgrade_revoked(sending, &permit.resolved).await;
        };
        let forwarded = tokio::select! {
            biased;
            forwarded = relaying => forwarded,
            () = revoked => {
                let outcome = passed(&permit, SWITCHING_PROTOCOLS);
                return (outcome, Sent::default(), AfterExchange::CutOff);
            }
        };
        match forwarded {
            Ok(Forwarded { status, sent }) => (passed(&permit, status), sent, AfterExchange::Whole),
            Err(broke) => {
                let (refusal, after) = answer(sending, client, broke).await;
                (Outcome::Fail(refusal), Sent::default(), after)
            }
        }
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

/// Tells the client what broke, unless it had an answer by then.
async fn answer(
    sending: Sending<'_>,
    client: &mut Client,
    broke: RelayError,
) -> (Refusal, AfterExchange) {
    let (refusal, answered) = match broke {
        RelayError::Origin { fault, answered } => (Refusal::from(fault), answered),
        RelayError::Body { details, answered } => (Refusal::malformed(details), answered),
        RelayError::Late { answered } => (refusal::body_too_slow(), answered),
        RelayError::ClientGone | RelayError::Withheld => (client_closed(), true),
    };
    let after = if answered {
        AfterExchange::CutOff
    } else {
        let name = &sending.settings.options.name;
        refuse::answer(name, sending.id, sending.received, client, &refusal).await
    };
    (refusal, after)
}
