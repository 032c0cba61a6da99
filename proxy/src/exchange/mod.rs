//! One request, from its head to its record: the steps, in their order.
//!
//! ```text
//!  decide                             may it be sent
//!     │
//!  robots_txt ── validators           is it for robots.txt, and answered from the copy (copy_response)
//!     │
//!  pace ── pace_unit, budget          when: it waits for its slot, and is decided again; or not today
//!     │
//!  forward ── attempt ── relay        to the origin and back
//!     │          └── sign, headers, websocket, splice
//!     ├── response_policy             the usage preferences of the response
//!     ├── response_notes ── payment   whether it turns the request away, and what it asks for
//!     ├── subresource                 what a page loads: its cause, and what it may be (allowed_pages)
//!     └── revoke                      upgraded connections after a reload
//!  record
//!     │
//!  error_response, max_forwards       or answered here
//!     └── problem ── refusal_page     the body, for programs and for people
//!
//!  tunnel ── own_tunnels              CONNECT
//!  reject_connection                  a client that is answered and loses its connection
//!  own_request                        the policy for the proxy's own requests, such as where a robots.txt redirects to
//!  services, outcome                  what all steps use, and what they result in
//! ```

mod admission;
mod allowed_pages;
mod attempt;
mod budget;
mod copy_response;
mod decide;
pub(crate) mod error_response;
mod forward;
mod headers;
mod max_forwards;
pub(crate) mod outcome;
pub(crate) mod own_request;
mod own_tunnels;
mod pace;
mod pace_unit;
mod payment;
mod problem;
pub(crate) mod record;
mod refusal_page;
mod reject_connection;
mod relay;
mod response_notes;
mod response_pace;
mod response_policy;
mod revoke;
mod robots_txt;
mod services;
mod sign;
mod splice;
mod subresource;
pub(crate) mod tunnel;
mod validators;
mod websocket;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use wayleave_decision::{Reason, TargetScope};
use wayleave_gate::identity::PasswordProof;
use wayleave_gate::request::{ClientConnection, RequestView};
use wayleave_gate::settings::Settings;
use wayleave_http_wire::received::ReceivedHead;
use wayleave_lifecycle::FetchIdentity;
use wayleave_pacing::{ClientLimit, PredictedWait};
use wayleave_robots_txt::Origin;
use wayleave_transport::http::downstream::Downstream;

pub(crate) use self::allowed_pages::AllowedPages;
pub(crate) use self::outcome::ConnectionReuse;
pub(crate) use self::services::{ExchangeServices, ExchangeShutdown};

use self::allowed_pages::PageContext;
use self::error_response::AnswerSource;
use self::outcome::{ExchangeOutcome, ForwardEnd, NotSent, ReplyKind, RequestRepeat};
use self::record::ExchangeRecord;

/// One request, from its head to its record. Owns everything learned about it.
struct Exchange<'s, 'r> {
    services: &'s ExchangeServices,
    connection: &'r ClientConnection,
    received: &'r ReceivedHead,
    /// The origin of an uninspected tunnel, and how much of it is decided without seeing the requests inside.
    blind: Option<(Origin, TargetScope)>,
    /// The settings of the last decision.
    settings: Arc<Settings>,
    proof: Option<PasswordProof>,
    /// The identity that robots.txt and documents count for, once the client is identified.
    fetch_identity: Arc<FetchIdentity>,
    /// The group of robots.txt that gives an unknown client its pace, where that matters.
    pace_group: String,
    /// The delay between the crawler's requests to the origin, once the request has asked for a slot.
    delay: Duration,
    /// The crawler whose budget the request has used.
    charged: Option<String>,
    /// The page that causes it, for a crawler for which pages are remembered.
    page_context: Option<Box<PageContext>>,
    /// The place in the queue that the request would have if refusals were not only observed.
    predicted_wait: Option<PredictedWait<'s>>,
    /// The cause for sending the request again, once it was sent.
    repeat: Option<RequestRepeat>,
    record: ExchangeRecord,
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
        // Kilobytes, which each caller on the way would copy twice to await them: boxed where they begin. What is known of the request
        // has a box of its own: the future of a method that takes `self` by value has it twice.
        let exchange = Box::new(Exchange::begin(self, connection, received));
        Box::pin(exchange.run(client)).await
    }
}

impl<'s, 'r> Exchange<'s, 'r> {
    fn begin(
        services: &'s ExchangeServices,
        connection: &'r ClientConnection,
        received: &'r ReceivedHead,
    ) -> Self {
        let settings = services.decider.settings();
        let now = services.decider.robots.clock().now();
        Self {
            services,
            connection,
            received,
            blind: None,
            record: ExchangeRecord::begin(connection, Some(received), now, settings.configuration),
            settings,
            proof: None,
            fetch_identity: FetchIdentity::proxy(),
            pace_group: String::new(),
            delay: Duration::ZERO,
            charged: None,
            page_context: None,
            predicted_wait: None,
            repeat: None,
        }
    }

    /// Returns the request, with an objection if it has already passed the proxy of the name in the settings.
    fn request(&self) -> RequestView<'r> {
        RequestView::from_received(self.received, &self.settings.options.name)
    }

    async fn run(mut self: Box<Self>, client: &mut Downstream) -> ConnectionReuse {
        let (outcome, reply) = self.decide_and_forward(client).await;
        let decision = self.record.named_decision(&outcome);
        let limit = self.client_limit(&outcome);
        let source = AnswerSource::new(&self.settings.options, &decision).with_limit(limit);
        // Recorded before the client gets the answer: it may ask the API about it at once.
        self.services.record(self.record, &outcome);
        match (reply, outcome.refusal()) {
            (ReplyKind::Given(reuse), _) => reuse,
            (ReplyKind::LastHop, _) => {
                max_forwards::answer(self.received, client, source.name).await
            }
            (ReplyKind::Copy(reply), _) => {
                copy_response::answer(source, self.received, client, reply).await
            }
            (ReplyKind::Refusal, Some(refusal)) => {
                error_response::answer(source, self.received, client, refusal).await
            }
            (ReplyKind::Refusal, None) => ConnectionReuse::CutOff,
        }
    }

    /// Returns the pace that a refusal for it reports to the client.
    fn client_limit(&self, outcome: &ExchangeOutcome) -> Option<ClientLimit> {
        let refusal = outcome.refusal()?;
        let is_for_pace = matches!(refusal.reason, Reason::CrawlDelay | Reason::OriginRests);
        let next_in = refusal.retry_after.filter(|_| is_for_pace)?;
        let is_told = self.settings.pacing.rate_limit_fields;
        is_told.then_some(ClientLimit { delay: self.delay, next_in })
    }

    /// Decides the request and sends it. Returns the outcome, and the answer that the client is still to get.
    async fn decide_and_forward(
        &mut self,
        client: &mut Downstream,
    ) -> (ExchangeOutcome, ReplyKind) {
        let shutdown = &self.services.shutdown;
        let mut slot = None;
        loop {
            let deciding = self.decide_and_wait(slot.take(), client);
            let decided = shutdown.unless_cancelled(pin!(deciding)).await;
            let mut permit = match decided {
                Some(Ok((permit, its_slot))) => {
                    slot = its_slot;
                    permit
                }
                Some(Err(not_sent)) => return not_sent.into_outcome(),
                None => {
                    // A request that waits for its slot has its decision in the record already.
                    if self.record.identity.is_none() {
                        self.record_undecided();
                    }
                    return NotSent::ShutDown.into_outcome();
                }
            };
            if let Err(not_sent) = self.charge_budget(&mut permit, client).await {
                return not_sent.into_outcome();
            }
            match self.forward(&permit, slot.as_ref(), client).await {
                ForwardEnd::Ended(outcome, reply) => return (outcome, reply),
                // It keeps its slot, or it would wait twice.
                ForwardEnd::SettingsChanged => {}
                ForwardEnd::Repeat(repeat) => {
                    slot = None;
                    self.repeat = Some(repeat);
                }
            }
            self.settings = self.services.decider.settings();
        }
    }
}
