//! Requests for robots.txt itself, answered from the copy that decides: crawlers read the file that their requests are judged by,
//! and the origin is asked once for all of them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use wayleave_decision::{Permit, Reason, RobotsAnswer};
use wayleave_http_wire::received::{HttpVersion, ReceivedHead};
use wayleave_lifecycle::FinishedFetch;

use super::error_response::{self, AnswerSource};
use super::outcome::{CopyReply, NotSent, permitted_outcome};
use super::validators::is_not_modified;
use super::{ConnectionReuse, Exchange};
use crate::clock::system_time;
use crate::decider::settings::RobotsTxtSource;
use crate::http::downstream::{ClientGone, Downstream, ResponseField, response_field};

/// The source of the answer, as the record names it.
const COPY: &str = "copy";

/// The longest time until an `Expires`.
const MAX_EXPIRY: Duration = Duration::from_hours(24 * 365);

impl Exchange<'_, '_> {
    /// Answers a permitted request from the copy of robots.txt that decides. Returns `None` if it has to be forwarded: a request
    /// for anything else, or by `robots.answer`; in mode "observe" if nothing usable came from the origin; and if the store has
    /// lost the copy.
    pub(super) async fn answer_from_copy(&mut self, permit: &Permit) -> Option<NotSent> {
        let answer = permit.robots_answer.as_ref()?;
        if self.settings.robots_txt_source == RobotsTxtSource::Origin {
            return None;
        }
        let reply = match answer {
            RobotsAnswer::File => self.file_reply(permit).await?,
            RobotsAnswer::Missing(status) => {
                CopyReply::Missing { status: *status, age: self.copy_age() }
            }
            RobotsAnswer::Unreachable(_) if self.is_observe_mode() => return None,
            RobotsAnswer::Unreachable(refusal) if refusal.reason == Reason::Unreachable => {
                CopyReply::Unreachable(refusal.clone())
            }
            // The origin has no usable address, whatever its robots.txt would be.
            RobotsAnswer::Unreachable(refusal) => {
                self.record.from = Some(COPY);
                return Some(NotSent::Refused(*refusal.clone()));
            }
        };
        self.record.from = Some(COPY);
        let outcome = permitted_outcome(permit, reply.status());
        Some(NotSent::FromCopy(Box::new((outcome, reply))))
    }

    /// Returns the file that decided, or that the client has it already.
    async fn file_reply(&self, permit: &Permit) -> Option<CopyReply> {
        let finding = self.record.facts.finding.as_ref()?;
        let (sha256, fetched_at) = finding.sha256.zip(finding.fetched_at)?;
        let robots = &self.services.decider.robots;
        let origin = permit.resolved.target.origin();
        let copy = robots.stored_copy(origin, &sha256, fetched_at).await?;
        let stated = copy.outcome.fields()?;
        let is_not_modified = is_not_modified(
            &self.received.fields(),
            stated.etag.as_deref(),
            stated.last_modified.as_deref(),
        );
        Some(CopyReply::File { age: copy.age(robots.clock().now()), copy, is_not_modified })
    }

    /// Returns the age of the answer by which the origin has no file.
    fn copy_age(&self) -> Duration {
        let fetched_at = self.record.facts.finding.as_ref().and_then(|finding| finding.fetched_at);
        let now = self.services.decider.robots.clock().now();
        fetched_at.and_then(|at| now.duration_since(at).ok()).unwrap_or_default()
    }
}

/// Answers a request for robots.txt.
pub(super) async fn answer(
    source: AnswerSource<'_>,
    received: &ReceivedHead,
    client: &mut Downstream,
    reply: CopyReply,
) -> ConnectionReuse {
    let status = reply.status();
    let (fields, body) = match reply {
        CopyReply::Unreachable(refusal) => {
            return error_response::answer(source, received, client, &refusal).await;
        }
        CopyReply::Missing { age, .. } => {
            let mut fields = common_fields(source, age);
            fields.push(response_field("Content-Length", "0"));
            (fields, Bytes::new())
        }
        CopyReply::File { copy, age, is_not_modified } => {
            let mut fields = common_fields(source, age);
            fields.extend(stated_fields(&copy));
            if is_not_modified {
                (fields, Bytes::new())
            } else {
                let body = Bytes::from_owner(CopyBody(copy));
                // Whatever the origin calls it, it was read as a robots.txt.
                fields.push(response_field("Content-Type", "text/plain; charset=utf-8"));
                fields.push(response_field("Content-Length", body.len().to_string()));
                (fields, body)
            }
        }
    };
    let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    let head = (status, reason.unwrap_or_default().as_bytes());
    let is_head = received.method() == "HEAD";
    match error_response::send(client, head, fields, body, is_head).await {
        Ok(()) => ConnectionReuse::Whole,
        Err(ClientGone) => ConnectionReuse::CutOff,
    }
}

/// Returns the fields of every answer from a copy. It is the origin's, so it has passed a proxy and has an age.
fn common_fields<'a>(source: AnswerSource<'a>, age: Duration) -> Vec<ResponseField<'a>> {
    let mut fields = vec![
        response_field("Date", httpdate::fmt_http_date(system_time())),
        response_field("Via", HttpVersion::Http11.via_entry(source.name)),
        response_field("Age", age.as_secs().to_string()),
    ];
    fields.extend(source.field());
    fields
}

/// Returns the validators and the lifetime that the origin stated.
fn stated_fields(copy: &FinishedFetch) -> Vec<ResponseField<'static>> {
    let Some(stated) = copy.outcome.fields() else {
        return Vec::new();
    };
    // An origin may state any date, and those after the year 9999 cannot be written.
    let latest = system_time() + MAX_EXPIRY;
    let expires = stated.expires_at.map(|at| httpdate::fmt_http_date(at.min(latest)).into());
    [
        ("ETag", stated.etag.clone()),
        ("Last-Modified", stated.last_modified.clone()),
        ("Cache-Control", stated.cache_control.clone()),
        ("Expires", expires),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
    // What a fleet's engine holds may have been written by others.
    .filter(|(_, value)| HeaderValue::from_str(value).is_ok())
    .map(|(name, value)| response_field(name, value.into_string()))
    .collect()
}

/// The body of a copy. It keeps the whole copy, which all clients that are being sent it share.
struct CopyBody(Arc<FinishedFetch>);

impl AsRef<[u8]> for CopyBody {
    fn as_ref(&self) -> &[u8] {
        self.0.outcome.body().map_or(&[], |body| &body.bytes)
    }
}
