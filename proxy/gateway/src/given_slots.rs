//! The slots of allowed requests, which their gateways send. A gateway may give notice when it sends one, and of the response.

use std::collections::HashMap;
use std::time::Duration;

use serde::Deserialize;
use tokio::time::Instant;
use wayleave_admission::{Gate, GivenSlot};
use wayleave_fairness::{Holder, SharedMap};
use wayleave_http_wire::field_pairs::FieldPair;
use wayleave_record::DecisionId;

use crate::credentials::GatewayIdentity;
use crate::mistake::Mistake;

/// The most slots that are kept, some 40 MB. The oldest of the gateway with the most gives way.
const MAX_KEPT: usize = 50_000;

/// The slots by the ids of their decisions.
pub(crate) struct GivenSlots(SharedMap<DecisionId, KeptSlot>);

struct KeptSlot {
    gateway: GatewayIdentity,
    /// `None` if the request needed none.
    slot: Option<GivenSlot>,
    is_sent: bool,
    kept_until: Instant,
}

/// The body of `POST /sent`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SentNotice {
    pub(crate) id: DecisionId,
}

/// The body of `POST /answered`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnsweredNotice {
    id: DecisionId,
    /// The status of the origin's response.
    status: u16,
    /// The seconds of its `Retry-After`.
    retry_after: Option<u64>,
    /// Its fields that are about pace.
    #[serde(default)]
    fields: HashMap<String, String>,
}

impl Default for GivenSlots {
    fn default() -> Self {
        Self(SharedMap::new(MAX_KEPT))
    }
}

impl GivenSlots {
    /// Keeps the slot of an allowed request for a while.
    pub(crate) fn keep(
        &mut self,
        gateway: GatewayIdentity,
        (id, slot): (DecisionId, Option<GivenSlot>),
        keep_for: Duration,
    ) {
        let now = Instant::now();
        let kept = KeptSlot { gateway, slot, is_sent: false, kept_until: now + keep_for };
        let holder = Holder::of_client(gateway.address);
        self.0.insert(holder, id, kept, |kept| kept.kept_until <= now);
    }

    /// Notes that a request is sent only now.
    ///
    /// # Errors
    ///
    /// Returns the mistake if it is no request of the gateway's, or if it was sent before.
    pub(crate) fn sent(&mut self, gateway: GatewayIdentity, id: DecisionId) -> Result<(), Mistake> {
        let kept = self.find(gateway, id).filter(|kept| !kept.is_sent).ok_or_else(unknown)?;
        kept.is_sent = true;
        if let Some(slot) = &kept.slot {
            slot.sent();
        }
        Ok(())
    }

    /// Applies the response to a request. No further notice about it is taken.
    ///
    /// # Errors
    ///
    /// Returns the mistake if it is no request of the gateway's, or if it was answered before.
    pub(crate) fn answered(
        &mut self,
        gate: &Gate,
        gateway: GatewayIdentity,
        notice: &AnsweredNotice,
    ) -> Result<(), Mistake> {
        if !(200..=599).contains(&notice.status) {
            return Err(Mistake::new("status is not that of a final response"));
        }
        let retry_after = notice.retry_after.map(|seconds| seconds.to_string());
        let told = retry_after.iter().map(|value| ("Retry-After", value.as_str()));
        let others = notice.fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let fields: Vec<FieldPair<'_>> =
            told.chain(others).map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        self.apply(gate, gateway, notice.id, (notice.status, &fields))
    }

    /// Applies the status and the fields of the response to a request. No further notice about it is taken.
    ///
    /// # Errors
    ///
    /// Returns the mistake if it is no request of the gateway's, or if it was answered before.
    pub(crate) fn apply(
        &mut self,
        gate: &Gate,
        gateway: GatewayIdentity,
        id: DecisionId,
        (status, fields): (u16, &[FieldPair<'_>]),
    ) -> Result<(), Mistake> {
        self.find(gateway, id).ok_or_else(unknown)?;
        if let Some(slot) = self.0.remove(&id).and_then(|kept| kept.slot) {
            slot.answered(gate, status, fields);
        }
        Ok(())
    }

    /// Returns the slot of this gateway's request, as long as it is kept.
    fn find(&mut self, gateway: GatewayIdentity, id: DecisionId) -> Option<&mut KeptSlot> {
        let now = Instant::now();
        let kept = self.0.get_mut(&id)?;
        // A gateway with a token may have several addresses.
        let is_its_own = match gateway.token {
            Some(token) => kept.gateway.token == Some(token),
            None => kept.gateway == gateway,
        };
        (is_its_own && kept.kept_until > now).then_some(kept)
    }
}

fn unknown() -> Mistake {
    Mistake::not_found(
        "no such decision is kept here for this gateway, or it was told of before; of a fleet, tell the node that answered",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const GATEWAY: GatewayIdentity = GatewayIdentity {
        token: None,
        address: std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
    };

    #[tokio::test(start_paused = true)]
    async fn a_request_is_kept_for_as_long_as_it_says() {
        let mut given = GivenSlots::default();
        let id: DecisionId = "01939f6e27a17a3e8d0c6f0f6a1d2b3c".parse().unwrap();
        let keep_for = Duration::from_secs(30);
        for (after, is_taken) in [(keep_for, false), (keep_for - Duration::from_millis(1), true)] {
            given.keep(GATEWAY, (id, None), keep_for);
            tokio::time::advance(after).await;
            assert_eq!(given.sent(GATEWAY, id).is_ok(), is_taken, "{after:?}");
        }
    }
}
