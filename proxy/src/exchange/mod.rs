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
use self::outcome::{Outcome, client_closed};
use self::refuse::By;
use self::send::Sending;
use crate::decide::identify::Identity;
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
        let InTurn {
            settings,
            proof,
            known,
            next,
        } = self.decide_in_turn(connection, received, client).await;
        let by = By::of(&settings.options, begun.id);
        match next {
            Next::Send(..) if received.max_forwards() == Some(0) => {
                self.record(begun, known, Outcome::Refuse(last_hop::refusal()));
                last_hop::answer(received, client, &settings.options.name).await
            }
            Next::Send(permit, turn) => {
                let crawler = known.identity.as_ref().and_then(Identity::crawler);
                let sending = Sending {
                    settings: &settings,
                    id: begun.id,
                    connection,
                    proof: proof.as_ref(),
                    received,
                    crawler,
                };
                let said = known.facts.preferences.as_ref();
                let ended = self.send(sending, client, said, (permit, turn)).await;
                let (known, after) = (known.and(ended.sent, ended.said), ended.after);
                let is_withheld = matches!(ended.outcome, Outcome::Withhold(_));
                let outcome = self.record(begun, known, ended.outcome);
                match outcome.refusal().filter(|_| is_withheld) {
                    Some(refusal) => refuse::answer(by, received, client, refusal).await,
                    None => after,
                }
            }
            // Recorded first: who has the answer in hand may ask about it.
            Next::Refuse(refusal) => {
                match self
                    .record(begun, known, Outcome::Refuse(refusal))
                    .refusal()
                {
                    Some(refusal) => refuse::answer(by, received, client, refusal).await,
                    None => AfterExchange::CutOff,
                }
            }
            Next::Left => {
                self.record(begun, known, Outcome::Fail(client_closed()));
                AfterExchange::CutOff
            }
        }
    }
}
