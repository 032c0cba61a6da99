//! The response to a request for robots.txt itself, made from the copy that decides.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use wayleave_admission::answer::AnswerSource;
use wayleave_admission::outcome::ConnectionReuse;
use wayleave_admission::outcome::CopyReply;
use wayleave_clock::system_time;
use wayleave_http_wire::received::{HttpVersion, ReceivedHead};
use wayleave_lifecycle::FinishedFetch;
use wayleave_transport::http::downstream::{Downstream, ResponseField, response_field};

use super::error_response;

/// The field that says of a robots.txt that the origin does not serve it.
const PINNED: &str = "Wayleave-Robots-Txt";

/// The longest time until an `Expires`.
const MAX_EXPIRY: Duration = Duration::from_hours(24 * 365);

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
        CopyReply::File { head, content, age, is_not_modified } => {
            let mut fields = common_fields(source, age);
            fields.extend(stated_fields(&head.fetch));
            if head.is_pinned {
                fields.push(response_field(PINNED, "pinned"));
            }
            if is_not_modified {
                (fields, Bytes::new())
            } else {
                let body = content.map(|copy| Bytes::from_owner(CopyBody(copy)));
                // Whatever the origin calls it, it was read as a robots.txt.
                fields.push(response_field("Content-Type", "text/plain; charset=utf-8"));
                fields.push(response_field("Content-Length", head.body_bytes.to_string()));
                (fields, body.unwrap_or_default())
            }
        }
    };
    let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    let head = (status, reason.unwrap_or_default().as_bytes());
    let is_head = received.method() == "HEAD";
    match error_response::send(client, head, fields, body, is_head).await {
        Ok(()) => ConnectionReuse::Whole,
        Err(_) => ConnectionReuse::CutOff,
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
    // The records of a fleet's engine may have been written by others.
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
