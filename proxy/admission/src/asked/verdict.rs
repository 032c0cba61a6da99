//! The answer to somebody who asks.

use wayleave_decision::Refusal;
use wayleave_http_wire::received::ReceivedHead;
use wayleave_record::DecisionId;
use wayleave_transport::http::downstream::ResponseField;

use crate::GivenSlot;
use crate::answer::{AnswerSource, RefusalAnswer};
use crate::outcome::ExchangeOutcome;
use crate::record::is_decision_field;

/// The status by which a gateway lets its client's request leave.
pub const ALLOWED: u16 = 200;

/// The answer to a gateway, and the request that notices may follow about.
pub struct AskedVerdict {
    pub status: u16,
    pub title: &'static str,
    pub fields: Vec<ResponseField<'static>>,
    /// Empty if the request is allowed.
    pub body: Vec<u8>,
    /// The decision about an allowed request, and its slot if it needed one.
    pub allowed: Option<(DecisionId, Option<GivenSlot>)>,
}

impl AskedVerdict {
    /// Returns the decision's id, unless there was no room for one.
    pub fn decision_id(&self) -> Option<DecisionId> {
        let (_, id) = self.fields.iter().find(|(name, _)| is_decision_field(name))?;
        str::from_utf8(id).ok()?.parse().ok()
    }
}

/// Returns the proxy's own answer to a request that is not sent, or whose response is withheld.
pub(super) fn refused(
    source: AnswerSource<'_>,
    outcome: &ExchangeOutcome,
    received: Option<&ReceivedHead>,
) -> AskedVerdict {
    let source = AnswerSource { in_head: true, ..source };
    let unknown = Refusal::malformed("there is no request");
    let refusal = outcome.refusal().unwrap_or(&unknown);
    let RefusalAnswer { fields, body, .. } = RefusalAnswer::new(source, refusal, received);
    let owned = fields
        .into_iter()
        .map(|(name, value)| (name.into_owned().into(), value.into_owned().into()));
    // A gateway takes 200 for leave, whatever the reason says.
    let status = if refusal.status < 400 { 403 } else { refusal.status };
    AskedVerdict { status, title: refusal.title, fields: owned.collect(), body, allowed: None }
}
