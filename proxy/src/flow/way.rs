//! The steps in their order; this file alone knows it.

use std::fmt;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use arc_swap::ArcSwap;
use pingora_core::protocols::http::ServerSession;
use tokio::io::AsyncWriteExt;

use super::exchange::{Connection, Exchange, Facts, Outcome, Passage, Refusal};
use super::head::{Head, Patience};
use super::refuse::{self, Answer};
use super::relay::Broken;
use super::request::Request;
use super::settings::Settings;
use super::{forward, identify, record};
use crate::decisions::{DecisionId, Decisions};
use crate::intercept::Interceptor;
use crate::metrics::Metrics;
use crate::proxy_status::ErrorType;
use crate::robots::Robots;
use crate::stream::Stream;

/// Everything that a request meets on its way.
pub(crate) struct Flow {
    pub(crate) settings: ArcSwap<Settings>,
    pub(crate) robots: Robots,
    pub(crate) interceptor: Interceptor,
    pub(crate) decisions: Arc<Decisions>,
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
    /// What holds now. An exchange asks once and goes by that to its end.
    pub(super) fn settings(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    pub(super) fn patience(&self) -> Patience {
        let settings = self.settings();
        Patience {
            idle: settings.options.idle_timeout,
            head: settings.options.header_timeout,
        }
    }

    /// Takes one request whose head was read all the way.
    pub(super) async fn exchange(
        &self,
        connection: &Connection,
        head: Option<&Head>,
        session: &mut ServerSession,
    ) -> Ending {
        let (id, started, started_at) = self.begin();
        let settings = self.settings();
        let name = &settings.options.name;
        let request = match head {
            Some(head) => head.request(name),
            None => Request::from_http2(session.req_header(), name),
        };
        let mut identified =
            identify::identify(&settings.crawlers, &self.metrics, connection, request).await;
        let method = request.method.to_owned();
        let mut url = request.target.to_owned();
        let (facts, judged) = self
            .judge(connection, &mut identified, request, &mut url)
            .await;
        let (outcome, ending) = match judged {
            Ok(passage) => self.forward(&settings, id, session, passage).await,
            Err(refusal) => {
                let ending = answer(name, id, session, &refusal).await;
                (Outcome::Refuse(refusal), ending)
            }
        };
        let exchange = Exchange {
            id,
            started,
            started_at,
            client: connection.client,
            method,
            url,
            identity: Some(identified.identity),
            configuration: settings.configuration,
            facts,
            outcome,
        };
        record::record(&self.metrics, &self.decisions, exchange);
        ending
    }

    /// An exchange begins.
    fn begin(&self) -> (DecisionId, Instant, SystemTime) {
        let now = self.robots.clock().now();
        (DecisionId::new(), Instant::now(), now)
    }

    async fn forward(
        &self,
        settings: &Settings,
        id: DecisionId,
        session: &mut ServerSession,
        passage: Passage,
    ) -> (Outcome, Ending) {
        let name = &settings.options.name;
        let forwarded = forward::forward(&settings.upstream, name, session, &passage.target).await;
        let (refusal, answered) = match forwarded {
            Ok(status) => return (passed(passage, status), Ending::Whole),
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
            answer(name, id, session, &refusal).await
        };
        (Outcome::Fail(refusal), ending)
    }

    /// Answers what no session took, and closes the connection.
    pub(super) async fn refuse_unread(
        &self,
        connection: &Connection,
        mut stream: Stream,
        request: Option<Request<'_>>,
        refusal: Refusal,
    ) {
        let (id, started, started_at) = self.begin();
        let settings = self.settings();
        let answer = Answer::new(&settings.options.name, id, &refusal);
        if let Ok(bytes) = answer.and_then(Answer::into_last_bytes) {
            // A client that left needs no answer.
            let _ = stream.write_all(&bytes).await;
        }
        let (method, url) = request.map_or(("-", "-"), |request| (request.method, request.target));
        let identity = request.map(|request| {
            let username = connection.username.as_deref();
            identify::recognise(&settings.crawlers, connection, username, request)
        });
        let exchange = Exchange {
            id,
            started,
            started_at,
            client: connection.client,
            method: method.to_owned(),
            url: url.to_owned(),
            identity,
            configuration: settings.configuration,
            facts: Facts::default(),
            outcome: Outcome::Refuse(refusal),
        };
        record::record(&self.metrics, &self.decisions, exchange);
        refuse::close_softly(stream).await;
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
pub(super) fn passed(passage: Passage, status: u16) -> Outcome {
    match passage.observed {
        Some(refusal) => Outcome::Observe { status, refusal },
        None => Outcome::Forward {
            status,
            reason: passage.reason,
        },
    }
}

async fn answer(
    name: &str,
    id: DecisionId,
    session: &mut ServerSession,
    refusal: &Refusal,
) -> Ending {
    if refusal.closes {
        session.set_keepalive(None);
    }
    let sent = match Answer::new(name, id, refusal) {
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
