//! Answers gateways: other proxies, which ask whether a client's request is allowed, and then send it themselves.
//!
//! ```text
//!  http, grpc              one request to us asks about one request, or is a notice about it
//!  icap                    or shows us a request, and then its response
//!   ├─ envoy               the messages of Envoy's service
//!   ├─ credentials         whose gateway it is
//!   ├─ question            the request that it asks about, as the proxy would have received it
//!   ├─ question_shares     the questions that it, and each client behind it, may have in progress
//!   └─ given_slots         the slots of allowed requests, for notices that may follow
//! ```
//!
//! An organisation that has a proxy keeps it, and its crawlers still obey robots.txt. Every check is the proxy's own: a question
//! becomes the head that the proxy would have read. This crate knows nothing of connections to origins, of bodies, or of the
//! configuration file. Begin reading at [`GatewayServer`].

mod credentials;
mod envoy;
mod given_slots;
mod grpc;
mod http;
mod icap;
mod mistake;
mod question;
mod question_shares;

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use hyper_util::server::graceful::GracefulConnection;
use tokio_util::sync::CancellationToken;
use wayleave_admission::Gate;
use wayleave_admission::asked::{self, ALLOWED, AskedVerdict};
use wayleave_admission::request::ClientConnection;
use wayleave_http_wire::http1::HeadError;
use wayleave_http_wire::received::ReceivedHead;

use self::credentials::GatewayIdentity;
use self::given_slots::GivenSlots;
pub use self::question_shares::QuestionLimits;
use self::question_shares::{QuestionShares, excess};

/// The label in metrics of the answer to a question for which there is no room.
const EXCESS: &str = "excess";

/// Answers the gateways of all listeners.
pub struct GatewayServer {
    gate: Arc<Gate>,
    given: Mutex<GivenSlots>,
    shares: Arc<QuestionShares>,
}

impl GatewayServer {
    /// Creates the server that asks this gate.
    pub fn new(gate: Arc<Gate>, limits: QuestionLimits) -> Self {
        Self { gate, given: Mutex::default(), shares: QuestionShares::new(limits) }
    }

    /// Decides about a request, and keeps its slot for notices. Returns `None` after a panic, which its gateway must not take for
    /// leave.
    pub(crate) async fn decide(
        &self,
        protocol: &'static str,
        gateway: GatewayIdentity,
        connection: ClientConnection,
        received: Result<ReceivedHead, HeadError>,
    ) -> Option<AskedVerdict> {
        let metrics = &self.gate.metrics;
        let Some(in_progress) = self.shares.begin(&gateway, connection.client) else {
            metrics.gateway_answer(protocol, EXCESS);
            return Some(excess());
        };
        let held = (in_progress, metrics.gateway_question());
        let received = received.map(Arc::new);
        let gate = Arc::clone(&self.gate);
        let mut verdict = asked::ask_in_task(gate, Arc::new(connection), received, held).await?;
        if let Some(allowed) = verdict.allowed.take() {
            let keep_for = self.gate.decider.settings().pacing.max_wait;
            self.given(|given| given.keep(gateway, allowed, keep_for));
        }
        let answer = if verdict.status == ALLOWED { "allowed" } else { "refused" };
        metrics.gateway_answer(protocol, answer);
        Some(verdict)
    }

    fn given<T>(&self, change: impl FnOnce(&mut GivenSlots) -> T) -> T {
        change(&mut self.given.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Serves a connection until it ends, or until `stopping` and the end of its present requests.
async fn serve_until<C>(connection: C, stopping: CancellationToken)
where
    C: GracefulConnection<Error = hyper::Error>,
{
    let mut serving = pin!(connection);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = stopping.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection of a gateway broke");
    }
}
