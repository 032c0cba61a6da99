//! One request, from its head to the record of what became of it: the steps, in their order.
//!
//! ```text
//!  decide_in_turn ── await_delay      may it be sent, and when
//!     │
//!  send ── forward ── relay           to the origin and back
//!     │      ├── sign, fields, websocket, splice
//!     │      └── label, page         what the answer says about its use
//!     ├── note_answer, revoke          what the origin's answer means for the next requests, and a reload for upgraded connections
//!     ├── refuse, last_hop             or answered here
//!  record
//!
//!  connect                             the same for a tunnel
//!  turn_away                           a client without a request that can be read
//!  redirect                            the same for where a robots.txt leads
//!  exchanges, outcome                  what all steps are done with, and what became of it
//! ```

mod await_delay;
pub(crate) mod connect;
mod decide_in_turn;
mod exchanges;
mod fields;
mod forward;
mod label;
mod last_hop;
mod note_answer;
pub(crate) mod outcome;
mod page;
pub(crate) mod record;
mod redirect;
pub(crate) mod refuse;
mod relay;
mod revoke;
mod send;
mod sign;
mod splice;
mod turn_away;
mod websocket;

pub(crate) use self::exchanges::Exchanges;
pub(crate) use self::outcome::AfterExchange;

use self::decide_in_turn::{InTurn, Next};
use self::outcome::{Begun, Known, Outcome, client_closed};
use self::refuse::By;
use self::send::{Ended, Sending};
use crate::decide::identify::Identity;
use crate::decide::refusal::Refusal;
use crate::decide::request::Connection;
use crate::http::client::Client;
use crate::http::received::Received;

impl Exchanges {
    /// Takes one request whose head was read.
    pub(crate) async fn exchange(
        &self,
        connection: &Connection,
        received: &Received,
        client: &mut Client,
    ) -> AfterExchange {
        let begun = self.begin(connection, Some(received));
        let mut in_turn = self.decide_in_turn(connection, received, client).await;
        loop {
            let by = By::of(&in_turn.settings.options, begun.id);
            let (permit, turn) = match in_turn.next {
                Next::Send(..) if received.max_forwards() == Some(0) => {
                    self.record(begun, in_turn.known, Outcome::Refuse(last_hop::refusal()));
                    let name = &in_turn.settings.options.name;
                    return last_hop::answer(received, client, name).await;
                }
                Next::Send(permit, turn) => (permit, turn),
                Next::Refuse(refusal) => {
                    return self
                        .refuse((begun, by), in_turn.known, refusal, client)
                        .await;
                }
                Next::Left => {
                    self.record(begun, in_turn.known, Outcome::Fail(client_closed()));
                    return AfterExchange::CutOff;
                }
            };
            let known = &in_turn.known;
            let sending = Sending {
                settings: &in_turn.settings,
                id: begun.id,
                connection,
                proof: in_turn.proof.as_ref(),
                received,
                crawler: known.identity.as_ref().and_then(Identity::crawler),
            };
            let said = known.facts.preferences.as_ref();
            let going = (&permit, turn.as_ref());
            if let Some(ended) = self.send(sending, client, said, going).await {
                drop(turn);
                return self
                    .conclude((begun, by), in_turn.known, ended, client)
                    .await;
            }
            let next = Next::Send(permit, turn);
            let before = InTurn { next, ..in_turn };
            in_turn = self
                .decide_outdated(before, connection, received, client)
                .await;
        }
    }

    /// Records what became of a request that was sent, and refuses it to its client if what came back is withheld.
    async fn conclude(
        &self,
        (begun, by): (Begun<'_>, By<'_>),
        known: Known,
        ended: Ended,
        client: &mut Client,
    ) -> AfterExchange {
        let received = begun.received;
        let known = known.and(ended.sent, ended.said);
        let is_withheld = matches!(ended.outcome, Outcome::Withhold(_));
        let outcome = self.record(begun, known, ended.outcome);
        match (received, outcome.refusal().filter(|_| is_withheld)) {
            (Some(received), Some(refusal)) => refuse::answer(by, received, client, refusal).await,
            _ => ended.after,
        }
    }

    /// Records a refusal, and then tells it: who has the answer in hand may ask about it.
    async fn refuse(
        &self,
        (begun, by): (Begun<'_>, By<'_>),
        known: Known,
        refusal: Refusal,
        client: &mut Client,
    ) -> AfterExchange {
        let received = begun.received;
        let outcome = self.record(begun, known, Outcome::Refuse(refusal));
        match (received, outcome.refusal()) {
            (Some(received), Some(refusal)) => refuse::answer(by, received, client, refusal).await,
            _ => AfterExchange::CutOff,
        }
    }
}
