//! The request's wait for its slot; the crate `wayleave-pacing` says why a request waits. A request that waited is decided again
//! here, because other rules, or another robots.txt, may be in effect by then. After a reload, the exchange calls `admit` again.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use wayleave_decision::{Crawler, EnforcementMode, Identity, Permit, Reason, Refusal, TargetScope};
use wayleave_pacing::{PaceShare, PaceUnit, PacedRequest, PacingConfig, PacingSlot, TooSoon};
use wayleave_robots_txt::ProductToken;
use wayleave_upstream::Destination;

use crate::refusal;
use futures_util::poll;
use tokio::time::Instant;

use super::gated_request::GatedRequest;
use super::outcome::NotSent;
use super::pace_unit;
use super::waiting_client::{WaitingClient, run_unless_gone, wait_unless_gone};

/// Returns the delay between requests of a crawler to an origin whose robots.txt asks for `robots_delay`.
#[must_use]
pub fn delay_of(
    pacing: &PacingConfig,
    crawler: Option<&Crawler>,
    robots_delay: Option<Duration>,
) -> Duration {
    // The site's own delay comes first, however short: `default_delay` is for sites that say nothing.
    let crawl_delay = robots_delay.or_else(|| crawler.and_then(|crawler| crawler.default_delay));
    pacing.delay(crawl_delay, crawler.map_or(Duration::ZERO, |crawler| crawler.min_delay))
}

/// The end of a request's wait for its slot.
enum SlotWait<'s> {
    /// The slot was free.
    Free(PacingSlot<'s>),
    /// The request waited, and may be decided otherwise by now.
    Waited(PacingSlot<'s>),
    /// The request comes too soon, but that is only observed.
    Observed(Refusal),
    /// The request comes too soon, and would wait if refusals were not only observed.
    WouldWait,
}

impl<'s> GatedRequest<'s, '_> {
    /// Decides the request and waits for its slot, unless it has `slot` already from an earlier call. Returns the permit, and
    /// the slot: `None` if the request needs none, or comes too soon while refusals are only observed.
    pub async fn decide_and_wait(
        &mut self,
        mut slot: Option<PacingSlot<'s>>,
        client: &mut impl WaitingClient,
    ) -> Result<(Permit, Option<PacingSlot<'s>>), NotSent> {
        loop {
            // A second decision begins anew.
            self.predicted_wait = None;
            self.record.would_wait = None;
            let mut permit = self.decide(client).await?;
            // Nothing is sent to the origin then, so it needs no slot. Boxed because it is rare.
            if permit.robots_answer.is_some()
                && let Some(answered) = Box::pin(self.answer_from_copy(&permit)).await
            {
                return Err(answered);
            }
            // Only now: a request that it would not forward, this proxy does not answer as the last hop either. It needs no
            // slot. A gateway asks only, and this proxy is no recipient of the request.
            if self.received.max_forwards() == Some(0) && self.connection.gateway.is_none() {
                return Err(NotSent::LastHop);
            }
            self.check_budget(&mut permit)?;
            // A second decision may find no slot. It tries again, because a reload may enforce a refusal that was only
            // observed.
            if slot.is_some() || permit.resolved.scope == TargetScope::Bypass {
                return Ok((permit, slot));
            }
            match self.wait_for_slot(&permit, client).await? {
                SlotWait::Free(slot) => return Ok((permit, Some(slot))),
                SlotWait::Waited(granted) => slot = Some(granted),
                SlotWait::WouldWait => return Ok((permit, None)),
                SlotWait::Observed(refusal) => {
                    // Of several observed refusals the first counts, as within a decision.
                    permit.observed.get_or_insert(refusal);
                    return Ok((permit, None));
                }
            }
            self.settings = self.gate.decider.settings();
        }
    }

    /// Waits for the request's slot, for as long as the configuration permits.
    async fn wait_for_slot(
        &mut self,
        permit: &Permit,
        client: &mut impl WaitingClient,
    ) -> Result<SlotWait<'s>, NotSent> {
        let unit = match self.settings.pacing.share {
            PaceShare::Origin => None,
            // Boxed, because by default there is nothing to find.
            _ => Box::pin(self.pace_unit(permit, client)).await?,
        };
        let gate = self.gate;
        let identity = self.record.identity.as_ref();
        let crawler = identity.and_then(Identity::crawler);
        let mode = identity.map(Identity::mode).unwrap_or_default();
        let pacing = self.pacing(mode);
        let robots_delay = self.record.facts.delay;
        let delay = delay_of(&pacing, crawler, robots_delay);
        self.delay = delay;
        let request = PacedRequest {
            target: &permit.resolved.target,
            client: self.connection.client,
            // All clients of a configured crawler share its pace, which therefore does not depend on the site's groups.
            pace: crawler
                .and_then(|crawler| crawler.tokens.first())
                .map_or(&*self.pace_group, ProductToken::as_str),
            unit: unit.as_ref(),
            keeps_turn: mode == EnforcementMode::Enforce,
        };
        // robots.txt may always be fetched: it takes no turn in the pace, and the next page does not wait because of it.
        let is_robots_txt = permit.reason == Reason::RobotsTxtItself;
        let acquiring = pin!(async {
            if is_robots_txt {
                gate.pacer.wait_for_concurrency_slot(&pacing, request).await
            } else {
                gate.pacer.wait_for_slot(&pacing, request, delay).await
            }
        });
        let (result, waited) =
            wait_unless_gone(client, pin!(timed(acquiring))).await.ok_or(NotSent::ClientLeft)?;
        self.record.waited += waited;
        let ended = match result {
            Ok(slot) if waited.is_zero() => SlotWait::Free(slot),
            Ok(slot) => SlotWait::Waited(slot),
            Err(too_soon) => {
                let options = &self.settings.pacing;
                let predict = || gate.pacer.predict_wait(options, request, too_soon, delay);
                // A request that would be refused anyway would not wait.
                let would_be_sent = mode == EnforcementMode::Observe && permit.observed.is_none();
                if let Some(predicted) = would_be_sent.then(predict).flatten() {
                    self.record.would_wait = Some(predicted.wait);
                    self.predicted_wait = Some(predicted);
                    return Ok(SlotWait::WouldWait);
                }
                let origin = permit.resolved.target.origin();
                // An origin that asks for less than this proxy keeps is not named as the cause.
                let decisive = pacing.decisive_crawl_delay(robots_delay, delay);
                let refusal = refusal::too_soon(&too_soon, decisive, unit.as_deref(), origin);
                SlotWait::Observed(refusal.observe_or_refuse(mode).map_err(NotSent::Refused)?)
            }
        };
        if !delay.is_zero() && !is_robots_txt {
            gate.metrics.crawl_delay_wait(waited);
        }
        Ok(ended)
    }

    /// Returns the pacing in a mode: observed requests never wait, and a request that is sent again waits rather than being refused.
    fn pacing(&self, mode: EnforcementMode) -> PacingConfig {
        let pacing = self.settings.pacing;
        match mode {
            // The client has had its turn: it does not cause the wait for another one.
            EnforcementMode::Enforce if self.repeat.is_some() => pacing.waiting(pacing.max_wait),
            EnforcementMode::Enforce => pacing,
            EnforcementMode::Observe => pacing.without_waiting(),
        }
    }

    /// Returns the pace unit of the request's origin.
    async fn pace_unit(
        &self,
        permit: &Permit,
        client: &mut impl WaitingClient,
    ) -> Result<Option<Arc<PaceUnit>>, NotSent> {
        let destination = Destination {
            origin: permit.resolved.target.origin(),
            source: self.crawler().and_then(|crawler| crawler.source_address),
            client: Some(self.connection.client),
            network: None,
        };
        let finding =
            pace_unit::find(self.settings.pacing.share, &self.settings.upstream, destination);
        run_unless_gone(client, pin!(finding)).await.ok_or(NotSent::ClientLeft)
    }

    /// Returns why the slot was lost, if another node of the fleet may have taken it; `None` if refusals are only observed. Call
    /// this right before the request is sent.
    pub fn lost_slot(&self, slot: Option<&PacingSlot<'_>>) -> Option<TooSoon> {
        slot.and_then(PacingSlot::lost).filter(|_| !self.is_observe_mode())
    }
}

/// Returns the result of `work`, and the time that it took: zero if it was ready at once, without a look at the clock.
async fn timed<T>(mut work: Pin<&mut impl Future<Output = T>>) -> (T, Duration) {
    if let Poll::Ready(done) = poll!(&mut work) {
        return (done, Duration::ZERO);
    }
    let started = Instant::now();
    let done = work.await;
    (done, started.elapsed())
}
