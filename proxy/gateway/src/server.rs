//! The server of all listeners for gateways.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use hyper_util::server::graceful::GracefulConnection;
use tokio_util::sync::CancellationToken;
use wayleave_admission::Gate;
use wayleave_admission::asked::{self, ALLOWED, AskedVerdict};
use wayleave_admission::request::ClientConnection;
use wayleave_http_wire::http1::HeadError;
use wayleave_http_wire::received::ReceivedHead;

use crate::credentials::GatewayIdentity;
use crate::given_slots::GivenSlots;
use crate::question_shares::{QuestionLimits, QuestionShares, excess};

/// The label in metrics of the answer to a question for which there is no room.
pub(crate) const EXCESS: &str = "excess";

/// Answers the gateways of all listeners.
pub struct GatewayServer {
    pub(crate) gate: Arc<Gate>,
    given: Mutex<GivenSlots>,
    pub(crate) shares: Arc<QuestionShares>,
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
        if let Some((id, slot)) = &mut verdict.allowed {
            let keep_for = self.gate.decider.settings().pacing.max_wait;
            self.given(|given| given.keep(gateway, (*id, slot.take()), keep_for));
        }
        let answer = if verdict.status == ALLOWED { "allowed" } else { "refused" };
        metrics.gateway_answer(protocol, answer);
        Some(verdict)
    }

    pub(crate) fn given<T>(&self, change: impl FnOnce(&mut GivenSlots) -> T) -> T {
        change(&mut self.given.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Serves a connection until it ends, or until `stopping` and the end of its present requests.
pub(crate) async fn serve_until<C>(connection: C, stopping: CancellationToken)
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
