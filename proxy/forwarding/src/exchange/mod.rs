//! One request on its way: through the gate, to its origin and back.
//!
//! ```text
//!  gate                               may it be sent, and when (crate admission)
//!     │
//!  forward ── attempt ── relay        to the origin, again if need be, and back; `relay/watch`
//!     │          │                     refuses heads, `relay/download` bodies and `noindex`
//!     │          └── sign, headers, websocket, splice
//!  copy_response                      or answered here: robots.txt from its copy,
//!  error_response, max_forwards       a refusal, the last hop
//!
//!  tunnel ── own_tunnels              CONNECT
//!  reject_connection                  a client that is answered and loses its connection
//! ```

mod attempt;
mod copy_response;
pub mod error_response;
mod forward;
mod headers;
mod max_forwards;
mod own_tunnels;
mod reject_connection;
mod relay;
mod sign;
mod splice;
pub mod tunnel;
mod websocket;

use std::sync::Arc;

use wayleave_admission::answer::AnswerSource;
use wayleave_admission::outcome::{ConnectionReuse, ExchangeOutcome, ReplyKind};
use wayleave_admission::request::ClientConnection;
use wayleave_admission::{Gate, GatedRequest};
use wayleave_http_wire::received::ReceivedHead;
use wayleave_record::DecisionId;
use wayleave_transport::http::downstream::Downstream;

use self::forward::ForwardEnd;
use self::own_tunnels::OwnTunnels;

/// The services that exchanges share.
#[derive(Debug)]
pub struct ExchangeServices {
    pub gate: Arc<Gate>,
    pub own_tunnels: Arc<OwnTunnels>,
}

impl ExchangeServices {
    pub fn new(gate: Gate) -> Self {
        Self { gate: Arc::new(gate), own_tunnels: Arc::default() }
    }

    /// Handles one request whose head has been read.
    pub async fn exchange(
        &self,
        connection: &ClientConnection,
        received: &ReceivedHead,
        client: &mut Downstream,
    ) -> ConnectionReuse {
        let _in_progress = self.gate.shutdown.track();
        // Kilobytes, which each caller on the way would copy twice to await them: boxed where they begin. The
        // request has a box of its own: the future of a method that takes `self` by value has it twice.
        let request = Box::new(GatedRequest::begin(&self.gate, connection, received));
        Box::pin(run(request, client)).await
    }

    /// Handles one request of this process itself, whose response goes to `client`. Returns the id of its decision.
    pub async fn exchange_own(
        &self,
        connection: &ClientConnection,
        received: &ReceivedHead,
        client: &mut Downstream,
    ) -> DecisionId {
        let _in_progress = self.gate.shutdown.track();
        let request = Box::new(GatedRequest::begin(&self.gate, connection, received));
        let id = request.record.id;
        Box::pin(run(request, client)).await;
        id
    }
}

/// Decides, forwards and records a request, and answers it unless it has its answer.
async fn run(mut request: Box<GatedRequest<'_, '_>>, client: &mut Downstream) -> ConnectionReuse {
    let (outcome, reply) = admit_and_forward(&mut request, client).await;
    let decision = request.record.named_decision(&outcome);
    let limit = request.client_limit(&outcome);
    let source = AnswerSource::new(&request.settings.options, &decision).with_limit(limit);
    let received = request.received;
    // Recorded before the client gets the answer: it may ask the API about it at once.
    request.gate.record(request.record, &outcome);
    match (reply, outcome.refusal()) {
        (ReplyKind::Given(reuse), _) => reuse,
        (ReplyKind::LastHop, _) => max_forwards::answer(received, client, source.name).await,
        (ReplyKind::Copy(reply), _) => copy_response::answer(source, received, client, reply).await,
        (ReplyKind::Refusal, Some(refusal)) => {
            error_response::answer(source, received, client, refusal).await
        }
        (ReplyKind::Refusal, None) => ConnectionReuse::CutOff,
    }
}

/// Decides about a request and forwards it, again if its settings changed or it must be repeated. Returns its outcome, and the
/// answer still owed to the client.
async fn admit_and_forward(
    request: &mut GatedRequest<'_, '_>,
    client: &mut Downstream,
) -> (ExchangeOutcome, ReplyKind) {
    let mut slot = None;
    loop {
        let permit = match request.admit(slot.take(), client).await {
            Ok((permit, its_slot)) => {
                slot = its_slot;
                permit
            }
            Err(not_sent) => return not_sent.into_outcome(),
        };
        match forward::forward(request, &permit, slot.as_ref(), client).await {
            ForwardEnd::Ended(outcome, reply) => return (outcome, reply),
            // It keeps its slot, or it would wait twice.
            ForwardEnd::SettingsChanged => {}
            ForwardEnd::Repeat(repeat) => {
                slot = None;
                request.repeat = Some(repeat);
            }
        }
        request.settings = request.gate.decider.settings();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the size of the futures that an asynchronous function returns.
    fn size_of_future<A, B, F: Future>(_: impl FnOnce(A, B) -> F) -> usize {
        size_of::<F>()
    }

    /// An exchange holds one of each in memory, and writes it when it begins. Intercepted requests go the same way.
    #[test]
    fn futures_of_exchanges_keep_their_sizes() {
        let grown: Vec<_> = [
            ("run", size_of_future(run), 7300),
            ("admit_and_forward", size_of_future(admit_and_forward), 7000),
            ("GatedRequest", size_of::<GatedRequest<'_, '_>>(), 1360),
        ]
        .into_iter()
        .filter(|(_, size, most)| size > most)
        .collect();
        assert!(grown.is_empty(), "{grown:?}");
    }
}
