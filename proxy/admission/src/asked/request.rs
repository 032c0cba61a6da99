//! The gate's answer about a request that somebody else will send.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use wayleave_decision::{HttpsHandling, Permit, Refusal, TargetScope};
use wayleave_http_wire::http1::HeadError;
use wayleave_http_wire::received::ReceivedHead;
use wayleave_pacing::PacingSlot;
use wayleave_robots_txt::{Origin, UrlScheme};

use crate::answer::AnswerSource;
use crate::outcome::{ExchangeOutcome, NotSent, permitted_outcome};
use crate::record::{ExchangeRecord, NO_URL, RecordedUrl, decision_field};
use crate::request::ClientConnection;
use crate::{Gate, GatedRequest, refusal, target};

use super::verdict::{ALLOWED, AskedVerdict, refused};

/// Decides a request, or refuses one that the proxy would not have read. That is recorded even if whoever asked leaves meanwhile.
/// Returns `None` after a panic, which nobody must take for leave. `held` is given back when the work has ended, which may be
/// later than anybody's patience.
pub async fn ask_in_task(
    gate: Arc<Gate>,
    connection: Arc<ClientConnection>,
    received: Result<Arc<ReceivedHead>, HeadError>,
    held: impl Send + 'static,
) -> Option<AskedVerdict> {
    let waiting = CancellationToken::new();
    // Dropped with this future, as soon as nobody waits for the verdict.
    let _guard = waiting.clone().drop_guard();
    let deciding = tokio::spawn(async move {
        let _held = held;
        match received {
            Ok(received) => ask(&gate, &connection, &received, waiting).await,
            Err(error) => refuse_unread(&gate, &connection, error),
        }
    });
    deciding.await.ok()
}

/// Decides a request, and waits for its slot. `waiting` is cancelled if nobody waits for the verdict any more.
async fn ask(
    gate: &Gate,
    connection: &ClientConnection,
    received: &ReceivedHead,
    mut waiting: CancellationToken,
) -> AskedVerdict {
    let _in_progress = gate.shutdown.track();
    let mut request = Box::new(GatedRequest::begin(gate, connection, received));
    let admitted = Box::pin(admit(&mut request, &mut waiting)).await;
    let mut fields = Vec::new();
    let (outcome, allowed) = match admitted {
        Ok((permit, slot)) => {
            fields.extend(decision_field(true, request.record.id));
            fields.extend(request.preference_label(&permit));
            let given = slot.map(|slot| request.give_slot(&permit, slot));
            let given = given.map(|(given, pace)| {
                fields.extend(pace);
                given
            });
            (permitted_outcome(&permit, ALLOWED), Some((request.record.id, given)))
        }
        Err(not_sent) => (not_sent.into_outcome().0, None),
    };
    let decision = request.record.named_decision(&outcome);
    let limit = request.client_limit(&outcome);
    let settings = Arc::clone(&request.settings);
    // Recorded before the gateway gets the answer: it may ask the API about it at once.
    gate.record(request.record, &outcome);
    if allowed.is_some() {
        return AskedVerdict { status: ALLOWED, title: "OK", fields, body: Vec::new(), allowed };
    }
    let source = AnswerSource::new(&settings.options, &decision).with_limit(limit);
    refused(source, &outcome, Some(received))
}

/// Records and refuses a request that the proxy would not have read.
pub fn refuse_unread(gate: &Gate, connection: &ClientConnection, error: HeadError) -> AskedVerdict {
    let settings = gate.decider.settings();
    let now = gate.decider.robots.clock().now();
    let mut record = ExchangeRecord::begin(connection, None, now, settings.configuration);
    record.url = RecordedUrl::whole(NO_URL.to_owned());
    let refusal = refusal::head_refusal(error);
    let refusal = refusal.unwrap_or_else(|| Refusal::malformed("there is no request"));
    let outcome = ExchangeOutcome::Refuse(refusal);
    let decision = record.named_decision(&outcome);
    gate.record(record, &outcome);
    refused(AnswerSource::new(&settings.options, &decision), &outcome, None)
}

/// Admits the request as the proxy does. A `CONNECT` is decided as a whole: the gateway does not show what is inside.
async fn admit<'s>(
    request: &mut GatedRequest<'s, '_>,
    waiting: &mut CancellationToken,
) -> Result<(Permit, Option<PacingSlot<'s>>), NotSent> {
    find_tunnel(request)?;
    let mut slot = None;
    loop {
        let (permit, its_slot) = request.admit(slot, waiting).await?;
        // It may have waited, and be decided otherwise after a reload.
        if request.gate.decider.is_current(&request.settings) {
            if let Some(too_soon) = request.lost_slot(its_slot.as_ref()) {
                let origin = permit.resolved.target.origin();
                return Err(NotSent::Refused(refusal::too_soon(&too_soon, None, None, origin)));
            }
            return Ok((permit, its_slot));
        }
        slot = its_slot;
        request.settings = request.gate.decider.settings();
    }
}

/// Finds the tunnel that a `CONNECT` asks for.
///
/// # Errors
///
/// Returns the refusal of one that is malformed.
pub(super) fn find_tunnel(request: &mut GatedRequest<'_, '_>) -> Result<(), NotSent> {
    if request.received.method() == "CONNECT" {
        // First, because its record needs the target and the crawler if it ends here.
        request.record_undecided();
        request.blind = Some(tunnel(request).map_err(NotSent::Refused)?);
    }
    Ok(())
}

/// Returns the origin of a tunnel that is not inspected, and how much of it is decided.
fn tunnel(request: &GatedRequest<'_, '_>) -> Result<(Origin, TargetScope), Refusal> {
    let view = request.request();
    if let Some(objection) = &view.objection {
        return Err(Refusal::clone(objection));
    }
    let origin = target::resolve_connect(&view.target, UrlScheme::Https)?;
    match request.settings.https.handling_of(origin.host()) {
        HttpsHandling::Bypass => Ok((origin, TargetScope::Bypass)),
        // Port 80 is where plain HTTP is spoken: it is that robots.txt which counts there.
        HttpsHandling::Mode(_) if origin.port() == UrlScheme::Http.default_port() => {
            let origin = target::resolve_connect(&view.target, UrlScheme::Http)?;
            Ok((origin, TargetScope::EveryPath))
        }
        HttpsHandling::Mode(_) => Ok((origin, TargetScope::EveryPath)),
    }
}
