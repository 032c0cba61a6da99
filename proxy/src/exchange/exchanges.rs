//! What the steps of an exchange are done with, and how each exchange begins and ends.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use super::outcome::{Begun, Exchange, Known, Outcome};
use super::record;
use crate::decide::Decider;
use crate::decide::identify::Identity;
use crate::decide::request::Connection;
use crate::http::received::Received;
use crate::observe::decisions::{DecisionId, Decisions};
use crate::observe::metrics::Metrics;
use crate::observe::traces::{Parent, Traces};
use crate::politeness::Politeness;

/// Everything that a request meets on its way.
pub(crate) struct Exchanges {
    pub(crate) decider: Arc<Decider>,
    pub(crate) politeness: Politeness,
    pub(crate) decisions: Arc<Decisions>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) traces: Option<Arc<Traces>>,
}

impl Exchanges {
    /// An exchange begins; `received`: the request, if there is one.
    pub(super) fn begin<'a>(
        &self,
        connection: &'a Connection,
        received: Option<&'a Received>,
    ) -> Begun<'a> {
        Begun {
            id: DecisionId::new(),
            started: Instant::now(),
            started_at: self.decider.robots.clock().now(),
            client: connection.client,
            peer: connection.peer,
            certificate: connection.certificate.as_ref(),
            method: received.map_or("-", Received::method),
            received,
        }
    }

    pub(super) fn end(&self, begun: Begun<'_>, known: Known, outcome: Outcome) -> Exchange {
        let traced = begun
            .received
            .filter(|received| received.field("traceparent").is_some());
        let parent = traced.map_or_else(Parent::default, |received| Parent::of(&received.fields()));
        begun.end(known, parent, outcome)
    }

    pub(super) fn record(&self, begun: Begun<'_>, known: Known, outcome: Outcome) -> Outcome {
        self.record_ended(self.end(begun, known, outcome))
    }

    /// Notes what became of an exchange, and returns that.
    pub(crate) fn record_ended(&self, mut exchange: Exchange) -> Outcome {
        let crawler = exchange.known.identity.as_ref();
        let crawler = crawler.and_then(Identity::crawler);
        let has_key = crawler.is_some_and(|crawler| crawler.signing_key.is_some());
        let is_tunnel = matches!(exchange.outcome, Outcome::Tunnel { .. });
        if is_tunnel && has_key && self.decider.settings().signer.signs() {
            exchange.known.signature = Some("tunnel");
            self.metrics.signatures("tunnel", 1);
        }
        let traces = self.traces.as_deref();
        record::record(&self.metrics, &self.decisions, traces, exchange)
    }
}

impl fmt::Debug for Exchanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchanges")
            .field("decider", &self.decider)
            .finish_non_exhaustive()
    }
}
