//! The judgement of a response that somebody else received: whether its client may get it, and how.

use std::pin::pin;
use std::sync::Arc;

use bytes::BytesMut;
use tokio_util::sync::CancellationToken;
use wayleave_decision::{Permit, Reason};
use wayleave_http_wire::received::ReceivedHead;
use wayleave_transport::http::downstream::ResponseField;
use wayleave_upstream::UpstreamHead;
use wayleave_upstream::error::UpstreamError;

use crate::admission::{Admission, AdmittedHead, ContentTreatment, ResponseFindings};
use crate::answer::AnswerSource;
use crate::body_start::{BodyStart, SeenBody, StartError};
use crate::outcome::{ExchangeOutcome, NotSent, permitted_outcome, shut_down};
use crate::record::is_decision_field;
use crate::request::ClientConnection;
use crate::response_size::{self, UNSTATED};
use crate::{Gate, GatedRequest};

use super::request::find_tunnel;
use super::verdict::{AskedVerdict, refused};

/// The judgement of a response.
pub enum ResponseVerdict {
    Pass(PassedResponse),
    /// The client gets this instead.
    Withhold(Box<AskedVerdict>),
}

/// A response that its client may get.
#[derive(Debug)]
pub struct PassedResponse {
    /// The fields to add. The origin's own `Wayleave-...` fields are none: they have to be removed.
    pub fields: Vec<ResponseField<'static>>,
    /// Whether the client gets only the head.
    pub omits_content: bool,
    /// The start of the body, as far as it was read.
    pub start: BodyStart,
    /// The most bytes of the whole body that the client may get; `None` if that is not limited.
    pub max_bytes: Option<u64>,
}

/// Judges a response that somebody else received for this request, as the proxy judges its own. Reads as much of the start of
/// the body as that takes. The request is decided again, but takes no slot and no budget. A line is recorded if there is more to
/// say than about the request.
///
/// # Errors
///
/// Returns the body's own error if it could not be read. Nothing is recorded then, and the client must get nothing.
pub async fn judge_response<B: SeenBody>(
    gate: &Gate,
    connection: &ClientConnection,
    received: &ReceivedHead,
    head: &UpstreamHead,
    body: &mut B,
) -> Result<ResponseVerdict, B::Error> {
    let _in_progress = gate.shutdown.track();
    let mut request = Box::new(GatedRequest::begin(gate, connection, received));
    let deciding = Box::pin(decide(&mut request));
    let decided = gate.shutdown.unless_cancelled(pin!(deciding)).await;
    let permit = match decided.unwrap_or(Err(NotSent::ShutDown)) {
        Ok(permit) => permit,
        Err(not_sent) => {
            let outcome = match not_sent.into_outcome().0 {
                // The origin has answered it already.
                ExchangeOutcome::Refuse(refusal) => ExchangeOutcome::Withhold(refusal),
                outcome => outcome,
            };
            return Ok(ResponseVerdict::Withhold(withhold(request, &outcome).into()));
        }
    };
    let mut admission = Admission::new(&request, &permit, None);
    let judging = Box::pin(judge(&mut admission, head, body));
    let judged = gate.shutdown.unless_cancelled(pin!(judging)).await;
    let findings = admission.finish();
    let judged = match judged {
        Some(Err(StartError::Body(error))) => return Err(error),
        Some(Err(StartError::Refused(refusal))) => Err(ExchangeOutcome::Withhold(*refusal)),
        Some(Ok(passed)) => Ok(passed),
        None => Err(ExchangeOutcome::Fail(shut_down())),
    };
    let is_news = says_more(&findings);
    let outcome = findings.judge(permitted_outcome(&permit, head.status()), &permit);
    request.record_findings(findings, false);
    let mut passed = match judged {
        Ok(passed) => passed,
        Err(outcome) => return Ok(ResponseVerdict::Withhold(withhold(request, &outcome).into())),
    };
    if is_news {
        gate.record(request.record, &outcome);
    } else {
        // It would name a decision that nobody finds.
        passed.fields.retain(|(name, _)| !is_decision_field(name));
    }
    Ok(ResponseVerdict::Pass(passed))
}

/// Records and refuses a response that the proxy would not have read. `details` say why.
pub fn refuse_broken(
    gate: &Gate,
    connection: &ClientConnection,
    received: &ReceivedHead,
    details: String,
) -> AskedVerdict {
    let mut request = Box::new(GatedRequest::begin(gate, connection, received));
    request.record_undecided();
    let broken = UpstreamError::new(Reason::HttpProtocolError, details);
    withhold(request, &ExchangeOutcome::Fail(broken.into()))
}

/// Records a response with this status that was cut because its body is longer than [`PassedResponse::max_bytes`].
pub fn record_cut(
    gate: &Gate,
    connection: &ClientConnection,
    received: &ReceivedHead,
    status: u16,
    max_bytes: u64,
) {
    let mut request = Box::new(GatedRequest::begin(gate, connection, received));
    request.record_undecided();
    let failure = *response_size::too_long(max_bytes, UNSTATED);
    gate.record(request.record, &ExchangeOutcome::Cut { status, failure });
}

/// Decides the request again. Nobody waits for anything that ends sooner.
async fn decide(request: &mut GatedRequest<'_, '_>) -> Result<Permit, NotSent> {
    find_tunnel(request)?;
    request.decide(&mut CancellationToken::new()).await
}

/// Judges the response in the order in which the proxy does.
async fn judge<B: SeenBody>(
    admission: &mut Admission<'_>,
    head: &UpstreamHead,
    body: &mut B,
) -> Result<PassedResponse, StartError<B::Error>> {
    let fields = head.fields();
    let AdmittedHead { own_fields, content } = admission.on_head(head, &fields)?;
    let (labels, mut start) = admission.judge_start(head, &fields, &content, body).await?;
    let omits_content = matches!(content, ContentTreatment::Omit);
    if !omits_content {
        admission.on_chunk(&start.bytes)?;
        let mut bytes = BytesMut::from(start.bytes);
        while !start.has_ended && admission.notes_body() {
            match body.next_chunk().await.map_err(StartError::Body)? {
                Some(chunk) => {
                    admission.on_chunk(&chunk)?;
                    bytes.extend_from_slice(&chunk);
                }
                None => start.has_ended = true,
            }
        }
        start.bytes = bytes.freeze();
    }
    admission.relayed(head);
    Ok(PassedResponse {
        fields: labels.into_iter().chain(own_fields).collect(),
        omits_content,
        start,
        max_bytes: admission.max_bytes(),
    })
}

/// Returns whether a line about the response says more than that about its request.
fn says_more(findings: &ResponseFindings) -> bool {
    findings.observed.is_some()
        || findings.turned_away.is_some()
        || findings.preferences.is_some()
        || findings.is_remembered_page
}

/// Records that the client does not get the response. Returns the answer that it gets.
fn withhold(request: Box<GatedRequest<'_, '_>>, outcome: &ExchangeOutcome) -> AskedVerdict {
    let decision = request.record.named_decision(outcome);
    let settings = Arc::clone(&request.settings);
    request.gate.record(request.record, outcome);
    refused(AnswerSource::new(&settings.options, &decision), outcome, Some(request.received))
}
