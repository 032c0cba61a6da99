//! One request, from its head to its record: the steps, in their order.
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

mod decide_in_turn;
pub(crate) mod error_response;
mod forward;
mod headers;
mod max_forwards;
pub(crate) mod outcome;
mod page;
pub(crate) mod record;
mod redirect;
mod reject_connection;
mod relay;
mod response_policy;
mod revoke;
mod send;
mod services;
mod sign;
mod splice;
pub(crate) mod tunnel;
mod websocket;

use std::pin::pin;

pub(crate) use self::outcome::ConnectionReuse;
pub(crate) use self::services::{ExchangeServices, ExchangeShutdown};

use self::decide_in_turn::{DecidedExchange, NextStep};
use self::error_response::AnswerOrigin;
use self::forward::PermittedRequest;
use self::outcome::{ExchangeEnd, ExchangeOutcome, ReplyKind, shut_down};
use crate::decide::request::{ClientConnection, RequestView};
use crate::http::client::Downstream;
use crate::http::received::ReceivedHead;

impl ExchangeServices {
    /// Handles one request whose head has been read.
    pub(crate) async fn exchange(
        &self,
        connection: &ClientConnection,
        received: &ReceivedHead,
        client: &mut Downstream,
    ) -> ConnectionReuse {
        let _under_way = self.shutdown.track();
        let begun = self.begin(connection, Some(received));
        let cut = || {
            let settings = self.decider.settings();
            let request = RequestView::from_received(received, &settings.options.name);
            let known = tunnel::undecided_record(&settings, connection, Some(&request));
            self.record(begun, known, ExchangeOutcome::Fail(shut_down()));
            ConnectionReuse::CutOff
        };
        let decided = {
            // Where it stays: it would be copied.
            let deciding = pin!(self.decide_in_turn(connection, received, client));
            self.shutdown.unless_cancelled(deciding).await
        };
        let Some(mut in_turn) = decided else {
            return cut();
        };
        let ended = loop {
            let cleared = match in_turn.next {
                NextStep::Send(_) if received.max_forwards() == Some(0) => {
                    break ExchangeEnd::answered_here(
                        ExchangeOutcome::Refuse(max_forwards::refusal()),
                        ReplyKind::LastHop,
                    );
                }
                NextStep::Send(cleared) => cleared,
                NextStep::Refuse(refusal) => {
                    break ExchangeEnd::answered_here(refusal.into(), ReplyKind::Refusal);
                }
                NextStep::Left => break ExchangeEnd::client_left(),
            };
            let sending = PermittedRequest {
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
            let next = NextStep::Send(cleared);
            let before = DecidedExchange { next, ..in_turn };
            let again = self.decide_outdated(before, connection, received, client);
            let Some(again) = self
                .shutdown
                .unless_cancelled(Box::pin(again).as_mut())
                .await
            else {
                return cut();
            };
            in_turn = again;
        };
        // Recorded first: who has the answer in hand may ask about it.
        let known = in_turn.known.with_response(ended.sent, ended.preferences);
        let outcome = self.record(begun, known, ended.outcome);
        let by = AnswerOrigin::new(&in_turn.settings.options, begun.id);
        reply(ended.reply, &outcome, by, received, client).await
    }
}

/// Sends the client the answer that it has not had yet.
async fn reply(
    reply: ReplyKind,
    outcome: &ExchangeOutcome,
    by: AnswerOrigin<'_>,
    received: &ReceivedHead,
    client: &mut Downstream,
) -> ConnectionReuse {
    match (reply, outcome.refusal()) {
        (ReplyKind::Given(after), _) => after,
        (ReplyKind::LastHop, _) => max_forwards::answer(received, client, by.name).await,
        (ReplyKind::Refusal, Some(refusal)) => {
            error_response::answer(by, received, client, refusal).await
        }
        (ReplyKind::Refusal, None) => ConnectionReuse::CutOff,
    }
}
