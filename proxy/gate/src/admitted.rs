//! A request that may be sent, and its response.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Response, StatusCode};
use http_body::Body;
use wayleave_admission::asked::{PassedResponse, ResponseVerdict, judge_response};
use wayleave_admission::record::is_own_field;
use wayleave_admission::request::ClientConnection;
use wayleave_admission::{Gate, GivenSlot, SeenBody};
use wayleave_http_wire::field_pairs::describes_content;
use wayleave_http_wire::received::ReceivedHead;
use wayleave_record::DecisionId;
use wayleave_upstream::UpstreamHead;

use crate::body::{ContentLimit, GateBody};
use crate::refused::{Refused, header_map};

/// A request that may be sent now, once.
///
/// The pace begins to count when the request is admitted, or anew when it is [`sent`](Self::sent). Show the gate the response, by
/// [`judge`](Self::judge) or at least by [`answered`](Self::answered): otherwise an origin that asks for a rest gets none.
pub struct Admitted {
    gate: Arc<Gate>,
    connection: Arc<ClientConnection>,
    received: Arc<ReceivedHead>,
    id: DecisionId,
    /// Taken by the response; `None` if the request needed none.
    slot: Mutex<Option<GivenSlot>>,
    fields: HeaderMap,
}

impl Admitted {
    pub(crate) fn new(
        gate: Arc<Gate>,
        connection: Arc<ClientConnection>,
        received: Arc<ReceivedHead>,
        fields: HeaderMap,
        (id, slot): (DecisionId, Option<GivenSlot>),
    ) -> Self {
        Self { gate, connection, received, id, slot: Mutex::new(slot), fields }
    }

    /// Returns the decision's id, by which the log has it.
    pub fn id(&self) -> String {
        self.id.to_string()
    }

    /// Returns the fields that the proxy would add to the response: `Wayleave-Decision`, and `RateLimit` with the pace.
    pub fn fields(&self) -> &HeaderMap {
        &self.fields
    }

    /// Notes that the request is sent only now: the delay until the next begins anew.
    pub fn sent(&self) {
        if let Some(slot) = &*self.slot.lock().unwrap_or_else(PoisonError::into_inner) {
            slot.sent();
        }
    }

    /// Applies the response's status and fields to the pace: rests after 429 and 503, `Retry-After`, and quotas. Once: a second call
    /// has no effect.
    pub fn answered(&self, status: StatusCode, fields: &HeaderMap) {
        let slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(slot) = slot {
            let fields: Vec<_> = fields
                .iter()
                .map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()))
                .collect();
            slot.answered(&self.gate, status.as_u16(), &fields);
        }
    }

    /// Applies the response to the pace, and judges whether its client may get it: by what it states about use (fields, and the
    /// start of a page), by `max_response_bytes`, and whether it is the subresource that was asked for. Adds the fields that the
    /// proxy adds.
    ///
    /// # Errors
    ///
    /// Returns the refusal that the client gets instead.
    pub async fn judge<B>(
        self,
        response: Response<B>,
    ) -> Result<Response<GateBody<B>>, Box<Refused>>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Send,
    {
        let (mut head, body) = response.into_parts();
        self.answered(head.status, &head.headers);
        let mut body = GateBody::unread(body);
        match self.judge_head(head.status, &head.headers, &mut body).await {
            Ok(Ok(passed)) => {
                let is_left_out = |name: &[u8]| {
                    is_own_field(name) || passed.omits_content && describes_content(name)
                };
                for name in names(&head.headers, is_left_out) {
                    head.headers.remove(name);
                }
                for (name, value) in &self.own_fields(&passed) {
                    head.headers.insert(name, value.clone());
                }
                if passed.omits_content {
                    body = GateBody::own(Bytes::new());
                } else {
                    let limit =
                        passed.max_bytes.map(|max_bytes| self.limit(head.status, max_bytes));
                    body.put_back(passed.start.bytes, limit);
                }
            }
            Ok(Err(refused)) => return Err(refused),
            Err(error) => body = body.broken(error),
        }
        Ok(Response::from_parts(head, body))
    }

    /// Limits the content of the response to this many bytes.
    pub(crate) fn limit(self, status: StatusCode, max_bytes: u64) -> ContentLimit {
        ContentLimit {
            gate: self.gate,
            connection: self.connection,
            received: self.received,
            status: status.as_u16(),
            max_bytes,
            passed: 0,
        }
    }

    /// Judges a response by its head, and by as much of its content as that takes.
    pub(crate) async fn judge_head<B: SeenBody>(
        &self,
        status: StatusCode,
        fields: &HeaderMap,
        body: &mut B,
    ) -> Result<Result<PassedResponse, Box<Refused>>, B::Error> {
        let seen = UpstreamHead::of_parts(status.as_u16(), fields.clone());
        let judging = judge_response(&self.gate, &self.connection, &self.received, &seen, body);
        let verdict = judging.await?;
        Ok(match verdict {
            ResponseVerdict::Pass(passed) => Ok(passed),
            ResponseVerdict::Withhold(verdict) => Err(Box::new(Refused::new(*verdict))),
        })
    }

    /// Returns the fields to add to a response that passes, in place of any of the same name.
    pub(crate) fn own_fields(&self, passed: &PassedResponse) -> HeaderMap {
        let mut fields = self.fields.clone();
        fields.extend(header_map(passed.fields.iter().map(|(name, value)| (name, value))));
        fields
    }
}

impl fmt::Debug for Admitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admitted").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Returns the names of fields that `is_one` chooses.
pub(crate) fn names(fields: &HeaderMap, is_one: impl Fn(&[u8]) -> bool) -> Vec<HeaderName> {
    fields.keys().filter(|name| is_one(name.as_str().as_bytes())).cloned().collect()
}
