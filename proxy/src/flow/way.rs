//! The steps in their order; this file alone knows it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use wayleave_policy::Dialect;

use super::client::{Client, Gone};
use super::exchange::{Connection, DecisionId, Exchange, Identity, Outcome, Refusal};
use super::relay::Broken;
use super::request::{Received, Request};
use super::resolve::{self, Resolved};
use super::{consult, forward, identify, record, refuse};
use crate::crawlers::Crawlers;
use crate::http1::Framing;
use crate::intercept::Interceptor;
use crate::metrics::Metrics;
use crate::proxy_status::ErrorType;
use crate::robots::Robots;
use crate::stream::Stream;
use crate::upstream::Upstream;

/// What the way of a request needs to know; part of `[proxy]` and `[robots]`.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// The pseudonym in `Via` and `Proxy-Status`. Default `wayleave`.
    pub(crate) name: String,
    /// How robots.txt is read for crawlers that the configuration does not know.
    pub(crate) dialect: Dialect,
    /// How long a client may take for a request's head. Default 10 s.
    pub(crate) header_timeout: Duration,
    /// How long a connection may be silent between requests. Default 60 s.
    pub(crate) idle_timeout: Duration,
}

/// Everything that a request meets on its way.
pub(crate) struct Flow {
    pub(crate) options: Options,
    pub(crate) crawlers: Crawlers,
    pub(crate) robots: Robots,
    pub(crate) upstream: Upstream,
    pub(crate) interceptor: Interceptor,
    pub(crate) metrics: Arc<Metrics>,
}

/// What may follow an exchange on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The next request, if both sides want one.
    Whole,
    /// Nothing, but the client has its answer.
    Closed,
    /// Nothing: the client must see that the response is cut off.
    CutOff,
}

impl Flow {
    /// Takes one request whose head was read.
    pub(super) async fn exchange(
        &self,
        connection: &Connection,
        received: &Received,
        client: &mut Client,
    ) -> Ending {
        let (id, started) = (DecisionId::new(), Instant::now());
        let request = received.request(&self.options.name);
        let identity =
            identify::identify(&self.crawlers, self.options.dialect, connection, &request);
        let mut url = request.target.clone().into_owned();
        let judged = match received.check() {
            Ok(()) => self.judge(connection, &identity, &request, &mut url).await,
            Err(refusal) => Err(refusal),
        };
        let (outcome, ending) = match judged {
            Ok((resolved, reason)) => self.forward(id, received, client, &resolved, reason).await,
            Err(refusal) => {
                let ending = self.answer(id, received, client, &refusal).await;
                (Outcome::Refuse(refusal), ending)
            }
        };
        let exchange = Exchange {
            id,
            started,
            client: connection.client,
            method: received.method().to_owned(),
            url,
            identity: Some(identity),
            outcome,
        };
        record::record(&self.metrics, &exchange);
        ending
    }

    /// The target and why it may be fetched, or why not. `url` becomes the target's spelling.
    async fn judge(
        &self,
        connection: &Connection,
        identity: &Identity,
        request: &Request<'_>,
        url: &mut String,
    ) -> Result<(Resolved, &'static str), Refusal> {
        if request.is_loop {
            return Err(Refusal::looped());
        }
        let resolved = resolve::resolve(connection, request)?;
        *url = resolved.target.to_string();
        let started = Instant::now();
        let reason = consult::consult(&self.robots, identity, &resolved.target).await;
        self.metrics.decision(started.elapsed());
        Ok((resolved, reason?))
    }

    async fn forward(
        &self,
        id: DecisionId,
        received: &Received,
        client: &mut Client,
        resolved: &Resolved,
        reason: &'static str,
    ) -> (Outcome, Ending) {
        let name = &self.options.name;
        let (target, path) = (&resolved.target, resolved.path());
        let forwarded =
            forward::forward(&self.upstream, name, received, client, target, path).await;
        let (refusal, answered) = match forwarded {
            Ok(status) => return (Outcome::Forward { status, reason }, Ending::Whole),
            Err(Broken::Origin { fault, answered }) => (Refusal::from(fault), answered),
            Err(Broken::Body { details, answered }) => (Refusal::malformed(details), answered),
            Err(Broken::Gone) => {
                let error = ErrorType::ConnectionTerminated;
                let details = "the client left before the response was complete";
                (
                    Refusal::new(
                        499,
                        "Client closed request",
                        error,
                        "client-closed",
                        details,
                    ),
                    true,
                )
            }
        };
        let ending = if answered {
            Ending::CutOff
        } else {
            self.answer(id, received, client, &refusal).await
        };
        (Outcome::Fail(refusal), ending)
    }

    async fn answer(
        &self,
        id: DecisionId,
        received: &Received,
        client: &mut Client,
        refusal: &Refusal,
    ) -> Ending {
        if received.expects_continue() {
            // Its body comes only when it is asked for, which it is not.
            client.answer.close_afterwards();
        }
        let is_head = received.method() == "HEAD";
        match refuse::refuse(client, &self.options.name, id, refusal, is_head).await {
            Ok(()) if refusal.closes => Ending::Closed,
            Ok(()) => Ending::Whole,
            Err(Gone) => Ending::CutOff,
        }
    }

    /// Answers a client whose connection ends here: there is no request, or it is for a tunnel.
    pub(super) async fn turn_away(
        &self,
        connection: &Connection,
        stream: Stream,
        received: Option<&Received>,
        refusal: Refusal,
    ) {
        let (id, started) = (DecisionId::new(), Instant::now());
        let patience = self.options.idle_timeout;
        let mut client =
            Client::http1(stream, BytesMut::new(), Framing::Length(0), false, patience);
        let name = &self.options.name;
        let answered = refuse::refuse(&mut client, name, id, &refusal, false).await;
        let request = received.map(|received| received.request(name));
        let (method, url, identity) = match &request {
            None => ("-", "-", None),
            Some(request) => {
                let dialect = self.options.dialect;
                let identity = identify::identify(&self.crawlers, dialect, connection, request);
                (request.method, &*request.target, Some(identity))
            }
        };
        let exchange = Exchange {
            id,
            started,
            client: connection.client,
            method: method.to_owned(),
            url: url.to_owned(),
            identity,
            outcome: Outcome::Refuse(refusal),
        };
        record::record(&self.metrics, &exchange);
        if let (Ok(()), Some(stream)) = (answered, client.into_stream()) {
            refuse::close_softly(stream).await;
        }
    }
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flow")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
