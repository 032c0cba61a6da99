//! Admits a request: identifies, decides, waits for the slot and charges the budget.

use std::pin::pin;

use wayleave_decision::Permit;
use wayleave_pacing::PacingSlot;

use super::gated_request::GatedRequest;
use super::outcome::NotSent;
use super::waiting_client::WaitingClient;

impl<'s> GatedRequest<'s, '_> {
    /// Admits the request, which keeps `slot` if it has one from an earlier call. Returns the permit, and the slot: `None` if the
    /// request needs none, or comes too soon while refusals are only observed. A request that waited is decided again (`pace`).
    ///
    /// # Errors
    ///
    /// Returns why the request is not sent. The record has the facts that are known by then.
    pub async fn admit(
        &mut self,
        slot: Option<PacingSlot<'s>>,
        client: &mut impl WaitingClient,
    ) -> Result<(Permit, Option<PacingSlot<'s>>), NotSent> {
        let shutdown = &self.gate.shutdown;
        let deciding = self.decide_and_wait(slot, client);
        let Some(decided) = shutdown.unless_cancelled(pin!(deciding)).await else {
            // A request that waits for its slot has its decision in the record already.
            if self.record.identity.is_none() {
                self.record_undecided();
            }
            return Err(NotSent::ShutDown);
        };
        let (mut permit, slot) = decided?;
        self.charge_budget(&mut permit, client).await?;
        Ok((permit, slot))
    }
}
