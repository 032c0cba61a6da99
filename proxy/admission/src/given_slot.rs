//! The slot of a request that a gateway sends itself: the delay begins with the verdict, unless the gateway gives notice.

use wayleave_decision::Permit;
use wayleave_http_wire::field_pairs::FieldPair;
use wayleave_pacing::{CredentialsMark, HandedSlot, PacingSlot};
use wayleave_robots_txt::Target;
use wayleave_transport::http::downstream::ResponseField;

use super::gate::Gate;
use super::gated_request::GatedRequest;
use super::response_pace;

/// A slot that a gateway was given with an allowed request.
pub struct GivenSlot {
    slot: HandedSlot,
    target: Target,
    credentials: Option<CredentialsMark>,
}

impl GatedRequest<'_, '_> {
    /// Gives the slot of a permitted request to the gateway that asked. Returns it with the fields that report the pace.
    pub fn give_slot(
        &self,
        permit: &Permit,
        slot: PacingSlot<'_>,
    ) -> (GivenSlot, Vec<ResponseField<'static>>) {
        let target = permit.resolved.target.clone();
        // First, or the fields would not count the delay that this request causes.
        slot.release_queue();
        let fields = response_pace::pace_fields(&slot, &self.settings, &target, &[]);
        let credentials = response_pace::credentials_of(self.received);
        (GivenSlot { slot: slot.hand_over(), target, credentials }, fields)
    }
}

impl GivenSlot {
    /// Notes that the request is sent only now.
    pub fn sent(&self) {
        self.slot.record_sent();
    }

    /// Applies the origin's response to the pace.
    pub fn answered(self, gate: &Gate, status: u16, fields: &[FieldPair<'_>]) {
        let reads_quotas = gate.decider.settings().pacing.rate_limit_fields;
        let slot = self.slot.into_slot(&gate.pacer);
        let credentials = self.credentials;
        response_pace::record_answer(
            &slot,
            reads_quotas,
            || credentials,
            &self.target,
            status,
            fields,
        );
    }
}
