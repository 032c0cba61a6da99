//! One request, from its head to its record: the steps, in their order.
//!
//! ```text
//!  decide_in_turn                     may it be sent, and when
//!     │
//!  forward ── attempt ── relay        to the origin and back
//!     │          └── sign, headers, websocket, splice
//!     ├── response_policy, page       the usage preferences of the response
//!     └── revoke                      upgraded connections after a reload
//!  record
//!     │
//!  error_response, max_forwards       or answered here
//!
//!  tunnel                             CONNECT
//!  reject_connection                  a connection without a readable request
//!  redirect                           the policy for the proxy's own requests, such as where a robots.txt redirects to
//!  services, outcome                  what all steps use, and what they result in
//! ```

mod attempt;
mod decide_in_turn;
pub(crate) mod error_response;
mod forward;
mod headers;
mod max_forwards;
pub(crate) mod outcome;
pub(crate) mod record;
pub(crate) mod redirect;
mod reject_connection;
mod relay;
mod response_policy;
mod revoke;
mod services;
mod sign;
mod splice;
pub(crate) mod tunnel;
mod websocket;

use std::mem;
use std::pin::pin;
use std::sync::Arc;

pub(crate) use self::outcome::ConnectionReuse;
pub(crate) use self::services::{ExchangeServices, ExchangeShutdown};

use self::decide_in_turn::{ClearedRequest, DecidedExchange, NextStep};
use self::error_response::AnswerOrigin;
use self::outcome::{ExchangeOutcome, ReplyKind, client_closed, shut_down};
use self::record::{ExchangeFacts, ExchangeStart};
use crate::decide::request::{ClientConnection, RequestView};
use crate::decide::settings::Settings;
use crate::http::downstream::Downstream;
use crate::http::received::ReceivedHead;
use crate::identity::PasswordProof;

/// One request, from its head to its record. Owns everything learned about it.
struct Exchange<'a> {
    services: &'a ExchangeServices,
    connection: &'a ClientConnection,
    received: &'a ReceivedHead,
    start: ExchangeStart<'a>,
    /// The settings of the last decision.
    settings: Arc<Settings>,
    proof: Option<PasswordProof>,
    known: ExchangeFacts,
}

impl ExchangeServices {
    /// Handles one request whose head has been read.
    pub(crate) async fn exchange(
        &self,
        connection: &ClientConnection,
        received: &ReceivedHead,
        client: &mut Downstream,
    ) -> ConnectionReuse {
        let _in_progress = self.shutdown.track();
        let exchange = Exchange {
            services: self,
            connection,
            received,
            start: self.begin(connection, Some(received)),
            settings: self.decider.settings(),
            proof: None,
            known: ExchangeFacts::default(),
        };
        exchange.run(client).await
    }
}

impl<'a> Exchange<'a> {
    async fn run(mut self, client: &mut Downstream) -> ConnectionReuse {
        let mut held = None;
        let (outcome, reply) = loop {
            let Some(next) = self.decide(held.take(), client).await else {
                return self.record_shutdown();
            };
            let cleared = match next {
                NextStep::Send(_) if self.received.max_forwards() == Some(0) => {
                    let outcome = ExchangeOutcome::Refuse(max_forwards::refusal());
                    break (outcome, ReplyKind::LastHop);
                }
                NextStep::Send(cleared) => cleared,
                NextStep::Refuse(refusal) => break (refusal.into(), ReplyKind::Refusal),
                NextStep::Left => {
                    let reply = ReplyKind::Given(ConnectionReuse::CutOff);
                    break (ExchangeOutcome::Fail(client_closed()), reply);
                }
            };
            match self.forward(&cleared, client).await {
                Some(end) => break end,
                None => held = Some(cleared),
            }
        };
        // Recorded before the client gets the answer: it may ask the API about it at once.
        let outcome = self.services.record(self.start, self.known, outcome);
        let by = AnswerOrigin::new(&self.settings.options, self.start.id);
        match (reply, outcome.refusal()) {
            (ReplyKind::Given(after), _) => after,
            (ReplyKind::LastHop, _) => max_forwards::answer(self.received, client, by.name).await,
            (ReplyKind::Refusal, Some(refusal)) => {
                error_response::answer(by, self.received, client, refusal).await
            }
            (ReplyKind::Refusal, None) => ConnectionReuse::CutOff,
        }
    }

    /// Decides the request and waits for its slot, which `held` has already if the settings changed before it was sent. Returns
    /// `None` if the proxy shuts down meanwhile.
    async fn decide(
        &mut self,
        held: Option<ClearedRequest<'a>>,
        client: &mut Downstream,
    ) -> Option<NextStep<'a>> {
        let (services, connection, received) = (self.services, self.connection, self.received);
        let decided = match held {
            None => {
                let deciding = pin!(services.decide_in_turn(connection, received, client));
                services.shutdown.unless_cancelled(deciding).await?
            }
            Some(cleared) => {
                let before = DecidedExchange {
                    settings: Arc::clone(&self.settings),
                    proof: self.proof.take(),
                    known: mem::take(&mut self.known),
                    next: NextStep::Send(cleared),
                };
                let mut deciding =
                    Box::pin(services.decide_outdated(before, connection, received, client));
                services.shutdown.unless_cancelled(deciding.as_mut()).await?
            }
        };
        self.settings = decided.settings;
        self.proof = decided.proof;
        self.known = decided.known;
        Some(decided.next)
    }

    /// Records a request that the shutdown interrupted before it was decided.
    fn record_shutdown(self) -> ConnectionReuse {
        let settings = self.services.decider.settings();
        let request = RequestView::from_received(self.received, &settings.options.name);
        let known = tunnel::undecided_record(&settings, self.connection, Some(&request));
        self.services.record(self.start, known, ExchangeOutcome::Fail(shut_down()));
        ConnectionReuse::CutOff
    }
}
