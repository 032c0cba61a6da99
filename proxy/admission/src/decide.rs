//! The decision: who sent the request, for which purpose, and whether the rules and robots.txt allow it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use wayleave_decision::{DecisionRequest, Permit, Refusal, ResolvedTarget};
use wayleave_http_wire::request_target;

use crate::identify::{self, IdentifiedClient};
use crate::request::RequestView;
use crate::settings::LogFailureMode;
use crate::{refusal, target};

use super::gated_request::GatedRequest;
use super::outcome::NotSent;
use super::record::RecordedUrl;
use super::waiting_client::{WaitingClient, run_unless_gone, run_while_connected};

impl GatedRequest<'_, '_> {
    /// Identifies the client and decides its request, by the settings that the exchange holds; by those in effect if the pinned
    /// texts in the cache are no longer of the former.
    pub async fn decide(&mut self, client: &mut impl WaitingClient) -> Result<Permit, NotSent> {
        loop {
            let decided = self.decide_once(client).await;
            let decider = &self.gate.decider;
            if decider.robots.serves(&self.settings.pinned) {
                return decided;
            }
            // A reload has replaced the texts, and replaces the settings within microseconds.
            tokio::task::yield_now().await;
            self.settings = decider.settings();
        }
    }

    async fn decide_once(&mut self, client: &mut impl WaitingClient) -> Result<Permit, NotSent> {
        let gate = self.gate;
        let request = self.request();
        let identifying = identify::identify(&self.settings, self.connection, &request);
        let Some(identified) = run_unless_gone(client, pin!(identifying)).await else {
            self.record_undecided();
            return Err(NotSent::ClientLeft);
        };
        let resolved = self.resolve(&request);
        // Recorded before robots.txt is fetched, because the client may leave meanwhile.
        self.record.begin_decision(
            self.display_target(&request, resolved.as_ref().ok()),
            identified.identity().clone(),
            self.settings.configuration,
        );
        self.record.stated_purposes =
            identify::stated_words(self.connection, &request).into_owned();
        self.fetch_identity = Arc::clone(&identified.fetch_identity);
        self.record.username = identified.proof.as_ref().map(|proof| Arc::clone(&proof.username));
        if let Ok(resolved) = &resolved {
            self.find_page(&identified, &resolved.target);
        }
        let result = match resolved {
            Err(refusal) => Err(refusal),
            Ok(resolved) => {
                let decision_began_at = Instant::now();
                let decision = DecisionRequest {
                    identified: &identified.identified,
                    method: request.method,
                    resolved,
                    is_by_tunnel: self.connection.tunnel.is_some() || self.blind.is_some(),
                    subresource: self.subresource(),
                    now: gate.decider.robots.clock().now(),
                };
                let deciding = gate.decider.decide(&self.settings, &identified, decision);
                // A client that ended only its side still waits: unlike a slot, a wait for robots.txt takes nothing from others.
                let decided = run_while_connected(client, pin!(deciding)).await;
                let decided = decided.ok_or(NotSent::ClientLeft)?;
                self.record.decision_began_at = Some(decision_began_at);
                self.record.decided_in = decision_began_at.elapsed();
                gate.metrics.decision(self.record.decided_in);
                self.record.facts = decided.verdict.facts;
                self.pace_group = decided.pace_group;
                decided.verdict.result
            }
        };
        self.count_user_agent_mismatch(&identified, &request);
        self.proof = identified.proof;
        let permit = result.map_err(NotSent::Refused)?;
        if self.cannot_be_recorded().await {
            return Err(NotSent::Refused(refusal::unrecorded()));
        }
        Ok(permit)
    }

    /// Records the request as one that was not decided.
    pub fn record_undecided(&mut self) {
        let request = self.request();
        // No password is checked for it, which may take long: only the proof of its tunnel's CONNECT counts.
        let proof = self.connection.proof.as_ref();
        self.record.begin_decision(
            self.display_target(&request, None),
            identify::identity_of(&self.settings, self.connection, proof, &request),
            self.settings.configuration,
        );
        self.record.stated_purposes =
            identify::stated_words(self.connection, &request).into_owned();
    }

    /// Returns the target.
    ///
    /// # Errors
    ///
    /// Returns the refusal of a request that is malformed or contradicts itself.
    fn resolve(&self, request: &RequestView<'_>) -> Result<ResolvedTarget, Refusal> {
        if let Some(objection) = &request.objection {
            return Err(Refusal::clone(objection));
        }
        match &self.blind {
            Some((origin, scope)) => target::resolve_blind(origin, *scope),
            None => target::resolve(self.connection, request),
        }
    }

    /// Returns the target as it is recorded: as received if it was not understood.
    fn display_target(
        &self,
        request: &RequestView<'_>,
        resolved: Option<&ResolvedTarget>,
    ) -> RecordedUrl {
        match (&self.blind, resolved) {
            (_, None) => {
                RecordedUrl::beginning_of(request_target::without_credentials(&request.target))
            }
            (Some((origin, _)), _) => {
                RecordedUrl::whole(format!("{}:{}", origin.host(), origin.port()))
            }
            (None, Some(resolved)) => RecordedUrl::whole(resolved.target.uri()),
        }
    }

    /// Counts a crawler that proved its name otherwise, but does not send it in `User-Agent`.
    fn count_user_agent_mismatch(&self, identified: &IdentifiedClient, request: &RequestView<'_>) {
        if let Some(crawler) = identified.identity().crawler()
            && !crawler.is_named_in(request.user_agent)
        {
            self.gate.metrics.user_agent_mismatch(&crawler.name);
        }
    }

    /// Returns whether the request must be refused because its record would be lost.
    async fn cannot_be_recorded(&self) -> bool {
        if self.settings.on_failure == LogFailureMode::Forward {
            return false;
        }
        // The records of earlier requests show whether this one could be written. Without a wait, those that come within a moment
        // after the disk is full would be forwarded as well.
        self.gate.decisions.settle().await;
        self.gate.decisions.is_failing()
    }
}
