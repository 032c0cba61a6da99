//! The steps in their order; this file alone knows it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pingora_core::protocols::http::ServerSession;
use tokio::io::AsyncWriteExt;
use wayleave_policy::{Dialect, Target};

use super::exchange::{Connection, DecisionId, Exchange, Identity, Outcome, Refusal};
use super::head::{Head, Patience};
use super::refuse::{self, Answer};
use super::relay::Broken;
use super::request::Request;
use super::{consult, forward, identify, record, resolve};
use crate::crawlers::Crawlers;
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
    /// Nothing: the client must see that the response is cut off.
    CutOff,
}

impl Flow {
    pub(super) fn patience(&self) -> Patience {
        Patience {
            idle: self.options.idle_timeout,
            head: self.options.header_timeout,
        }
    }

    /// Takes one request whose head was read all the way.
    pub(super) async fn exchange(
        &self,
        connection: &Connection,
        head: Option<&Head>,
        session: &mut ServerSession,
    ) -> Ending {
        let (id, started) = (DecisionId::new(), Instant::now());
        let name = &self.options.name;
        let request = match head {
            Some(head) => head.request(name),
            None => Request::from_http2(session.req_header(), name),
        };
        let identity =
            identify::identify(&self.crawlers, self.options.dialect, connection, request);
        let method = request.method.to_owned();
        let mut url = request.target.to_owned();
        let judged = self.judge(connection, &identity, request, &mut url).await;
        let (outcome, ending) = match judged {
            Ok((target, reason)) => self.forward(id, session, &target, reason).await,
            Err(refusal) => {
                let ending = self.answer(id, session, &refusal).await;
                (Outcome::Refuse(refusal), ending)
            }
        };
        let identity = Some(identity);
        let client = connection.client;
        let exchange = Exchange {
            id,
            started,
            client,
            method,
            url,
            identity,
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
        request: Request<'_>,
        url: &mut String,
    ) -> Result<(Target, &'static str), Refusal> {
        if request.is_loop {
            return Err(Refusal::looped());
        }
        let target = resolve::resolve(connection, request)?;
        *url = target.to_string();
        let started = Instant::now();
        let reason = consult::consult(&self.robots, identity, &target).await;
        self.metrics.decision(started.elapsed());
        Ok((target, reason?))
    }

    async fn forward(
        &self,
        id: DecisionId,
        session: &mut ServerSession,
        target: &Target,
        reason: &'static str,
    ) -> (Outcome, Ending) {
        let forwarded = forward::forward(&self.upstream, &self.options.name, session, target).await;
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
            self.answer(id, session, &refusal).await
        };
        (Outcome::Fail(refusal), ending)
    }

    async fn answer(
        &self,
        id: DecisionId,
        session: &mut ServerSession,
        refusal: &Refusal,
    ) -> Ending {
        if refusal.closes {
            session.set_keepalive(None);
        }
        let sent = match Answer::new(&self.options.name, id, refusal) {
            Ok(answer) => answer.send(session).await,
            Err(error) => Err(error),
        };
        match sent {
            Ok(()) => Ending::Whole,
            Err(error) => {
                tracing::debug!(%error, "an answer did not reach its client");
                Ending::CutOff
            }
        }
    }

    /// Answers what no session took, and closes the connection.
    pub(super) async fn refuse_unread(
        &self,
        connection: &Connection,
        mut stream: Stream,
        request: Option<Request<'_>>,
        refusal: Refusal,
    ) {
        let (id, started) = (DecisionId::new(), Instant::now());
        let answer = Answer::new(&self.options.name, id, &refusal);
        if let Ok(bytes) = answer.and_then(Answer::into_last_bytes) {
            // A client that left needs no answer.
            let _ = stream.write_all(&bytes).await;
        }
        let (method, url) = request.map_or(("-", "-"), |request| (request.method, request.target));
        let identity = request.map(|request| {
            identify::identify(&self.crawlers, self.options.dialect, connection, request)
        });
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
        refuse::close_softly(stream).await;
    }
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flow")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
