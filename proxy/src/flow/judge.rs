//! May it? Who asks for what, and what speaks against it.

use std::time::Instant;

use super::consult;
use super::exchange::{Connection, Facts, Identity, Refusal};
use super::identify::Identified;
use super::passage::Passage;
use super::request::{Received, Request};
use super::resolve::{self, Resolved};
use super::way::Flow;

impl Flow {
    /// Leave for a request to go on, or why it has none. `url` becomes the target's spelling.
    pub(super) async fn judge(
        &self,
        connection: &Connection,
        identified: &mut Identified,
        received: &Received,
        request: &Request<'_>,
        url: &mut String,
    ) -> (Facts, Result<Passage, Refusal>) {
        if let Err(refusal) = received.check() {
            return (Facts::default(), Err(refusal));
        }
        if request.is_loop {
            return (Facts::default(), Err(Refusal::looped()));
        }
        let resolved = match resolve::resolve(connection, request) {
            Ok(resolved) => resolved,
            Err(refusal) => return (Facts::default(), Err(refusal)),
        };
        *url = resolved.target.to_string();
        let objection = identified.objection.take();
        let (facts, judged) = self.decide(&identified.identity, objection, resolved).await;
        self.metrics.decision(facts.decided_in);
        (facts, judged)
    }

    /// Leave for a request to go on to its target, unless `objection` or what follows stands against it.
    pub(super) async fn decide(
        &self,
        identity: &Identity,
        objection: Option<Refusal>,
        resolved: Resolved,
    ) -> (Facts, Result<Passage, Refusal>) {
        let started = Instant::now();
        let mode = identity.mode();
        let mut facts = Facts {
            origin: Some(resolved.target.origin().clone()),
            ..Facts::default()
        };
        let mut observed = None;
        if let Some(objection) = objection {
            match objection.tolerated(mode) {
                Ok(tolerated) => observed = Some(tolerated),
                Err(refusal) => return (facts, Err(refusal)),
            }
        }
        let consulted = consult::consult(&self.robots, identity, &resolved.target).await;
        facts.finding = consulted.finding;
        let reason = match consulted.reason {
            Ok(reason) => reason,
            Err(refusal) => match refusal.tolerated(mode) {
                Ok(tolerated) => observed.get_or_insert(tolerated).reason,
                Err(refusal) => return (facts, Err(refusal)),
            },
        };
        facts.decided_in = started.elapsed();
        let passage = Passage {
            resolved,
            reason,
            observed,
        };
        (facts, Ok(passage))
    }
}
