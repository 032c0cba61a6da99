//! One request, from its head to the record of what became of it: the steps, in their order.
//!
//! ```text
//!  decide_in_turn ── await_delay      may it be sent, and when
//!     │
//!  forward ── relay, websocket        to the origin and back
//!     ├── note_answer, revoke         what the origin's answer means for the next requests, and a reload for upgraded connections
//!     └── refuse, last_hop            or answered here
//!  record
//!
//!  redirect                           the same for where a robots.txt leads
//!  fields, outcome                    what they hand each other
//! ```

mod await_delay;
mod decide_in_turn;
pub(crate) mod fields;
mod forward;
mod last_hop;
mod note_answer;
pub(crate) mod outcome;
pub(crate) mod record;
mod redirect;
pub(crate) mod refuse;
mod relay;
mod revoke;
mod websocket;

use std::fmt;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use arc_swap::ArcSwap;
use bytes::BytesMut;
use tokio::sync::{Notify, watch};

use self::forward::Forwarded;
use self::outcome::{Exchange, Outcome};
use self::relay::RelayError;
use crate::flow::decide::permit::Facts;
use crate::flow::decide::permit::{Judged, Permit};
use crate::flow::decide::refusal;
use crate::flow::decide::refusal::Refusal;
use crate::flow::decide::request::Connection;
use crate::flow::decide::request::Request;
use crate::flow::decide::resolve::{Asking, Resolved};
use crate::flow::decide::settings::Settings;
use crate::http::client::{Client, ClientGone};
use crate::http::http1::Framing;
use crate::http::http1::oddities::Oddities;
use crate::http::proxy_status::ErrorType;
use crate::http::received::Received;
use crate::http::transport::Stream;
use crate::identity::Proof;
use crate::observe::decisions::{DecisionId, Decisions};
use crate::observe::metrics::Metrics;
use crate::observe::traces::{Parent, Traces};
use crate::origin::OriginHead;
use crate::politeness::Politeness;
use crate::robots::Robots;
use crate::tls::intercept::Interceptor;

/// Everything that a request meets on its way.
pub(crate) struct Flow {
    pub(crate) settings: ArcSwap<Settings>,
    /// Which settings those are: what lasts hears by it when there are others.
    pub(crate) configuration: watch::Sender<u64>,
    pub(crate) robots: Robots,
    pub(crate) politeness: Politeness,
    pub(crate) interceptor: Interceptor,
    pub(crate) decisions: Arc<Decisions>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) traces: Option<Arc<Traces>>,
}

/// A request on its way to its origin.
#[derive(Clone, Copy)]
struct Forwarding<'a> {
    settings: &'a Settings,
    id: DecisionId,
    connection: &'a Connection,
    proof: Option<&'a Proof>,
    received: &'a Received,
}

/// The status by which an exchange becomes a connection of another protocol.
const SWITCHING_PROTOCOLS: u16 = 101;

/// What may follow an exchange on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterExchange {
    /// The next request, if both sides want one.
    Whole,
    /// Nothing, but the client has its answer.
    Closed,
    /// Nothing: the client must see that the response is cut off.
    CutOff,
}

impl Flow {
    /// What holds now. An exchange asks once and goes by that to its end, unless it waits or lasts.
    pub(crate) fn settings(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    /// Puts other settings in the place of those that hold.
    pub(crate) fn go_by(&self, settings: Settings) {
        let configuration = settings.configuration;
        self.settings.store(Arc::new(settings));
        self.configuration.send_replace(configuration);
    }

    /// Brings the metrics up to date that are counted when they are gathered.
    pub(crate) fn observe(&self) {
        self.robots.observe();
        let (rules, now) = (&self.settings().rules, self.robots.clock().now());
        let (active, expired) = rules.count(now);
        self.metrics.rules(active, expired.len());
        self.metrics.exception_expiry(rules.next_expiry(now));
    }

    /// Takes one request whose head was read.
    pub(crate) async fn exchange(
        &self,
        connection: &Connection,
        received: &Received,
        client: &mut Client,
    ) -> AfterExchange {
        let (id, started, started_at) = self.begin();
        let asking = Asking {
            connection,
            received,
            unseen: None,
        };
        let judged = self.judge_in_turn(asking, client).await;
        let Judged {
            settings,
            identified,
            url,
            facts,
            verdict,
        } = judged;
        let proof = identified.proof;
        let record = |outcome, oddities| {
            self.record(Exchange {
                id,
                started,
                started_at,
                client: connection.client,
                method: received.method().to_owned(),
                url,
                identity: Some(identified.identity),
                configuration: settings.configuration,
                parent: self.parent(received),
                facts: Facts { oddities, ..facts },
                outcome,
            })
        };
        let name = &settings.options.name;
        let none = Oddities::default();
        match verdict {
            Some(Ok(_)) if received.max_forwards() == Some(0) => {
                record(Outcome::Refuse(last_hop::refusal()), none);
                answered_here(received, client, name).await
            }
            Some(Ok(permit)) => {
                let forwarding = Forwarding {
                    settings: &settings,
                    id,
                    connection,
                    proof: proof.as_ref(),
                    received,
                };
                let (outcome, oddities, ending) = self.forward(forwarding, client, permit).await;
                record(outcome, oddities);
                ending
            }
            // Recorded first: who has the answer in hand may ask about it.
            Some(Err(refusal)) => match record(Outcome::Refuse(refusal), none).refusal() {
                Some(refusal) => answer(name, id, received, client, refusal).await,
                None => AfterExchange::CutOff,
            },
            None => {
                record(Outcome::Fail(client_closed()), none);
                AfterExchange::CutOff
            }
        }
    }

    /// The trace that a request is part of.
    pub(crate) fn parent(&self, received: &Received) -> Parent {
        let traces = self.traces.as_ref();
        traces.map_or_else(Parent::default, |traces| traces.parent(&received.fields()))
    }

    /// Sends a request on, and what comes back to its client; tells what became of it.
    async fn forward(
        &self,
        forwarding: Forwarding<'_>,
        client: &mut Client,
        permit: Permit<'_>,
    ) -> (Outcome, Oddities, AfterExchange) {
        let Forwarding {
            settings,
            id,
            received,
            ..
        } = forwarding;
        let name = &settings.options.name;
        let (target, path) = (&permit.resolved.target, permit.resolved.path());
        let upgraded = Notify::new();
        let heard = |head: &OriginHead| {
            if let Some(turn) = &permit.turn {
                note_answer::note_answer(turn, target.origin(), head);
            }
            if head.status() == SWITCHING_PROTOCOLS {
                upgraded.notify_one();
            }
        };
        let upstream = &settings.upstream;
        let relaying = forward::forward(upstream, name, received, client, target, path, &heard);
        let revoked = async {
            upgraded.notified().await;
            self.revoked(forwarding, &permit.resolved).await;
        };
        let forwarded = tokio::select! {
            biased;
            forwarded = relaying => forwarded,
            () = revoked => {
                let outcome = passed(&permit, SWITCHING_PROTOCOLS);
                return (outcome, Oddities::default(), AfterExchange::CutOff);
            }
        };
        let (refusal, answered) = match forwarded {
            Ok(Forwarded { status, oddities }) => {
                return (passed(&permit, status), oddities, AfterExchange::Whole);
            }
            Err(RelayError::Origin { fault, answered }) => (Refusal::from(fault), answered),
            Err(RelayError::Body { details, answered }) => (Refusal::malformed(details), answered),
            Err(RelayError::Late { answered }) => (refusal::body_too_slow(), answered),
            Err(RelayError::ClientGone) => (client_closed(), true),
        };
        let ending = if answered {
            AfterExchange::CutOff
        } else {
            answer(name, id, received, client, &refusal).await
        };
        (Outcome::Fail(refusal), Oddities::default(), ending)
    }

    /// Waits until a connection that outlasts its exchange would no longer be opened as it is.
    async fn revoked(&self, forwarding: Forwarding<'_>, resolved: &Resolved) {
        let Forwarding {
            settings,
            connection,
            proof,
            received,
            ..
        } = forwarding;
        let connection = &connection.proven_by(proof.cloned());
        let request = Request::of(received, &settings.options.name);
        let mut now = self.settings_after(settings.configuration).await;
        while now.keeps(connection) && self.stands(&now, connection, &request, resolved).await {
            now = self.settings_after(now.configuration).await;
        }
    }

    /// An exchange begins.
    pub(crate) fn begin(&self) -> (DecisionId, Instant, SystemTime) {
        let now = self.robots.clock().now();
        (DecisionId::new(), Instant::now(), now)
    }

    /// Answers a client whose connection ends with `exchange`, which was refused or failed.
    pub(crate) async fn turn_away(&self, stream: Stream, exchange: Exchange) {
        let settings = self.settings();
        let patience = settings.options.idle_timeout;
        let mut client =
            Client::http1(stream, BytesMut::new(), Framing::Length(0), false, patience);
        let id = exchange.id;
        let outcome = self.record(exchange);
        let Some(refusal) = outcome.refusal() else {
            return;
        };
        let name = &settings.options.name;
        let answered = refuse::refuse(&mut client, name, id, refusal, false).await;
        if let (Ok(()), Some(stream)) = (answered, client.into_stream()) {
            refuse::close_softly(stream).await;
        }
    }
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flow")
            .field("options", &self.settings().options)
            .finish_non_exhaustive()
    }
}

/// What became of a request that reached its origin.
pub(crate) fn passed(permit: &Permit<'_>, status: u16) -> Outcome {
    let reason = permit.reason;
    match permit.observed.clone() {
        Some(refusal) => Outcome::Observe { status, refusal },
        None if permit.resolved.is_unseen() => Outcome::Tunnel { reason },
        None => Outcome::Forward { status, reason },
    }
}

pub(crate) fn client_closed() -> Refusal {
    let error = ErrorType::ConnectionTerminated;
    let details = "the client left before the response was complete";
    let phrase = "Client closed request";
    Refusal::new(499, phrase, error, "client-closed", details)
}

async fn answered_here(received: &Received, client: &mut Client, name: &str) -> AfterExchange {
    match last_hop::answer(received, client, name).await {
        Ok(()) => AfterExchange::Whole,
        Err(ClientGone) => AfterExchange::CutOff,
    }
}

async fn answer(
    name: &str,
    id: DecisionId,
    received: &Received,
    client: &mut Client,
    refusal: &Refusal,
) -> AfterExchange {
    // A body that waits to be asked for is not.
    let is_withheld = received.expects_continue() && !client.body.is_done();
    if refusal.closes || is_withheld || !refuse::drain(&mut client.body).await {
        client.answer.close_afterwards();
    }
    let is_head = received.method() == "HEAD";
    match refuse::refuse(client, name, id, refusal, is_head).await {
        Ok(()) if refusal.closes => AfterExchange::Closed,
        Ok(()) => AfterExchange::Whole,
        Err(ClientGone) => AfterExchange::CutOff,
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::http::http1::RequestHead;
    use crate::http::transport::Transport;

    /// What a client hears that is refused before it sent its body, and after how long.
    async fn refused(fields: &str) -> (String, std::time::Duration) {
        let head = format!("POST http://shop.test/ HTTP/1.1\r\nHost: shop.test\r\n{fields}\r\n");
        let head = RequestHead::read(&mut head.as_bytes(), &mut BytesMut::new()).await;
        let received = Received::Http1(head.unwrap());
        let (near, mut far) = tokio::io::duplex(4096);
        let patience = std::time::Duration::from_secs(60);
        let mut client = Client::http1(
            Box::new(Transport::new(near, 1)),
            BytesMut::new(),
            received.framing(),
            true,
            patience,
        );
        let started = tokio::time::Instant::now();
        let id = DecisionId::new();
        answer("wayleave", id, &received, &mut client, &client_closed()).await;
        let took = started.elapsed();
        drop(client);
        let mut text = String::new();
        far.read_to_string(&mut text).await.unwrap();
        (text, took)
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_waits_to_be_asked_for_is_not_waited_for() {
        let (text, took) = refused("Expect: 100-continue\r\nContent-Length: 5\r\n").await;
        assert!(text.contains("\r\nConnection: close\r\n"), "{text}");
        assert!(took.is_zero(), "{took:?}");
        let (text, took) = refused("Content-Length: 5\r\n").await;
        assert!(text.contains("\r\nConnection: close\r\n"), "{text}");
        assert!(!took.is_zero());
        let (text, took) = refused("Expect: 100-continue\r\nContent-Length: 0\r\n").await;
        assert!(!text.contains("\r\nConnection: close\r\n"), "{text}");
        assert!(took.is_zero(), "{took:?}");
    }
}
