//! One request, from its head to the record of what became of it: the steps, in their order.
//!
//! ```text
//!  decide_in_turn                     may it be sent, and when
//!     │
//!  send ── forward ── relay           to the origin and back
//!     │      ├── sign, fields, websocket, splice
//!     │      └── label, page         what the answer says about its use
//!     └── revoke                      what a reload means for upgraded connections
//!  record
//!     │
//!  refuse, last_hop                   or answered here
//!
//!  connect                             the same for a tunnel
//!  turn_away                           a client without a request that can be read
//!  redirect                            the same for where a robots.txt leads
//!  exchanges, outcome                  what all steps are done with, and what became of it
//! ```

pub(crate) mod connect;
mod decide_in_turn;
mod exchanges;
mod fields;
mod forward;
mod label;
mod last_hop;
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

use std::pin::pin;

pub(crate) use self::exchanges::{Ending, Exchanges};
pub(crate) use self::outcome::AfterExchange;

use self::decide_in_turn::{InTurn, Next};
use self::forward::Sending;
use self::outcome::{Ended, Outcome, Reply, cut_off};
use self::refuse::By;
use crate::decide::request::{Connection, Request};
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
        let _under_way = self.ending.begin();
        let begun = self.begin(connection, Some(received));
        let cut = || {
            let settings = self.decider.settings();
            let request = Request::of(received, &settings.options.name);
            let known = connect::asked(&settings, connection, Some(&request));
            self.record(begun, known, Outcome::Fail(cut_off()));
            AfterExchange::CutOff
        };
        let decided = {
            // Where it stays: it would be copied.
            let deciding = pin!(self.decide_in_turn(connection, received, client));
            self.ending.unless_cut(deciding).await
        };
        let Some(mut in_turn) = decided else {
            return cut();
        };
        let ended = loop {
            let cleared = match in_turn.next {
                Next::Send(_) if received.max_forwards() == Some(0) => {
                    break Ended::here(Outcome::Refuse(last_hop::refusal()), Reply::LastHop);
                }
                Next::Send(cleared) => cleared,
                Next::Refuse(refusal) => {
                    break Ended::here(refusal.into(), Reply::Refusal);
                }
                Next::Left => break Ended::left(),
            };
            let sending = Sending {
                decider: &self.decider,
                settings: &in_turn.settings,
                id: begun.id,
                connection,
                proof: in_turn.proof.as_ref(),
                received,
                known: &in_turn.known,
                cleared: &cleared,
            };
            if let Some(ended) = self.send(sending, client).await {
                break ended;
            }
            let next = Next::Send(cleared);
            let before = InTurn { next, ..in_turn };
            let again = self.decide_outdated(before, connection, received, client);
            let Some(again) = self.ending.unless_cut(Box::pin(again).as_mut()).await else {
                return cut();
            };
            in_turn = again;
        };
        // Recorded first: who has the answer in hand may ask about it.
        let known = in_turn.known.and(ended.sent, ended.said);
        let outcome = self.record(begun, known, ended.outcome);
        let by = By::of(&in_turn.settings.options, begun.id);
        tell(ended.reply, &outcome, by, received, client).await
    }
}

/// Tells the client what it still has to be told; returns what may follow.
async fn tell(
    reply: Reply,
    outcome: &Outcome,
    by: By<'_>,
    received: &Received,
    client: &mut Client,
) -> AfterExchange {
    match (reply, outcome.refusal()) {
        (Reply::Given(after), _) => after,
        (Reply::LastHop, _) => last_hop::answer(received, client, by.name).await,
        (Reply::Refusal, Some(refusal)) => refuse::answer(by, received, client, refusal).await,
        (Reply::Refusal, None) => AfterExchange::CutOff,
    }
}
